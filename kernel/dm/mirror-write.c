// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writes, flushes and discards are sent to every leg in service, and end when all of these have ended.
 *
 * A write is sent once its region is dirty on the log's disk. It succeeds if a whole leg completed it; legs that failed
 * it are out of service before it ends, so no read gets old data from them. If no whole leg completed it, it ends with
 * the error, and the last whole leg stays: it holds every acknowledged write.
 */
#include "mirror-private.h"

#define DM_MSG_PREFIX "linnet"
#define POOL_SIZE 64 /* clones that are available when memory is short; one is enough for progress */

/* One write at one leg. `record` belongs to the target; the bio follows it. */
struct clone {
	struct bio *parent;
	unsigned int leg;
	u64 record[];
};

static unsigned int clone_pad(const struct linnet_mirror *m)
{
	return ALIGN(sizeof(struct clone) + m->ops->record_size, __alignof__(struct bio));
}

int linnet_mirror_clones_init(struct linnet_mirror *m)
{
	return bioset_init(&m->clones, POOL_SIZE, clone_pad(m), 0);
}

static struct linnet_mirror_write *write_of(struct linnet_mirror *m, struct bio *bio)
{
	return dm_per_bio_data(bio, m->ti->per_io_data_size);
}

/*
 * Makes a bio that the region hash counts as a write to the same region. The hash skips discards, but they must be
 * tracked too: otherwise a copy in progress could restore on one leg what was discarded on all.
 */
static void as_write(struct bio *stand_in, const struct bio *bio)
{
	memset(stand_in, 0, sizeof(*stand_in));
	stand_in->bi_opf = REQ_OP_WRITE;
	stand_in->bi_iter.bi_sector = bio->bi_iter.bi_sector;
}

int linnet_mirror_map(struct linnet_mirror *m, struct bio *bio)
{
	struct linnet_mirror_write *write = write_of(m, bio);
	unsigned long irq;

	write->tracked = false;
	write->region = 0;
	if (!(bio->bi_opf & REQ_PREFLUSH)) {
		sector_t offset = dm_target_offset(m->ti, bio->bi_iter.bi_sector);
		sector_t left = m->region_size - (offset & (m->region_size - 1));

		write->region = dm_rh_bio_to_region(m->hash, bio);
		if (bio_op(bio) == REQ_OP_DISCARD && bio_sectors(bio) > left) /* max_io_len splits the others only */
			dm_accept_partial_bio(bio, left);
	}
	spin_lock_irqsave(&m->lock, irq);
	bio_list_add(&m->writes, bio);
	spin_unlock_irqrestore(&m->lock, irq);
	linnet_mirror_wake(m);
	return DM_MAPIO_SUBMITTED;
}

/* The mirror must not be used afterwards: the device may be on its way out. Any context. */
static void finish(struct linnet_mirror *m, struct bio *bio, blk_status_t status)
{
	struct linnet_mirror_write *write = write_of(m, bio);

	if (write->tracked)
		dm_rh_dec(m->hash, write->region);
	bio->bi_status = status;
	bio_endio(bio);
}

/* All legs have answered. The worker handles failures. */
static void answered(struct linnet_mirror *m, struct bio *bio)
{
	struct linnet_mirror_write *write = write_of(m, bio);
	unsigned long irq;

	if (!write->failed) {
		finish(m, bio, write->status);
		return;
	}
	spin_lock_irqsave(&m->lock, irq);
	bio_list_add(&m->failed, bio);
	linnet_mirror_wake(m); /* under the lock: once the worker has the bio, the mirror may be freed */
	spin_unlock_irqrestore(&m->lock, irq);
}

static void clone_ended(struct bio *bio)
{
	struct linnet_mirror *m = bio->bi_private;
	struct clone *clone = (void *)bio - clone_pad(m);
	struct bio *parent = clone->parent;
	struct linnet_mirror_write *write = write_of(m, parent);
	blk_status_t status = bio->bi_status;

	m->ops->write_end(m->ti, clone->leg, parent, clone->record, status);
	if (status) {
		WRITE_ONCE(write->status, status);
		/* A leg may decline a discard and still be good. */
		if (bio_op(parent) != REQ_OP_DISCARD || status != BLK_STS_NOTSUPP)
			set_bit(clone->leg, &write->failed);
	}
	bio_put(bio);
	if (atomic_dec_and_test(&write->left))
		answered(m, parent);
}

static void submit(struct linnet_mirror *m, struct bio *bio)
{
	struct linnet_mirror_write *write = write_of(m, bio);
	unsigned int k;

	write->legs = linnet_mirror_in_service(m);
	write->failed = 0;
	write->status = BLK_STS_OK;
	atomic_set(&write->left, 1);
	for_each_set_bit(k, &write->legs, LINNET_MIRROR_LEGS) {
		struct linnet_mirror_leg *leg = &m->legs[k];
		struct bio *copy = bio_alloc_clone(leg->bdev, bio, GFP_NOIO, &m->clones);
		struct clone *clone = (void *)copy - clone_pad(m);

		clone->parent = bio;
		clone->leg = k;
		copy->bi_private = m;
		copy->bi_end_io = clone_ended;
		/* There is no poller for it, and no caller that would retry after a leg's "try again". */
		copy->bi_opf &= ~(REQ_NOWAIT | REQ_POLLED);
		if (bio_sectors(bio))
			copy->bi_iter.bi_sector = leg->start + dm_target_offset(m->ti, bio->bi_iter.bi_sector);
		m->ops->write_begin(m->ti, k, bio, clone->record);
		atomic_inc(&write->left);
		submit_bio_noacct(copy);
	}
	if (atomic_dec_and_test(&write->left))
		answered(m, bio);
}

static void track(struct linnet_mirror *m, struct bio *bio)
{
	struct bio stand_in;
	struct bio_list one;

	as_write(&stand_in, bio);
	bio_list_init(&one);
	bio_list_add(&one, &stand_in);
	dm_rh_inc_pending(m->hash, &one);
	write_of(m, bio)->tracked = true;
}

void linnet_mirror_submit_all(struct linnet_mirror *m, struct bio_list *bios)
{
	struct bio_list ready = BIO_EMPTY_LIST;
	struct blk_plug plug;
	struct bio *bio;
	bool logged;

	if (bio_list_empty(bios))
		return;
	while ((bio = bio_list_pop(bios))) {
		struct linnet_mirror_write *write = write_of(m, bio);

		if (bio->bi_opf & REQ_PREFLUSH) {
			bio_list_add(&ready, bio);
		} else if (dm_rh_get_state(m->hash, write->region, 1) == DM_RH_RECOVERING) {
			dm_rh_delay(m->hash, bio); /* comes back when the region is finished */
		} else {
			track(m, bio);
			bio_list_add(&ready, bio);
		}
	}
	logged = dm_rh_flush(m->hash) == 0;
	if (!logged)
		DMERR_LIMIT("%s: the dirty log cannot be written: writes fail", dm_table_device_name(m->ti->table));
	blk_start_plug(&plug);
	while ((bio = bio_list_pop(&ready))) {
		if (logged || bio->bi_opf & REQ_PREFLUSH)
			submit(m, bio);
		else
			finish(m, bio, BLK_STS_IOERR);
	}
	blk_finish_plug(&plug);
}

/* All legs refused it in the same way, so the request is wrong and not the legs. */
static bool refused(const struct linnet_mirror_write *write)
{
	int error = blk_status_to_errno(write->status);

	return write->failed == write->legs && (error == -EOPNOTSUPP || error == -EINVAL);
}

static void settle(struct linnet_mirror *m, struct bio *bio)
{
	struct linnet_mirror_write *write = write_of(m, bio);
	unsigned long took = write->legs & ~write->failed;
	int error;

	if (refused(write)) {
		finish(m, bio, write->status);
		return;
	}
	error = linnet_mirror_take_out(m, write->failed, "it failed a write");
	if (took & m->whole && !error) {
		finish(m, bio, BLK_STS_OK);
		return;
	}
	if (write->tracked && took & m->stale) { /* they differ from the whole leg now */
		struct bio stand_in;

		as_write(&stand_in, bio);
		dm_rh_mark_nosync(m->hash, &stand_in);
		linnet_log_again(m, write->region);
	}
	finish(m, bio, write->status);
}

void linnet_mirror_settle_all(struct linnet_mirror *m, struct bio_list *bios)
{
	struct bio *bio;

	while ((bio = bio_list_pop(bios)))
		settle(m, bio);
}
