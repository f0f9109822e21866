// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks that a read which is sent again leaves nothing behind at its former end: another CPU may send it, complete it and
 * remove the target at any place from which it can be sent. The sanitizer notices what is used after that.
 */
#include "check.h"

static struct dm_target *ti;
static struct stub_bio *bios[2];
static bool removed;

static void finish(void)
{
	stub_run_works();
	for (u32 i = 0; i < 2; i++)
		if (bios[i]->below)
			stub_complete(bios[i], BLK_STS_OK);
	if (bios[0]->ended && bios[1]->ended) {
		stub_remove(ti);
		removed = true;
	}
}

void check_again(void)
{
	u32 places = 0, removals = 0;

	for (u32 place = 1; !places; place++) {
		ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue");
		removed = false;
		for (u32 i = 0; i < 2; i++) {
			bios[i] = new_bio(REQ_OP_READ, 0, 8, 4096);
			stub_submit(ti, bios[i]);
		}
		/* A worker is on its way because of the first. */
		stub_complete(bios[0], BLK_STS_IOERR);
		stub_other = finish;
		stub_points = place;
		stub_complete(bios[1], BLK_STS_IOERR);
		places = stub_points ? place - 1 : 0;
		stub_points = 0;
		removals += removed;
		if (!removed)
			finish();
		CHECK(removed, "a read is lost");
		for (u32 i = 0; i < 2; i++)
			free(bios[i]);
	}
	CHECK(removals, "at none of %u places could the target be removed", places);
}
