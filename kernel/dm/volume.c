// SPDX-License-Identifier: GPL-2.0-only
/*
 * The target `linnet` above an md array (spec/md-volume.md). Writes, flushes and discards go to md unchanged; a write
 * is entered in the ledger while it is in flight, and waits while it overlaps another. A read goes to the drive below
 * a trusted leg, chosen as among read-only replicas (policy.c). In any doubt it goes through md, also if the doubt came
 * while it was at the drive.
 *
 * The ledger has one lock. It is taken when a write begins and ends here, and when its parts arrive and end at the
 * legs. Reads take none of it.
 */
#include <linux/blkdev.h>
#include <linux/slab.h>

#include "linnet-dm.h"

#define HELD_WINDOW 128 /* held writes that are compared with another one at a time */

/*
 * Gives the lock back, and tells when a leg has become trusted or lost its trust. What the ledger says is to be seen before
 * anything that follows, above all before the write to a leg that made it say so: linnet_volume_trusted_since.
 */
static noinline void publish(struct linnet_volume *volume, unsigned long flags)
{
	const struct linnet_ledger *ledger = &volume->ledger;
	bool changed = volume->trusted != ledger->trusted;
	u32 k;

	for (k = 0; k < ledger->count; k++)
		WRITE_ONCE(volume->trusted_in[k], ledger->trusted & BIT(k) ? ledger->legs[k].generation : 0);
	WRITE_ONCE(volume->trusted, ledger->trusted);
	volume->published = ledger->generations;
	smp_wmb();
	spin_unlock_irqrestore(&volume->lock, flags);
	if (changed)
		linnet_dm_changed(volume->dm);
}

/* Gives the lock back after the ledger may have changed. */
static __always_inline void unlock_changed(struct linnet_volume *volume, unsigned long flags)
{
	if (likely(volume->published == volume->ledger.generations && volume->trusted == volume->ledger.trusted))
		spin_unlock_irqrestore(&volume->lock, flags);
	else
		publish(volume, flags);
}

/* ---- reads ---- */

void linnet_volume_through(struct linnet_volume *volume, struct bio *bio)
{
	bio_set_dev(bio, volume->md->bdev);
	if (bio_sectors(bio))
		bio->bi_iter.bi_sector = dm_target_offset(volume->dm->ti, bio->bi_iter.bi_sector);
}

static bool wants_steering(struct linnet_volume *volume, const struct bio *bio)
{
	const struct linnet_settings *settings = &volume->dm->settings;

	/*
	 * With one trusted leg there is no choice, and md knows more legs. Its size may have been reduced below ours.
	 */
	return READ_ONCE(settings->on) && READ_ONCE(settings->policy) != LINNET_BASELINE &&
	       hweight8(READ_ONCE(volume->trusted)) > 1 &&
	       dm_target_offset(volume->dm->ti, bio_end_sector(bio)) <= bdev_nr_sectors(volume->md->bdev);
}

struct block_device *linnet_volume_enter(struct linnet_volume *volume, struct linnet_leg *leg, u64 *generation)
{
	struct block_device *bdev = linnet_member_enter(leg->member);

	*generation = READ_ONCE(volume->trusted_in[leg->index]);
	if (bdev && !*generation) {
		linnet_member_leave(leg->member);
		bdev = NULL;
	}
	return bdev;
}

bool linnet_volume_steer(struct linnet_volume *volume, struct bio *bio, struct linnet_io *io)
{
	struct linnet_dm *dm = volume->dm;
	struct block_device *bdev;
	struct linnet_leg *leg;

	if (!wants_steering(volume, bio))
		return false;
	if (!linnet_route(dm, bio, io, false)) {
		io->status = BLK_STS_OK;
		return false;
	}
	leg = &dm->legs[io->leg];
	bdev = linnet_volume_enter(volume, leg, &io->generation);
	if (bdev) {
		sector_t sector = dm_target_offset(dm->ti, bio->bi_iter.bi_sector);

		if (likely(linnet_leg_reaches(leg, sector + bio_sectors(bio)))) {
			bio_set_dev(bio, bdev);
			bio->bi_iter.bi_sector = leg->member->start + leg->start + sector;
			return true;
		}
		linnet_member_leave(leg->member);
	}
	linnet_leg_end(leg, io->record, true, io->id, BLK_STS_AGAIN);
	io->leg = LINNET_NO_LEG;
	bio->bi_opf &= ~io->failfast; /* md is the last that could serve it */
	return false;
}

void linnet_volume_steered(struct linnet_volume *volume, u32 leg)
{
	linnet_member_leave(volume->dm->legs[leg].member);
}

/* ---- writes ---- */

static bool overlaps_any(const struct bio_list *writes, const struct linnet_extent *extent)
{
	struct bio *bio;

	bio_list_for_each(bio, writes) {
		const struct linnet_io *io = dm_per_bio_data(bio, sizeof(*io));

		if (io->write.extent.start < extent->end && extent->start < io->write.extent.end)
			return true;
	}
	return false;
}

int linnet_volume_map(struct linnet_volume *volume, struct bio *bio, struct linnet_io *io)
{
	struct linnet_extent *extent = &io->write.extent;
	unsigned long flags;

	io->write.serial = 0;
	if (!bio_sectors(bio)) {
		linnet_volume_through(volume, bio);
		return DM_MAPIO_REMAPPED;
	}
	extent->start = dm_target_offset(volume->dm->ti, bio->bi_iter.bi_sector);
	extent->end = extent->start + bio_sectors(bio);
	extent->op = bio_op(bio);
	extent->identity = extent->op == REQ_OP_WRITE ? bio->bi_io_vec : NULL;
	spin_lock_irqsave(&volume->lock, flags);
	/*
	 * A program may have any number of writes held back, as it need not wait for them. Interrupts are off here, so no
	 * more than a window of them is compared: behind that, every write waits for its turn.
	 */
	if (volume->waiting >= HELD_WINDOW || (volume->waiting && overlaps_any(&volume->held, extent)) ||
	    linnet_ledger_begin(&volume->ledger, &io->write)) {
		bio_list_add(&volume->held, bio);
		volume->waiting++;
		volume->held_count++;
		spin_unlock_irqrestore(&volume->lock, flags);
		return DM_MAPIO_SUBMITTED;
	}
	spin_unlock_irqrestore(&volume->lock, flags);
	linnet_volume_through(volume, bio);
	return DM_MAPIO_REMAPPED;
}

/*
 * Sends those of the first held writes that wait for none any more, each of the others after those that came before it.
 * While any is held, a write is in flight, at whose end this runs again: the first that is held overlaps one, or is sent.
 */
static void release(struct work_struct *work)
{
	struct linnet_volume *volume = container_of(work, struct linnet_volume, release);
	struct bio_list ready, waiting;
	struct bio *bio;
	u32 n;

	bio_list_init(&ready);
	bio_list_init(&waiting);
	spin_lock_irq(&volume->lock);
	for (n = 0; n < HELD_WINDOW && (bio = bio_list_pop(&volume->held)); n++) {
		struct linnet_io *io = dm_per_bio_data(bio, sizeof(*io));

		if (overlaps_any(&waiting, &io->write.extent) || linnet_ledger_begin(&volume->ledger, &io->write)) {
			bio_list_add(&waiting, bio);
			continue;
		}
		bio_list_add(&ready, bio);
		volume->waiting--;
	}
	bio_list_merge_head(&volume->held, &waiting);
	spin_unlock_irq(&volume->lock);
	while ((bio = bio_list_pop(&ready))) {
		/* No submitter waits any more, and one that is turned away now would not be asked again. */
		bio->bi_opf &= ~REQ_NOWAIT;
		linnet_volume_through(volume, bio);
		submit_bio_noacct(bio);
	}
}

void linnet_volume_end(struct linnet_volume *volume, struct linnet_io *io, blk_status_t status)
{
	unsigned long flags;
	bool waits;

	if (!io->write.serial)
		return;
	spin_lock_irqsave(&volume->lock, flags);
	if (unlikely(status == BLK_STS_AGAIN)) /* of a REQ_NOWAIT write that md would have had to hold back */
		linnet_ledger_withdraw(&volume->ledger, &io->write);
	else
		linnet_ledger_end(&volume->ledger, &io->write);
	waits = !bio_list_empty(&volume->held);
	unlock_changed(volume, flags);
	if (waits)
		queue_work(volume->queue, &volume->release);
}

/* ---- what md does at the legs ---- */

/*
 * The sectors of the volume that a member's write changes: false if none, as for md's superblock and bitmap. A write
 * that only begins or ends among them is none of the volume's, and nothing of the volume's has the ledger's address.
 * Inline, because each part of a write asks twice.
 */
static __always_inline bool extent_of(struct linnet_volume *volume, u32 leg, const struct linnet_member_io *io,
				      struct linnet_extent *extent)
{
	u64 first = volume->dm->legs[leg].start, last = first + volume->dm->ti->len;
	u64 start = io->start, end = io->start + io->sectors;

	if (!op_is_write(io->op) || end <= first || start >= last || !io->sectors)
		return false;
	extent->op = io->op;
	extent->identity = start >= first && end <= last ? io->identity : &volume->ledger;
	extent->start = max(start, first) - first;
	extent->end = min(end, last) - first;
	return true;
}

void linnet_volume_member_arrives(struct linnet_volume *volume, u32 leg, struct bio *bio, struct linnet_member_io *io)
{
	struct linnet_leg *l = &volume->dm->legs[leg];
	struct linnet_extent extent;
	unsigned long flags;

	if (io->sectors && (io->op == REQ_OP_READ || io->op == REQ_OP_WRITE)) {
		io->record = linnet_leg_arrive(l, ktime_get_ns(), io->op == REQ_OP_READ, false, io->start - l->start,
					       bio->bi_iter.bi_size);
		io->leg = l;
	}
	if (!extent_of(volume, leg, io, &extent))
		return;
	spin_lock_irqsave(&volume->lock, flags);
	io->serial = linnet_ledger_arrive(&volume->ledger, &extent);
	unlock_changed(volume, flags);
}

void linnet_volume_member_ends(struct linnet_volume *volume, u32 leg, const struct linnet_member_io *io, bool failed)
{
	struct linnet_extent extent;
	unsigned long flags;

	if (!extent_of(volume, leg, io, &extent)) {
		if (failed)
			linnet_volume_doubt(volume, leg, LINNET_DOUBT_ERROR);
		return;
	}
	spin_lock_irqsave(&volume->lock, flags);
	linnet_ledger_report(&volume->ledger, leg, &extent, io->serial, failed);
	unlock_changed(volume, flags);
}

void linnet_volume_doubt(struct linnet_volume *volume, u32 leg, enum linnet_doubt doubt)
{
	unsigned long flags;

	spin_lock_irqsave(&volume->lock, flags);
	linnet_ledger_doubt(&volume->ledger, leg, doubt);
	unlock_changed(volume, flags);
}

int linnet_volume_trust(struct linnet_volume *volume, u32 leg, u64 generation)
{
	unsigned long flags;
	int refused;

	spin_lock_irqsave(&volume->lock, flags);
	refused = linnet_ledger_trust(&volume->ledger, leg, generation);
	unlock_changed(volume, flags);
	return refused ? -ESTALE : 0;
}

static void doubt_legs(struct linnet_volume *volume, enum linnet_doubt doubt)
{
	u32 k;

	for (k = 0; k < volume->dm->leg_count; k++)
		linnet_volume_doubt(volume, k, doubt);
}

void linnet_volume_reset(struct linnet_volume *volume)
{
	u32 k;

	spin_lock_irq(&volume->lock);
	WRITE_ONCE(volume->held_count, 0);
	for (k = 0; k < volume->dm->leg_count; k++) {
		struct linnet_ledger_leg *leg = &volume->ledger.legs[k];

		leg->identified = 0;
		memset(leg->doubts, 0, sizeof(leg->doubts));
	}
	spin_unlock_irq(&volume->lock);
}

void linnet_volume_distrust(struct linnet_volume *volume)
{
	doubt_legs(volume, LINNET_DOUBT_TOLD);
}

/* ---- lifetime ---- */

int linnet_volume_resume(struct linnet_volume *volume)
{
	struct linnet_dm *dm = volume->dm;
	int error;

	while (volume->attached < dm->leg_count) {
		error = linnet_member_attach(dm->legs[volume->attached].member, volume, volume->attached);
		if (error) {
			DMERR("%s: leg %u (%s) belongs to another volume", dm_table_device_name(dm->ti->table),
			      volume->attached, dm->legs[volume->attached].member->name);
			linnet_volume_suspend(volume);
			return error;
		}
		volume->attached++;
	}
	/*
	 * Until now what md did to the legs was not seen here. Trust that was given meanwhile is void: md may have
	 * failed the leg since, and be rebuilding it.
	 */
	doubt_legs(volume, LINNET_DOUBT_NEW);
	return 0;
}

void linnet_volume_suspend(struct linnet_volume *volume)
{
	doubt_legs(volume, LINNET_DOUBT_SUSPENDED);
	while (volume->attached) {
		volume->attached--;
		linnet_member_detach(volume->dm->legs[volume->attached].member);
	}
}

int linnet_volume_create(struct linnet_dm *dm, const char *path)
{
	struct linnet_volume *volume = kzalloc(sizeof(*volume), GFP_KERNEL);
	struct dm_target *ti = dm->ti;
	int error;

	if (!volume)
		return -ENOMEM;
	dm->volume = volume;
	volume->dm = dm;
	spin_lock_init(&volume->lock);
	bio_list_init(&volume->held);
	INIT_WORK(&volume->release, release);
	linnet_ledger_init(&volume->ledger, dm->leg_count, ktime_get_ns());
	volume->queue = alloc_workqueue("dm-linnet-held", WQ_MEM_RECLAIM, 0);
	if (!volume->queue) {
		ti->error = "Not enough memory";
		return -ENOMEM;
	}
	error = dm_get_device(ti, path, dm_table_get_mode(ti->table), &volume->md);
	if (error)
		ti->error = "Cannot open the md device";
	return error;
}

int linnet_volume_find_legs(struct linnet_dm *dm, struct dm_arg_set *args)
{
	struct dm_target *ti = dm->ti;
	u32 k, i;

	for (k = 0; k < dm->leg_count; k++) {
		const char *path = dm_shift_arg(args), *offset = dm_shift_arg(args);
		struct linnet_leg *leg = &dm->legs[k];
		struct linnet_member *member;
		unsigned long long start;
		char rest;

		if (!path || !offset || sscanf(offset, "%llu%c", &start, &rest) != 1 || start != (sector_t)start) {
			ti->error = "A leg is <device> <data offset in sectors>";
			return -EINVAL;
		}
		leg->start = start;
		member = linnet_member_get(path);
		if (IS_ERR(member)) {
			ti->error = "A leg is no device of the target linnet-leg";
			return PTR_ERR(member);
		}
		leg->member = member;
		for (i = 0; i < k; i++)
			if (dm->legs[i].member == member) {
				ti->error = "A leg is given twice";
				return -EINVAL;
			}
	}
	return 0;
}

void linnet_volume_destroy(struct linnet_dm *dm)
{
	u32 k;

	/* No write is held any more, but `release` may be queued, and looks. */
	if (dm->volume->queue)
		destroy_workqueue(dm->volume->queue);
	for (k = 0; k < dm->leg_count; k++)
		if (dm->legs[k].member)
			linnet_member_put(dm->legs[k].member);
	if (dm->volume->md)
		dm_put_device(dm->ti, dm->volume->md);
	kfree(dm->volume);
}
