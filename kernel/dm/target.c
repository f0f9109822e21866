// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device-mapper target `linnet`: several replicas of one volume, each read sent to the one that is predicted fast
 * (spec/dm-target.md).
 *
 * A read that fails at a leg is put on a list, and a work queue sends it to another, because bios may end in a context
 * that cannot submit. The original state of the bio is kept for that.
 */
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "linnet-dm.h"

/*
 * digest.c frees memory under a raw lock when a read is revoked, and keeps lists of a CPU to itself by softirqs that are
 * off. Nothing of it has been run on such a kernel.
 */
#ifdef CONFIG_PREEMPT_RT
#error "dm-linnet does not run on kernels with CONFIG_PREEMPT_RT"
#endif

/* Kernels before 6.5 have another name for the mode of a table's device. */
#ifndef BLK_OPEN_WRITE
#define BLK_OPEN_WRITE FMODE_WRITE
#endif

static void changed(struct work_struct *work)
{
	struct linnet_dm *dm = container_of(work, struct linnet_dm, event);
	struct gendisk *disk = dm_disk(dm_table_get_md(dm->ti->table));
	char *words[] = { "DM_TARGET=linnet", "DM_ACTION=STATUS_CHANGED", NULL };

	dm_table_event(dm->ti->table);
	kobject_uevent_env(&disk_to_dev(disk)->kobj, KOBJ_CHANGE, words);
}

/* ---- bios ---- */

static void restore(struct bio *bio, const struct linnet_io *io)
{
	bio->bi_iter = io->iter;
	bio->bi_flags = io->bio_flags;
	bio->bi_status = BLK_STS_OK;
	/*
	 * Its former leg's driver may have put flags of its own into it, as NVMe's multipath does, which another driver would
	 * take for its own; and drivers that split it have counted its parts. A poller must not look for it there. The worker
	 * may wait. It must: BLK_STS_AGAIN would come too late for io_uring, which submits again only while it submits.
	 */
	bio->bi_opf = io->opf & ~(REQ_POLLED | REQ_NOWAIT);
	WRITE_ONCE(bio->bi_cookie, BLK_QC_T_NONE);
	atomic_set(&bio->__bi_remaining, 1);
}

static void resend(struct work_struct *work)
{
	struct linnet_dm *dm = container_of(work, struct linnet_dm, resend);
	struct bio_list bios;
	struct bio *bio;

	spin_lock_irq(&dm->resend_lock);
	bios = dm->resend_bios;
	bio_list_init(&dm->resend_bios);
	spin_unlock_irq(&dm->resend_lock);
	while ((bio = bio_list_pop(&bios))) {
		struct linnet_io *io = dm_per_bio_data(bio, sizeof(*io));

		restore(bio, io);
		if (dm->volume) {
			this_cpu_inc(dm->counts->failovers);
			linnet_volume_through(dm->volume, bio);
			submit_bio_noacct(bio);
			continue;
		}
		if (linnet_route(dm, bio, io, false)) {
			this_cpu_inc(dm->counts->failovers);
			linnet_leg_remap(&dm->legs[io->leg], bio);
			submit_bio_noacct(bio);
		} else {
			bio->bi_status = io->status;
			bio_endio(bio);
		}
	}
}

/* A read that points at its leg. */
static int sent(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io)
{
	return READ_ONCE(dm->hedges) && linnet_hedge_read(dm, bio, io) ? DM_MAPIO_SUBMITTED : DM_MAPIO_REMAPPED;
}

static int map_read(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io)
{
	this_cpu_inc(dm->counts->reads);
	io->iter = bio->bi_iter;
	io->opf = bio->bi_opf;
	io->bio_flags = bio->bi_flags;
	if (dm->volume) {
		if (!linnet_volume_steer(dm->volume, bio, io)) {
			linnet_volume_through(dm->volume, bio);
			return DM_MAPIO_REMAPPED;
		}
		this_cpu_inc(dm->counts->steered);
		return sent(dm, bio, io);
	}
	if (!linnet_route(dm, bio, io, true)) {
		bio->bi_status = io->status;
		bio_endio(bio);
		return DM_MAPIO_SUBMITTED;
	}
	linnet_leg_remap(&dm->legs[io->leg], bio);
	return sent(dm, bio, io);
}

/* One leg: all bios pass through. */
static int map_through(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io)
{
	struct linnet_leg *leg = &dm->legs[0];

	if (bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio)) {
		this_cpu_inc(dm->counts->writes);
		io->id = linnet_next_id(dm);
		io->record = linnet_leg_arrive(leg, ktime_get_ns(), false, false,
					       dm_target_offset(dm->ti, bio->bi_iter.bi_sector), bio->bi_iter.bi_size);
		io->leg = 0;
	}
	linnet_leg_remap(leg, bio);
	return DM_MAPIO_REMAPPED;
}

static int linnet_map(struct dm_target *ti, struct bio *bio)
{
	struct linnet_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct linnet_dm *dm = ti->private;

	io->leg = LINNET_NO_LEG;
	io->tried = 0;
	io->status = BLK_STS_OK;
	io->hasty = 0;
	io->patient = false;
	if (bio_op(bio) == REQ_OP_READ)
		return map_read(dm, bio, io);
	if (dm->volume) {
		if (bio_op(bio) == REQ_OP_WRITE && bio_sectors(bio))
			this_cpu_inc(dm->counts->writes);
		return linnet_volume_map(dm->volume, bio, io);
	}
	if (dm->leg_count == 1)
		return map_through(dm, bio, io);
	return DM_MAPIO_KILL;
}

void linnet_send_again(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, blk_status_t status)
{
	unsigned long flags;

	io->status = status;
	spin_lock_irqsave(&dm->resend_lock, flags);
	bio_list_add(&dm->resend_bios, bio);
	/* Under the lock: once it is free, a worker that runs already may send the bio, and when that ends the target may go. */
	queue_work(dm->queue, &dm->resend);
	spin_unlock_irqrestore(&dm->resend_lock, flags);
}

/* It has failed at this leg. */
static int failed(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, u32 leg, blk_status_t status)
{
	if (linnet_is_answer(dm, bio->bi_opf, status) || bio_op(bio) != REQ_OP_READ || dm->leg_count == 1)
		return DM_ENDIO_DONE;
	io->tried |= BIT(leg);
	if (io->failfast)
		io->hasty |= BIT(leg);
	linnet_send_again(dm, bio, io, status);
	return DM_ENDIO_INCOMPLETE;
}

static int end_above_md(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, blk_status_t status)
{
	u32 leg = io->leg;

	if (bio_op(bio) != REQ_OP_READ)
		linnet_volume_end(dm->volume, io, status);
	if (leg == LINNET_NO_LEG)
		return DM_ENDIO_DONE;
	linnet_leg_end(&dm->legs[leg], io->record, true, io->id, status);
	linnet_volume_steered(dm->volume, leg);
	io->leg = LINNET_NO_LEG;
	if (unlikely(status != BLK_STS_OK))
		return failed(dm, bio, io, leg, status);
	if (likely(linnet_volume_trusted_since(dm->volume, leg, io->generation)))
		return DM_ENDIO_DONE;
	/* No error of the leg, but its data may not be the volume's. */
	linnet_send_again(dm, bio, io, status);
	return DM_ENDIO_INCOMPLETE;
}

static int linnet_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct linnet_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct linnet_dm *dm = ti->private;
	u32 leg = io->leg;

	if (dm->volume)
		return end_above_md(dm, bio, io, *error);
	if (leg == LINNET_NO_LEG)
		return DM_ENDIO_DONE;
	linnet_leg_end(&dm->legs[leg], io->record, bio_op(bio) == REQ_OP_READ, io->id, *error);
	io->leg = LINNET_NO_LEG;
	return likely(*error == BLK_STS_OK) ? DM_ENDIO_DONE : failed(dm, bio, io, leg, *error);
}

/* ---- lifetime ---- */

static void destroy(struct linnet_dm *dm)
{
	u32 k;

	linnet_hedge_destroy(dm);
	linnet_probe_destroy(dm);
	if (dm->volume)
		linnet_volume_suspend(dm->volume);
	if (dm->queue)
		destroy_workqueue(dm->queue);
	linnet_digest_destroy(dm);    /* the last ends may turn a leg */
	cancel_work_sync(&dm->event); /* nothing is left that could change */
	if (dm->volume)
		linnet_volume_destroy(dm);
	for (k = 0; k < dm->leg_count; k++)
		linnet_leg_free(&dm->legs[k]);
	free_percpu(dm->counts);
	mutex_destroy(&dm->control);
	kvfree(dm);
}

static int open_legs(struct linnet_dm *dm, struct dm_arg_set *args)
{
	struct dm_target *ti = dm->ti;
	unsigned long long start;
	char dummy;
	u32 k;

	if (dm->volume)
		return linnet_volume_find_legs(dm, args);
	for (k = 0; k < dm->leg_count; k++) {
		struct linnet_leg *leg = &dm->legs[k];
		const char *path = dm_shift_arg(args), *offset = dm_shift_arg(args);
		int error;

		if (!path || !offset || sscanf(offset, "%llu%c", &start, &dummy) != 1 || start != (sector_t)start) {
			ti->error = "A replica is <device> <offset in sectors>";
			return -EINVAL;
		}
		leg->start = start;
		error = dm_get_device(ti, path, dm_table_get_mode(ti->table), &leg->dev);
		if (error) {
			ti->error = "Cannot open a replica";
			return error;
		}
	}
	return 0;
}

/*
 * If a model cannot be loaded, the target works without it. While the device is suspended none is: the file may lie on this
 * very device, and who suspended it waits for the new table.
 */
static void load_models(struct linnet_dm *dm)
{
	bool held = dm_suspended(dm->ti);
	u32 done = 0, k, i;

	mutex_lock(&dm->control);
	for (k = 0; k < dm->leg_count; k++) {
		u32 legs = 0;

		if (!dm->legs[k].model[0] || done & BIT(k))
			continue;
		for (i = k; i < dm->leg_count; i++)
			if (!strcmp(dm->legs[i].model, dm->legs[k].model))
				legs |= BIT(i);
		done |= legs;
		if (!held && linnet_models_load(dm, legs, dm->legs[k].model) == 0)
			continue;
		for (i = k; i < dm->leg_count; i++)
			if (legs & BIT(i))
				set_bit(LINNET_LEG_BAD_MODEL, &dm->legs[i].flags);
	}
	if (held && done)
		DMERR("%s: the table is loaded while the device is suspended, so no model is read: send `load` after the resume",
		      dm_table_device_name(dm->ti->table));
	mutex_unlock(&dm->control);
}

static struct linnet_dm *create(struct dm_target *ti, u32 leg_count)
{
	/* Legs must be on their own cache lines, and only powers of two are aligned to more than a word. */
	struct linnet_dm *dm = kvzalloc(roundup_pow_of_two(struct_size(dm, legs, leg_count)), GFP_KERNEL);
	u32 k;

	if (!dm)
		return NULL;
	dm->ti = ti;
	dm->suspending = true;
	mutex_init(&dm->control);
	spin_lock_init(&dm->resend_lock);
	bio_list_init(&dm->resend_bios);
	INIT_WORK(&dm->resend, resend);
	INIT_WORK(&dm->event, changed);
	dm->counts = alloc_percpu(struct linnet_counts);
	dm->queue = alloc_workqueue("dm-linnet", WQ_MEM_RECLAIM, 0);
	if (!dm->counts || !dm->queue || linnet_digest_create(dm))
		goto bad;
	for (k = 0; k < leg_count; k++) {
		dm->leg_count = k + 1;
		if (linnet_leg_init(&dm->legs[k], dm, k))
			goto bad;
	}
	return dm;
bad:
	destroy(dm);
	return NULL;
}

static int linnet_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	static const struct dm_arg replicas_arg = { 1, LINNET_REPLICAS_MAX, "The number of replicas is 1 to 8" };
	static const struct dm_arg legs_arg = { 2, LINNET_REPLICAS_MAX, "The number of legs above md is 2 to 8" };
	struct dm_arg_set args = { .argc = argc, .argv = argv };
	const char *array = NULL;
	unsigned int leg_count;
	struct linnet_dm *dm;
	int error;

	if (argc > 1 && !strcmp(argv[0], "md")) {
		dm_shift_arg(&args);
		array = dm_shift_arg(&args);
	}
	error = dm_read_arg(array ? &legs_arg : &replicas_arg, &args, &leg_count, &ti->error);
	if (error)
		return error;
	dm = create(ti, leg_count);
	if (!dm) {
		ti->error = "Not enough memory";
		return -ENOMEM;
	}
	ti->private = dm;
	ti->per_io_data_size = sizeof(struct linnet_io);
	error = array ? linnet_volume_create(dm, array) : 0;
	if (!error)
		error = open_legs(dm, &args);
	if (!error)
		error = linnet_table_parse(dm, &args);
	if (!error && leg_count > 1 && !array && dm_table_get_mode(ti->table) & BLK_OPEN_WRITE) {
		ti->error = "Replicas do not change: load the table with --readonly; a volume that is written stands above md (linnet dm create --md)";
		error = -EROFS;
	}
	if (error) {
		destroy(dm);
		return error;
	}
	if (leg_count == 1 || array) {
		ti->num_flush_bios = 1;
		ti->num_discard_bios = 1;
		ti->num_secure_erase_bios = 1;
		ti->num_write_zeroes_bios = 1;
	}
	load_models(dm);
	if (linnet_probe_create(dm) || (dm->hedge_percent && linnet_hedge_set(dm, dm->hedge_percent))) {
		ti->error = "Not enough memory";
		destroy(dm);
		return -ENOMEM;
	}
	return 0;
}

static void linnet_dtr(struct dm_target *ti)
{
	destroy(ti->private);
}

/*
 * A message is handled on the live table, which a suspend waits for. So a model must not be read from a file system on
 * this very device while its I/O is held: a load that runs ends here, before I/O is held, and none begins until resume.
 */
static void linnet_presuspend(struct dm_target *ti)
{
	struct linnet_dm *dm = ti->private;

	mutex_lock(&dm->control);
	WRITE_ONCE(dm->suspending, true);
	mutex_unlock(&dm->control);
}

/* It was resumed, or is not suspended after all. A resume that is refused, by this target or another, leaves it suspended. */
static void linnet_resume(struct dm_target *ti)
{
	struct linnet_dm *dm = ti->private;

	WRITE_ONCE(dm->suspending, false);
}

static void linnet_postsuspend(struct dm_target *ti)
{
	struct linnet_dm *dm = ti->private;

	linnet_hedge_drain(dm);
	linnet_probe_drain(dm);
	if (dm->volume)
		linnet_volume_suspend(dm->volume);
}

static int linnet_preresume(struct dm_target *ti)
{
	struct linnet_dm *dm = ti->private;

	return dm->volume ? linnet_volume_resume(dm->volume) : 0;
}

static void linnet_status(struct dm_target *ti, status_type_t type, unsigned int status_flags, char *result,
			  unsigned int maxlen)
{
	struct linnet_dm *dm = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		mutex_lock(&dm->control);
		linnet_status_print(dm, result, maxlen);
		mutex_unlock(&dm->control);
		break;
	case STATUSTYPE_TABLE:
		mutex_lock(&dm->control);
		linnet_table_print(dm, result, maxlen);
		mutex_unlock(&dm->control);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",replicas=%u,policy=%s,md=%c;", dm->leg_count, linnet_policy_names[READ_ONCE(dm->settings.policy)],
		       dm->volume ? 'y' : 'n');
		break;
	}
}

static int linnet_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct linnet_dm *dm = ti->private;
	int r = 0;
	u32 k;

	if (dm->volume)
		return fn(ti, dm->volume->md, 0, ti->len, data);
	for (k = 0; !r && k < dm->leg_count; k++)
		r = fn(ti, dm->legs[k].dev, dm->legs[k].start, ti->len, data);
	return r;
}

static void linnet_io_hints(struct dm_target *ti, struct queue_limits *limits)
{
	struct linnet_dm *dm = ti->private;

	if (!dm->volume)
		return;
	/* Pages must not change between the writes to two legs. */
#ifdef BLK_FEAT_STABLE_WRITES
	limits->features |= BLK_FEAT_STABLE_WRITES;
#else
	ti->needs_stable_writes = true;
#endif
}

static struct target_type linnet_target = {
	.name = "linnet",
	.version = LINNET_TARGET_VERSION,
	.features = DM_TARGET_NOWAIT,
	.module = THIS_MODULE,
	.ctr = linnet_ctr,
	.dtr = linnet_dtr,
	.map = linnet_map,
	.end_io = linnet_end_io,
	.presuspend = linnet_presuspend,
	.presuspend_undo = linnet_resume,
	.postsuspend = linnet_postsuspend,
	.preresume = linnet_preresume,
	.resume = linnet_resume,
	.status = linnet_status,
	.message = linnet_message,
	.iterate_devices = linnet_iterate_devices,
	.io_hints = linnet_io_hints,
};

static int __init linnet_init(void)
{
	int error = dm_register_target(&linnet_member_target);

	if (error)
		return error;
	error = dm_register_target(&linnet_target);
	if (error)
		dm_unregister_target(&linnet_member_target);
	return error;
}

static void __exit linnet_exit(void)
{
	dm_unregister_target(&linnet_target);
	dm_unregister_target(&linnet_member_target);
}

module_init(linnet_init);
module_exit(linnet_exit);

MODULE_DESCRIPTION(DM_NAME " target that sends each read to the replica that will be fast");
MODULE_LICENSE("GPL");
MODULE_VERSION("1.0.0");
