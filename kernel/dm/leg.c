// SPDX-License-Identifier: GPL-2.0-only
/*
 * One leg: arrivals and ends of its I/Os. When they change its state, and which CPU changes it, is digest.c's concern.
 *
 * An I/O is recorded once, as the bio that the target maps, and ends when that bio ends. A bio that the driver below
 * splits ends here when its last part has completed.
 */
#include <linux/moduleparam.h>
#include <linux/slab.h>

#include "linnet-dm.h"

static uint places = 1024;
module_param(places, uint, 0444);
MODULE_PARM_DESC(places, "I/Os that the in-flight tracker of each replica follows at a time, 16 to 65536; more are counted as untracked");

int linnet_leg_init(struct linnet_leg *leg, struct linnet_dm *dm, u32 index)
{
	u32 count = clamp(places, 16U, 65536U);

	leg->dm = dm;
	leg->index = index;
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

struct linnet_inflight_record *linnet_leg_arrive(struct linnet_leg *leg, u64 now_ns, bool is_read, bool probe, sector_t sector,
						 u32 size_bytes)
{
	struct linnet_inflight_record *record;
	struct linnet_dm *dm = leg->dm;
	bool locked;

	local_bh_disable();
	record = linnet_record_take(dm);
	locked = linnet_digest_enter(dm, now_ns, false);
	linnet_digest_arrive(leg, record, locked, now_ns, is_read, probe, sector, size_bytes);
	if (locked)
		linnet_digest_leave(dm);
	local_bh_enable();
	return record;
}

static void count_read(struct linnet_leg *leg, u64 latency_ns)
{
	u32 bucket = fls64(latency_ns / LINNET_BUCKET_NS);

	this_cpu_inc(leg->counts->reads);
	this_cpu_inc(leg->counts->latency[min(bucket, (u32)LINNET_BUCKETS - 1)]);
}

/* What is no read that succeeded. */
static void count_other(struct linnet_leg *leg, blk_status_t status)
{
	if (status == BLK_STS_OK)
		this_cpu_inc(leg->counts->writes);
	else if (linnet_is_error(status))
		this_cpu_inc(leg->counts->errors);
}

/* Errors come in bursts, so the log gets some of them; the counters get all. */
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

void linnet_legs_turned(struct linnet_dm *dm, u32 legs)
{
	for (; legs; legs &= legs - 1) {
		struct linnet_leg *leg = &dm->legs[__ffs(legs)];

		set_out(leg, READ_ONCE(leg->state.errors_in_row) >= dm->settings.errors_max);
	}
}

/* Nobody knows when it arrived, so it has no latency. */
void linnet_leg_end_unrecorded(struct linnet_leg *leg, bool is_read, blk_status_t status)
{
	if (is_read && status == BLK_STS_OK)
		this_cpu_inc(leg->counts->reads);
	else
		count_other(leg, status);
}

void linnet_record_end(struct linnet_inflight_record *record, u64 id, blk_status_t status)
{
	struct linnet_leg *leg = record->leg;
	u64 now_ns = ktime_get_ns();

	/* Another CPU's clock may be ahead of this one's. */
	if (likely(record->is_read && status == BLK_STS_OK))
		count_read(leg, now_ns > record->arrival.at_ns ? now_ns - record->arrival.at_ns : 0);
	else
		count_other(leg, status);
	record->end = (struct linnet_event){ .at_ns = now_ns, .is_end = true };
	record->id = id;
	record->status = status;
	linnet_digest_end(record);
}

void linnet_leg_pardon(struct linnet_leg *leg)
{
	linnet_digest_lock(leg->dm);
	linnet_replica_pardon(&leg->state);
	linnet_digest_unlock(leg->dm);
	clear_bit(LINNET_LEG_OUT, &leg->flags);
}

void linnet_leg_set_model(struct linnet_leg *leg, struct linnet_leg_model *leg_model)
{
	struct linnet_leg_model *old;

	linnet_digest_lock(leg->dm);
	old = rcu_dereference_protected(leg->leg_model, lockdep_is_held(&leg->dm->digest.lock));
	linnet_replica_set_incremental(&leg->state, leg_model ? leg_model->net : NULL);
	leg->state.inflight.inflection_ns = leg_model ? leg_model->loaded->inflection_ns : U64_MAX;
	rcu_assign_pointer(leg->leg_model, leg_model);
	linnet_digest_unlock(leg->dm);
	if (!old)
		return;
	synchronize_rcu();
	linnet_leg_model_free(old);
}
