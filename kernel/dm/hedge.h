/* SPDX-License-Identifier: GPL-2.0-only */
/* Hedged reads: hedge.c sends them, hedge-set.c switches hedging on and off. */
#ifndef LINNET_HEDGE_H
#define LINNET_HEDGE_H

#include <linux/mempool.h>

#include "linnet-dm.h"

#define LINNET_HEDGE_KIB 64 /* of the largest read */
#define LINNET_HEDGE_PAGES DIV_ROUND_UP(LINNET_HEDGE_KIB << 10, PAGE_SIZE)

struct linnet_hedge_cpu {
	raw_spinlock_t lock;
	struct list_head waiting; /* reads with one copy in flight, oldest first */
	struct linnet_hedge hedge;
	bool armed; /* the timer will run, or the worker will look at the list */
	u64 started, ended; /* reads, on this CPU; outside of the lock */
	struct hrtimer timer;
	struct work_struct work;
	struct linnet_hedges *hedges;
};

struct linnet_hedges {
	struct linnet_dm *dm;
	struct linnet_hedge_cpu __percpu *cpus;
	struct workqueue_struct *queue;
	mempool_t *reads;
	mempool_t *pages;
};

struct linnet_hedged;

/* One bio of ours, at one leg. */
struct linnet_copy {
	struct linnet_hedged *read;
	struct linnet_inflight_record *record;
	u64 sent_ns;
	u64 id;
	u64 generation; /* above md: of the leg, when it was chosen */
	sector_t sector; /* on the device */
	u8 leg;
	struct bio bio;
	struct bio_vec vecs[LINNET_HEDGE_PAGES];
};

struct linnet_hedged {
	struct linnet_hedges *hedges;
	struct linnet_hedge_cpu *cpu; /* where it was submitted */
	struct bio *bio;              /* the application's; nobody's once the read is answered */
	struct linnet_io *io;         /* of that */
	blk_opf_t opf;                /* what a copy has of the application's bio */
	blk_opf_t failfast;           /* what of it the target has added */
	u16 ioprio;
	struct cgroup_subsys_state *css; /* the control group that the copies are charged to; may be NULL */
	struct list_head waiting;
	u64 sector; /* in the target */
	u32 size_bytes;
	atomic_t left;
	atomic_t answered;
	unsigned long failed; /* bit per leg at which a copy has failed */
	unsigned long hasty;  /* of them, those whose driver was told by the target not to try again */
	blk_status_t status;  /* of the last one */
	struct linnet_copy copies[2];
};

/* The timer and the worker of a CPU. */
enum hrtimer_restart linnet_hedge_timer(struct hrtimer *timer);
void linnet_hedge_late(struct work_struct *work);

#endif
