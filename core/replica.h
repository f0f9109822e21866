/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The two events of an I/O at a replica (replica.c), inline for the kernel's target. Not part of the public interface.
 */
#ifndef LINNET_REPLICA_H
#define LINNET_REPLICA_H

#include "inflight.h"

#define LINNET_EWMA_SHIFT 3 /* a new read weighs 1/8: about the last eight reads count */

/*
 * The features of LinnOS are kept by the incremental network, or without one by a tracker, so that an incremental
 * network that is added later starts with a history. The incremental network only notes the read. The history is
 * computed when the network is run: of several reads that end between two decisions, only the state after the last is
 * needed.
 */
static inline uint32_t linnet_track_arrival(struct linnet_replica *replica, uint32_t size_bytes)
{
	return replica->net ? linnet_incremental_arrive(replica->net, size_bytes) :
				linnet_tracker_add(&replica->tracker, linnet_pages(size_bytes));
}

static inline void linnet_track_read(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t latency_ns)
{
	if (replica->net)
		linnet_incremental_note_read(replica->net, flight->size_bytes, latency_ns, flight->snapshot);
	else
		linnet_tracker_remember(&replica->tracker, flight->size_bytes, latency_ns, flight->snapshot);
}

static inline void linnet_track_leave(struct linnet_replica *replica, const struct linnet_flight *flight)
{
	if (replica->net)
		linnet_incremental_withdraw(replica->net, flight->size_bytes);
	else
		linnet_tracker_withdraw(&replica->tracker, flight->size_bytes);
}

/* The time of this event: the caller's clock, but never before the previous event. */
static inline uint64_t linnet_event_time(struct linnet_replica *replica, uint64_t now_ns)
{
	replica->events++;
	if (now_ns > replica->latest_ns)
		replica->latest_ns = now_ns;
	return replica->latest_ns;
}

static inline void linnet_leave(struct linnet_replica *replica, const struct linnet_flight *flight)
{
	replica->in_flight--;
	if (flight->probe)
		replica->probing = 0;
	if (flight->place == LINNET_UNTRACKED)
		return;
	replica->ios[flight->place].newer = replica->free;
	replica->free = flight->place;
}

static inline __attribute__((always_inline)) void
linnet_replica_arrived(struct linnet_replica *replica, const struct linnet_settings *settings, struct linnet_flight *flight,
		       uint64_t now_ns, int is_read, int probe, uint64_t offset_bytes, uint32_t size_bytes)
{
	uint64_t at_ns = linnet_event_time(replica, now_ns);
	uint32_t place = replica->free;
	int may_return = replica->errors_in_row >= settings->errors_max && at_ns >= replica->out_until_ns;

	probe = is_read && (probe || may_return);
	flight->arrived_ns = at_ns;
	flight->event = replica->events;
	flight->place = place;
	flight->snapshot = linnet_track_arrival(replica, size_bytes);
	flight->size_bytes = size_bytes;
	flight->is_read = is_read != 0;
	flight->probe = probe != 0;
	replica->in_flight++;
	if (may_return && is_read) {
		replica->return_event = (uint32_t)flight->event;
		replica->out_until_ns = at_ns + replica->backoff_ns;
	}
	if (probe) {
		replica->probing = 1;
		replica->learnt_ns = at_ns;
	}
	if (place == LINNET_UNTRACKED)
		return;
	replica->free = replica->ios[place].newer;
	linnet_inflight_arrived(&replica->inflight, replica->ios, place, at_ns, is_read, offset_bytes, size_bytes);
}

static inline void linnet_replica_pardoned(struct linnet_replica *replica)
{
	replica->errors_in_row = 0;
	replica->reads_failed = 0;
	replica->out_until_ns = 0;
	replica->backoff_ns = 0;
}

static inline __attribute__((always_inline)) uint64_t
linnet_replica_completed(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	uint64_t at_ns = linnet_event_time(replica, now_ns), latency_ns = at_ns - flight->arrived_ns, ewma_ns = replica->ewma_ns;

	if (flight->place != LINNET_UNTRACKED)
		linnet_inflight_completed(&replica->inflight, replica->ios, flight->place, at_ns);
	linnet_leave(replica, flight);
	if (!flight->is_read) {
		/* It says nothing of reads: drives write sectors that they cannot read. */
		if (!replica->reads_failed)
			linnet_replica_pardoned(replica);
		linnet_track_leave(replica, flight);
		return latency_ns;
	}
	linnet_replica_pardoned(replica);
	linnet_track_read(replica, flight, latency_ns);
	replica->learnt_ns = at_ns;
	replica->revokes_in_row = 0;
	replica->ewma_ns = ewma_ns ? ewma_ns - (ewma_ns >> LINNET_EWMA_SHIFT) + (latency_ns >> LINNET_EWMA_SHIFT) : latency_ns;
	return latency_ns;
}

#endif
