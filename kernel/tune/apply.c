// SPDX-License-Identifier: GPL-2.0-only
/*
 * The value of each open file. The kernel keeps it in struct file, and a reader's next readahead takes it from there,
 * so it is set just before. Every value that was set is noted with the one before, and put back when the module goes.
 *
 * An entry of `changes` exists only while its struct file does: __fput removes it, before the file can be freed.
 * changes_lock covers the table, what an entry says, and our writing to ra_pages: while it is held, an entry that is in
 * the table has a live file, because __fput waits for the lock. Owners write to ra_pages without it.
 */
#include <linux/backing-dev.h>
#include <linux/build_bug.h>
#include <linux/fcntl.h>
#include <linux/hash.h>
#include <linux/rculist.h>
#include <linux/slab.h>

#include "linnet-tune.h"

struct tune_change {
	struct file *open;
	struct hlist_node node;
	struct rcu_head rcu;
	u32 own_pages; /* before us */
	u32 set_pages; /* ours */
	bool left;     /* the owner has changed it, or given advice, since: never touched again */
};

static struct hlist_head changes[1 << TUNE_HASH_BITS]; /* not an rhashtable: files.c says why */
static unsigned int count;
static DEFINE_RAW_SPINLOCK(changes_lock);

static struct hlist_head *bucket_of(const struct file *open)
{
	return &changes[hash_ptr(open, TUNE_HASH_BITS)];
}

static struct tune_change *find(const struct file *open)
{
	struct tune_change *change;

	hlist_for_each_entry_rcu(change, bucket_of(open), node)
		if (change->open == open)
			return change;
	return NULL;
}

/* posix_fadvise RANDOM and NOREUSE show in the mode. */
static bool mode_advised(const struct file *open)
{
#ifdef FMODE_NOREUSE
	if (open->f_mode & FMODE_NOREUSE)
		return true;
#endif
	return open->f_mode & FMODE_RANDOM;
}

/* Without a value of ours: does somebody not want this file's value to be touched? */
static bool owner_decides(const struct file *open, u32 pages)
{
	u32 device = READ_ONCE(open->f_mapping->host->i_sb->s_bdi->ra_pages);

	/* SEQUENTIAL doubles the device's value; 0 is no readahead. */
	return mode_advised(open) || (open->f_flags & O_DIRECT) || pages == 0 || pages == 2 * device;
}

static struct tune_change *note(struct file *open, u32 pages)
{
	struct tune_change *change, *there;

	/* A file without a reference has passed the hook that would remove its entry. */
	if (READ_ONCE(count) >= TUNE_TABLE_MAX || file_count(open) == 0)
		return NULL;
	change = kzalloc(sizeof(*change), GFP_NOWAIT | __GFP_NOWARN);
	if (!change)
		return NULL;
	change->open = open;
	change->own_pages = change->set_pages = pages;
	raw_spin_lock(&changes_lock);
	there = find(open);
	if (!there) {
		hlist_add_head_rcu(&change->node, bucket_of(open));
		WRITE_ONCE(count, count + 1);
	}
	raw_spin_unlock(&changes_lock);
	if (!there)
		return change;
	kfree(change);
	return there;
}

/* With changes_lock held. False, and nothing is changed, where the value is no longer ours: the owner has set it. */
static bool set(struct tune_change *change, u32 pages)
{
	u32 ours = change->set_pages;

	/*
	 * Between the last fput and __fput the entry is still there, and from 6.12 on the work that ends the file uses memory
	 * of f_ra: not that of ra_pages.
	 */
	BUILD_BUG_ON(offsetof(struct file_ra_state, ra_pages) < sizeof(struct callback_head));
	if (cmpxchg(&change->open->f_ra.ra_pages, ours, pages) != ours)
		return false;
	if (pages == ours)
		return true;
	WRITE_ONCE(change->set_pages, pages);
	atomic64_inc(pages == change->own_pages ? &tune_counters.restored : &tune_counters.changed);
	return true;
}

/* With changes_lock held. */
static void leave(struct tune_change *change)
{
	if (change->left)
		return;
	WRITE_ONCE(change->left, true);
	atomic64_inc(&tune_counters.left);
}

/*
 * The value for an open file that had `own`. The target was decided for the value of the file's first reader. An open
 * file that was further that way from the start keeps its own: the device's value may have changed in between.
 */
static u32 value_for(const struct tune_file *file, u32 target, u32 own)
{
	return target > READ_ONCE(file->own_pages) ? max(target, own) : min(target, own);
}

bool tune_apply(struct file *open, struct tune_file *file, bool advised)
{
	u32 have = READ_ONCE(open->f_ra.ra_pages), pages;
	u32 want = !file || READ_ONCE(tune_dry_run) ? 0 : READ_ONCE(file->target_pages);
	bool hands_off = advised || mode_advised(open);
	struct tune_change *change;

	if (want > 0 && have == want && !hands_off)
		return true;
	change = READ_ONCE(count) > 0 ? find(open) : NULL;
	if (!change) {
		if (!file)
			return false;
		if (owner_decides(open, have)) {
			if (want > 0)
				atomic64_inc(&tune_counters.advised);
			return false;
		}
		if (want == 0 || (value_for(file, want, have) == have && !advised))
			goto seen;
		change = note(open, have);
		if (!change) {
			this_cpu_inc(tune_events.lost);
			return false;
		}
	}
	if (READ_ONCE(change->left))
		return false;
	pages = want && !hands_off ? value_for(file, want, change->own_pages) : change->own_pages;
	if (hands_off || have != pages || READ_ONCE(change->set_pages) != pages) {
		raw_spin_lock(&changes_lock);
		/* A mapping with advice shares the value of its open file with read(). */
		if (!change->left && (!set(change, pages) || hands_off))
			leave(change);
		raw_spin_unlock(&changes_lock);
		if (READ_ONCE(change->left))
			return false;
	}
	have = change->own_pages;
seen:
	if (advised)
		return false;
	/* The worker takes decisions from the value that the first open file began with. */
	if (file && !READ_ONCE(file->own_pages))
		WRITE_ONCE(file->own_pages, have);
	return true;
}

void tune_apply_forget(struct file *open)
{
	struct tune_change *change;

	if (READ_ONCE(count) == 0)
		return;
	rcu_read_lock();
	change = find(open);
	if (change) {
		/* Waits for tune_apply_restore, which may be looking at the file. */
		raw_spin_lock(&changes_lock);
		hlist_del_rcu(&change->node);
		WRITE_ONCE(count, count - 1);
		raw_spin_unlock(&changes_lock);
		kfree_rcu(change, rcu);
	}
	rcu_read_unlock();
}

void tune_apply_restore(void)
{
	struct tune_change *change;
	size_t b;

	for (b = 0; b < ARRAY_SIZE(changes); b++) {
		/* What is found with changes_lock held is alive. */
		raw_spin_lock(&changes_lock);
		hlist_for_each_entry(change, &changes[b], node)
			if (!change->left)
				set(change, change->own_pages);
		raw_spin_unlock(&changes_lock);
	}
}

unsigned int tune_apply_count(void)
{
	return READ_ONCE(count);
}

void tune_apply_end(void)
{
	struct tune_change *change;
	struct hlist_node *next;
	size_t b;

	rcu_barrier();
	for (b = 0; b < ARRAY_SIZE(changes); b++) {
		hlist_for_each_entry_safe(change, next, &changes[b], node)
			kfree(change);
		INIT_HLIST_HEAD(&changes[b]);
	}
	count = 0;
}
