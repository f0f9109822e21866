/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linnet:linnet_decision for each read that is decided, and linnet:linnet_io for each I/O that ends at a replica.
 *
 * Together they contain all input of the decisions. A replica's events are numbered: `arrive` and `end` of an I/O are
 * its positions in their order, and `events` of a decision is the number of each replica's events that it was based on.
 * `own` is how many I/Os in flight the deciding CPU has added to each, which it had queued itself (digest.c).
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM linnet

#if !defined(LINNET_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LINNET_TRACE_H

#include <linux/tracepoint.h>

#include "linnet-dm.h"
#include "policy.h"

TRACE_EVENT(linnet_decision,
	TP_PROTO(const struct linnet_dm *dm, const struct linnet_routing *routing),
	TP_ARGS(dm, routing),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, id)
		__field(u64, now_ns)
		__field(u64, sector)
		__field(u32, size)
		__field(u8, policy)
		__field(u8, count)
		__field(u8, replica)
		__field(u8, verdict)
		__field(u8, probe)
		__field(u8, tagged)
		__field(u8, eligible)
		__field(u8, slow)
		__field(u8, scored)
		__dynamic_array(u64, events, routing->decision.count)
		__dynamic_array(s32, own, routing->decision.count)
		__dynamic_array(s32, score, routing->decision.count)
		__dynamic_array(u64, ewma_ns, routing->decision.count)
		__dynamic_array(u32, in_flight, routing->decision.count)
	),
	TP_fast_assign(
		const struct linnet_decision *decision = &routing->decision;
		u32 k;

		__entry->dev = disk_devt(dm_disk(dm_table_get_md(dm->ti->table)));
		__entry->id = routing->id;
		__entry->now_ns = decision->now_ns;
		__entry->sector = routing->sector;
		__entry->size = routing->size_bytes;
		__entry->policy = decision->policy;
		__entry->count = decision->count;
		__entry->replica = decision->choice.replica;
		__entry->verdict = decision->verdict;
		__entry->probe = decision->choice.probe;
		__entry->tagged = decision->may_revoke;
		__entry->eligible = 0;
		__entry->slow = 0;
		__entry->scored = decision->scored;
		for (k = 0; k < decision->count; k++) {
			__entry->eligible |= decision->candidates[k].eligible << k;
			__entry->slow |= decision->candidates[k].slow << k;
			((u64 *)__get_dynamic_array(events))[k] = routing->seen[k];
			((s32 *)__get_dynamic_array(own))[k] = routing->locked ? 0 : routing->own[k];
			((s32 *)__get_dynamic_array(score))[k] = decision->candidates[k].score;
			((u64 *)__get_dynamic_array(ewma_ns))[k] = decision->candidates[k].ewma_ns;
			((u32 *)__get_dynamic_array(in_flight))[k] = decision->candidates[k].in_flight;
		}
	),
	TP_printk("dev=%u:%u id=0x%llx ns=%llu sector=%llu size=%u policy=%u replica=%u verdict=%u probe=%u tagged=%u eligible=0x%x slow=0x%x scored=0x%x events=%s own=%s score=%s ewma_ns=%s inflight=%s",
		MAJOR(__entry->dev), MINOR(__entry->dev), __entry->id, __entry->now_ns, __entry->sector, __entry->size,
		__entry->policy, __entry->replica, __entry->verdict, __entry->probe, __entry->tagged,
		__entry->eligible, __entry->slow, __entry->scored,
		__print_array(__get_dynamic_array(events), __entry->count, 8),
		__print_array(__get_dynamic_array(own), __entry->count, 4),
		__print_array(__get_dynamic_array(score), __entry->count, 4),
		__print_array(__get_dynamic_array(ewma_ns), __entry->count, 8),
		__print_array(__get_dynamic_array(in_flight), __entry->count, 4))
);

TRACE_EVENT(linnet_io,
	TP_PROTO(const struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 event, u64 latency_ns),
	TP_ARGS(leg, record, event, latency_ns),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(dev_t, leg_dev)
		__field(u64, id)
		__field(u64, offset)
		__field(u64, arrived_ns)
		__field(u64, latency_ns)
		__field(u64, arrive)
		__field(u64, end)
		__field(u32, size)
		__field(int, error)
		__field(u8, replica)
		__field(u8, is_read)
		__field(u8, probe)
		__field(u8, tracked)
	),
	TP_fast_assign(
		__entry->dev = disk_devt(dm_disk(dm_table_get_md(leg->dm->ti->table)));
		__entry->leg_dev = linnet_leg_number(leg);
		__entry->id = record->id;
		__entry->offset = record->offset_bytes;
		__entry->arrived_ns = record->flight.arrived_ns;
		__entry->latency_ns = latency_ns;
		__entry->arrive = record->flight.event;
		__entry->end = event;
		__entry->size = record->flight.size_bytes;
		__entry->error = blk_status_to_errno(record->status);
		__entry->replica = leg->index;
		__entry->is_read = record->flight.is_read;
		__entry->probe = record->flight.probe;
		__entry->tracked = record->flight.place != LINNET_UNTRACKED;
	),
	TP_printk("dev=%u:%u id=0x%llx replica=%u leg=%u:%u op=%s offset=%llu size=%u arrived_ns=%llu latency_ns=%llu error=%d arrive=%llu end=%llu probe=%u tracked=%u",
		MAJOR(__entry->dev), MINOR(__entry->dev), __entry->id, __entry->replica, MAJOR(__entry->leg_dev),
		MINOR(__entry->leg_dev), __entry->is_read ? "read" : "write", __entry->offset, __entry->size,
		__entry->arrived_ns, __entry->latency_ns, __entry->error, __entry->arrive, __entry->end, __entry->probe,
		__entry->tracked)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
