// SPDX-License-Identifier: GPL-2.0-only
/*
 * One leg: arrivals and ends of its I/Os.
 *
 * The lock is held for arrivals and completions at the leg, for some tens of instructions. A sequence count shows
 * concurrent readers that what they read may be torn. A caller that runs a network after reads have ended computes their
 * history, which takes thousands of instructions, under a lock that only such callers want. Interrupts stay on; softirqs
 * wait, since a bio that one of them submits may want the lock.
 *
 * An I/O is recorded once, as the bio that the target maps, and ends when that bio ends. A bio that the driver below
 * splits ends here when its last part has completed.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "linnet-dm.h"
#include "trace.h"

static uint places = 1024;
module_param(places, uint, 0444);
MODULE_PARM_DESC(places, "I/Os that the in-flight tracker of each replica follows at a time, 16 to 65536; more are counted as untracked");

int linnet_leg_init(struct linnet_leg *leg, struct linnet_dm *dm, u32 index)
{
	u32 count = clamp(places, 16U, 65536U);

	leg->dm = dm;
	leg->index = index;
	raw_spin_lock_init(&leg->lock);
	raw_spin_lock_init(&leg->network_lock);
	seqcount_raw_spinlock_init(&leg->seq, &leg->lock);
	leg->counts = alloc_percpu(struct linnet_leg_counts);
	leg->places = kvcalloc(count, sizeof(*leg->places), GFP_KERNEL);
	if (!leg->counts || !leg->places)
		return -ENOMEM;
	linnet_replica_init(&leg->state, U64_MAX, leg->places, count);
	return 0;
}

void linnet_leg_free(struct linnet_leg *leg)
{
	linnet_leg_model_free(rcu_dereference_protected(leg->leg_model, 1));
	kvfree(leg->places);
	free_percpu(leg->counts);
	if (leg->dev)
		dm_put_device(leg->dm->ti, leg->dev);
}

const char *linnet_leg_name(const struct linnet_leg *leg)
{
	return leg->member ? leg->member->name : leg->dev->name;
}

dev_t linnet_leg_number(const struct linnet_leg *leg)
{
	return leg->member ? leg->member->dev : leg->dev->bdev->bd_dev;
}

void linnet_leg_remap(const struct linnet_leg *leg, struct bio *bio)
{
	bio_set_dev(bio, leg->dev->bdev);
	if (bio_sectors(bio))
		bio->bi_iter.bi_sector = leg->start + dm_target_offset(leg->dm->ti, bio->bi_iter.bi_sector);
}

bool linnet_leg_arrive(struct linnet_leg *leg, struct linnet_inflight_record *record, u64 seen, u64 now_ns, bool is_read,
		       bool probe, sector_t sector, u32 size_bytes)
{
	unsigned long flags;

	record->offset_bytes = (u64)(leg->start + sector) << SECTOR_SHIFT;
	raw_spin_lock_irqsave(&leg->lock, flags);
	if (seen != LINNET_ANY_EVENT && seen != leg->state.events) {
		raw_spin_unlock_irqrestore(&leg->lock, flags);
		return false;
	}
	write_seqcount_begin(&leg->seq);
	linnet_replica_arrive(&leg->state, &leg->dm->settings, &record->flight, now_ns, is_read, probe,
			      record->offset_bytes, size_bytes);
	write_seqcount_end(&leg->seq);
	raw_spin_unlock_irqrestore(&leg->lock, flags);
	if (record->flight.place == LINNET_UNTRACKED)
		this_cpu_inc(leg->dm->counts->untracked);
	if (record->flight.probe)
		this_cpu_inc(leg->dm->counts->probes);
	return true;
}

static void count_end(struct linnet_leg *leg, bool is_read, u64 latency_ns, blk_status_t status)
{
	u32 bucket;

	if (status != BLK_STS_OK) {
		if (!linnet_is_refusal(status))
			this_cpu_inc(leg->counts->errors);
		return;
	}
	if (!is_read) {
		this_cpu_inc(leg->counts->writes);
		return;
	}
	bucket = fls64(latency_ns / LINNET_BUCKET_NS);
	this_cpu_inc(leg->counts->reads);
	this_cpu_inc(leg->counts->latency[min(bucket, (u32)LINNET_BUCKETS - 1)]);
}

/*
 * The leg was taken out of service, or came back. Errors come in bursts, so the log gets some of them; the counters get
 * all.
 */
static void set_out(struct linnet_leg *leg, bool out)
{
	if (out && !test_and_set_bit(LINNET_LEG_OUT, &leg->flags))
		DMWARN_LIMIT("%s: replica %u (%s) is out of service after %u errors in a row",
			     dm_table_device_name(leg->dm->ti->table), leg->index, linnet_leg_name(leg), leg->dm->settings.errors_max);
	else if (!out && test_and_clear_bit(LINNET_LEG_OUT, &leg->flags))
		DMINFO("%s: replica %u (%s) is back in service", dm_table_device_name(leg->dm->ti->table), leg->index,
		       linnet_leg_name(leg));
	else
		return;
	linnet_dm_changed(leg->dm);
}

void linnet_leg_end(struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 id, blk_status_t status)
{
	const struct linnet_flight *flight = &record->flight;
	u64 now_ns = ktime_get_ns(), latency_ns, event;
	unsigned long flags;
	bool out;

	raw_spin_lock_irqsave(&leg->lock, flags);
	write_seqcount_begin(&leg->seq);
	if (likely(status == BLK_STS_OK))
		linnet_replica_complete(&leg->state, flight, now_ns);
	else if (!linnet_is_refusal(status))
		linnet_replica_fail(&leg->state, &leg->dm->settings, flight, now_ns);
	else
		linnet_replica_withdraw(&leg->state, flight, now_ns);
	latency_ns = leg->state.latest_ns - flight->arrived_ns;
	write_seqcount_end(&leg->seq);
	out = leg->state.errors_in_row >= leg->dm->settings.errors_max;
	event = leg->state.events;
	raw_spin_unlock_irqrestore(&leg->lock, flags);

	count_end(leg, flight->is_read, latency_ns, status);
	trace_linnet_io(leg, record, id, event, latency_ns, status);
	if (unlikely(out != test_bit(LINNET_LEG_OUT, &leg->flags)))
		set_out(leg, out);
}

void linnet_leg_catch_up(struct linnet_leg *leg, struct linnet_incremental *net, u32 size_bytes)
{
	struct linnet_noted noted;
	unsigned long flags;

	raw_spin_lock_bh(&leg->network_lock);
	if (linnet_incremental_behind(net)) { /* nobody has done it meanwhile */
		raw_spin_lock_irqsave(&leg->lock, flags);
		linnet_incremental_noted(net, &noted);
		raw_spin_unlock_irqrestore(&leg->lock, flags);
		linnet_incremental_process(net, &noted, linnet_incremental_snapshot(net, size_bytes));
	}
	raw_spin_unlock_bh(&leg->network_lock);
}

void linnet_leg_pardon(struct linnet_leg *leg)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&leg->lock, flags);
	write_seqcount_begin(&leg->seq);
	linnet_replica_pardon(&leg->state);
	write_seqcount_end(&leg->seq);
	raw_spin_unlock_irqrestore(&leg->lock, flags);
	clear_bit(LINNET_LEG_OUT, &leg->flags);
}

void linnet_leg_set_model(struct linnet_leg *leg, struct linnet_leg_model *leg_model)
{
	struct linnet_leg_model *old;
	unsigned long flags;

	raw_spin_lock_irqsave(&leg->lock, flags);
	write_seqcount_begin(&leg->seq);
	old = rcu_dereference_protected(leg->leg_model, lockdep_is_held(&leg->lock));
	linnet_replica_set_incremental(&leg->state, leg_model ? leg_model->net : NULL);
	leg->state.inflight.inflection_ns = leg_model ? leg_model->loaded->inflection_ns : U64_MAX;
	rcu_assign_pointer(leg->leg_model, leg_model);
	write_seqcount_end(&leg->seq);
	raw_spin_unlock_irqrestore(&leg->lock, flags);
	if (!old)
		return;
	synchronize_rcu();
	linnet_leg_model_free(old);
}
