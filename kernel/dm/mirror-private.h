/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the files of the mirror. */
#ifndef LINNET_MIRROR_PRIVATE_H
#define LINNET_MIRROR_PRIVATE_H

#include "mirror.h"

#include <linux/bio.h>
#include <linux/completion.h>
#include <linux/dm-dirty-log.h>
#include <linux/dm-io.h>
#include <linux/dm-kcopyd.h>
#include <linux/dm-region-hash.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

/* A message that waits for the worker. */
struct linnet_mirror_request {
	unsigned int leg;
	bool revive;
	int result;
	struct completion done;
};

/*
 * One worker per mirror does all work outside interrupts: only it calls the log and the region hash (which have no lock
 * against two callers), submits writes, and changes `whole` and `stale`.
 *
 * A leg is in one of three states, which determine whether it is readable:
 *   whole           holds every acknowledged write
 *   stale           holds them in the regions that the log has in sync; written to, and resynced from a whole leg
 *   out of service  neither: not written to, so it can only come back as stale in every region
 */
struct linnet_mirror {
	struct dm_target *ti;
	const struct linnet_mirror_ops *ops;
	struct linnet_mirror_leg legs[LINNET_MIRROR_LEGS];
	unsigned int legs_len;
	sector_t region_size;          /* a power of two */
	unsigned int region_shift;
	region_t regions;

	/*
	 * Legs by bit, in at most one of the two. `whole` is never empty: the last one stays, whatever errors it
	 * returns.
	 */
	unsigned long whole;
	unsigned long stale;

	struct dm_dirty_log *log;      /* the kernel's; owned by `filter` */
	struct linnet_log *filter;     /* the log that the region hash uses */
	struct dm_region_hash *hash;   /* owns `filter` */
	struct dm_kcopyd_client *copier;
	struct dm_io_client *flusher;
	struct bio_set clones;

	/* The one copy in flight. */
	unsigned int copy_from;        /* number of the leg */
	unsigned long copy_to;         /* legs by bit */
	int copy_read_error;
	unsigned long copy_write_error; /* by index in copy_to */
	region_t unreadable;           /* the last region that a copy could not read */
	unsigned long unreadable_at;   /* legs at which it could not be read */

	struct workqueue_struct *queue;
	struct work_struct work;
	struct delayed_work clean_timer;
	bool clean_due;

	spinlock_t lock;               /* protects the four below */
	struct bio_list writes;        /* to be submitted */
	struct bio_list failed;        /* ended, with an error from a leg */
	struct linnet_mirror_request *request;
	struct dm_region *copied;      /* the copy has ended */
	bool hold;                     /* no new recovery: a request waits for the end of those in progress */

	struct mutex admin;            /* one message or hook at a time */
	bool nosync;                   /* the log was told `nosync`: the legs are equal */
	bool forgets;                  /* the log is in memory only */
	bool started;                  /* the log has been read */
	bool running;                  /* resumed */
};

/* The log's state of the legs, by bit. */
struct linnet_log_legs {
	unsigned long covered; /* regions that are clean or in sync are so on these legs */
	unsigned long trusted; /* covered, and not known to lack an acknowledged write in any other region */
};

/* mirror.c */
void linnet_mirror_wake(struct linnet_mirror *m);
/* Takes legs out of service, except the last whole one. Returns an error if the log cannot record it. Worker only. */
int linnet_mirror_take_out(struct linnet_mirror *m, unsigned long legs, const char *why);

static inline unsigned long linnet_mirror_in_service(const struct linnet_mirror *m)
{
	return READ_ONCE(m->whole) | READ_ONCE(m->stale);
}

static inline bool linnet_mirror_degraded(const struct linnet_mirror *m)
{
	return linnet_mirror_in_service(m) != (1UL << m->legs_len) - 1;
}

/* mirror-write.c */
int linnet_mirror_clones_init(struct linnet_mirror *m);
/* Worker only, both. */
void linnet_mirror_submit_all(struct linnet_mirror *m, struct bio_list *bios);
void linnet_mirror_settle_all(struct linnet_mirror *m, struct bio_list *bios);

/* mirror-sync.c */
int linnet_mirror_copier_init(struct linnet_mirror *m);
void linnet_mirror_recover(struct linnet_mirror *m); /* worker only */

/* mirror-log.c. Worker only, except linnet_log_in_sync(). */
int linnet_log_create(struct linnet_mirror *m, unsigned int argc, char **argv, unsigned int *used);
void linnet_log_destroy(struct linnet_mirror *m); /* only while no region hash owns it */
/* The log as the region hash uses it. */
struct dm_dirty_log *linnet_log_filter(struct linnet_mirror *m);
bool linnet_log_in_sync(struct linnet_mirror *m, region_t region);
/* Makes the search for work find this region again. */
void linnet_log_again(struct linnet_mirror *m, region_t region);
/* Marks no region as in sync; when it returns 0, also on the log's disk. No region may be in recovery. */
int linnet_log_forget(struct linnet_mirror *m);
/* Reads the log. Must be called once, first. */
int linnet_log_resume(struct linnet_mirror *m);
/* Number of the volume's regions that are in sync. */
region_t linnet_log_sync_count(struct linnet_mirror *m);
struct linnet_log_legs linnet_log_legs(struct linnet_mirror *m);
/* On disk when it returns 0. Legs that the table does not have are no longer covered. */
int linnet_log_set_legs(struct linnet_mirror *m, struct linnet_log_legs legs);
/* Whether there are regions that could be marked clean. */
bool linnet_log_may_clean(struct linnet_mirror *m);
/* Flushes the legs and marks these regions clean. */
void linnet_log_clean(struct linnet_mirror *m);

#endif
