/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What is known of one replica, counted at the host: its watch, the moving average of its read latency, the age of what
 * is known, and whether it is in service. Every I/O's arrival and end is an event; events are numbered, so that who records
 * them can work out later what was known at any of them.
 *
 * Errors in a row take a replica out of service for a while, and longer each time. When that time is over, one read goes
 * there as a probe, and the others stay away until it has come back.
 */
#include "linnet.h"

#define EWMA_SHIFT 3 /* a new read weighs 1/8: about the last eight count */

void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_watched *ios,
			 uint32_t places)
{
	linnet_zero(replica, sizeof(*replica));
	linnet_watch_init(&replica->watch, inflection_ns);
	replica->ios = ios;
	for (uint32_t io = 0; io < places; io++)
		ios[io].newer = io + 1 < places ? io + 1 : LINNET_UNTRACKED;
	replica->free = places ? 0 : LINNET_UNTRACKED;
}

/* The time of this event: that of the caller's clock, but never before the last event. */
static uint64_t event(struct linnet_replica *replica, uint64_t now_ns)
{
	replica->events++;
	if (now_ns > replica->latest_ns)
		replica->latest_ns = now_ns;
	return replica->latest_ns;
}

int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns)
{
	return now_ns < replica->out_until_ns;
}

void linnet_replica_arrive(struct linnet_replica *replica, struct linnet_flight *flight, uint64_t now_ns, int is_read,
			   int probe, uint64_t offset_bytes, uint32_t size_bytes)
{
	uint64_t at_ns = event(replica, now_ns);
	int readmitted = replica->errors_in_row >= LINNET_ERRORS_MAX && !linnet_replica_is_out(replica, at_ns);

	flight->arrived_ns = at_ns;
	flight->event = replica->events;
	flight->place = replica->free;
	flight->is_read = is_read != 0;
	flight->probe = is_read && (probe || readmitted);
	replica->in_flight++;
	if (readmitted)
		replica->out_until_ns = at_ns + replica->backoff_ns;
	if (flight->probe) {
		replica->probing = 1;
		replica->learnt_ns = at_ns;
	}
	if (flight->place == LINNET_UNTRACKED)
		return;
	replica->free = replica->ios[flight->place].newer;
	linnet_watch_arrive(&replica->watch, replica->ios, flight->place, at_ns, is_read, offset_bytes, size_bytes);
}

static void leave(struct linnet_replica *replica, const struct linnet_flight *flight)
{
	replica->in_flight--;
	if (flight->probe)
		replica->probing = 0;
	if (flight->place == LINNET_UNTRACKED)
		return;
	replica->ios[flight->place].newer = replica->free;
	replica->free = flight->place;
}

void linnet_replica_pardon(struct linnet_replica *replica)
{
	replica->errors_in_row = 0;
	replica->out_until_ns = 0;
	replica->backoff_ns = 0;
}

uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	uint64_t at_ns = event(replica, now_ns), latency_ns = at_ns - flight->arrived_ns, ewma_ns = replica->ewma_ns;

	if (flight->place != LINNET_UNTRACKED)
		linnet_watch_complete(&replica->watch, replica->ios, flight->place, at_ns);
	leave(replica, flight);
	linnet_replica_pardon(replica);
	if (flight->is_read) {
		replica->learnt_ns = at_ns;
		replica->ewma_ns = ewma_ns ? ewma_ns - (ewma_ns >> EWMA_SHIFT) + (latency_ns >> EWMA_SHIFT) : latency_ns;
	}
	return latency_ns;
}

void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	event(replica, now_ns);
	if (flight->place != LINNET_UNTRACKED)
		linnet_watch_withdraw(&replica->watch, replica->ios, flight->place);
	leave(replica, flight);
}

void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	uint64_t absence_ns = replica->backoff_ns ? replica->backoff_ns : LINNET_OUT_NS;

	linnet_replica_withdraw(replica, flight, now_ns);
	if (replica->errors_in_row < UINT32_MAX)
		replica->errors_in_row++;
	if (replica->errors_in_row < LINNET_ERRORS_MAX)
		return;
	replica->out_until_ns = replica->latest_ns + absence_ns;
	replica->backoff_ns = 2 * absence_ns < LINNET_OUT_NS_MAX ? 2 * absence_ns : LINNET_OUT_NS_MAX;
}

static uint64_t time_of(const struct linnet_replica *replica, uint64_t now_ns)
{
	return now_ns > replica->latest_ns ? now_ns : replica->latest_ns;
}

void linnet_replica_features(const struct linnet_replica *replica, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_WATCH_FEATURES])
{
	linnet_watch_describe(&replica->watch, replica->ios, time_of(replica, now_ns), offset_bytes, size_bytes,
			      features);
}

void linnet_replica_describe(const struct linnet_replica *replica, const struct linnet_trees *trees, uint64_t now_ns,
			     uint64_t offset_bytes, uint32_t size_bytes, struct linnet_candidate *candidate)
{
	candidate->score = 0;
	if (trees) {
		uint8_t features[LINNET_WATCH_FEATURES];

		linnet_replica_features(replica, now_ns, offset_bytes, size_bytes, features);
		candidate->score = linnet_trees_score(trees, features);
	}
	candidate->known = trees != NULL;
	candidate->ewma_ns = replica->ewma_ns;
	candidate->learnt_ns = replica->learnt_ns;
	candidate->in_flight = replica->in_flight;
	candidate->probing = replica->probing != 0;
	candidate->eligible = !linnet_replica_is_out(replica, time_of(replica, now_ns));
	candidate->slow = 0;
}
