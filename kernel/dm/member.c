// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device-mapper target `linnet-leg`: passes everything on to one drive, and tells the volume above md what is written
 * there (spec/md-volume.md).
 *
 *   <start> <length> linnet-leg <device> <offset>
 *
 * md claims the device for itself, so a volume finds it in a list of this module, by its number.
 */
#include <linux/blkdev.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "linnet-dm.h"

static LIST_HEAD(members);
static DEFINE_MUTEX(members_lock);

/* One table of a device. */
struct linnet_passage {
	struct linnet_member *member;
	struct dm_dev *drive;
	sector_t start;
};

/* ---- the list of devices ---- */

static struct linnet_member *find(dev_t dev)
{
	struct linnet_member *member;

	list_for_each_entry(member, &members, list)
		if (member->dev == dev)
			return member;
	return NULL;
}

/* The device's entry, with a reference for one of its tables; a new one for the first. */
static struct linnet_member *enlist(dev_t dev)
{
	/* Before the lock, which a suspend and a resume need: memory may be freed by I/O that they hold. */
	struct linnet_member *unused = kzalloc(sizeof(*unused), GFP_KERNEL), *member;

	if (!unused)
		return NULL;
	mutex_lock(&members_lock);
	member = find(dev);
	if (!member) {
		member = unused;
		unused = NULL;
		member->dev = dev;
		scnprintf(member->name, sizeof(member->name), "%u:%u", MAJOR(dev), MINOR(dev));
		init_waitqueue_head(&member->drained);
		list_add(&member->list, &members);
	}
	member->tables++;
	member->refs++;
	mutex_unlock(&members_lock);
	kfree(unused);
	return member;
}

struct linnet_member *linnet_member_get(const char *path)
{
	struct linnet_member *member;
	unsigned int major, minor;
	char rest;
	dev_t dev;
	int error;

	if (sscanf(path, "%u:%u%c", &major, &minor, &rest) == 2) {
		dev = MKDEV(major, minor);
	} else {
		error = lookup_bdev(path, &dev);
		if (error)
			return ERR_PTR(error);
	}
	mutex_lock(&members_lock);
	member = find(dev);
	if (member)
		member->refs++;
	mutex_unlock(&members_lock);
	return member ?: ERR_PTR(-ENODEV);
}

void linnet_member_put(struct linnet_member *member)
{
	bool last;

	mutex_lock(&members_lock);
	last = --member->refs == 0;
	mutex_unlock(&members_lock);
	if (last)
		kfree(member);
}

/*
 * A table is gone. With the last one the device leaves the list: another device may get its number while a volume still
 * refers to the entry.
 */
static void delist(struct linnet_member *member)
{
	mutex_lock(&members_lock);
	if (!--member->tables)
		list_del(&member->list);
	mutex_unlock(&members_lock);
	linnet_member_put(member);
}

int linnet_member_attach(struct linnet_member *member, struct linnet_volume *volume, u32 index)
{
	int error = 0;

	mutex_lock(&members_lock);
	if (rcu_access_pointer(member->volume)) {
		error = -EBUSY;
	} else {
		member->index = index;
		rcu_assign_pointer(member->volume, volume);
	}
	mutex_unlock(&members_lock);
	return error;
}

void linnet_member_detach(struct linnet_member *member)
{
	mutex_lock(&members_lock);
	rcu_assign_pointer(member->volume, NULL);
	mutex_unlock(&members_lock);
	synchronize_rcu();
	wait_event(member->drained, !atomic_read(&member->recorded));
}

/* ---- steered reads ---- */

struct block_device *linnet_member_enter(struct linnet_member *member)
{
	struct block_device *bdev;

	atomic_inc(&member->reading);
	smp_mb__after_atomic(); /* pairs with shut(): it sees the read, or the read sees that bdev is NULL */
	bdev = smp_load_acquire(&member->bdev); /* orders `start` and `sectors`, which belong to it */
	if (!bdev)
		linnet_member_leave(member);
	return bdev;
}

void linnet_member_leave(struct linnet_member *member)
{
	if (atomic_dec_and_test(&member->reading) && wq_has_sleeper(&member->drained))
		wake_up(&member->drained);
}

static void distrust(struct linnet_member *member)
{
	struct linnet_volume *volume;

	rcu_read_lock();
	volume = rcu_dereference(member->volume);
	if (volume)
		linnet_volume_doubt(volume, member->index, LINNET_DOUBT_SUSPENDED);
	rcu_read_unlock();
}

/* The device is suspended: no read uses its drive any more, and no volume trusts it. */
static void shut(struct linnet_member *member)
{
	distrust(member);
	WRITE_ONCE(member->bdev, NULL);
	smp_mb();
	wait_event(member->drained, !atomic_read(&member->reading));
}

/* ---- I/O of md ---- */

static int member_map(struct dm_target *ti, struct bio *bio)
{
	struct linnet_member_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct linnet_passage *passage = ti->private;
	struct linnet_volume *volume;

	*io = (struct linnet_member_io){ .start = bio->bi_iter.bi_sector, .sectors = bio_sectors(bio), .op = bio_op(bio) };
	if (io->op == REQ_OP_WRITE)
		io->identity = bio->bi_io_vec;
	rcu_read_lock();
	volume = rcu_dereference(passage->member->volume);
	if (volume)
		linnet_volume_member_arrives(volume, passage->member->index, bio, io);
	if (io->leg)
		atomic_inc(&passage->member->recorded);
	rcu_read_unlock();
	bio_set_dev(bio, passage->drive->bdev);
	if (io->sectors)
		bio->bi_iter.bi_sector += passage->start;
	return DM_MAPIO_REMAPPED;
}

static int member_end_io(struct dm_target *ti, struct bio *bio, blk_status_t *error)
{
	struct linnet_member_io *io = dm_per_bio_data(bio, sizeof(*io));
	struct linnet_passage *passage = ti->private;
	struct linnet_member *member = passage->member;
	struct linnet_volume *volume;

	if (op_is_write(io->op)) {
		rcu_read_lock();
		volume = rcu_dereference(member->volume);
		if (volume)
			linnet_volume_member_ends(volume, member->index, io, *error != BLK_STS_OK);
		rcu_read_unlock();
	}
	if (io->leg) {
		linnet_leg_end(io->leg, io->record, io->op == REQ_OP_READ, 0, *error);
		if (atomic_dec_and_test(&member->recorded) && wq_has_sleeper(&member->drained))
			wake_up(&member->drained);
	}
	return DM_ENDIO_DONE;
}

/* ---- lifetime ---- */

static void member_dtr(struct dm_target *ti)
{
	struct linnet_passage *passage = ti->private;

	if (passage->drive)
		dm_put_device(ti, passage->drive);
	if (passage->member)
		delist(passage->member);
	kfree(passage);
}

static int member_ctr(struct dm_target *ti, unsigned int argc, char **argv)
{
	struct linnet_passage *passage;
	unsigned long long start;
	int error = -EINVAL;
	char rest;

	if (argc != 2 || sscanf(argv[1], "%llu%c", &start, &rest) != 1 || start != (sector_t)start) {
		ti->error = "A leg is <device> <offset in sectors>";
		return -EINVAL;
	}
	passage = kzalloc(sizeof(*passage), GFP_KERNEL);
	if (!passage) {
		ti->error = "Not enough memory";
		return -ENOMEM;
	}
	ti->private = passage;
	passage->start = start;
	error = dm_get_device(ti, argv[0], dm_table_get_mode(ti->table), &passage->drive);
	if (error) {
		ti->error = "Cannot open the drive";
		goto bad;
	}
	passage->member = enlist(disk_devt(dm_disk(dm_table_get_md(ti->table))));
	if (!passage->member) {
		ti->error = "Not enough memory";
		error = -ENOMEM;
		goto bad;
	}
	ti->per_io_data_size = sizeof(struct linnet_member_io);
	ti->num_flush_bios = 1;
	ti->num_discard_bios = 1;
	ti->num_secure_erase_bios = 1;
	ti->num_write_zeroes_bios = 1;
	return 0;
bad:
	member_dtr(ti);
	return error;
}

static void member_presuspend(struct dm_target *ti)
{
	struct linnet_passage *passage = ti->private;

	shut(passage->member);
}

static void member_resume(struct dm_target *ti)
{
	struct linnet_passage *passage = ti->private;

	/* Trust that was given while the device was being suspended is no trust in the drive of its new table. */
	distrust(passage->member);
	passage->member->start = passage->start;
	passage->member->sectors = ti->len;
	smp_store_release(&passage->member->bdev, passage->drive->bdev);
}

static void member_status(struct dm_target *ti, status_type_t type, unsigned int status_flags, char *result,
			  unsigned int maxlen)
{
	struct linnet_passage *passage = ti->private;
	unsigned int sz = 0;

	switch (type) {
	case STATUSTYPE_INFO:
		DMEMIT("version 1 attached %u", rcu_access_pointer(passage->member->volume) != NULL);
		break;
	case STATUSTYPE_TABLE:
		DMEMIT("%s %llu", passage->drive->name, (unsigned long long)passage->start);
		break;
	case STATUSTYPE_IMA:
		DMEMIT_TARGET_NAME_VERSION(ti->type);
		DMEMIT(",drive=%s;", passage->drive->name);
		break;
	}
}

static int member_iterate_devices(struct dm_target *ti, iterate_devices_callout_fn fn, void *data)
{
	struct linnet_passage *passage = ti->private;

	return fn(ti, passage->drive, passage->start, ti->len, data);
}

struct target_type linnet_member_target = {
	.name = "linnet-leg",
	.version = LINNET_TARGET_VERSION,
	/* Another target of the device could change or move data that the volume finds at the leg's sectors. */
	.features = DM_TARGET_SINGLETON | DM_TARGET_NOWAIT,
	.module = THIS_MODULE,
	.ctr = member_ctr,
	.dtr = member_dtr,
	.map = member_map,
	.end_io = member_end_io,
	.presuspend = member_presuspend,
	.presuspend_undo = member_resume,
	.resume = member_resume,
	.status = member_status,
	.iterate_devices = member_iterate_devices,
};

MODULE_ALIAS("dm-linnet-leg");
