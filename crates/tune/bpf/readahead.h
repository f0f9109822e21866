/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The keys of what the observer counts, per file, control group and CPU; core/reads.h has the counters and the rules.
 * src/observe/cell.rs and counted.rs read the same bytes: change both. Counters only grow; user space takes differences.
 */
#ifndef LINNET_TUNE_READAHEAD_H
#define LINNET_TUNE_READAHEAD_H

#include "kernel.h"
#include "../../../core/reads.h"

enum {
	CELLS_MAX = 8192,	/* src/observe/counted.rs asks for as many as the CPUs need */
	WANTED_MAX = 4096,
	HOT = 64,	/* files on each CPU that are found without a search */
	MISSED_MAX = 4096,	/* events of others after which one of these makes room */
	NOTES = 1024,	/* a power of two */
	THREADS = 64,	/* of each CPU that are known without a call; a power of two */
	STACK_SHIFT = 14,	/* a kernel stack has 16 KiB or more */
	ADVISED_MAX = 65536,	/* files that are mapped with advice */
};

/* Places of `lost`. */
enum { LOST_EVENTS, LOST_ADVICE };

/*
 * With whose value a thread reads: OWN where that is the device's value or less, ADVISED where the file's owner gave
 * advice that shows in its mode, and otherwise the value, in pages. More than the device's may be ours, that of a file
 * opened before the device had less, or advice SEQUENTIAL: user space tells which.
 */
enum { OWN = 0 };
#define ADVISED 0xffffffffu

struct key {
	u64 inode;
	u64 cgroup;
	u32 dev;
	u32 reader;
};

/* What is counted in `files`: a file, and the CPU that counts. */
struct place {
	struct key key;
	u32 cpu;
	u32 zero;
};

/* A file that is found without a search: its place follows from its number. */
struct hot {
	struct key key;
	struct linnet_reads cell;
	u32 missed;	/* events of other files with the same place, since its last own */
	u32 zero;
};

/* A thread, known by its kernel stack for one tick of the kernel's clock. */
struct thread {
	u64 tick;
	u64 cgroup;
	u32 stack;
	u32 pid;
	u32 process;
	u32 zero;
};

/* An open file, as the iterator reports it. */
struct open_file {
	u64 inode;
	u64 cgroup;
	u64 size;	/* bytes of the file */
	u32 dev;
	u32 process;
	u32 fd;
	u32 mode;	/* f_mode: advice shows here */
	u32 flags;	/* f_flags: O_DIRECT */
	u32 ra_pages;
};

#endif
