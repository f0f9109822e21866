// SPDX-License-Identifier: GPL-2.0-only
/* Checks hedged reads above md (spec/md-volume.md): copies go to trusted legs only, and md is left when both fail. */
#include "hedges.h"

static struct dm_target *legs[2];

static struct stub_bio *write_at(struct dm_target *ti, u64 sector, struct bio_vec *vec)
{
	struct stub_bio *b = new_bio(REQ_OP_WRITE, 0, sector, 4096);

	b->bio.bi_io_vec = vec;
	stub_submit(ti, b);
	return b;
}

static void end_write(struct stub_bio *b)
{
	stub_complete(b, BLK_STS_OK);
	free(b);
}

/* Somebody writes to the leg. */
static void foreign(u32 leg)
{
	struct bio_vec vec;

	end_write(write_at(legs[leg], 2048 + 64, &vec));
}

/* A write that only this leg gets. */
static void short_write(u32 leg)
{
	struct bio_vec vec;
	struct stub_bio *whole = write_at(hedging, 800, &vec);

	end_write(write_at(legs[leg], 2048 + 800, &vec));
	end_write(whole);
}

void check_hedges_above_md(void)
{
	char *error;
	struct app *app;
	u64 discarded;

	make_legs(legs);
	hedging = make("md /dev/leg7 2 253:0 2048 253:1 2048 4 policy shortest-queue hedge 50", false, &error);
	CHECK(hedging, "a volume: %s", error);
	plain(SIZE, "nothing is trusted");
	trust_both(hedging, legs);
	app = hedged(64);
	for (u32 k = 0; k < 2; k++)
		CHECK(stub_own[k]->bi_iter.bi_sector == 64 + 2048 + 16, "a copy's sector");
	stub_complete_own(1, BLK_STS_OK, 2);
	got(app, 2, __LINE__);
	/* It comes second, whatever it has read. */
	discarded = count_of(hedging, "discarded", -1);
	foreign(place(stub_own[0]));
	stub_complete_own(0, BLK_STS_OK, 1);
	CHECK(count_of(hedging, "discarded", -1) == discarded + 1, "not counted");
	trust_both(hedging, legs);
	/* While copies are there, the application's read points at no drive: that may go before the read ends. */
	app = hedged(64);
	CHECK(app->b->bio.bi_bdev == stub_devs[7].bdev, "the read points at device %u", place(&app->b->bio));
	/* Somebody writes to a leg: what is read there may be foreign, and no leg is trusted. */
	foreign(place(stub_own[0]));
	stub_complete_own(0, BLK_STS_OK, 3);
	CHECK(!app->b->ended, "the answer is what somebody else has written");
	stub_complete_own(0, BLK_STS_OK, 4);
	CHECK(!app->b->ended, "an answer of a leg that is not trusted");
	stub_run_works();
	CHECK(app->b->below && place(&app->b->bio) == 7 && app->b->bio.bi_iter.bi_sector == 64, "not sent through md");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	CHECK(count_of(hedging, "errors", 0) + count_of(hedging, "errors", 1) == 0, "errors");
	trust_both(hedging, legs);
	/* One leg alone misses a write: the other's copy answers, first or second. */
	for (u32 i = 0; i < 2; i++) {
		u32 at, which = i;

		app = hedged(64);
		at = place(stub_own[which]);
		short_write(!at);
		stub_complete_own(which, BLK_STS_OK, 3);
		CHECK(!app->b->ended, "the answer of a leg that has missed a write");
		stub_complete_own(0, BLK_STS_OK, 4);
		got(app, 4, __LINE__);
		trust_both(hedging, legs);
	}
	/* Both fail: md repairs what it can. */
	app = hedged(64);
	stub_complete_own(1, BLK_STS_MEDIUM, 9);
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	stub_run_works();
	CHECK(app->b->below && place(&app->b->bio) == 7 && app->b->bio.bi_iter.bi_sector == 64, "not sent through md");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	/* The other leg has lost its trust by the time that the read is late. */
	earn(4);
	app = start_read(64, SIZE);
	legs[!place(stub_own[0])]->type->presuspend(legs[!place(stub_own[0])]);
	late(LATENESS);
	CHECK(stub_own_count == 1, "a copy goes to a leg that is not trusted");
	legs[!place(stub_own[0])]->type->resume(legs[!place(stub_own[0])]);
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	/* The other leg has less than the read wants. */
	trust_both(hedging, legs);
	earn(4);
	app = start_read((1 << 20) - SIZE / SECTOR_SIZE, SIZE);
	((struct linnet_dm *)hedging->private)->legs[!place(stub_own[0])].member->sectors = 2048 + (1 << 20) - 1;
	late(LATENESS);
	CHECK(stub_own_count == 1, "a copy goes beyond a leg");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	/* A leg can be suspended when no copy is there any more (wait_event in the stub checks that). */
	for (u32 k = 0; k < 2; k++) {
		legs[k]->type->presuspend(legs[k]);
		legs[k]->type->resume(legs[k]);
	}
	stub_remove(hedging);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}
