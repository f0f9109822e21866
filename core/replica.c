/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * State of one replica as the host counts it: the features of both schemas, the moving average of its read latency, the
 * age of that state, and whether the replica is in service. Every arrival and end of an I/O is an event. Events are
 * numbered, so a recording of them gives the state at any event.
 *
 * Consecutive errors take a replica out of service for a while. When that time is over, the next read is its probe.
 * Other reads avoid the replica until the probe has ended. If it fails, the replica is out of service for twice as long
 * as before. If it is withdrawn, the next read is the probe. Other I/Os that fail meanwhile, which may have been in
 * flight when the replica went out of service, say nothing new and lengthen nothing. A read that completes ends the row; a
 * write does so only if every error was a write's.
 */
#include "replica.h"

void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_inflight_io *ios,
			 uint32_t places)
{
	linnet_zero(replica, sizeof(*replica));
	linnet_inflight_init(&replica->inflight, inflection_ns);
	linnet_replica_grow(replica, ios, 0, places);
}

void linnet_replica_grow(struct linnet_replica *replica, struct linnet_inflight_io *ios, uint32_t from, uint32_t places)
{
	replica->ios = ios;
	for (uint32_t io = from; io < places; io++)
		ios[io].newer = io + 1 < places ? io + 1 : LINNET_UNTRACKED;
	replica->free = from < places ? from : LINNET_UNTRACKED;
}

void linnet_replica_set_incremental(struct linnet_replica *replica, struct linnet_incremental *net)
{
	struct linnet_tracker tracker = replica->tracker;

	if (replica->net) {
		struct linnet_noted noted;

		linnet_incremental_noted(replica->net, &noted);
		tracker = noted.history;
		tracker.pending_pages = linnet_incremental_pending_pages(replica->net);
	}
	if (net)
		linnet_incremental_adopt(net, &tracker);
	replica->tracker = tracker;
	replica->net = net;
}

int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns)
{
	return now_ns < replica->out_until_ns;
}

void linnet_replica_arrive(struct linnet_replica *replica, const struct linnet_settings *settings,
			   struct linnet_flight *flight, uint64_t now_ns, int is_read, int probe, uint64_t offset_bytes,
			   uint32_t size_bytes)
{
	linnet_replica_arrived(replica, settings, flight, now_ns, is_read, probe, offset_bytes, size_bytes);
}

void linnet_replica_pardon(struct linnet_replica *replica)
{
	linnet_replica_pardoned(replica);
}

uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	return linnet_replica_completed(replica, flight, now_ns);
}

/* Whether it is the last probe that was sent to end the absence. One in 2^32 other I/Os may be taken for it. */
static int ends_absence(const struct linnet_replica *replica, const struct linnet_flight *flight)
{
	return replica->return_event == (uint32_t)flight->event;
}

void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns)
{
	linnet_event_time(replica, now_ns);
	if (ends_absence(replica, flight))
		replica->out_until_ns = 0;
	if (flight->place != LINNET_UNTRACKED)
		linnet_inflight_withdrawn(&replica->inflight, replica->ios, flight->place);
	linnet_track_leave(replica, flight);
	linnet_leave(replica, flight);
}

void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_settings *settings,
			 const struct linnet_flight *flight, uint64_t now_ns)
{
	uint64_t absence_ns = replica->backoff_ns ? replica->backoff_ns : settings->out_ns;
	int was_out = replica->errors_in_row >= settings->errors_max, ends = ends_absence(replica, flight);

	linnet_replica_withdraw(replica, flight, now_ns);
	replica->reads_failed |= flight->is_read;
	if (replica->errors_in_row < UINT32_MAX)
		replica->errors_in_row++;
	if (replica->errors_in_row < settings->errors_max || (was_out && !ends))
		return;
	replica->return_event = 0;
	replica->out_until_ns = replica->latest_ns + absence_ns;
	replica->backoff_ns = 2 * absence_ns < settings->out_ns_max ? 2 * absence_ns : settings->out_ns_max;
}

void linnet_replica_features(const struct linnet_replica *replica, uint32_t schema, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	linnet_inflight_describe(&replica->inflight, schema, linnet_time_of(replica, now_ns), offset_bytes, size_bytes, features);
}

void linnet_replica_describe(const struct linnet_replica *replica, uint64_t now_ns, struct linnet_candidate *candidate)
{
	linnet_describe(replica, now_ns, candidate);
}

void linnet_incremental_describe(struct linnet_incremental *net, uint32_t size_bytes, void *scratch,
				 struct linnet_candidate *candidate)
{
	candidate->known = linnet_incremental_history_len(net) == LINNET_HISTORY;
	candidate->slow = 0;
	if (candidate->known)
		candidate->slow = linnet_incremental_decide(net, linnet_incremental_snapshot(net, size_bytes), scratch) > 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_inflight) == 360 && sizeof(struct linnet_inflight_io) == 32, "struct linnet_inflight");
_Static_assert(sizeof(struct linnet_replica) == 472, "struct linnet_replica");
_Static_assert(sizeof(struct linnet_flight) == 32, "struct linnet_flight");
