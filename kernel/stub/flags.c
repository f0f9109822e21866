// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks what the bios of reads carry (spec/dm-target.md, "Flags of a read"): REQ_NOWAIT stays until a worker
 * sends the read again, as do REQ_POLLED and its cookie, and REQ_FAILFAST is added exactly while somebody else could serve
 * the read, and never to readahead. When all have failed, those that failed with it are tried once more, without it.
 */
#include "hedges.h"

#define ADDED (REQ_FAILFAST_DEV | REQ_FAILFAST_TRANSPORT)

/*
 * A read that fails at every leg: what it carries at each. `own` are flags of the application's. All but the last have
 * failed with flags of the target's, unless the read is readahead, and get it once more.
 */
static void check_legs(u32 count, blk_opf_t own)
{
	static const char *const lines[] = { "1 /dev/leg0 0 2 policy shortest-queue",
					     "2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue",
					     "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 policy shortest-queue" };
	struct dm_target *ti = must(lines[count - 1]);
	struct stub_bio *b = new_bio(REQ_OP_READ | own, 0, 8, 4096);
	u32 attempts = own & REQ_RAHEAD ? count : 2 * count - 1, at, first = 0, second = 0, last = 0;

	stub_submit(ti, b);
	for (u32 n = 1; n <= attempts; n++) {
		CHECK(b->below, "%u legs: attempt %u", count, n);
		at = BIT(place(&b->bio));
		CHECK(!((n <= count ? first : second) & at), "%u legs: attempt %u goes where another has failed", count, n);
		*(n <= count ? &first : &second) |= at;
		last = n == count ? at : last;
		CHECK((b->bio.bi_opf & REQ_NOWAIT) == (n == 1 ? own & REQ_NOWAIT : 0), "%u legs, attempt %u: NOWAIT", count, n);
		CHECK((b->bio.bi_opf & REQ_POLLED) == (n == 1 ? own & REQ_POLLED : 0), "%u legs, attempt %u: POLLED", count, n);
		CHECK(n == 1 || b->bio.bi_cookie == BLK_QC_T_NONE, "%u legs, attempt %u: a poller looks at the former leg", count, n);
		CHECK(!(b->bio.bi_opf & REQ_DRV), "%u legs, attempt %u: a flag of the former leg's driver", count, n);
		b->bio.bi_cookie = at; /* the driver's */
		b->bio.bi_opf |= REQ_DRV;
		CHECK((b->bio.bi_opf & ADDED) == (n < count && !(own & REQ_RAHEAD) ? ADDED : own & ADDED), "%u legs, attempt %u: flags %x", count, n,
		      b->bio.bi_opf);
		stub_complete(b, BLK_STS_IOERR);
		stub_run_works();
	}
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_IOERR, "%u legs: no end after %u attempts", count, attempts);
	CHECK(!(second & last), "%u legs: one that had tried again itself is tried again", count);
	free(b);
	end_probes(ti);
	stub_remove(ti);
}

/* Both fail at once; the driver of the first would have read it. */
static void check_patience(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue");
	struct stub_bio *b = new_bio(REQ_OP_READ, 0, 8, 4096);
	u32 first;

	stub_submit(ti, b);
	first = place(&b->bio);
	for (u32 n = 0; n < 2; n++) {
		stub_complete(b, n ? BLK_STS_MEDIUM : BLK_STS_IOERR);
		stub_run_works();
	}
	CHECK(b->below && place(&b->bio) == first && !(b->bio.bi_opf & ADDED), "no time to try again");
	stub_complete(b, BLK_STS_OK);
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_OK && count_of(ti, "failovers", -1) == 2, "not read");
	free(b);
	/* It is taken out of service meanwhile: it could not serve the read. */
	b = new_bio(REQ_OP_READ, 0, 8, 4096);
	stub_submit(ti, b);
	first = place(&b->bio);
	stub_complete(b, BLK_STS_IOERR);
	stub_run_works();
	CHECK(tell(ti, first ? "fail 1" : "fail 0") == 0, "fail");
	stub_complete(b, BLK_STS_MEDIUM);
	stub_run_works();
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_MEDIUM, "a replica that is out of service gets a read");
	free(b);
	stub_remove(ti);
}

/* Legs that a message has taken out of service could not serve the read. */
static void check_out(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 3 policy shortest-queue out:0");
	struct stub_bio *b = new_bio(REQ_OP_READ, 0, 8, 4096);

	stub_submit(ti, b);
	CHECK(b->below && !(b->bio.bi_opf & ADDED), "the only leg does not try again");
	stub_complete(b, BLK_STS_OK);
	free(b);
	stub_remove(ti);
}

/*
 * Of two copies at two legs the second is the last; of three legs one is left. When both fail, the third is the last.
 */
static void check_copies(u32 count)
{
	struct app *app;

	hedging = must(count == 2 ? "2 /dev/leg0 0 /dev/leg1 0 4 policy shortest-queue hedge 50" :
				    "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy shortest-queue hedge 50");
	app = hedged(8);
	CHECK((stub_own[0]->bi_opf & ADDED) == ADDED, "%u legs: the first copy tries again for seconds", count);
	CHECK((stub_own[1]->bi_opf & ADDED) == (count == 2 ? 0 : ADDED), "%u legs: the second copy", count);
	stub_complete_own(0, BLK_STS_IOERR, 9);
	stub_complete_own(0, count == 2 ? BLK_STS_OK : BLK_STS_IOERR, 2);
	if (count == 3) {
		stub_run_works();
		CHECK(app->b->below && !(app->b->bio.bi_opf & ADDED), "the last leg does not try again");
		stub_complete(app->b, BLK_STS_OK);
	}
	got(app, count == 2 ? 2 : 0, __LINE__);
	stub_remove(hedging);
}

/* Both copies fail, and two legs are all there is: the first leg has not tried again yet. */
static void check_patient_copies(void)
{
	struct app *app;
	u32 first;

	hedging = must("2 /dev/leg0 0 /dev/leg1 0 4 policy shortest-queue hedge 50");
	app = hedged(8);
	first = place(stub_own[0]);
	for (u32 n = 0; n < 2; n++)
		stub_complete_own(0, BLK_STS_IOERR, 9);
	stub_run_works();
	CHECK(app->b->below && place(&app->b->bio) == first && !(app->b->bio.bi_opf & ADDED), "no time to try again");
	stub_complete(app->b, BLK_STS_MEDIUM);
	stub_run_works();
	CHECK(app->b->ended == 1 && app->b->bio.bi_status == BLK_STS_MEDIUM, "no end");
	free(app->b);
	free(app);
	stub_remove(hedging);
}

void check_flags(void)
{
	for (u32 count = 1; count <= 3; count++) {
		check_legs(count, 0);
		check_legs(count, REQ_NOWAIT);
		check_legs(count, REQ_NOWAIT | REQ_FAILFAST_DEV);
		check_legs(count, REQ_POLLED);
		check_legs(count, REQ_RAHEAD);
	}
	check_patience();
	check_out();
	check_patient_copies();
	check_copies(2);
	check_copies(3);
}
