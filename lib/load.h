/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* linnet-load: the options of a run, its results, and their output. */
#ifndef LINNET_LOAD_H
#define LINNET_LOAD_H

#include <stdint.h>
#include <stdio.h>

#include "liblinnet.h"

enum mode { PRIMARY, FAILOVER, HEDGE };

struct options {
	enum mode mode;
	double rate;	    /* reads per second */
	int even;	    /* equal gaps instead of a Poisson process */
	uint64_t reads;	    /* measured */
	uint64_t warmup;    /* reads before the measured ones */
	size_t size_bytes;  /* of one read */
	uint64_t span_bytes; /* offsets are drawn from [0, span) */
	unsigned tag;
	uint64_t hedge_ns;
	unsigned depth; /* at most the reads */
	uint64_t seed;
	int cached; /* no O_DIRECT */
	int json;
	const char *log;
	const char *paths[LINNET_READER_REPLICAS_MAX];
	unsigned count;
};

/* One read of the run. Times are ns from the start of the run. */
struct outcome {
	uint64_t arrive_ns;  /* when it was due */
	uint64_t submit_ns;  /* when it was submitted */
	uint64_t latency_ns; /* from due to answered, so a late generator cannot hide a slow device */
	uint64_t offset;
	int32_t result;
	uint8_t replica, revokes, errors, hedged;
	uint8_t copies; /* that a device served or failed: not those that it revoked, which cost it nothing */
};

struct run {
	struct outcome *outcomes; /* warm-up reads first */
	uint64_t count;
	uint64_t elapsed_ns;
};

/* Bytes that a run keeps for its buffers, and for what becomes of its reads. */
uint64_t load_buffer_bytes(const struct options *options);
uint64_t load_outcome_bytes(const struct options *options);

/* Runs the load. Returns 0 or a negative errno. */
int load_run(const struct options *options, const struct linnet_reader_replica *replicas, struct run *run);

void report_summary(FILE *to, const struct options *options, const struct run *run);
/* Writes one line per measured read to `fd`, in the place of a file's content. Returns 0 or a negative errno. */
int report_log(int fd, const struct options *options, const struct run *run);

const char *mode_name(enum mode mode);

#endif
