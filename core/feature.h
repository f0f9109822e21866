/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Features: the state of one device, and the numbers that describe a read, in three schemas. The contracts are
 * spec/features.md, spec/features-linnet.md and spec/features-heimdall.md.
 */
#ifndef LINNET_FEATURE_H
#define LINNET_FEATURE_H

#include "errors.h"
#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- features: schema linnos-31 (spec/features.md) ---- */

#define LINNET_DIGITS 31        /* features of one read */
#define LINNET_HISTORY 4        /* completed reads remembered */
#define LINNET_PAGE_BYTES 4096  /* unit of pending work */
#define LINNET_PAGES_MAX 999    /* cap of a page count in the digits */
#define LINNET_LATENCY_US_MAX 9999 /* cap of a latency in the digits */
#define LINNET_READ_PAGES_SHIFT 16 /* of the pages in a read of the history; the latency is below */

/*
 * The state of one device: work outstanding and the last four reads that completed. All zeros is the initial state.
 */
struct linnet_tracker {
	uint32_t pending_pages; /* 4 KiB pages outstanding, reads and writes; saturates */
	uint32_t history_len;   /* completed reads in the history, 0..4 */
	uint32_t reads[LINNET_HISTORY]; /* oldest first: pages when it arrived, times 2^16, and latency in us, as capped */
};

/* Number of pages of an I/O of this size. */
static inline uint32_t linnet_pages(uint32_t size_bytes)
{
	return size_bytes / LINNET_PAGE_BYTES + (size_bytes % LINNET_PAGE_BYTES != 0);
}

/* An idle device without history. */
void linnet_tracker_init(struct linnet_tracker *tracker);

static inline uint32_t linnet_tracker_add(struct linnet_tracker *tracker, uint32_t pages)
{
	uint32_t room = UINT32_MAX - tracker->pending_pages;

	return tracker->pending_pages += pages < room ? pages : room;
}

/* Inline: what linnet_tracker_withdraw and linnet_tracker_complete_read do. */
static inline void linnet_tracker_drop(struct linnet_tracker *tracker, uint32_t size_bytes)
{
	uint32_t pages = linnet_pages(size_bytes);

	tracker->pending_pages -= pages < tracker->pending_pages ? pages : tracker->pending_pages;
}

static inline uint32_t linnet_capped_pages(uint32_t pages)
{
	return pages < LINNET_PAGES_MAX ? pages : LINNET_PAGES_MAX;
}

static inline uint32_t linnet_capped_us(uint64_t latency_ns)
{
	uint64_t us = latency_ns / 1000;

	return us < LINNET_LATENCY_US_MAX ? (uint32_t)us : LINNET_LATENCY_US_MAX;
}

static inline void linnet_tracker_remember(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
					   uint32_t snapshot)
{
	linnet_tracker_drop(tracker, size_bytes);
	for (int i = 0; i < LINNET_HISTORY - 1; i++)
		tracker->reads[i] = tracker->reads[i + 1];
	tracker->reads[LINNET_HISTORY - 1] = linnet_capped_pages(snapshot) << LINNET_READ_PAGES_SHIFT | linnet_capped_us(latency_ns);
	if (tracker->history_len < LINNET_HISTORY)
		tracker->history_len++;
}

/*
 * An I/O arrives: returns its snapshot, the pages outstanding including its own. The caller keeps it until the I/O
 * ends.
 */
uint32_t linnet_tracker_arrive(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A write completes. */
void linnet_tracker_complete_write(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A read completes: enters the history with the snapshot that its arrival returned. */
void linnet_tracker_complete_read(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
				  uint32_t snapshot);

/* An I/O leaves without completing (revoked, failed, cancelled): its pages go, the history stays. */
void linnet_tracker_withdraw(struct linnet_tracker *tracker, uint32_t size_bytes);

/* The features of an I/O whose arrival returned `snapshot`. */
void linnet_tracker_digits(const struct linnet_tracker *tracker, uint32_t snapshot, uint8_t digits[LINNET_DIGITS]);

/* ---- features: schemas linnet-1 and linnet-2 (spec/features-linnet.md), which differ in one of them ---- */

#define LINNET_SCHEMA_LINNET1 2 /* numbers in model files */
#define LINNET_SCHEMA_LINNET2 3

#define LINNET_INFLIGHT_FEATURES 16 /* features of one read */
#define LINNET_BUCKET_MAX 63        /* each is 0..63 */
#define LINNET_INFLIGHT_READS 8     /* completed reads whose times are remembered; a power of two */
#define LINNET_INFLIGHT_LATENCIES 4 /* of which the latencies are remembered; a power of two */
#define LINNET_PAGE_SLOTS 64        /* counts of reads in flight by the hash of their first page; a power of two */
#define LINNET_SEEN_ARRIVAL 1       /* bits of `seen`: a read has arrived */
#define LINNET_SEEN_SLOW 2          /* a slow read has completed */

/* Slow means above the inflection point; a read with exactly that latency is fast (spec/decision.md). */
static inline int linnet_is_slow(uint64_t latency_ns, uint64_t inflection_ns)
{
	return latency_ns > inflection_ns;
}

/* One I/O in flight, in an array that the caller provides. Its index is its identity from arrival to end. */
struct linnet_inflight_io {
	uint64_t arrived_ns;
	uint64_t pages_ahead; /* 4 KiB pages in flight when it arrived, including its own */
	uint32_t pages;       /* its own */
	uint16_t is_read;     /* 0 or 1 */
	uint16_t slot;        /* of a read's first page in page_reads */
	uint32_t older;       /* neighbours in the list of reads in flight */
	uint32_t newer;
};

/* The state of one device. Times are in nanoseconds on the caller's clock, which never goes back. */
struct linnet_inflight {
	uint64_t inflection_ns; /* a latency above it is slow */
	uint64_t pages;         /* in flight, reads and writes */
	uint64_t read_pages;
	uint64_t arrived_sum_ns; /* of the reads in flight; wraps */
	uint64_t oldest_arrived_ns; /* when the oldest read in flight arrived */
	uint64_t read_arrived_ns; /* when the last read arrived */
	uint64_t read_end_bytes;  /* and where it ends */
	uint64_t completed;       /* reads */
	uint64_t done_ns[LINNET_INFLIGHT_READS]; /* when the last ones completed, a ring */
	uint64_t latency_ns[LINNET_INFLIGHT_LATENCIES]; /* of the last ones, a ring */
	uint64_t fast_ns; /* moving average of read latency, times 4: a new read weighs 1/4 */
	uint64_t slow_ns; /* times 32: a new read weighs 1/32 */
	uint64_t page_ns; /* moving average of latency over pages_ahead in 1/16 ns, times 16: a new I/O weighs 1/16 */
	uint64_t written_pages; /* pages of all writes that have arrived */
	uint64_t slow_done_ns;  /* when a slow read last completed */
	uint64_t slow_written_pages; /* written_pages at that time */
	uint32_t reads;  /* in flight */
	uint32_t writes;
	uint32_t newest_read; /* end of the list; UINT32_MAX when it is empty */
	uint32_t seen;
	uint32_t spare[2];
	uint16_t page_reads[LINNET_PAGE_SLOTS]; /* reads in flight; wraps */
};

/* Four buckets per octave: 0 1 2 3 4 5 6 7 8 10 12 14 16 20 ... begin buckets 0, 1, 2, ...; the last is 63. */
uint8_t linnet_bucket(uint64_t value);

/* An idle device without history. */
void linnet_inflight_init(struct linnet_inflight *inflight, uint64_t inflection_ns);

/* An I/O is submitted to the device. ios[io] must be free; it belongs to the in-flight tracker until the I/O ends. */
void linnet_inflight_arrive(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns,
			    int is_read, uint64_t offset_bytes, uint32_t size_bytes);

/* It completes; ios[io] is free. */
void linnet_inflight_complete(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns);

/* It leaves without completing (revoked, failed, cancelled); ios[io] is free, the history stays. */
void linnet_inflight_withdraw(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io);

/*
 * The features, in a schema, of a read if it were submitted now. Takes nothing but the struct, so a copy of it may be
 * described, even one made while it changed: numbers may be wrong then, and no memory outside is read.
 */
void linnet_inflight_describe(const struct linnet_inflight *inflight, uint32_t schema, uint64_t now_ns, uint64_t offset_bytes,
			      uint32_t size_bytes, uint8_t features[LINNET_INFLIGHT_FEATURES]);

/* ---- features: schema heimdall-11, for comparison (spec/features-heimdall.md) ---- */

#define LINNET_HEIMDALL_FEATURES 11 /* of one read */
#define LINNET_HEIMDALL_INPUTS 22   /* as the network takes them: two bytes each, the high one first */
#define LINNET_HEIMDALL_HISTORY 3   /* completed reads remembered */

/* The state of one device. All zeros is the initial state; the newest read comes first. */
struct linnet_heimdall {
	uint32_t in_flight; /* I/Os, reads and writes; saturates */
	uint32_t queue[LINNET_HEIMDALL_HISTORY];      /* I/Os in flight when it arrived, including itself */
	uint32_t latency_ns[LINNET_HEIMDALL_HISTORY]; /* at most 2^32 - 1 */
	uint32_t throughput[LINNET_HEIMDALL_HISTORY]; /* bytes per millisecond */
};

/* Minimum of each feature over the training rows, and the factor that maps its range to 0..65535. */
struct linnet_heimdall_scale {
	uint32_t least[LINNET_HEIMDALL_FEATURES];
	uint32_t most[LINNET_HEIMDALL_FEATURES];
	uint64_t factor[LINNET_HEIMDALL_FEATURES];
};

/* An idle device without history. */
void linnet_heimdall_init(struct linnet_heimdall *tracker);

/* An I/O arrives: returns its snapshot, the I/Os in flight including itself. */
uint32_t linnet_heimdall_arrive(struct linnet_heimdall *tracker);

/* A write completes, or any I/O leaves without completing. */
void linnet_heimdall_leave(struct linnet_heimdall *tracker);

/* A read completes: enters the history with the snapshot that its arrival returned. */
void linnet_heimdall_complete_read(struct linnet_heimdall *tracker, uint32_t size_bytes, uint64_t latency_ns,
				   uint32_t snapshot);

/* Bytes per millisecond; at most 2^32 - 1. */
uint32_t linnet_heimdall_throughput(uint32_t size_bytes, uint64_t latency_ns);

/* The features of a read whose arrival returned `snapshot`. */
void linnet_heimdall_features(const struct linnet_heimdall *tracker, uint32_t snapshot, uint32_t size_bytes,
			      uint32_t features[LINNET_HEIMDALL_FEATURES]);

/* LINNET_E_RANGE if a minimum is above its maximum. */
int linnet_heimdall_scale_set(struct linnet_heimdall_scale *scale, const uint32_t least[LINNET_HEIMDALL_FEATURES],
			      const uint32_t most[LINNET_HEIMDALL_FEATURES]);

/* The inputs of the network, 0..255 each. */
void linnet_heimdall_inputs(const struct linnet_heimdall_scale *scale,
			    const uint32_t features[LINNET_HEIMDALL_FEATURES],
			    uint8_t inputs[LINNET_HEIMDALL_INPUTS]);

#ifdef __cplusplus
}
#endif

#endif
