/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Internal header of the device-mapper target `linnet` (spec/dm-target.md). Decisions are in core/; locks and lifetimes
 * are here.
 *
 *   target.c   the target: constructor, map, end_io, hooks       table.c    the words of a table line
 *   leg.c      one replica: arrivals, ends, current state        policy.c   the choice of a leg for a read
 *   digest.c   how CPUs share the state of the legs
 *   model.c    model files: loaded, shared, swapped under RCU    status.c   counters, status
 *   message.c  messages                                          volume.c   writable volumes above md
 *   member.c   the target linnet-leg below md                    hedge*.c   second copies of late reads
 *   probe.c    reads of the target's own that probe a leg
 *
 * Locks. The state of the legs has one, which no CPU waits for on the path of its reads while others submit too
 * (digest.c). Settings are words that are read and written atomically; `control` serialises messages.
 */
#ifndef LINNET_DM_H
#define LINNET_DM_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/hrtimer.h>
#include <linux/kref.h>
#include <linux/llist.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "linnet.h"
#include "volume.h"

#define DM_MSG_PREFIX "linnet"
#define LINNET_TARGET_VERSION { 1, 0, 0 }
#define LINNET_NAME_SIZE 64      /* of a model's name, with the final zero */
#define LINNET_BUCKETS 16        /* of the latency histogram */
#define LINNET_BUCKET_NS 64000   /* end of the first; each further one ends at twice the time */
#define LINNET_NO_LEG 0xff
#define LINNET_ANY_EVENT U64_MAX /* of a digest that was renewed while it was read */
/* Of a read that another leg could serve: the driver reports a failure at once and does not try again for seconds. */
#define LINNET_FAILFAST (REQ_FAILFAST_DEV | REQ_FAILFAST_TRANSPORT)

/* ---- model.c ---- */

/* A loaded model file. Shared by the legs that use it. Const once created. */
struct linnet_loaded {
	struct kref refs;
	u64 inflection_ns;
	u64 latency_ns_p95; /* 0: unknown */
	bool has_trees;
	bool has_network;
	struct linnet_bitsliced bitsliced;
	struct linnet_network network;
	struct linnet_tables tables;
	void *weights; /* memory of the network */
	void *rows;    /* and of the tables */
	void __percpu *scratch; /* of tables.scratch_size; NULL when that is 0 */
};

/* The model of one leg with its state. Replaced as a whole, under the lock of digest.c; read under RCU. */
struct linnet_leg_model {
	struct linnet_loaded *loaded;
	struct linnet_incremental *net; /* NULL if no network is used */
};

/* ---- leg.c ---- */

/* Counters of one leg, per CPU. Only u64, so that they can be added up as an array. */
struct linnet_leg_counts {
	u64 reads;
	u64 writes;
	u64 errors;
	u64 latency[LINNET_BUCKETS];
};

enum linnet_leg_flag {
	LINNET_LEG_OUT = 0,       /* out of service because of consecutive errors; comes back by itself */
	LINNET_LEG_BAD_MODEL = 1, /* its model could not be loaded */
	LINNET_LEG_PROBED = 2,    /* a probe of our own will be sent, or is in flight */
};

struct linnet_leg {
	struct linnet_dm *dm;
	struct dm_dev *dev;  /* NULL above md */
	struct linnet_member *member; /* above md */
	sector_t start;      /* of its data on the device */
	u32 index;
	unsigned long flags; /* enum linnet_leg_flag */
	struct linnet_leg_model __rcu *leg_model; /* NULL without a model */
	char model[LINNET_NAME_SIZE];             /* the requested name, loaded or not; empty for none; under
	                                           * dm->control */
	struct linnet_inflight_io *places;
	struct linnet_leg_counts __percpu *counts;
	struct linnet_leg_counts base;  /* their values at the last reset; under dm->control */
	struct linnet_probe *probe;     /* NULL with one replica */

	struct linnet_replica state ____cacheline_aligned_in_smp;  /* under the digest's lock */
	struct linnet_replica digest ____cacheline_aligned_in_smp; /* its copy: dm->digest.seq */
};

struct linnet_event {
	struct llist_node node;
	u64 at_ns : 63;
	u64 is_end : 1;
};

/*
 * One I/O in flight at one leg, from linnet_leg_arrive until its end has been applied to the leg's state. It is two lines
 * of 64 bytes: one goes to the CPU that applies events and comes back, the other stays there.
 */
struct linnet_inflight_record {
	/* Written by those who submit and end the I/O: */
	struct linnet_event arrival, end;
	struct linnet_leg *leg;
	u64 offset_bytes; /* at the leg */
	u64 id;
	u32 size_bytes;
	bool is_read;
	bool probe;
	blk_status_t status;

	/* By the one who applies events: */
	struct linnet_flight flight __aligned(64); /* its event is 0 until the arrival has been applied */
	u32 home; /* the CPU whose memory it is */
};

int linnet_leg_init(struct linnet_leg *leg, struct linnet_dm *dm, u32 index);
void linnet_leg_free(struct linnet_leg *leg);

/*
 * Records an I/O that is submitted to the leg now. NULL if there is no memory for that; it is counted as untracked
 * then, and nothing is learnt from it. Any context but that of interrupts.
 */
struct linnet_inflight_record *linnet_leg_arrive(struct linnet_leg *leg, u64 now_ns, bool is_read, bool probe, sector_t sector,
						 u32 size_bytes);

/* An I/O with a record ended, and one without. */
void linnet_record_end(struct linnet_inflight_record *record, u64 id, blk_status_t status);
void linnet_leg_end_unrecorded(struct linnet_leg *leg, bool is_read, blk_status_t status);

/*
 * It ended; the record may be NULL, and is gone. Counts and learns; consecutive errors take the leg out of service, a
 * success brings it back. Any context.
 */
static __always_inline void linnet_leg_end(struct linnet_leg *leg, struct linnet_inflight_record *record, bool is_read, u64 id,
					   blk_status_t status)
{
	if (likely(record))
		linnet_record_end(record, id, status);
	else
		linnet_leg_end_unrecorded(leg, is_read, status);
}

/* Legs, a bit each, were taken out of service or came back. */
void linnet_legs_turned(struct linnet_dm *dm, u32 legs);

/* Clears its errors: back in service. */
void linnet_leg_pardon(struct linnet_leg *leg);

/* Sets the leg's model, or none. The new model takes over the history of the old one. Sleeps. */
void linnet_leg_set_model(struct linnet_leg *leg, struct linnet_leg_model *leg_model);

/* Its device, as major:minor and as a number. */
const char *linnet_leg_name(const struct linnet_leg *leg);
dev_t linnet_leg_number(const struct linnet_leg *leg);

/* Above md, of a leg that was entered: whether sectors of the volume lie within it, up to `end`. */
static inline bool linnet_leg_reaches(const struct linnet_leg *leg, sector_t end)
{
	return leg->start + end <= leg->member->sectors;
}

/* Points a bio at its position on the leg. */
void linnet_leg_remap(const struct linnet_leg *leg, struct bio *bio);

/* ---- model.c ---- */

bool linnet_model_name_ok(const char *name);

void linnet_leg_model_free(struct linnet_leg_model *leg_model);

/* Loads linnet/<name> for these legs (bits): for all of them or none. Under control. Sleeps. */
int linnet_models_load(struct linnet_dm *dm, u32 legs, const char *name);

/* Removes the models of these legs (bits). Under control. Sleeps. */
void linnet_models_unload(struct linnet_dm *dm, u32 legs);

/* Sets the policy and whether to revoke, with the incremental networks that they need. Under control. Sleeps. */
int linnet_models_fit(struct linnet_dm *dm, u32 policy, bool revoke);

/* ---- digest.c ---- */

/* Of one CPU. */
struct linnet_cpu {
	/* Written by this CPU: */
	struct llist_head events;  /* not yet applied, the latest first */
	struct llist_node *free;   /* records */
	u32 queued[LINNET_REPLICAS_MAX]; /* arrivals less ends that were ever queued, by leg; wraps */
	u64 ids;
	struct linnet_budget revokes;
	struct linnet_inflight_record *records;

	/* Written by the one who applies events: */
	u32 applied[LINNET_REPLICAS_MAX] ____cacheline_aligned_in_smp; /* of `queued`, what the digest includes */
	u32 taken[LINNET_REPLICAS_MAX];  /* and what it will include next */
	struct linnet_cpu *active;       /* the next one that had events */
	struct llist_head returned;      /* records whose I/Os have ended */
};

struct linnet_digest {
	raw_spinlock_t lock;         /* of the legs' state; softirqs are off */
	seqcount_raw_spinlock_t seq; /* of the digests, and of `applied` */
	u32 owner;                   /* the CPU that applied last; it may be alone */
	u32 turned;                  /* bit per leg that went out of service or came back; under the lock, as the rest */
	bool followed;               /* other CPUs decide from the digest */
	u64 owned_ns;                /* since when it is the owner */
	u64 renewed_ns;              /* when everything queued was applied, and the digest made */
	u64 others_ns;               /* when another than the owner had events, or up to half a millisecond before */
	struct llist_node *late;     /* ends whose arrivals have not been applied */
	struct llist_node *unused;   /* records to be freed */
};

int linnet_digest_create(struct linnet_dm *dm); /* Sleeps. */
void linnet_digest_destroy(struct linnet_dm *dm); /* Sleeps. No I/O is in flight. */

/*
 * A decision, or an arrival without one, begins; softirqs are off until it ends. Returns true if this CPU has the lock
 * and every event is in the legs' state, until linnet_digest_leave; with `exact`, it waits for that. Returns false if
 * it is to go by the digest.
 */
bool linnet_digest_enter(struct linnet_dm *dm, u64 now_ns, bool exact);
void linnet_digest_leave(struct linnet_dm *dm);

/* Locks the legs' state, with every event in it, to read or change it otherwise. Process context. */
void linnet_digest_lock(struct linnet_dm *dm);
void linnet_digest_unlock(struct linnet_dm *dm);

/* Memory for the record of an I/O, or NULL; and gives it back unused. Softirqs are off. */
struct linnet_inflight_record *linnet_record_take(struct linnet_dm *dm);
void linnet_record_drop(struct linnet_dm *dm, struct linnet_inflight_record *record);

/* The record is filled in as by linnet_digest_arrive. */
void linnet_digest_add(struct linnet_inflight_record *record, bool locked);

/* Its end, status and id are set. Any context. */
void linnet_digest_end(struct linnet_inflight_record *record);

/* ---- the target ---- */

/* Counters of the target, per CPU. Only u64. */
struct linnet_counts {
	u64 reads;
	u64 writes;
	u64 decisions;
	u64 revokes;
	u64 forced;
	u64 failovers;
	u64 probes;
	u64 own_probes; /* of them, sent by the target itself */
	u64 unprobed;
	u64 untracked;
	u64 steered; /* reads that went past md */
	u64 hedges;
	u64 hedge_wins;
	u64 discarded;
	u64 unhedged;
};

struct linnet_dm {
	struct dm_target *ti;
	u32 leg_count;
	u8 trees;    /* bit per leg whose model has trees */
	u8 networks; /* bit per leg whose model has a network */
	unsigned long failed; /* bit per leg that is out of service until a message revives it */
	bool revoke;
	u16 ioprio;  /* tag of the reads that may be revoked; 0 for none, and then `revoke` is off */
	struct linnet_settings settings;
	struct linnet_counts __percpu *counts;
	struct linnet_counts base; /* their values at the last reset; under `control` */
	struct linnet_cpu __percpu *cpus;
	struct linnet_digest digest ____cacheline_aligned_in_smp;
	struct linnet_volume *volume;   /* above md; else NULL */
	struct linnet_hedges *hedges;   /* NULL until hedging is first switched on */
	u32 hedge_percent;              /* 0: off */
	struct mutex control;           /* serialises messages */
	bool suspending;                /* from presuspend to resume, and at first: no model is read; set under `control` */
	struct workqueue_struct *queue; /* for work on which I/O waits; none of it may wait for memory */
	struct work_struct event;       /* notifies user space of a rare change, for which it allocates memory */
	struct work_struct resend;
	spinlock_t resend_lock;
	struct bio_list resend_bios;    /* reads that failed at a leg and are sent to another */
	struct linnet_leg legs[];
};

/* Reports a rare change: an event and a uevent, from process context. Safe in any context. */
static inline void linnet_dm_changed(struct linnet_dm *dm)
{
	schedule_work(&dm->event);
}

/* Per-bio data of the target. */
struct linnet_io {
	union {
		struct linnet_write write; /* used by a volume above md, except for reads */
		struct {
			struct linnet_inflight_record *record;
			struct bvec_iter iter; /* the original one, to send the bio again, as `opf` and `bio_flags` */
			blk_opf_t opf;
			unsigned short bio_flags;
			blk_opf_t failfast; /* what the target has added of LINNET_FAILFAST */
			u64 id;
			u64 generation; /* above md: of the leg, when the read was steered there */
		};
	};
	u8 leg;              /* the current leg, or LINNET_NO_LEG */
	u8 tried;            /* bit per leg at which it has failed */
	blk_status_t status; /* of the last one */
	u8 hasty;            /* of `tried`, those whose driver was told by the target not to try again */
	bool patient;        /* every leg has failed it: the target adds no such flag any more */
};

/* Per-bio data of the target linnet-leg. */
struct linnet_member_io {
	struct linnet_leg *leg; /* where it is recorded, or NULL */
	struct linnet_inflight_record *record;
	sector_t start, sectors; /* on the device */
	enum req_op op;
	const void *identity; /* of what is written; NULL for all but writes of data */
	u64 serial; /* of the volume's write that it is part of, or 0 */
};

/* ---- hedge.c, hedge-set.c ---- */

/* Sets the percentage of extra reads; 0: off. Under control, or in the constructor. Sleeps. */
int linnet_hedge_set(struct linnet_dm *dm, u32 percent);

/*
 * The bio, a read, points at leg io->leg and is recorded there. Sends it through pages of the target's own, so that a
 * second copy may be sent, and returns true; false if it is not hedgeable and is to be sent as it is.
 */
bool linnet_hedge_read(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io);

/* The delay of the CPU that has sent most hedgeable reads; 0 if hedging was never on. */
u64 linnet_hedge_delay_ns(struct linnet_dm *dm);

/* No read of the target is in flight. Waits for the copies that are. */
void linnet_hedge_drain(struct linnet_dm *dm);
void linnet_hedge_destroy(struct linnet_dm *dm);

/*
 * Sends a read that has failed at io->tried to another leg, or through md. Afterwards the read may have ended, and the
 * target may be gone unless something else holds it. Any context (target.c).
 */
void linnet_send_again(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, blk_status_t status);

/* Whether the I/O was turned away, as it would be by any leg. */
static inline bool linnet_is_refusal(blk_status_t status)
{
#ifdef BLK_STS_INVAL
	if (status == BLK_STS_INVAL)
		return true;
#endif
	return status == BLK_STS_AGAIN || status == BLK_STS_NOTSUPP || status == BLK_STS_DM_REQUEUE;
}

/*
 * Whether it is an error of the leg. A drive that gives a command up after the time that its I/O priority allows does what it
 * was told; another leg may be in time.
 */
static inline bool linnet_is_error(blk_status_t status)
{
#ifdef BLK_STS_DURATION_LIMIT
	if (status == BLK_STS_DURATION_LIMIT)
		return false;
#endif
	return !linnet_is_refusal(status);
}

/*
 * Whether the status of a read that failed is an answer for the application, so that no other leg is tried. A caller
 * that set REQ_NOWAIT has to learn that the I/O would wait, and submits it in another way. io_uring does so only if it
 * is told while it submits, so nothing that a worker submits carries the flag, except second copies.
 */
static inline bool linnet_is_answer(const struct linnet_dm *dm, blk_opf_t opf, blk_status_t status)
{
	return dm->volume ? status == BLK_STS_AGAIN && opf & REQ_NOWAIT : linnet_is_refusal(status);
}

/* An I/O arrives at a leg, between linnet_digest_enter, which has returned `locked`, and linnet_digest_leave. */
static __always_inline void linnet_digest_arrive(struct linnet_leg *leg, struct linnet_inflight_record *record, bool locked,
						 u64 now_ns, bool is_read, bool probe, sector_t sector, u32 size_bytes)
{
	if (unlikely(!record)) {
		this_cpu_inc(leg->dm->counts->untracked);
		return;
	}
	record->arrival = (struct linnet_event){ .at_ns = now_ns };
	record->leg = leg;
	record->offset_bytes = (u64)(leg->start + sector) << SECTOR_SHIFT;
	record->size_bytes = size_bytes;
	record->is_read = is_read;
	record->probe = probe;
	linnet_digest_add(record, locked);
}

/* ---- probe.c ---- */

/* Allocates the probes, if there are two replicas or more. Sleeps. */
int linnet_probe_create(struct linnet_dm *dm);

/*
 * Sends a probe for the read to the leg soon, recorded under this id. Returns false if one is already on its way there
 * or in flight. Any context.
 */
bool linnet_probe_start(struct linnet_leg *leg, u64 id, sector_t sector, u32 size_bytes);

/* No read of the target is in flight. Waits for the probes that are. */
void linnet_probe_drain(struct linnet_dm *dm);
void linnet_probe_destroy(struct linnet_dm *dm);

/* ---- policy.c ---- */

int linnet_policy_of(const char *name); /* enum linnet_policy, or -EINVAL */

/*
 * Decides on a read and records it at the chosen leg: io->leg, and io->id. The bio, unless it is readahead, is marked
 * with LINNET_FAILFAST if somebody else could serve it. Where every leg has failed, those that failed with this mark are
 * tried once more without it. Returns false, with io->status, if it is revoked or no leg is left. Any process context.
 */
bool linnet_route(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, bool may_revoke);

/* Bit per leg that could serve a read, ignoring consecutive errors and those in `tried`. */
u32 linnet_usable_legs(const struct linnet_dm *dm, u8 tried);

/* A number that is unique among the I/Os of this target. */
u64 linnet_next_id(struct linnet_dm *dm);

/* ---- table.c, status.c: what they print, they print under control ---- */

int linnet_table_parse(struct linnet_dm *dm, struct dm_arg_set *args);
void linnet_table_print(struct linnet_dm *dm, char *result, unsigned int maxlen);
/* A tag: class 1 to 3, and a hint, which no read has that the kernel gave its priority. */
int linnet_parse_ioprio(const char *word, u16 *ioprio);
int linnet_parse_percent(const char *word, u32 *percent); /* 0 to 50 */

/* ---- status.c, message.c ---- */

void linnet_status_print(struct linnet_dm *dm, char *result, unsigned int maxlen);
void linnet_status_reset(struct linnet_dm *dm);
int linnet_message(struct dm_target *ti, unsigned int argc, char **argv, char *result, unsigned int maxlen);

/* 'A' in service, 'D' out of service, 'U' above md and not trusted. */
char linnet_leg_state(const struct linnet_leg *leg);

#endif
