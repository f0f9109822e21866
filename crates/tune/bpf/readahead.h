/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the observer counts, per file, control group and CPU. src/observe/cell.rs reads the same bytes: change both.
 *
 * Counters only grow; user space takes differences. Pages are 4 KiB whatever the folio's size.
 */
#ifndef LINNET_TUNE_READAHEAD_H
#define LINNET_TUNE_READAHEAD_H

#include "kernel.h"

enum {
	DISTANCES = 16,	/* buckets of log2 |distance|; the last holds the rest */
	SIZES = 8,	/* buckets of log2 of a read() in pages */
	STREAMS = 4,	/* interleaved sequences that are told apart */
	BATCHES = 4,	/* ranges read lately, to see which pages are demanded */
	NEAR = 16,	/* pages: a fault maps so many around it, so a sequence may skip as many */
	FILES_MAX = 4096,
	HOT = 64,	/* files on each CPU that are found without a search */
	MISSED_MAX = 4096,	/* events of others after which one of these makes room */
};

struct key {
	u64 inode;
	u64 cgroup;
	u32 dev;
	u32 zero;
};

/* Pages [start, end) that came into memory together, of which [low, high) was demanded. */
struct batch {
	u64 start;
	u64 end;
	u64 low;
	u64 high;
};

struct cell {
	u64 accesses;	/* demands: reads and faults; the parts of one read count once */
	u64 pages;	/* pages demanded */
	u64 repeats;	/* demands within the pages of the one before */
	u64 forward;	/* demands that continue a sequence upwards */
	u64 reverse;	/* downwards */
	u64 jumps;	/* neither */
	u64 faults;	/* of the accesses, those through a mapping */
	u64 added;	/* pages brought into the page cache */
	u64 used;	/* of those, pages demanded soon after */
	u64 batches;	/* times that pages were added elsewhere than where the last ones ended */
	u64 readaheads;	/* calls of the readahead code, where the kernel tells */
	u64 distance[DISTANCES];
	u64 size[SIZES];
	/* State below: where this CPU was. */
	u64 start;	/* of the last demand */
	u64 end;
	u64 mapped_start;	/* of the last fault-around, which a fault may follow */
	u64 mapped_end;
	u64 stream[STREAMS];
	struct batch batch[BATCHES];
	u32 stream_next;
	u32 batch_next;
	u32 process;	/* the last one that demanded */
	u32 folio;	/* pages of the last folio that was added */
};

/* A file that is found without a search: its place follows from its number. */
struct hot {
	struct key key;
	struct cell cell;
	u32 missed;	/* events of other files with the same place, since its last own */
	u32 zero;
};

/* An open file, as the iterator reports it. */
struct open_file {
	u64 inode;
	u64 cgroup;
	u32 dev;
	u32 process;
	u32 fd;
	u32 mode;	/* f_mode: advice shows here */
	u32 flags;	/* f_flags: O_DIRECT */
	u32 ra_pages;
};

#endif
