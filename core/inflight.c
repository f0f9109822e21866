/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Features of the schemas linnet-1 and linnet-2 (spec/features-linnet.md): the state of one device that a host can
 * observe while I/Os are in flight.
 *
 * LinnOS uses completed reads. A device that stalls completes nothing, so its history stays good while reads queue up.
 * The first signs of a stall are the ages of the reads in flight, the time since a read completed and the time that the
 * last eight took to complete. Further features are the work ahead of the read and the device's recent rate for such
 * work.
 *
 * linnet-2 also counts the reads in flight that begin on the same page, which a device serves one after the other. They
 * are counted by a hash of the page, in both schemas, so that a model of either may be used at any time.
 *
 * Each feature is one byte, 0..63: a count or a time on a logarithmic scale with four steps per octave. Reads and
 * writes in flight are kept in lists by arrival. Every event and every description takes a constant number of
 * operations, however many I/Os are in flight.
 */
#include "inflight.h"

#define TIME_SHIFT 11      /* times in units of 2.048 us: the scale ends at 235 ms */
#define LONG_SHIFT 15      /* in units of 32.768 us: the scale ends at 3.8 s */
#define PAGES_MAX 65535

/* With x = value >> shift of 4..7 from the two bits below the highest: 4 * shift + x. Below 4, shift is 0. */
static inline uint8_t bucket_of(uint64_t value)
{
	uint32_t shift = 61 - (uint32_t)__builtin_clzll(value | 4);
	uint32_t bucket = 4 * shift + (uint32_t)(value >> shift);

	return (uint8_t)(bucket < LINNET_BUCKET_MAX ? bucket : LINNET_BUCKET_MAX);
}

uint8_t linnet_bucket(uint64_t value)
{
	return bucket_of(value);
}

static uint8_t time_bucket(uint64_t time_ns)
{
	return bucket_of(time_ns >> TIME_SHIFT);
}

void linnet_inflight_init(struct linnet_inflight *inflight, uint64_t inflection_ns)
{
	linnet_zero(inflight, sizeof(*inflight));
	inflight->inflection_ns = inflection_ns;
	inflight->newest_read = LINNET_NO_IO;
}

void linnet_inflight_arrive(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns,
			    int is_read, uint64_t offset_bytes, uint32_t size_bytes)
{
	linnet_inflight_arrived(inflight, ios, io, now_ns, is_read, offset_bytes, size_bytes);
}

void linnet_inflight_withdraw(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	linnet_inflight_withdrawn(inflight, ios, io);
}

void linnet_inflight_complete(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns)
{
	linnet_inflight_completed(inflight, ios, io, now_ns);
}

/* The lowest latency of the last four reads; 0 until four have completed. */
static uint64_t least_latency(const struct linnet_inflight *inflight)
{
	uint64_t least = inflight->latency_ns[0];

	for (int i = 1; i < LINNET_INFLIGHT_LATENCIES; i++)
		if (inflight->latency_ns[i] < least)
			least = inflight->latency_ns[i];
	return least;
}

/* Time that the work ahead and this read would take at the recent rate. */
static uint64_t expected_ns(const struct linnet_inflight *inflight, uint32_t own_pages)
{
	uint64_t pages = inflight->pages + own_pages;

	return (inflight->page_ns >> LINNET_PAGE_NS_SHIFT) * (pages < PAGES_MAX ? pages : PAGES_MAX) >> LINNET_PAGE_NS_SHIFT;
}

void linnet_inflight_describe(const struct linnet_inflight *inflight, uint32_t schema, uint64_t now_ns, uint64_t offset_bytes,
			      uint32_t size_bytes, uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	uint32_t own_pages = linnet_pages(size_bytes);
	uint64_t completed = inflight->completed, end = inflight->read_end_bytes;

	features[0] = bucket_of(own_pages);
	features[1] = bucket_of(inflight->reads);
	features[2] = bucket_of(inflight->writes);
	features[3] = bucket_of(inflight->read_pages);
	features[4] = 0;
	if (inflight->reads)
		features[4] = time_bucket(linnet_since(now_ns, inflight->oldest_arrived_ns));
	features[5] = time_bucket(inflight->reads * now_ns - inflight->arrived_sum_ns);
	features[6] = LINNET_BUCKET_MAX;
	if (completed)
		features[6] = time_bucket(linnet_since(now_ns, inflight->done_ns[(completed - 1) & (LINNET_INFLIGHT_READS - 1)]));
	features[7] = LINNET_BUCKET_MAX;
	if (inflight->seen & LINNET_SEEN_ARRIVAL)
		features[7] = time_bucket(linnet_since(now_ns, inflight->read_arrived_ns));
	features[8] = time_bucket(least_latency(inflight));
	if (schema == LINNET_SCHEMA_LINNET2)
		features[9] = bucket_of(inflight->page_reads[linnet_slot_of(offset_bytes)]);
	else
		features[9] = time_bucket(inflight->fast_ns >> LINNET_FAST_SHIFT);
	features[10] = time_bucket(inflight->slow_ns >> LINNET_SLOW_SHIFT);
	features[11] = LINNET_BUCKET_MAX;
	if (completed >= LINNET_INFLIGHT_READS)
		features[11] = time_bucket(linnet_since(now_ns, inflight->done_ns[completed & (LINNET_INFLIGHT_READS - 1)]));
	features[12] = bucket_of((offset_bytes > end ? offset_bytes - end : end - offset_bytes) / LINNET_PAGE_BYTES);
	features[13] = time_bucket(expected_ns(inflight, own_pages));
	features[14] = LINNET_BUCKET_MAX;
	if (inflight->seen & LINNET_SEEN_SLOW)
		features[14] = bucket_of(linnet_since(now_ns, inflight->slow_done_ns) >> LONG_SHIFT);
	features[15] = bucket_of(inflight->written_pages - inflight->slow_written_pages);
}
