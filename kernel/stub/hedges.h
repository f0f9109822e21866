/* SPDX-License-Identifier: GPL-2.0-only */
/* Shared by the checks of hedged reads: a target, its reads, and the devices, which the check plays. */
#ifndef STUB_HEDGES_H
#define STUB_HEDGES_H

#include "check.h"

#define SIZE 16384
#define LATENESS (20 * NSEC_PER_MSEC) /* beyond the first delay */

/* A read of the application, with its own pages. */
struct app {
	struct stub_bio *b;
	struct page pages[DIV_ROUND_UP(SIZE, PAGE_SIZE)];
	struct bio_vec vecs[DIV_ROUND_UP(SIZE, PAGE_SIZE)];
};

/* The target under test, with hedging on. */
extern struct dm_target *hedging;

/* What its reads carry: REQ_NOWAIT or nothing. */
extern blk_opf_t flags_of_reads;

struct app *start_read(u64 sector, u32 size);
/* Checks that the read has ended well and holds this byte everywhere. The read may not be used after that. */
void got(struct app *app, u8 fill, int line);
/* The number of a bio's device. */
u32 place(const struct bio *bio);
/* Time passes, and what is late is sent again. */
void late(u64 ns);
/* Makes this many reads that are answered in time, which add to the budget of hedges. */
void earn(u32 count);
/* A read with two copies in flight; the one at stub_own[0] was sent first. */
struct app *hedged(u64 sector);
/* Checks that a read of this size is not hedged, but sent as it is. */
void plain(u64 size, const char *why);

void check_hedges_under_load(void);
void check_hedges_that_are_late(void);
void check_hedges_above_md(void);

#endif
