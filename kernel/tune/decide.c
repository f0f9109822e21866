// SPDX-License-Identifier: GPL-2.0-only
/*
 * The worker. While files are read it looks at their counts every tune_interval_ms, and where a window ends it decides:
 * by the model, or by the rule. What it decides is the file's target, which hooks set. It sleeps while nothing is read.
 */
#define pr_fmt(fmt) "linnet_tune: " fmt
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/workqueue.h>

#include "linnet-tune.h"

#define IDLE_NS (600ull * NSEC_PER_SEC)     /* a file that was not read for so long is forgotten */
#define CROWDED_NS (5ull * NSEC_PER_SEC)    /* the same where there is no room for another one */
#define KIB_PER_PAGE (PAGE_SIZE / 1024)

DEFINE_MUTEX(tune_lock);

static void look(struct work_struct *work);
static struct workqueue_struct *queue;
static DECLARE_DELAYED_WORK(looking, look);
static unsigned long awake;
static struct linnet_rule rule;
static struct tune_decision decisions[TUNE_LOG];
static u64 decided;

void tune_decide_wake(void)
{
	if (!test_bit(0, &awake) && !test_and_set_bit(0, &awake))
		queue_delayed_work(queue, &looking, msecs_to_jiffies(READ_ONCE(tune_interval_ms)));
}

/* Moves the counts of all readers into the window. What they remember of their place stays. */
static void take_counts(struct tune_file *file)
{
	struct linnet_counts taken;
	int s;

	for (s = 0; s < TUNE_SHARDS; s++) {
		struct tune_shard *shard = &file->shards[s];

		raw_spin_lock(&shard->lock);
		taken = shard->reads.counts;
		memset(&shard->reads.counts, 0, sizeof(taken));
		raw_spin_unlock(&shard->lock);
		linnet_counts_add(&file->governor.window, &taken);
	}
}

/* *unsure: there is a model, and it left the verdict to the rule. */
static bool verdict_of(const struct linnet_pattern *pattern, struct linnet_readahead_verdict *verdict, const char **by,
		       bool *unsure)
{
	u32 kib, confidence_ppm;
	int answer = pattern->accesses > 0 ? tune_model_decide(pattern, &kib, &confidence_ppm) : 0;

	*unsure = answer < 0;
	if (answer > 0) {
		*by = "model";
		linnet_model_verdict(&rule, pattern, kib, confidence_ppm, verdict);
		return true;
	}
	*by = "rule";
	return linnet_rule_decide(&rule, pattern, verdict);
}

static void carry_out(struct tune_file *file, u64 now, u32 reading, const char *by,
		      const struct linnet_proposal *proposal)
{
	struct tune_decision *entry = &decisions[decided++ % TUNE_LOG];

	*entry = (struct tune_decision){
		.at_ns = now,
		.key = file->key,
		.by = by,
		.reading = reading,
		.from_kib = file->governor.current_kib,
		.run_pages_q16 = file->pattern.run_pages_q16,
		.proposal = *proposal,
		.dry = tune_dry_run,
	};
	strscpy(entry->name, tune_file_name(file), sizeof(entry->name));
	/* A file that returns to its own value is left alone again, so that each open file has its own. */
	WRITE_ONCE(file->target_pages,
		   proposal->to_kib == file->governor.original_kib ? 0 : max_t(u32, proposal->to_kib / KIB_PER_PAGE, 1));
	linnet_governor_changed(&file->governor, now, proposal->to_kib);
	atomic64_inc(proposal->change == LINNET_CHANGE_ROLLBACK ? &tune_counters.rollbacks : &tune_counters.decisions);
}

static void decide(struct tune_file *file, u64 now)
{
	u32 own_kib = min_t(u64, (u64)READ_ONCE(file->own_pages) * KIB_PER_PAGE, U32_MAX);
	struct linnet_readahead_verdict verdict = {};
	struct linnet_proposal proposal;
	const char *by;
	bool says, unsure;

	if (!file->governed && own_kib > 0) {
		linnet_governor_init(&file->governor, now, own_kib);
		file->governed = true;
	}
	take_counts(file);
	/* Without readahead there is nothing to decide on: all was in memory. That says nothing of reads to come. */
	if (!file->governed) {
		memset(&file->governor.window, 0, sizeof(file->governor.window));
		return;
	}
	linnet_pattern_of(&file->governor.window, 1, &file->pattern);
	says = verdict_of(&file->pattern, &verdict, &by, &unsure);
	linnet_governor_step(&file->governor, now, &file->pattern, says ? &verdict : NULL, &proposal);
	/* The window has ended. */
	if (file->pattern.accesses > 0 && file->governor.window.accesses == 0) {
		atomic64_inc(&tune_counters.windows);
		if (unsure)
			atomic64_inc(&tune_counters.unsure);
		tune_model_learn(&file->pattern);
	}
	if (proposal.change != LINNET_CHANGE_NONE)
		carry_out(file, now, verdict.reading, by, &proposal);
}

static void look(struct work_struct *work)
{
	struct tune_file *file, *next;
	bool active = false;
	u64 now, idle;

	/* Events from here on wake the worker again. */
	clear_bit(0, &awake);
	smp_mb__after_atomic();
	mutex_lock(&tune_lock);
	now = ktime_get_ns();
	idle = tune_file_count() >= READ_ONCE(tune_files_max) ? CROWDED_NS : IDLE_NS;
	for (file = tune_file_next(NULL); file; file = next) {
		next = tune_file_next(file);
		bool read = test_and_clear_bit(TUNE_ACTIVE, &file->flags);

		/* A window that is open ends even if its file is not read on. */
		if (read || file->governor.window.accesses > 0) {
			active = true;
			if (read)
				file->read_at_ns = now;
			decide(file, now);
		} else if (now >= file->read_at_ns + idle) { /* read_at_ns is later than `now` where a hook has just added it */
			tune_file_forget(file);
			atomic64_inc(&tune_counters.evicted);
		}
		cond_resched();
	}
	mutex_unlock(&tune_lock);
	if (active)
		tune_decide_wake();
}

static void show_one(struct seq_file *out, const struct tune_decision *d)
{
	bool back = d->proposal.change == LINNET_CHANGE_ROLLBACK;

	seq_printf(out, "%llu.%03llu %s %u:%u inode %llu %s %u -> %u KiB: ", d->at_ns / NSEC_PER_SEC,
		   d->at_ns / NSEC_PER_MSEC % 1000, back ? "rollback" : "decision", MAJOR(d->key.dev),
		   MINOR(d->key.dev), d->key.inode, d->name[0] ? d->name : "-", d->from_kib, d->proposal.to_kib);
	if (back)
		seq_printf(out, "cost rose from %llu.%02llu to %llu.%02llu pages for each one demanded; left alone for %llu s",
			   d->proposal.cost_before_q16 >> 16, (d->proposal.cost_before_q16 & 0xffff) * 100 >> 16,
			   d->proposal.cost_after_q16 >> 16, (d->proposal.cost_after_q16 & 0xffff) * 100 >> 16,
			   d->proposal.hold_ns / NSEC_PER_SEC);
	else
		seq_printf(out, "%s, %llu.%llu pages between jumps, by the %s, %u %% sure", tune_readings[d->reading],
			   d->run_pages_q16 >> 16, (d->run_pages_q16 & 0xffff) * 10 >> 16, d->by,
			   d->proposal.confidence_ppm / 10000);
	seq_puts(out, d->dry ? " (dry run)\n" : "\n");
}

void tune_decide_show(struct seq_file *out)
{
	u64 at;

	mutex_lock(&tune_lock);
	for (at = decided > TUNE_LOG ? decided - TUNE_LOG : 0; at < decided; at++)
		show_one(out, &decisions[at % TUNE_LOG]);
	mutex_unlock(&tune_lock);
}

int tune_decide_start(void)
{
	linnet_rule_init(&rule, KIB_PER_PAGE);
	queue = alloc_workqueue("linnet_tune", WQ_UNBOUND, 1);
	return queue ? 0 : -ENOMEM;
}

void tune_decide_end(void)
{
	cancel_delayed_work_sync(&looking);
	destroy_workqueue(queue);
}
