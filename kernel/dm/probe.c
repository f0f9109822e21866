// SPDX-License-Identifier: GPL-2.0-only
/*
 * Probes of the target's own (spec/dm-target.md): where the core makes a read the probe of a leg, or where the read
 * would be the first after the leg's time out of service, policy.c sends the read elsewhere, and a small read of our
 * own to the leg. So no application waits for a drive in doubt, and none gets its errors.
 *
 * Each leg has the memory of one probe, which is allocated with the table: nothing is allocated when one is sent, and
 * no leg has two. A worker sends it, because the submitter of the application's read must not wait for the queue of a
 * drive that it does not read. It is recorded when it is sent, so the worker's delay is no part of its latency. It is
 * an I/O of the leg as any other: its end feeds the average, the features and the errors in a row. What it has read is
 * never looked at.
 *
 * LINNET_LEG_PROBED is set from the decision to the probe's end.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>
#include <linux/wait_bit.h>

#include "probe.h"

static void finish(struct linnet_leg *leg)
{
	/* Nothing of the target may be touched afterwards: linnet_probe_drain has been waiting for this. */
	clear_and_wake_up_bit(LINNET_LEG_PROBED, &leg->flags);
}

static void probe_ended(struct bio *bio)
{
	struct linnet_probe *probe = bio->bi_private;
	struct linnet_leg *leg = probe->leg;
	struct linnet_dm *dm = leg->dm;

	linnet_leg_end(leg, probe->record, true, probe->id, bio->bi_status);
	if (dm->volume)
		linnet_volume_steered(dm->volume, leg->index);
	bio_uninit(bio);
	finish(leg);
}

static void send(struct work_struct *work)
{
	struct linnet_probe *probe = container_of(work, struct linnet_probe, work);
	struct linnet_leg *leg = probe->leg;
	struct linnet_dm *dm = leg->dm;
	u64 generation; /* of no use: nobody gets the data */
	struct block_device *bdev = dm->volume ? linnet_volume_enter(dm->volume, leg, &generation) : leg->dev->bdev;

	if (bdev && dm->volume && !linnet_leg_reaches(leg, probe->sector + (probe->size_bytes >> SECTOR_SHIFT))) {
		linnet_member_leave(leg->member);
		bdev = NULL;
	}
	if (!bdev) {
		this_cpu_inc(dm->counts->unprobed);
		finish(leg);
		return;
	}
	bio_init(&probe->bio, bdev, &probe->vec, 1, REQ_OP_READ | LINNET_FAILFAST);
	__bio_add_page(&probe->bio, probe->page, probe->size_bytes, 0);
	probe->bio.bi_iter.bi_sector = (dm->volume ? leg->member->start : 0) + leg->start + probe->sector;
	probe->bio.bi_end_io = probe_ended;
	probe->bio.bi_private = probe;
	this_cpu_inc(dm->counts->own_probes);
	probe->record = linnet_leg_arrive(leg, ktime_get_ns(), true, true, probe->sector, probe->size_bytes);
	submit_bio_noacct(&probe->bio);
}

bool linnet_probe_start(struct linnet_leg *leg, u64 id, sector_t sector, u32 size_bytes)
{
	struct linnet_probe *probe = leg->probe;

	if (test_and_set_bit(LINNET_LEG_PROBED, &leg->flags)) {
		this_cpu_inc(leg->dm->counts->unprobed);
		return false;
	}
	probe->id = id;
	probe->sector = sector;
	probe->size_bytes = min(size_bytes, probe->size_max);
	schedule_work(&probe->work);
	return true;
}

/* The least that a drive reads, if that is more than a page. */
static u32 block_bytes(const struct linnet_dm *dm)
{
	u32 most = PAGE_SIZE, k;

	if (dm->volume)
		return max_t(u32, most, bdev_logical_block_size(dm->volume->md->bdev));
	for (k = 0; k < dm->leg_count; k++)
		most = max_t(u32, most, bdev_logical_block_size(dm->legs[k].dev->bdev));
	return most;
}

int linnet_probe_create(struct linnet_dm *dm)
{
	u32 size_max = block_bytes(dm), k;

	for (k = 0; dm->leg_count > 1 && k < dm->leg_count; k++) {
		struct linnet_probe *probe = kzalloc(sizeof(*probe), GFP_KERNEL);

		if (!probe)
			return -ENOMEM;
		dm->legs[k].probe = probe;
		probe->leg = &dm->legs[k];
		probe->size_max = size_max;
		INIT_WORK(&probe->work, send);
		probe->page = alloc_pages(GFP_KERNEL | __GFP_COMP, get_order(size_max));
		if (!probe->page)
			return -ENOMEM;
	}
	return 0;
}

void linnet_probe_drain(struct linnet_dm *dm)
{
	u32 k;

	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_leg *leg = &dm->legs[k];

		if (!leg->probe)
			continue;
		/* One that waits for a worker is given up: a new worker may need memory, which may need this device. */
		if (cancel_work_sync(&leg->probe->work))
			finish(leg);
		wait_on_bit(&leg->flags, LINNET_LEG_PROBED, TASK_UNINTERRUPTIBLE);
	}
}

void linnet_probe_destroy(struct linnet_dm *dm)
{
	u32 k;

	linnet_probe_drain(dm);
	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_probe *probe = dm->legs[k].probe;

		if (probe && probe->page)
			__free_pages(probe->page, get_order(probe->size_max));
		kfree(probe);
	}
}
