// SPDX-License-Identifier: GPL-2.0-only
/*
 * State of each file that is read. Hooks add files; the worker alone removes them, so it may walk the list without a
 * lock. A file is known by device, inode number and generation: a number that is used again is another file.
 */
#include <linux/rculist.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/slab.h>

#include "linnet-tune.h"

static const struct rhashtable_params params = {
	.key_len = sizeof(struct tune_key),
	.key_offset = offsetof(struct tune_file, key),
	.head_offset = offsetof(struct tune_file, node),
	.automatic_shrinking = true,
};

static struct rhashtable table;
static struct kmem_cache *cache;
static LIST_HEAD(list);
static DEFINE_RAW_SPINLOCK(list_lock);

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
	for (s = 0; s < TUNE_SHARDS; s++)
		raw_spin_lock_init(&file->shards[s].lock);
	there = rhashtable_lookup_get_insert_fast(&table, &file->node, params);
	if (there) {
		kmem_cache_free(cache, file);
		if (IS_ERR(there))
			goto lost;
		return there;
	}
	raw_spin_lock(&list_lock);
	list_add_tail_rcu(&file->list, &list);
	raw_spin_unlock(&list_lock);
	return file;
lost:
	atomic64_inc(&tune_counters.lost);
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
	file = rhashtable_lookup(&table, &key, params);
	return file || !create ? file : add(&key);
}

struct tune_shard *tune_shard_lock(struct tune_file *file)
{
	struct tune_shard *shard = &file->shards[current->pid % TUNE_SHARDS];

	raw_spin_lock(&shard->lock);
	return shard;
}

void tune_shard_unlock(struct tune_file *file, struct tune_shard *shard)
{
	raw_spin_unlock(&shard->lock);
	atomic64_inc(&tune_counters.events);
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
	raw_spin_unlock(&list_lock);
	rhashtable_remove_fast(&table, &file->node, params);
	call_rcu(&file->rcu, free_file);
}

unsigned int tune_file_count(void)
{
	return atomic_read(&table.nelems);
}

int tune_files_start(void)
{
	int error;

	cache = KMEM_CACHE(tune_file, 0);
	if (!cache)
		return -ENOMEM;
	error = rhashtable_init(&table, &params);
	if (error)
		kmem_cache_destroy(cache);
	return error;
}

void tune_files_end(void)
{
	struct tune_file *file;

	while ((file = tune_file_next(NULL)))
		tune_file_forget(file);
	rcu_barrier();
	rhashtable_destroy(&table);
	kmem_cache_destroy(cache);
}
