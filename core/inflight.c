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
#include "linnet.h"

#define NONE UINT32_MAX
#define TIME_SHIFT 11      /* times in units of 2.048 us: the scale ends at 235 ms */
#define LONG_SHIFT 15      /* in units of 32.768 us: the scale ends at 3.8 s */
#define FAST_SHIFT 2       /* a new read weighs 1/4 */
#define SLOW_SHIFT 5       /* 1/32 */
#define PAGE_SHIFT 4       /* time per page: a new I/O weighs 1/16, in 1/16 ns */
#define LATENCY_MAX ((uint64_t)1 << 40) /* 18 minutes */
#define PAGES_MAX 65535
#define GOLDEN 0x9e3779b97f4a7c15U /* 2^64 over the golden ratio: its product's high bits are the hash */
#define SLOT_BITS 6
_Static_assert(1 << SLOT_BITS == LINNET_PAGE_SLOTS, "a hash is the number of a count");

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

/* Time since then_ns; 0 if the caller's clock went back. */
static uint64_t since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static uint32_t slot_of(uint64_t offset_bytes)
{
	return (uint32_t)(offset_bytes / LINNET_PAGE_BYTES * GOLDEN >> (64 - SLOT_BITS));
}

/* A moving average, stored times 2^shift. Its first value is the first sample. */
static uint64_t average(uint64_t kept, uint64_t value, uint32_t shift)
{
	return kept ? kept + value - (kept >> shift) : value << shift;
}

void linnet_inflight_init(struct linnet_inflight *inflight, uint64_t inflection_ns)
{
	linnet_zero(inflight, sizeof(*inflight));
	inflight->inflection_ns = inflection_ns;
	inflight->oldest_read = NONE;
	inflight->newest_read = NONE;
}

static void set_oldest(struct linnet_inflight *inflight, const struct linnet_inflight_io *ios, uint32_t io)
{
	inflight->oldest_read = io;
	if (io != NONE)
		inflight->oldest_arrived_ns = ios[io].arrived_ns;
}

static void add_read(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	ios[io].older = inflight->newest_read;
	ios[io].newer = NONE;
	if (inflight->newest_read == NONE)
		set_oldest(inflight, ios, io);
	else
		ios[inflight->newest_read].newer = io;
	inflight->newest_read = io;
}

static void drop_read(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	uint32_t older = ios[io].older, newer = ios[io].newer;

	if (older == NONE)
		set_oldest(inflight, ios, newer);
	else
		ios[older].newer = newer;
	if (newer == NONE)
		inflight->newest_read = older;
	else
		ios[newer].older = older;
}

void linnet_inflight_arrive(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns,
			    int is_read, uint64_t offset_bytes, uint32_t size_bytes)
{
	struct linnet_inflight_io *own = &ios[io];

	own->arrived_ns = now_ns;
	own->pages = linnet_pages(size_bytes);
	own->is_read = is_read != 0;
	own->slot = 0;
	inflight->pages += own->pages;
	own->pages_ahead = inflight->pages;
	if (!is_read) {
		inflight->writes++;
		inflight->written_pages += own->pages;
		return;
	}
	own->slot = (uint16_t)slot_of(offset_bytes);
	inflight->page_reads[own->slot]++;
	inflight->reads++;
	inflight->read_pages += own->pages;
	inflight->arrived_sum_ns += now_ns;
	inflight->read_arrived_ns = now_ns;
	inflight->read_end_bytes = offset_bytes + size_bytes;
	inflight->seen |= LINNET_SEEN_ARRIVAL;
	add_read(inflight, ios, io);
}

void linnet_inflight_withdraw(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	struct linnet_inflight_io *own = &ios[io];

	inflight->pages -= own->pages;
	if (!own->is_read) {
		inflight->writes--;
		return;
	}
	inflight->reads--;
	inflight->page_reads[own->slot]--;
	inflight->read_pages -= own->pages;
	inflight->arrived_sum_ns -= own->arrived_ns;
	drop_read(inflight, ios, io);
}

void linnet_inflight_complete(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns)
{
	struct linnet_inflight_io *own = &ios[io];
	uint64_t latency_ns = since(now_ns, own->arrived_ns);
	uint64_t counted_ns = latency_ns < LATENCY_MAX ? latency_ns : LATENCY_MAX;
	uint64_t ahead = own->pages_ahead ? own->pages_ahead : 1;

	linnet_inflight_withdraw(inflight, ios, io);
	inflight->page_ns = average(inflight->page_ns, (counted_ns << PAGE_SHIFT) / ahead, PAGE_SHIFT);
	if (!own->is_read)
		return;
	inflight->done_ns[inflight->completed & (LINNET_INFLIGHT_READS - 1)] = now_ns;
	inflight->latency_ns[inflight->completed & (LINNET_INFLIGHT_LATENCIES - 1)] = latency_ns;
	inflight->completed++;
	inflight->fast_ns = average(inflight->fast_ns, counted_ns, FAST_SHIFT);
	inflight->slow_ns = average(inflight->slow_ns, counted_ns, SLOW_SHIFT);
	if (linnet_is_slow(latency_ns, inflight->inflection_ns)) {
		inflight->slow_done_ns = now_ns;
		inflight->slow_written_pages = inflight->written_pages;
		inflight->seen |= LINNET_SEEN_SLOW;
	}
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

	return (inflight->page_ns >> PAGE_SHIFT) * (pages < PAGES_MAX ? pages : PAGES_MAX) >> PAGE_SHIFT;
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
		features[4] = time_bucket(since(now_ns, inflight->oldest_arrived_ns));
	features[5] = time_bucket(inflight->reads * now_ns - inflight->arrived_sum_ns);
	features[6] = LINNET_BUCKET_MAX;
	if (completed)
		features[6] = time_bucket(since(now_ns, inflight->done_ns[(completed - 1) & (LINNET_INFLIGHT_READS - 1)]));
	features[7] = LINNET_BUCKET_MAX;
	if (inflight->seen & LINNET_SEEN_ARRIVAL)
		features[7] = time_bucket(since(now_ns, inflight->read_arrived_ns));
	features[8] = time_bucket(least_latency(inflight));
	if (schema == LINNET_SCHEMA_LINNET2)
		features[9] = bucket_of(inflight->page_reads[slot_of(offset_bytes)]);
	else
		features[9] = time_bucket(inflight->fast_ns >> FAST_SHIFT);
	features[10] = time_bucket(inflight->slow_ns >> SLOW_SHIFT);
	features[11] = LINNET_BUCKET_MAX;
	if (completed >= LINNET_INFLIGHT_READS)
		features[11] = time_bucket(since(now_ns, inflight->done_ns[completed & (LINNET_INFLIGHT_READS - 1)]));
	features[12] = bucket_of((offset_bytes > end ? offset_bytes - end : end - offset_bytes) / LINNET_PAGE_BYTES);
	features[13] = time_bucket(expected_ns(inflight, own_pages));
	features[14] = LINNET_BUCKET_MAX;
	if (inflight->seen & LINNET_SEEN_SLOW)
		features[14] = bucket_of(since(now_ns, inflight->slow_done_ns) >> LONG_SHIFT);
	features[15] = bucket_of(inflight->written_pages - inflight->slow_written_pages);
}
