// SPDX-License-Identifier: GPL-2.0-only
/*
 * State of each file that is read. Hooks add files; the worker alone removes them, so it may walk the list without a
 * lock. A file is known by device, inode number and generation: a number that is used again is another file. On btrfs
 * that is not enough: subvolumes have a device together and count alike, and a snapshot has its origin's generations, too.
 * There a file is known by its inode in memory as well, and only while it has that.
 *
 * Hooks use no rhashtable: before 6.3 its locks end with local_bh_enable(), which may run softirqs for long, here with
 * preemption disabled and, in apply.c, a spinlock held.
 */
#include <linux/hash.h>
#include <linux/jhash.h>
#include <linux/ktime.h>
#include <linux/magic.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "linnet-tune.h"

static struct kmem_cache *cache;
/* What writes these holds list_lock. */
static struct hlist_head buckets[1 << TUNE_HASH_BITS];
static LIST_HEAD(list);
static unsigned int count;
static DEFINE_RAW_SPINLOCK(list_lock);
/* Inode numbers may be anybody's choice (FUSE): nobody shall know which of them share a bucket. */
static u32 seed;

static struct hlist_head *bucket_of(const struct tune_key *key)
{
	return &buckets[jhash(key, sizeof(*key), seed) & (ARRAY_SIZE(buckets) - 1)];
}

static struct tune_file *find(const struct tune_key *key)
{
	struct tune_file *file;

	hlist_for_each_entry_rcu(file, bucket_of(key), node)
		if (!memcmp(&file->key, key, sizeof(*key)))
			return file;
	return NULL;
}

static void free_file(struct rcu_head *rcu)
{
	kmem_cache_free(cache, container_of(rcu, struct tune_file, rcu));
}

static struct tune_file *add(const struct tune_key *key)
{
	struct tune_file *file, *there;
	int s;

	if (tune_file_count() >= READ_ONCE(tune_files_max))
		goto lost;
	file = kmem_cache_zalloc(cache, GFP_NOWAIT | __GFP_NOWARN);
	if (!file)
		goto lost;
	file->key = *key;
	file->read_at_ns = ktime_get_ns(); /* so that it is not taken for one that was not read for long */
	for (s = 0; s < TUNE_SHARDS; s++)
		raw_spin_lock_init(&file->shards[s].lock);
	raw_spin_lock(&list_lock);
	there = find(key);
	if (!there) {
		hlist_add_head_rcu(&file->node, bucket_of(key));
		list_add_tail_rcu(&file->list, &list);
		WRITE_ONCE(count, count + 1);
	}
	raw_spin_unlock(&list_lock);
	if (there)
		kmem_cache_free(cache, file);
	return there ? there : file;
lost:
	this_cpu_inc(tune_events.lost);
	tune_decide_wake(); /* makes room */
	return NULL;
}

struct tune_file *tune_file_of(const struct inode *inode, bool create)
{
	struct tune_key key;
	struct tune_file *file;

	if (!S_ISREG(inode->i_mode) || !tune_device_wanted(inode->i_sb))
		return NULL;
	key.inode = inode->i_ino;
	key.dev = inode->i_sb->s_dev;
	key.generation = inode->i_generation;
	if (inode->i_sb->s_magic == BTRFS_SUPER_MAGIC)
		key.generation ^= hash_ptr(inode, 32);
	file = find(&key);
	return file || !create ? file : add(&key);
}

static struct tune_shard *shard_of_thread(struct tune_file *file)
{
	return &file->shards[current->pid % TUNE_SHARDS];
}

/* Two threads that share a word may take it from each other: then some reads of one are counted. */
static pid_t *uncounted_of_thread(struct tune_shard *shard)
{
	return &shard->uncounted[current->pid / TUNE_SHARDS % TUNE_UNCOUNTED];
}

void tune_count_thread(struct tune_file *file, bool counted)
{
	pid_t *word = uncounted_of_thread(shard_of_thread(file));

	if (counted == (READ_ONCE(*word) == current->pid))
		WRITE_ONCE(*word, counted ? 0 : current->pid);
}

struct tune_shard *tune_shard_lock(struct tune_file *file)
{
	struct tune_shard *shard = shard_of_thread(file);

	if (READ_ONCE(*uncounted_of_thread(shard)) == current->pid)
		return NULL;
	raw_spin_lock(&shard->lock);
	return shard;
}

void tune_shard_unlock(struct tune_file *file, struct tune_shard *shard)
{
	raw_spin_unlock(&shard->lock);
	this_cpu_inc(tune_events.counted);
	if (!test_bit(TUNE_ACTIVE, &file->flags)) {
		set_bit(TUNE_ACTIVE, &file->flags);
		tune_decide_wake();
	}
}

struct tune_file *tune_file_next(struct tune_file *file)
{
	/* Hooks may be adding at the end: what they publish is read as such. */
	struct list_head *next = rcu_dereference_raw(list_next_rcu(file ? &file->list : &list));

	return next == &list ? NULL : list_entry(next, struct tune_file, list);
}

void tune_file_forget(struct tune_file *file)
{
	raw_spin_lock(&list_lock);
	list_del_rcu(&file->list);
	hlist_del_rcu(&file->node);
	WRITE_ONCE(count, count - 1);
	raw_spin_unlock(&list_lock);
	call_rcu(&file->rcu, free_file);
}

unsigned int tune_file_count(void)
{
	return READ_ONCE(count);
}

int tune_files_start(void)
{
	seed = get_random_u32();
	cache = KMEM_CACHE(tune_file, 0);
	return cache ? 0 : -ENOMEM;
}

void tune_files_end(void)
{
	struct tune_file *file;

	while ((file = tune_file_next(NULL)))
		tune_file_forget(file);
	rcu_barrier();
	kmem_cache_destroy(cache);
}
