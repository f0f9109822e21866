/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Observes how files are read: which pages are demanded, in which order, and which pages are brought into memory.
 *
 * Three events demand pages: mm_filemap_get_pages (read and splice), mm_filemap_map_pages (a fault that found pages in
 * memory and mapped those around it) and mm_filemap_fault (one that did not). One event brings them:
 * mm_filemap_add_to_page_cache, per folio. Everything is added up per file, control group and CPU; nothing is sent.
 * A demand is compared with where the last ones of the same file on the same CPU ended, because two threads that read
 * in order would look random together.
 *
 * A program per tracepoint: the loader takes those that the kernel has.
 */
#include "readahead.h"

struct {
	MAP_NUMBER(type, MAP_PERCPU_HASH);
	MAP_NUMBER(max_entries, FILES_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, struct cell);
} files SEC(".maps");

/*
 * The same for the files that are read most: a search in `files` takes as long as all the rest. A file is in one of the
 * two on each CPU; user space adds them up.
 */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, HOT);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct hot);
} hot SEC(".maps");

/* A zeroed cell: too large for the stack. */
struct {
	MAP_NUMBER(type, MAP_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct cell);
} blank SEC(".maps");

/* Events that found no room in `files`. */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 1);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} lost SEC(".maps");

/* Files whose descriptors the iterator reports; the control group of the key is 0. */
struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, FILES_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct key);
	MAP_TYPE(value, u32);
} wanted SEC(".maps");

/* Device to observe, as in dev_t; 0: all. */
const volatile u32 only_dev = 0;
/* 1 where mm_filemap_get_pages gives the page after the last (6.12 and some before 6.14). */
const volatile u32 last_is_end = 0;

ALWAYS_INLINE struct cell *cell_of(struct inode *inode)
{
	struct key key = {.inode = inode->i_ino, .dev = inode->i_sb->s_dev};
	struct cell *cell;
	struct hot *place;
	u32 zero = 0, at;

	if (only_dev && key.dev != only_dev)
		return 0;
	key.cgroup = current_task()->cgroups->dfl_cgrp->kn->id;
	at = (((u32)key.inode ^ (u32)key.cgroup << 8) * 2654435761u) >> 26;
	place = map_find(&hot, &at);
	if (!place)
		return 0;
	if (place->key.inode == key.inode && place->key.cgroup == key.cgroup && place->key.dev == key.dev) {
		if (place->missed)
			place->missed = 0;
		return &place->cell;
	}
	cell = map_find(&files, &key);
	if (cell) {
		/* It stays where it is: its counters would be in two places. */
		place->missed++;
		return cell;
	}
	cell = map_find(&blank, &zero);
	if (cell && (place->key.dev == 0 || place->missed++ > MISSED_MAX)) {
		place->cell = *cell;
		place->key = key;
		place->missed = 0;
		return &place->cell;
	}
	if (cell && map_put(&files, &key, cell, MAP_NEW_ONLY) == 0)
		return map_find(&files, &key);
	u64 *count = map_find(&lost, &zero);
	if (count)
		(*count)++;
	return 0;
}

ALWAYS_INLINE u32 log2_of(u64 value)
{
	u32 log = 0;

	if (value >> 32)
		return 32;
	if (value >> 16)
		value >>= 16, log += 16;
	if (value >> 8)
		value >>= 8, log += 8;
	if (value >> 4)
		value >>= 4, log += 4;
	if (value >> 2)
		value >>= 2, log += 2;
	return log + (u32)(value >> 1);
}

/* Counts what of [start, end) lies in `batch` and is demanded for the first time; false where nothing lies there. */
ALWAYS_INLINE int use_batch(struct cell *cell, struct batch *batch, u64 start, u64 end)
{
	u64 low = start > batch->start ? start : batch->start;
	u64 high = end < batch->end ? end : batch->end;

	if (low >= high)
		return 0;
	if (batch->low == batch->high) {
		batch->low = low;
		batch->high = high;
		cell->used += high - low;
		return 1;
	}
	if (low < batch->low) {
		cell->used += batch->low - low;
		batch->low = low;
	}
	if (high > batch->high) {
		cell->used += high - batch->high;
		batch->high = high;
	}
	return 1;
}

/* The same for whichever of the last batches it is. */
ALWAYS_INLINE void use(struct cell *cell, u64 start, u64 end)
{
#pragma unroll
	for (u32 i = 0; i < BATCHES; i++)
		if (use_batch(cell, &cell->batch[i], start, end))
			return;
}

/* Pages [start, end) came: they extend a batch or begin one. */
ALWAYS_INLINE struct batch *grow(struct cell *cell, u64 start, u64 end)
{
	struct batch *batch;

#pragma unroll
	for (u32 i = 0; i < BATCHES; i++) {
		batch = &cell->batch[i];
		if (batch->end == start && batch->start != batch->end) {
			batch->end = end;
			return batch;
		}
	}
	cell->batches++;
	batch = &cell->batch[cell->batch_next++ % BATCHES];
	batch->start = start;
	batch->end = end;
	batch->low = batch->high = start;
	return batch;
}

/* Where a jump came from may be continued later: one of a few interleaved sequences. */
ALWAYS_INLINE int resumes(struct cell *cell, u64 start, u64 end, u64 near)
{
#pragma unroll
	for (u32 i = 0; i < STREAMS; i++) {
		u64 at = cell->stream[i];

		if (at && start <= at + near && end > at) {
			cell->stream[i] = cell->end;
			return 1;
		}
	}
	u32 slot = cell->stream_next++ % STREAMS;
	cell->stream[slot] = cell->end;
	return 0;
}

/* How a demand is told: by read(), by a fault, or by a fault-around that mapped 16 pages or so for one touch. */
enum { READ, FAULT, AROUND };

/*
 * A demand of [start, end). Between neighbouring faults all pages count as demanded: touching what a fault-around has
 * mapped is not told. After a jump a fault-around counts as one page.
 */
ALWAYS_INLINE void demand(struct cell *cell, u64 start, u64 end, int how)
{
	u64 from = cell->start, to = cell->end;
	u64 fresh = how == AROUND ? 1 : end - start;
	/* A fault maps a large folio as a whole. */
	u64 near = how != READ && cell->folio > NEAR ? cell->folio : NEAR;
	u32 bucket;

	if (to && start >= from && end <= to) {
		cell->repeats++;
		return;
	}
	cell->accesses++;
	bucket = log2_of(start >= to ? start - to : to - start);
	if (bucket >= DISTANCES)
		bucket = DISTANCES - 1;
	cell->distance[bucket]++;
	if (to && end > to && start >= from && start <= to + near) {
		u64 first = how == READ && start > to ? start : to;

		cell->forward++;
		fresh = end - first;
		use(cell, first, end);
	} else if (to && start < from && end + near >= from) {
		cell->reverse++;
		fresh = (end < from || how != READ ? from : end) - start;
		use(cell, start, start + fresh);
	} else if (to && resumes(cell, start, end, near)) {
		cell->forward++;
		fresh = end - start;
		use(cell, start, end);
	} else {
		cell->jumps++;
		use(cell, start, start + fresh);
	}
	cell->pages += fresh;
	cell->start = start;
	cell->end = end;
	cell->process = current_task()->tgid;
}

SEC("tp_btf/mm_filemap_get_pages")
int get_pages(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];
	u64 index = ctx[1], last = ctx[2];
	struct cell *cell = cell_of(mapping->host);
	u32 bucket;

	if (!cell)
		return 0;
	if (!last_is_end || last == index)
		last++;
	/* Parts of one read come with the same end: only the first one is a request. */
	if (last != cell->end || index < cell->start) {
		bucket = log2_of(last - index);
		cell->size[bucket < SIZES ? bucket : SIZES - 1]++;
	}
	demand(cell, index, last, READ);
	return 0;
}

SEC("tp_btf/mm_filemap_map_pages")
int map_pages(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];
	u64 start = ctx[1], end = ctx[2] + 1;
	struct cell *cell = cell_of(mapping->host);

	if (!cell)
		return 0;
	cell->mapped_start = start;
	cell->mapped_end = end;
	/* A fault that had to wait for its page is taken again, and then finds it: the same access. */
	if (cell->end == cell->start + 1 && cell->start >= start && cell->start < end)
		return 0;
	cell->faults++;
	demand(cell, start, end, AROUND);
	return 0;
}

SEC("tp_btf/mm_filemap_fault")
int fault(u64 *ctx)
{
	struct address_space *mapping = (void *)ctx[0];
	u64 index = ctx[1];
	struct cell *cell = cell_of(mapping->host);

	if (!cell)
		return 0;
	/* The fault-around just before was the same access, and did not find this page. */
	if (cell->mapped_end && index >= cell->mapped_start && index < cell->mapped_end) {
		cell->mapped_end = 0;
		return 0;
	}
	cell->faults++;
	demand(cell, index, index + 1, FAULT);
	return 0;
}

ALWAYS_INLINE u64 folio_pages(struct folio *folio)
{
	struct folio___wrapped *wrapped = (void *)folio;
	u64 flags, order;

	if (HAS(wrapped->flags.f))
		flags = wrapped->flags.f;
	else
		flags = folio->flags;
	if (!(flags >> __builtin_preserve_enum_value(*(enum pageflags *)PG_head, 1) & 1))
		return 1;
	struct folio___flags *second = (void *)folio;
	struct folio___byte *byte = (void *)folio;
	if (HAS(byte->_folio_order))
		order = byte->_folio_order;
	else if (HAS(second->_flags_1))
		order = second->_flags_1 & 0xff;
	else
		order = 0;
	return 1ull << (order & 31);
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int add(u64 *ctx)
{
	struct folio *folio = (void *)ctx[0];
	struct cell *cell = cell_of(folio->mapping->host);
	u64 index, end;

	if (!cell)
		return 0;
	index = folio->index;
	end = index + folio_pages(folio);
	cell->added += end - index;
	cell->folio = end - index;
	struct batch *batch = grow(cell, index, end);
	/* A fault is told before its page comes, a read after. */
	if (index < cell->end && end > cell->start)
		use_batch(cell, batch, cell->start, cell->end);
	return 0;
}

ALWAYS_INLINE int readahead(struct inode *inode)
{
	struct cell *cell = cell_of(inode);

	if (cell)
		cell->readaheads++;
	return 0;
}

SEC("tp_btf/page_cache_ra_unbounded")
int ra_unbounded(u64 *ctx)
{
	return readahead((struct inode *)ctx[0]);
}

SEC("tp_btf/page_cache_ra_order")
int ra_order(u64 *ctx)
{
	return readahead((struct inode *)ctx[0]);
}

/* An empty program on the same tracepoint: what an event costs before we count anything. */
SEC("tp_btf/mm_filemap_get_pages")
int nothing(u64 *ctx)
{
	(void)ctx;
	return 0;
}

SEC("iter/task_file")
int descriptors(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct task_struct *task = ctx->task;
	struct open_file out = {};
	struct key key = {};

	/* Threads share their process's descriptors. */
	if (!file || !task || task->pid != task->tgid)
		return 0;
	key.inode = file->f_inode->i_ino;
	key.dev = file->f_inode->i_sb->s_dev;
	if (!map_find(&wanted, &key))
		return 0;
	out.inode = key.inode;
	out.dev = key.dev;
	out.cgroup = task->cgroups->dfl_cgrp->kn->id;
	out.process = task->tgid;
	out.fd = ctx->fd;
	out.mode = file->f_mode;
	out.flags = file->f_flags;
	out.ra_pages = file->f_ra.ra_pages;
	seq_put(ctx->meta->seq, &out, sizeof(out));
	return 0;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
