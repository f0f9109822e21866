/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of decisions.c: reads a recording of the target's tracepoints, spec/dm-target.md. */
#ifndef LINNET_RECORDING_H
#define LINNET_RECORDING_H

#include "linnet.h"

struct io {
	unsigned long long id, offset, arrived_ns, latency_ns, arrive, end;
	unsigned replica, size, is_read, probe, tracked;
	int error;
	struct linnet_flight flight;
};

struct decision {
	unsigned long long id, sector, seen[LINNET_REPLICAS_MAX];
	unsigned long long ewma_ns[LINNET_REPLICAS_MAX], score[LINNET_REPLICAS_MAX], in_flight[LINNET_REPLICAS_MAX];
	unsigned long long own[LINNET_REPLICAS_MAX];
	unsigned size, policy, replica, verdict, probe, slow, scored;
	struct linnet_decision ours;
	int scores[LINNET_REPLICAS_MAX]; /* of all replicas with trees */
	unsigned described, known, calls_slow; /* bit masks; the last one from the network, computed in full */
};

static struct io *ios;
static struct decision *decisions;
static size_t io_count, decision_count;

static void *must(void *memory)
{
	if (!memory) {
		fprintf(stderr, "decisions: out of memory\n");
		exit(2);
	}
	return memory;
}

static void bad(const char *why, const char *text)
{
	fprintf(stderr, "decisions: %s: %s\n", why, text);
	exit(2);
}

/* Returns the value of ` name=` in a line. */
static const char *field(const char *line, const char *name)
{
	char key[32];
	const char *at;

	snprintf(key, sizeof(key), " %s=", name);
	at = strstr(line, key);
	if (!at)
		bad(name, line);
	return at + strlen(key);
}

static unsigned long long number(const char *line, const char *name)
{
	return strtoull(field(line, name), NULL, 0);
}

/* Parses {0x1,0x2} and returns how many numbers there are. */
static unsigned numbers(const char *line, const char *name, unsigned long long *out)
{
	const char *at = field(line, name);
	unsigned n = 0;
	char *end;

	while (n < LINNET_REPLICAS_MAX && (*at == '{' || *at == ',')) {
		out[n++] = strtoull(at + 1, &end, 0);
		at = end;
	}
	return n;
}

static void *grown(void *array, size_t count, size_t size)
{
	return count & (count - 1) ? array : must(realloc(array, size * (count ? 2 * count : 1)));
}

static void take_io(const char *line)
{
	struct io io = { 0 };

	io.id = number(line, "id");
	io.replica = (unsigned)number(line, "replica");
	io.is_read = strncmp(field(line, "op"), "read", 4) == 0;
	io.offset = number(line, "offset");
	io.size = (unsigned)number(line, "size");
	io.arrived_ns = number(line, "arrived_ns");
	io.latency_ns = number(line, "latency_ns");
	io.error = atoi(field(line, "error"));
	io.arrive = number(line, "arrive");
	io.end = number(line, "end");
	io.probe = (unsigned)number(line, "probe");
	io.tracked = (unsigned)number(line, "tracked");
	if (io.replica >= LINNET_REPLICAS_MAX)
		bad("no such replica", line);
	ios = grown(ios, io_count, sizeof(*ios));
	ios[io_count++] = io;
}

static void take_decision(const char *line)
{
	struct decision d = { 0 };

	d.id = number(line, "id");
	d.sector = number(line, "sector");
	d.size = (unsigned)number(line, "size");
	d.policy = (unsigned)number(line, "policy");
	d.replica = (unsigned)number(line, "replica");
	d.verdict = (unsigned)number(line, "verdict");
	d.probe = (unsigned)number(line, "probe");
	d.slow = (unsigned)number(line, "slow");
	d.scored = (unsigned)number(line, "scored");
	d.ours.now_ns = number(line, "ns");
	d.ours.may_revoke = (uint8_t)number(line, "tagged");
	d.ours.usable = (uint8_t)number(line, "eligible");
	d.ours.count = (uint8_t)numbers(line, "events", d.seen);
	numbers(line, "ewma_ns", d.ewma_ns);
	if (numbers(line, "score", d.score) != d.ours.count || numbers(line, "inflight", d.in_flight) != d.ours.count ||
	    numbers(line, "own", d.own) != d.ours.count || !d.ours.count || !d.ours.usable)
		bad("arrays of different length", line);
	decisions = grown(decisions, decision_count, sizeof(*decisions));
	decisions[decision_count++] = d;
}

static void read_record(const char *path)
{
	static char line[8192];
	FILE *file = fopen(path, "r");

	if (!file)
		bad("cannot open", path);
	while (fgets(line, sizeof(line), file)) {
		if (strstr(line, "linnet_io: "))
			take_io(line);
		else if (strstr(line, "linnet_decision: "))
			take_decision(line);
		else if (strstr(line, "LOST"))
			bad("events were lost", line);
	}
	fclose(file);
}

#endif
