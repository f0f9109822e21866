/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A writable volume above md raid1 (spec/md-volume.md): volume.c is the target `linnet` above the array, member.c the
 * target `linnet-leg` between the array and one of its drives. The ledger in core/ decides which legs are trusted.
 *
 *   file system -> linnet -> md -> linnet-leg -> drive
 *                     \________ reads ______________/
 */
#ifndef LINNET_VOLUME_H
#define LINNET_VOLUME_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "ledger.h"

#define LINNET_MEMBER_NAME_SIZE 24

struct linnet_dm;
struct linnet_io;
struct linnet_leg;
struct linnet_member_io;

/* One device of the target linnet-leg. It outlives its tables, as long as a volume knows it. */
struct linnet_member {
	struct list_head list; /* the first four: under members_lock */
	unsigned int refs;
	unsigned int tables; /* of the device, which is listed as long as it has one */
	dev_t dev;
	char name[LINNET_MEMBER_NAME_SIZE]; /* major:minor */
	struct block_device *bdev; /* the drive; NULL while the device is suspended. `start` and `sectors` belong to it */
	sector_t start;
	sector_t sectors;  /* length of the device */
	atomic_t reading;  /* steered reads that may use bdev */
	atomic_t recorded; /* I/Os of md that are recorded at the volume's leg */
	wait_queue_head_t drained;
	struct linnet_volume __rcu *volume; /* that it is attached to; changed under members_lock */
	u32 index; /* of its leg there */
};

struct linnet_volume {
	struct linnet_dm *dm;
	struct dm_dev *md;
	u32 attached; /* members, the first of the legs */
	/* What the ledger says, to be read without the lock: */
	u8 trusted; /* bit per leg */
	u64 trusted_in[LINNET_LEDGER_LEGS_MAX]; /* the generation in which the leg is trusted; 0: it is not */
	u64 held_count;
	spinlock_t lock;
	struct linnet_ledger ledger; /* from here on: under the lock */
	u64 published; /* ledger.generations when trusted_in was written */
	struct bio_list held; /* writes that wait for an overlapping one, and those behind too many of them */
	u32 waiting; /* how many */
	/*
	 * Not dm->queue: short of memory, a queue has one thread, and there it may wait with a read for a place in the queue
	 * of a drive that hangs.
	 */
	struct workqueue_struct *queue;
	struct work_struct release;
};

/* ---- volume.c, for the target ---- */

/* Opens the array; finds the legs, two words each. On failure they set ti->error. */
int linnet_volume_create(struct linnet_dm *dm, const char *path);
int linnet_volume_find_legs(struct linnet_dm *dm, struct dm_arg_set *args);
void linnet_volume_destroy(struct linnet_dm *dm);

/* Attaches the legs, or fails. */
int linnet_volume_resume(struct linnet_volume *volume);
/* No I/O of the volume is in flight. Detaches the legs, of which none is trusted afterwards. */
void linnet_volume_suspend(struct linnet_volume *volume);

/* Points a bio at the array. */
void linnet_volume_through(struct linnet_volume *volume, struct bio *bio);
/* Chooses a drive for a read and points the bio at it. Returns false if the read must go through md. */
bool linnet_volume_steer(struct linnet_volume *volume, struct bio *bio, struct linnet_io *io);
/* The drive below a leg that is still trusted, until linnet_volume_steered, and the leg's generation; else NULL. */
struct block_device *linnet_volume_enter(struct linnet_volume *volume, struct linnet_leg *leg, u64 *generation);
/*
 * Whether what a read has read is the volume's: the leg has been trusted all the while.
 *
 * The read may have waited in the drive's queue while md failed and removed the leg, which waits for md's own I/O only, and
 * somebody wrote to the leg. Data of such a write are let through after trusted_in has changed (publish in volume.c). So
 * if any of them was read, the change is seen here. Generations do not repeat: trust that was given meanwhile is no match.
 */
static inline bool linnet_volume_trusted_since(const struct linnet_volume *volume, u32 leg, u64 generation)
{
	smp_rmb(); /* what was read comes first */
	return READ_ONCE(volume->trusted_in[leg]) == generation;
}
/* The read has ended there. */
void linnet_volume_steered(struct linnet_volume *volume, u32 leg);
/* Everything but reads. Return what .map returns; the end of such a bio. */
int linnet_volume_map(struct linnet_volume *volume, struct bio *bio, struct linnet_io *io);
void linnet_volume_end(struct linnet_volume *volume, struct linnet_io *io, blk_status_t status);

int linnet_volume_trust(struct linnet_volume *volume, u32 leg, u64 generation);
/* Sets its counters to zero, and those of its legs. Whom it trusts, why, and generations stay. */
void linnet_volume_reset(struct linnet_volume *volume);
/* No leg is trusted any more. Reads that are at a drive end with md. */
void linnet_volume_distrust(struct linnet_volume *volume);

/* ---- volume.c, for the members: under RCU ---- */

/* An I/O of the device arrives, and ends. */
void linnet_volume_member_arrives(struct linnet_volume *volume, u32 leg, struct bio *bio, struct linnet_member_io *io);
void linnet_volume_member_ends(struct linnet_volume *volume, u32 leg, const struct linnet_member_io *io, bool failed);
void linnet_volume_doubt(struct linnet_volume *volume, u32 leg, enum linnet_doubt doubt);

/* ---- member.c ---- */

/* The device of a path or number, with a reference. -ENODEV: it is no linnet-leg. */
struct linnet_member *linnet_member_get(const char *path);
void linnet_member_put(struct linnet_member *member);
/* -EBUSY: another volume has it. */
int linnet_member_attach(struct linnet_member *member, struct linnet_volume *volume, u32 index);
/* Waits until what is recorded at the volume has ended. */
void linnet_member_detach(struct linnet_member *member);
/* The drive for a read, until linnet_member_leave; NULL if the device is suspended. */
struct block_device *linnet_member_enter(struct linnet_member *member);
void linnet_member_leave(struct linnet_member *member);

extern struct target_type linnet_member_target;

#endif
