/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * Observes the reads that an NFS client sends: how many, how long each takes, how far apart they are.
 *
 * nfs_initiate_read and nfs_readpage_done belong to the module nfs, whose types the kernel's own type information does
 * not have. Their records are read instead, at the offsets that tracefs gives for the running kernel; the loader sets
 * them. A request and its answer are paired by file and offset.
 */
#include "nfs.h"

struct {
	MAP_NUMBER(type, MAP_HASH);
	MAP_NUMBER(max_entries, NFS_FILES_MAX);
	MAP_NUMBER(map_flags, MAP_NO_PREALLOC);
	MAP_TYPE(key, struct nfs_file);
	MAP_TYPE(value, struct nfs_cell);
} nfs_files SEC(".maps");

/* When each read in flight was sent. */
struct {
	MAP_NUMBER(type, MAP_LRU_HASH);
	MAP_NUMBER(max_entries, NFS_OUTSTANDING_MAX);
	MAP_TYPE(key, struct nfs_read);
	MAP_TYPE(value, u64);
} outstanding SEC(".maps");

/* [0] events that found no room in nfs_files; [1] pages that the machine reclaimed. */
struct {
	MAP_NUMBER(type, MAP_PERCPU_ARRAY);
	MAP_NUMBER(max_entries, 2);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, u64);
} totals SEC(".maps");

enum { LOST, RECLAIMED };

/* Device to observe, as in dev_t; 0: every NFS mount. */
const volatile u32 only_dev = 0;
/* Where the fields lie in the records of the tracepoints. */
const volatile u32 read_dev = 0, read_fileid = 0, read_offset = 0;
const volatile u32 done_dev = 0, done_fileid = 0, done_offset = 0, done_count = 0, done_error = 0;
const volatile u32 nr_reclaimed = 0;

#define FIELD(target, record, at) probe_read(&(target), sizeof(target), (const char *)(record) + (at))

ALWAYS_INLINE void count(u32 which, u64 more)
{
	u64 *total = map_find(&totals, &which);

	if (total)
		*total += more;
}

ALWAYS_INLINE u64 distance(u64 a, u64 b)
{
	return a > b ? a - b : b - a;
}

/* Adds the time since `last` unless the file paused. Returns now. */
ALWAYS_INLINE void gap(u64 now, u64 *last, u64 *gaps, u64 *sum)
{
	u64 before = __sync_lock_test_and_set(last, now);

	if (before && now > before && now - before < NFS_PAUSE_NS) {
		__sync_fetch_and_add(gaps, 1);
		__sync_fetch_and_add(sum, now - before);
	}
}

SEC("tracepoint/nfs/nfs_initiate_read")
int nfs_initiate_read(void *record)
{
	struct nfs_read key = {};
	struct nfs_cell *cell;
	u64 now = time_ns(), last;

	FIELD(key.file.dev, record, read_dev);
	if (only_dev && key.file.dev != only_dev)
		return 0;
	FIELD(key.file.fileid, record, read_fileid);
	FIELD(key.offset, record, read_offset);
	cell = map_find(&nfs_files, &key.file);
	if (!cell) {
		struct nfs_cell blank = {};

		map_put(&nfs_files, &key.file, &blank, MAP_NEW_ONLY);
		cell = map_find(&nfs_files, &key.file);
		if (!cell) {
			count(LOST, 1);
			return 0;
		}
	}
	map_put(&outstanding, &key, &now, 0);
	gap(now, &cell->last_read_ns, &cell->read_gaps, &cell->read_gap_ns);
	last = __sync_lock_test_and_set(&cell->last_offset, key.offset);
	if (__sync_fetch_and_add(&cell->reads, 1)) {
		__sync_fetch_and_add(&cell->offset_diffs, 1);
		__sync_fetch_and_add(&cell->offset_pages, distance(key.offset, last) >> 12);
	}
	return 0;
}

SEC("tracepoint/nfs/nfs_readpage_done")
int nfs_readpage_done(void *record)
{
	struct nfs_read key = {};
	struct nfs_cell *cell;
	u64 now = time_ns(), *sent;
	u32 received = 0;
	int error = 0;

	FIELD(key.file.dev, record, done_dev);
	if (only_dev && key.file.dev != only_dev)
		return 0;
	FIELD(key.file.fileid, record, done_fileid);
	FIELD(key.offset, record, done_offset);
	FIELD(received, record, done_count);
	FIELD(error, record, done_error);
	cell = map_find(&nfs_files, &key.file);
	if (!cell)
		return 0;
	sent = map_find(&outstanding, &key);
	if (sent) {
		if (now > *sent) {
			__sync_fetch_and_add(&cell->matched, 1);
			__sync_fetch_and_add(&cell->latency_ns, now - *sent);
		}
		map_drop(&outstanding, &key);
	}
	gap(now, &cell->last_done_ns, &cell->done_gaps, &cell->done_gap_ns);
	__sync_fetch_and_add(&cell->done, 1);
	if (error < 0)
		__sync_fetch_and_add(&cell->failed, 1);
	else
		__sync_fetch_and_add(&cell->bytes, received);
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int nfs_page(u64 *ctx)
{
	struct folio *folio = (void *)ctx[0];
	struct inode *inode = folio->mapping->host;
	struct nfs_file key = {.fileid = inode->i_ino, .dev = inode->i_sb->s_dev};
	struct nfs_cell *cell;
	u64 index = folio->index, last;

	/* File systems without a block device have major 0; NFS is one of them. */
	if (key.dev >> 20 || (only_dev && key.dev != only_dev))
		return 0;
	cell = map_find(&nfs_files, &key);
	if (!cell)
		return 0;
	/* One more, so that 0 stands for "none yet". */
	last = __sync_lock_test_and_set(&cell->last_index, index + 1);
	if (last) {
		__sync_fetch_and_add(&cell->index_diffs, 1);
		__sync_fetch_and_add(&cell->index_pages, distance(index + 1, last));
	}
	return 0;
}

SEC("tracepoint/vmscan/mm_vmscan_lru_shrink_inactive")
int nfs_reclaim(void *record)
{
	u64 pages = 0;

	FIELD(pages, record, nr_reclaimed);
	count(RECLAIMED, pages);
	return 0;
}

char license_text[] SEC("license") = "Dual MIT/GPL";
