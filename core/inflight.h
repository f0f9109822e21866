/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The events of the in-flight tracker (inflight.c), inline: each I/O at a replica is two of them (replica.c). Not part of
 * the public interface.
 */
#ifndef LINNET_INFLIGHT_H
#define LINNET_INFLIGHT_H

#include "linnet.h"

#define LINNET_NO_IO UINT32_MAX
#define LINNET_FAST_SHIFT 2    /* a new read weighs 1/4 */
#define LINNET_SLOW_SHIFT 5    /* 1/32 */
#define LINNET_PAGE_NS_SHIFT 4 /* time per page: a new I/O weighs 1/16, in 1/16 ns */
#define LINNET_LATENCY_NS_MAX ((uint64_t)1 << 40) /* 18 minutes */
#define LINNET_GOLDEN 0x9e3779b97f4a7c15U /* 2^64 over the golden ratio: its product's high bits are the hash */
#define LINNET_SLOT_BITS 6
_Static_assert(1 << LINNET_SLOT_BITS == LINNET_PAGE_SLOTS, "a hash is the number of a count");

/* Time since then_ns; 0 if the caller's clock went back. */
static inline uint64_t linnet_since(uint64_t now_ns, uint64_t then_ns)
{
	return now_ns > then_ns ? now_ns - then_ns : 0;
}

static inline uint32_t linnet_slot_of(uint64_t offset_bytes)
{
	return (uint32_t)(offset_bytes / LINNET_PAGE_BYTES * LINNET_GOLDEN >> (64 - LINNET_SLOT_BITS));
}

/* A moving average, stored times 2^shift. Its first value is the first sample. */
static inline uint64_t linnet_average(uint64_t kept, uint64_t value, uint32_t shift)
{
	return kept ? kept + value - (kept >> shift) : value << shift;
}

static inline void linnet_set_oldest(struct linnet_inflight *inflight, const struct linnet_inflight_io *ios, uint32_t io)
{
	if (io != LINNET_NO_IO)
		inflight->oldest_arrived_ns = ios[io].arrived_ns;
}

static inline void linnet_add_read(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	ios[io].older = inflight->newest_read;
	ios[io].newer = LINNET_NO_IO;
	if (inflight->newest_read == LINNET_NO_IO)
		linnet_set_oldest(inflight, ios, io);
	else
		ios[inflight->newest_read].newer = io;
	inflight->newest_read = io;
}

static inline void linnet_drop_read(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
{
	uint32_t older = ios[io].older, newer = ios[io].newer;

	if (older == LINNET_NO_IO)
		linnet_set_oldest(inflight, ios, newer);
	else
		ios[older].newer = newer;
	if (newer == LINNET_NO_IO)
		inflight->newest_read = older;
	else
		ios[newer].older = older;
}

static inline void linnet_inflight_arrived(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io,
					   uint64_t now_ns, int is_read, uint64_t offset_bytes, uint32_t size_bytes)
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
	own->slot = (uint16_t)linnet_slot_of(offset_bytes);
	inflight->page_reads[own->slot]++;
	inflight->reads++;
	inflight->read_pages += own->pages;
	inflight->arrived_sum_ns += now_ns;
	inflight->read_arrived_ns = now_ns;
	inflight->read_end_bytes = offset_bytes + size_bytes;
	inflight->seen |= LINNET_SEEN_ARRIVAL;
	linnet_add_read(inflight, ios, io);
}

static inline void linnet_inflight_withdrawn(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io)
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
	linnet_drop_read(inflight, ios, io);
}

static inline __attribute__((always_inline)) void
linnet_inflight_completed(struct linnet_inflight *inflight, struct linnet_inflight_io *ios, uint32_t io, uint64_t now_ns)
{
	struct linnet_inflight_io *own = &ios[io];
	uint64_t latency_ns = linnet_since(now_ns, own->arrived_ns);
	uint64_t counted_ns = latency_ns < LINNET_LATENCY_NS_MAX ? latency_ns : LINNET_LATENCY_NS_MAX;
	uint64_t ahead = own->pages_ahead ? own->pages_ahead : 1;

	linnet_inflight_withdrawn(inflight, ios, io);
	inflight->page_ns = linnet_average(inflight->page_ns, (counted_ns << LINNET_PAGE_NS_SHIFT) / ahead, LINNET_PAGE_NS_SHIFT);
	if (!own->is_read)
		return;
	inflight->done_ns[inflight->completed & (LINNET_INFLIGHT_READS - 1)] = now_ns;
	inflight->latency_ns[inflight->completed & (LINNET_INFLIGHT_LATENCIES - 1)] = latency_ns;
	inflight->completed++;
	inflight->fast_ns = linnet_average(inflight->fast_ns, counted_ns, LINNET_FAST_SHIFT);
	inflight->slow_ns = linnet_average(inflight->slow_ns, counted_ns, LINNET_SLOW_SHIFT);
	if (linnet_is_slow(latency_ns, inflight->inflection_ns)) {
		inflight->slow_done_ns = now_ns;
		inflight->slow_written_pages = inflight->written_pages;
		inflight->seen |= LINNET_SEEN_SLOW;
	}
}

#endif
