/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * linnet_tune: gives each open file the readahead that suits how it is read. The core observes (reads.h) and decides
 * (readahead.h, tune.h); this module has hooks, locks and lifetimes.
 *
 *   main.c      load and unload, parameters
 *   hooks.c     tracepoints, kprobes and a hook of ftrace, found by name
 *   files.c     state of each file that is read: struct tune_file, by device, inode number and generation
 *   apply.c     the value of each open file: struct tune_change, by struct file
 *   decide.c    the worker: takes the counts of each file and proposes changes
 *   model.c     model file, inference and training in short FPU sections
 *   devices.c   which devices are tuned
 *   status.c    debugfs
 *
 * Hooks run in process context with preemption disabled, and never sleep. What they find in the tables lives as long as
 * they hold rcu_read_lock.
 *
 *   tune_shard.lock   raw; counts of one file by some of its readers. Innermost.
 *   changes_lock      raw (apply.c); values that we set. Innermost.
 *   list_lock         raw (files.c); adding to and removing from the list of files. Innermost.
 *   tune_lock         mutex (decide.c); governors, the model and the log of decisions: the worker, parameters, debugfs.
 *   load_lock         mutex (model.c); one model is loaded at a time. Outermost.
 */
#ifndef LINNET_TUNE_MODULE_H
#define LINNET_TUNE_MODULE_H

#include <linux/atomic.h>
#include <linux/fs.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "readahead.h"
#include "tune.h"

#define TUNE_SHARDS 4 /* readers of a file that are told apart, by thread */
#define TUNE_UNCOUNTED 4 /* for each of them, threads that are not counted */
#define TUNE_NAME 40
#define TUNE_HASH_BITS 12
#define TUNE_TABLE_MAX (16 << TUNE_HASH_BITS) /* hooks look here at each read and each close: chains must stay short */
#define TUNE_LOG 256  /* decisions kept for debugfs, a power of two */

struct tune_key {
	u64 inode;
	u32 dev;
	u32 generation;
};

struct tune_shard {
	raw_spinlock_t lock;
	pid_t uncounted[TUNE_UNCOUNTED]; /* 0: none; without the lock */
	struct linnet_reads reads;
};

struct tune_file {
	struct tune_key key;
	struct hlist_node node;
	struct list_head list;
	struct rcu_head rcu;
	unsigned long flags;
	u32 target_pages; /* 0: each open file's own; written by the worker */
	u32 own_pages;    /* of the open file that was seen first, 0 before */
	char name[TUNE_NAME];
	/* The worker's, under tune_lock. */
	u64 read_at_ns;
	bool governed;
	struct linnet_governor governor;
	struct linnet_pattern pattern;
	struct tune_shard shards[TUNE_SHARDS];
};

#define TUNE_ACTIVE 0 /* in tune_file.flags: read since the worker looked */
#define TUNE_NAMED 1       /* a hook has begun to write the name */
#define TUNE_NAME_READY 2  /* and has ended */

struct tune_decision {
	u64 at_ns;
	struct tune_key key;
	char name[TUNE_NAME];
	const char *by; /* rule, model */
	u32 reading;
	u32 from_kib;
	u64 run_pages_q16;
	struct linnet_proposal proposal;
	bool dry;
};

/* Counted at each event, so every CPU has its own: one for all would be fought over at each read. */
struct tune_events {
	u64 counted;
	u64 lost; /* that found no room or memory for their file */
};

/* Counters since the module was loaded. */
struct tune_counters {
	atomic64_t windows;   /* that were decided on */
	atomic64_t decisions;
	atomic64_t rollbacks;
	atomic64_t changed;   /* values of open files that were set */
	atomic64_t restored;  /* and put back */
	atomic64_t advised;   /* times that a value was not set, because the file's owner had given advice */
	atomic64_t left;      /* open files left alone, because their owner changed them after us */
	atomic64_t evicted;   /* files forgotten after they were not read for long */
	atomic64_t unsure;    /* of these windows, those that the model left to the rule */
	atomic64_t learned;   /* rows */
	atomic64_t refused;   /* rows that could not be learned */
};

DECLARE_PER_CPU(struct tune_events, tune_events);
extern struct tune_counters tune_counters;
extern struct mutex tune_lock;
extern bool tune_dry_run;
extern uint tune_files_max, tune_interval_ms;

/* hooks.c */
int tune_hooks_start(void);
/* Returns when no hook runs any more, except the one that sees open files end. */
void tune_hooks_stop(void);
void tune_hooks_end(void);
void tune_hooks_show(struct seq_file *out);

/* files.c */
int tune_files_start(void);
void tune_files_end(void);
/* The state of a regular file on a device that is tuned; NULL for others. Call it under rcu_read_lock. */
struct tune_file *tune_file_of(const struct inode *inode, bool create);
/*
 * From now on, whether this thread's reads of the file are counted. They are not while it reads with a value that is its
 * owner's: what they bring says nothing of the value that the file was given, nor is that for them.
 */
void tune_count_thread(struct tune_file *file, bool counted);
/* Locks the counts that this thread's reads go to; NULL where they are not counted. */
struct tune_shard *tune_shard_lock(struct tune_file *file);
void tune_shard_unlock(struct tune_file *file, struct tune_shard *shard);
/* For the worker, which alone removes files: next after `file`, or the first; NULL at the end. */
struct tune_file *tune_file_next(struct tune_file *file);
/* Its name, or nothing as long as no open file was seen. */
static inline const char *tune_file_name(const struct tune_file *file)
{
	return smp_load_acquire(&file->flags) & BIT(TUNE_NAME_READY) ? file->name : "";
}
void tune_file_forget(struct tune_file *file);
unsigned int tune_file_count(void);

/* apply.c */
/*
 * Before the readahead code uses the value of an open file. `file` is NULL where its file is not tuned: then it gets
 * its own value back. `advised`: the mapping that is read has advice of its own. Call it under rcu_read_lock. Returns
 * whether the file's target is for this open file; for others the owner's value is left.
 */
bool tune_apply(struct file *open, struct tune_file *file, bool advised);
/* An open file ends. */
void tune_apply_forget(struct file *open);
/* Puts back every value that is still ours. */
void tune_apply_restore(void);
void tune_apply_end(void);
unsigned int tune_apply_count(void);

/* decide.c */
int tune_decide_start(void);
void tune_decide_end(void);
/* From hooks: there is something to decide on soon. */
void tune_decide_wake(void);
void tune_decide_show(struct seq_file *out);

/* model.c. Start and end take locks; the others are called under tune_lock. */
int tune_model_start(void);
void tune_model_end(void);
/* Returns 1 and the value, 0 without a model, or -1 where it fails or is less sure than the floor in its file. */
int tune_model_decide(const struct linnet_pattern *pattern, u32 *kib, u32 *confidence_ppm);
void tune_model_learn(const struct linnet_pattern *pattern);
void tune_model_show(struct seq_file *out);
/*
 * The model as a file, as it is now, to be freed by kvfree; both stay as they are without a model. -ERANGE where no file
 * can hold what was learned.
 */
int tune_model_bytes(void **bytes, size_t *size);
extern const struct kernel_param_ops tune_model_ops, tune_learn_ops;

/* devices.c */
bool tune_device_wanted(const struct super_block *sb);
extern const struct kernel_param_ops tune_devices_ops;

/* status.c */
/* Those of all CPUs. */
void tune_events_sum(struct tune_events *sum);
void tune_status_start(void);
void tune_status_end(void);
extern const char *const tune_readings[LINNET_READINGS + 1];

#endif
