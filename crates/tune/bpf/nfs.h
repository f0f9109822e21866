/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the observer of NFS counts per file. src/nfs/rpc.rs reads the same bytes: change both.
 *
 * Counters only grow; user space takes differences. All CPUs share one cell, because the gap between two reads is of
 * interest and the two may run on different CPUs. NFS clients send some ten thousand reads a second at most.
 */
#ifndef LINNET_TUNE_NFS_H
#define LINNET_TUNE_NFS_H

#include "kernel.h"

enum {
	NFS_FILES_MAX = 4096,
	NFS_OUTSTANDING_MAX = 16384,	/* reads in flight; beyond that, the oldest is dropped */
	NFS_PAUSE_NS = 1000000000,	/* no gap: a file that is not read for a second pauses */
};

struct nfs_file {
	u64 fileid;
	u32 dev;
	u32 zero;
};

struct nfs_read {
	struct nfs_file file;
	u64 offset;
};

struct nfs_cell {
	u64 reads;		/* RPCs sent */
	u64 done;		/* RPCs answered */
	u64 failed;		/* of those, with an error */
	u64 bytes;		/* received */
	u64 matched;		/* answers whose request was seen */
	u64 latency_ns;		/* sum over them, from request to answer */
	u64 read_gaps;		/* gaps between requests of the file, pauses not counted */
	u64 read_gap_ns;
	u64 done_gaps;		/* the same between answers */
	u64 done_gap_ns;
	u64 offset_diffs;	/* pairs of consecutive requests */
	u64 offset_pages;	/* sum of the distances between their offsets, in pages */
	u64 index_diffs;	/* pairs of pages that entered the page cache one after the other */
	u64 index_pages;	/* sum of the distances between them, in pages */
	/* State below. */
	u64 last_read_ns;
	u64 last_done_ns;
	u64 last_offset;
	u64 last_index;
};

#endif
