// SPDX-License-Identifier: GPL-2.0-only
/* Checks hedged reads above md (spec/md-volume.md): copies go to trusted legs only, and md is left when both fail. */
#include "hedges.h"

static struct dm_target *legs[2];

void check_hedges_above_md(void)
{
	char *error;
	struct app *app;

	for (u32 k = 0; k < 2; k++) {
		char words[32];

		snprintf(words, sizeof(words), "/dev/leg%u 16", k);
		legs[k] = stub_create_leg(words, k);
	}
	hedging = make("md /dev/leg7 2 253:0 2048 253:1 2048 4 policy shortest-queue hedge 50", false, &error);
	CHECK(hedging, "a volume: %s", error);
	plain(SIZE, "nothing is trusted");
	trust_both(hedging, legs);
	app = hedged(64);
	for (u32 k = 0; k < 2; k++)
		CHECK(stub_own[k]->bi_iter.bi_sector == 64 + 2048 + 16, "a copy's sector");
	stub_complete_own(1, BLK_STS_OK, 2);
	got(app, 2, __LINE__);
	stub_complete_own(0, BLK_STS_OK, 1);
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
	/* A leg can be suspended when no copy is there any more (wait_event in the stub checks that). */
	for (u32 k = 0; k < 2; k++) {
		legs[k]->type->presuspend(legs[k]);
		legs[k]->type->resume(legs[k]);
	}
	stub_remove(hedging);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}
