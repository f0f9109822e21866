// SPDX-License-Identifier: GPL-2.0-only
/* Checks hedged reads under load: random orders of events, the budget, and the delay that the budget finds. */
#include "hedges.h"

#define DEEP 32

/* Every read is late: as many are hedged as the budget pays for. */
static void check_budget(void)
{
	u64 hedges, reads = 400; /* each makes the delay 4.9 % longer */

	tell(hedging, "hedge 2");
	tell(hedging, "reset");
	for (u64 i = 0; i < reads; i++) {
		struct app *app = start_read(8 * i, SIZE);

		late(count_of(hedging, "hedge_us", -1) * 1000 + 1000000);
		stub_complete_own(0, BLK_STS_OK, 1);
		if (stub_own_count)
			stub_complete_own(0, BLK_STS_OK, 2);
		got(app, 1, __LINE__);
	}
	hedges = count_of(hedging, "hedges", -1);
	CHECK(hedges <= reads / 50 && hedges >= reads / 50 - 1, "%llu hedges of %llu reads", (unsigned long long)hedges,
	      (unsigned long long)reads);
	CHECK(count_of(hedging, "reads", -1) == reads && count_of(hedging, "discarded", -1) == hedges, "reads");
}

/* The delay settles where the budget's share of the reads is late. */
static void check_delay(void)
{
	u64 slow = 0, total = 40000, hedges;

	tell(hedging, "hedge 0");
	tell(hedging, "hedge 2");
	tell(hedging, "reset");
	for (u64 i = 0; i < total; i++) {
		struct app *app = start_read(8, SIZE);
		u64 latency = below(100) < 4 ? 3000000 : 50000 + below(100000);

		slow += latency > 1000000;
		late(min(latency, (u64)1000000));
		while (stub_own_count) {
			stub_complete_own(stub_own_count - 1, BLK_STS_OK, 4);
			stub_run_timers();
		}
		got(app, 4, __LINE__);
	}
	hedges = count_of(hedging, "hedges", -1);
	CHECK(hedges > total / 200 && hedges <= total / 50, "%llu hedges, %llu slow reads", (unsigned long long)hedges,
	      (unsigned long long)slow);
	CHECK(count_of(hedging, "hedge_us", -1) < 3000, "a delay of %llu us", (unsigned long long)count_of(hedging, "hedge_us", -1));
}

/* Random orders of arrivals, late reads, ends and errors: every read ends once, with the first answer that is one. */
static void check_random(void)
{
	static struct app *flying[DEEP];
	static u8 answers[DEEP];

	tell(hedging, "hedge 50");
	for (u32 step = 0; step < 40000; step++) {
		u32 i = below(DEEP);

		if (!flying[i] && stub_own_count < STUB_OWN / 2 && step < 39000) {
			flying[i] = start_read(8 * (i + 1), SIZE);
			answers[i] = 0;
			if (flying[i]->b->below)
				stub_die("not hedged");
		}
		if (below(3) == 0)
			late(below(2000000));
		if (stub_own_count && below(2)) {
			u32 which = below(stub_own_count), of = (u32)(stub_own[which]->bi_iter.bi_sector / 8 - 1);
			bool good = below(12) != 0;
			u8 fill = 1 + place(stub_own[which]);

			if (good && flying[of] && !answers[of] && !flying[of]->b->below)
				answers[of] = fill;
			stub_complete_own(which, good ? BLK_STS_OK : BLK_STS_IOERR, good ? fill : 99);
		}
		for (u32 k = 0; k < DEEP; k++) {
			if (flying[k] && flying[k]->b->below)
				stub_complete(flying[k]->b, BLK_STS_OK), answers[k] = 0;
			if (!flying[k] || !flying[k]->b->ended)
				continue;
			if (flying[k]->b->bio.bi_status) { /* at every leg */
				free(flying[k]->b);
				free(flying[k]);
			} else {
				got(flying[k], answers[k], __LINE__);
			}
			flying[k] = NULL;
			/* Its loser is another read's first copy at this place otherwise: wait for it. */
			for (u32 j = 0; j < stub_own_count; j++)
				if (stub_own[j]->bi_iter.bi_sector / 8 - 1 == k)
					stub_complete_own(j--, BLK_STS_OK, 50);
		}
	}
	while (stub_own_count)
		stub_complete_own(0, BLK_STS_OK, 1);
	for (u32 k = 0; k < DEEP; k++) {
		if (!flying[k])
			continue;
		CHECK(flying[k]->b->ended, "read %u never ends", k);
		free(flying[k]->b);
		free(flying[k]);
		flying[k] = NULL;
	}
	for (u32 k = 0; k < 3; k++)
		CHECK(count_of(hedging, "inflight", k) == 0, "leg %u counts an I/O in flight", k);
}

void check_hedges_under_load(void)
{
	check_random();
	check_budget();
	check_delay();
}
