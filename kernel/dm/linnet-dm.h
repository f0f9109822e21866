/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Inside of the device-mapper target `linnet` (spec/dm-target.md). What decides is core/; here are its locks and lifetimes.
 *
 *   target.c   the target: constructor, map, end_io, hooks       table.c    the words of a table line
 *   leg.c      one replica: arrivals, ends, what is known now    policy.c   which leg a read goes to
 *   model.c    model files: loaded, shared, swapped under RCU    status.c   counters, status
 *   message.c  messages                                          mirror.c   writes to several legs
 *
 * Locks. Each leg has one, taken for its own arrivals and ends alone; who describes a leg takes none (policy.c). Settings are
 * words that are read and written whole; `control` makes messages take turns. No lock is shared by all submitters.
 */
#ifndef LINNET_DM_H
#define LINNET_DM_H

#include <linux/bio.h>
#include <linux/device-mapper.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seqlock.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "linnet.h"
#include "mirror.h"

#define DM_MSG_PREFIX "linnet"
#define LINNET_TARGET_VERSION { 1, 0, 0 }
#define LINNET_NAME_SIZE 64      /* of a model's name, with its end */
#define LINNET_BUCKETS 16        /* of the latency histogram */
#define LINNET_BUCKET_NS 64000   /* end of the first; each further one ends at twice the time */
#define LINNET_NO_LEG 0xff
#define LINNET_ANY_EVENT U64_MAX
#define LINNET_IOPRIO 0x4007     /* best effort, level 7 */

/* ---- model.c ---- */

/* A model file, ready to be asked. Shared by the legs that name it. Const once made. */
struct linnet_loaded {
	struct kref refs;
	u64 inflection_ns;
	bool has_trees;
	bool has_network;
	struct linnet_bitsliced bitsliced;
	struct linnet_network network;
	struct linnet_tables tables;
	void *weights; /* memory of the network */
	void *rows;    /* and of the tables */
	void __percpu *scratch; /* of tables.scratch_size; NULL when that is 0 */
};

/* What one leg thinks with. Replaced whole, under the leg's lock; read under RCU. */
struct linnet_leg_model {
	struct linnet_loaded *loaded;
	struct linnet_incremental *net; /* NULL while no network is asked */
};

/* ---- leg.c ---- */

/* Counters of one leg, per CPU. Nothing but u64, so that they can be added up as an array. */
struct linnet_leg_counts {
	u64 reads;
	u64 writes;
	u64 errors;
	u64 latency[LINNET_BUCKETS];
};

enum linnet_leg_flag {
	LINNET_LEG_FAILED = 0,    /* out of service until it is revived by message; a mirror knows its own legs' state */
	LINNET_LEG_OUT = 1,       /* out of service because of errors in a row; comes back by itself */
	LINNET_LEG_BAD_MODEL = 2, /* its model could not be loaded */
};

struct linnet_leg {
	struct linnet_dm *dm;
	struct dm_dev *dev;
	sector_t start;      /* of its data on the device */
	u32 index;
	unsigned long flags; /* enum linnet_leg_flag */
	struct linnet_leg_model __rcu *leg_model; /* NULL without a model */
	char model[LINNET_NAME_SIZE];             /* the name asked for, loaded or not; empty for none; under dm->control */
	struct linnet_inflight_io *places;
	struct linnet_leg_counts __percpu *counts;
	struct linnet_leg_counts base;  /* what they were when they were reset; under dm->control */

	/* Of arrivals and ends: */
	raw_spinlock_t lock ____cacheline_aligned_in_smp;
	seqcount_raw_spinlock_t seq; /* of `state` and its incremental network */
	struct linnet_replica state;
};

/* One I/O in flight at one leg, from linnet_leg_arrive to linnet_leg_end. */
struct linnet_inflight_record {
	struct linnet_flight flight;
	u64 offset_bytes; /* at the leg */
};

int linnet_leg_init(struct linnet_leg *leg, struct linnet_dm *dm, u32 index);
void linnet_leg_free(struct linnet_leg *leg);

/*
 * Records an I/O that is handed to the leg now. `seen` is the number of events that the decision to send it here was made by,
 * or LINNET_ANY_EVENT: when others have happened since, nothing is recorded and false returned.
 */
bool linnet_leg_arrive(struct linnet_leg *leg, struct linnet_inflight_record *record, u64 seen, u64 now_ns, bool is_read,
		       bool probe, sector_t sector, u32 size_bytes);

/* It ended. Counts, learns, and takes the leg out of service, or back, where the errors in a row say so. */
void linnet_leg_end(struct linnet_leg *leg, const struct linnet_inflight_record *record, u64 id, blk_status_t status);

/*
 * Reads have ended since the leg's incremental network, this one, was last asked: works them in, for a read of this size. Under
 * RCU.
 */
void linnet_leg_catch_up(struct linnet_leg *leg, struct linnet_incremental *net, u32 size_bytes);

/* Its errors are forgotten: back in service. */
void linnet_leg_pardon(struct linnet_leg *leg);

/* Gives the leg a model, or none, that takes over what the old one knew. Sleeps. */
void linnet_leg_set_model(struct linnet_leg *leg, struct linnet_leg_model *leg_model);

/* Points a bio at its place on the leg. */
void linnet_leg_remap(const struct linnet_leg *leg, struct bio *bio);

/* ---- model.c ---- */

bool linnet_model_name_ok(const char *name);

void linnet_leg_model_free(struct linnet_leg_model *leg_model);

/* Reads linnet/<name> for these legs (bits): for all of them or none. Under control. Sleeps. */
int linnet_models_load(struct linnet_dm *dm, u32 legs, const char *name);

/* Sets the policy and whether to revoke, with the incremental networks that these need. Under control. Sleeps. */
int linnet_models_fit(struct linnet_dm *dm, u32 policy, bool revoke);

/* ---- the target ---- */

/* Counters of the target, per CPU. Nothing but u64. */
struct linnet_counts {
	u64 reads;
	u64 writes;
	u64 decisions;
	u64 revokes;
	u64 forced;
	u64 failovers;
	u64 probes;
	u64 untracked;
};

/* What this CPU last saw of each leg, for the rare read that finds one changing all the time. And a source of ids. */
struct linnet_cpu_state {
	struct linnet_candidate last[LINNET_REPLICAS_MAX];
	u64 ids;
	struct linnet_budget revokes; /* this CPU's */
};

struct linnet_dm {
	struct dm_target *ti;
	u32 leg_count;
	u8 trees;    /* a bit for each leg whose model has trees */
	u8 networks; /* and a network */
	bool revoke;
	u16 ioprio;  /* tag of the reads that may be revoked */
	struct linnet_settings settings;
	struct linnet_counts __percpu *counts;
	struct linnet_counts base; /* what they were when they were reset; under `control` */
	struct linnet_cpu_state __percpu *cpu_states;
	struct linnet_mirror *mirror;   /* NULL: read-only, or one leg */
	u32 log_words;                  /* of the table line, after `log` */
	struct mutex control;           /* messages take turns */
	struct workqueue_struct *queue; /* of this target's own work */
	struct work_struct event;       /* tells user space that something rare has changed */
	struct work_struct resend;
	spinlock_t resend_lock;
	struct bio_list resend_bios;    /* reads that failed at a leg and go to another */
	struct linnet_leg legs[];
};

/* Something rare has changed: an event and a uevent, from process context. Safe anywhere. */
static inline void linnet_dm_changed(struct linnet_dm *dm)
{
	queue_work(dm->queue, &dm->event);
}

/* What the target keeps of each bio. */
struct linnet_io {
	union {
		struct linnet_mirror_write write; /* a mirror's, but for reads */
		struct {
			struct linnet_inflight_record record;
			struct bvec_iter iter; /* as it came, to send it again */
			unsigned short bio_flags;
			u64 id;
		};
	};
	u8 leg;              /* where it is, or LINNET_NO_LEG */
	u8 tried;            /* a bit for each leg that has failed it */
	blk_status_t status; /* of the last one */
};

extern const struct linnet_mirror_ops linnet_mirror_ops; /* target.c */

/* ---- policy.c ---- */

int linnet_policy_of(const char *name); /* enum linnet_policy, or -EINVAL */

/*
 * Decides on a read and records it at the leg chosen: io->leg, and io->id. False when it is revoked, or no leg is left:
 * io->status. Any process context.
 */
bool linnet_route(struct linnet_dm *dm, struct bio *bio, struct linnet_io *io, bool may_revoke);

/* A number that no other I/O of this target has. */
u64 linnet_next_id(struct linnet_dm *dm);

/* ---- table.c ---- */

int linnet_table_parse(struct linnet_dm *dm, struct dm_arg_set *args);
void linnet_table_print(struct linnet_dm *dm, char *result, unsigned int maxlen);
int linnet_parse_ioprio(const char *word, u16 *ioprio);

/* ---- status.c, message.c ---- */

void linnet_status_print(struct linnet_dm *dm, char *result, unsigned int maxlen);
void linnet_status_reset(struct linnet_dm *dm);
int linnet_message(struct dm_target *ti, unsigned int argc, char **argv, char *result, unsigned int maxlen);

/* 'A' in service, 'D' out of service, 'R' in service and resyncing. */
char linnet_leg_state(const struct linnet_leg *leg);

#endif
