// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks hedged reads (spec/dm-target.md): which copies are sent and when, whose answer the application gets, and what
 * becomes of the others. The check plays the devices: it completes the target's own bios in the order that it wants.
 * A device fills the pages with a byte of its own, also after another has answered and the application's bio is gone,
 * so the sanitizer notices pages and bios that are used for too long.
 */
#include "check.h"

extern uint *const stub_param_hedge_kib;

#define SIZE 16384
#define LATENESS (20 * NSEC_PER_MSEC) /* beyond the first delay */
#define DEEP 32

static struct dm_target *ti, *legs[2];

/* The control group of the application. */
static struct cgroup_subsys_state *group_of_reads;

/* A read of the application, with its own pages. */
struct app {
	struct stub_bio *b;
	struct page pages[DIV_ROUND_UP(SIZE, PAGE_SIZE)];
	struct bio_vec vecs[DIV_ROUND_UP(SIZE, PAGE_SIZE)];
};

static struct app *start(u64 sector, u32 size)
{
	struct app *app = calloc(1, sizeof(*app));

	for (u32 i = 0; i < ARRAY_SIZE(app->vecs); i++)
		app->vecs[i] = (struct bio_vec){ &app->pages[i], PAGE_SIZE, 0 };
	app->b = new_bio(REQ_OP_READ | REQ_NOWAIT, 0, sector, size);
	app->b->bio.bi_css = group_of_reads;
	app->b->bio.bi_io_vec = size <= SIZE ? app->vecs : NULL;
	stub_submit(ti, app->b);
	return app;
}

static u32 place(const struct bio *bio)
{
	return (u32)(bio->bi_bdev->bd_dev / 16 - 1);
}

/* The read has ended well, with this byte everywhere, and nobody may touch it any more. */
static void got(struct app *app, u8 fill, int line)
{
	bool right = true;

	CHECK(app->b->ended == 1 && app->b->bio.bi_status == BLK_STS_OK, "line %d: ended %u times, status %u", line,
	      app->b->ended, app->b->bio.bi_status);
	for (u32 at = 0; at < SIZE; at++)
		right &= app->pages[at / PAGE_SIZE].bytes[at % PAGE_SIZE] == (char)fill;
	CHECK(right, "line %d: the data are not those of the first answer", line);
	free(app->b);
	free(app);
}

/* Time passes, and what is late is sent again. */
static void late(u64 ns)
{
	stub_now += ns;
	stub_run_timers();
	stub_run_works();
}

/* Reads that are answered in time pay for hedges. */
static void earn(u32 count)
{
	for (u32 i = 0; i < count; i++) {
		struct app *app = start(8, SIZE);

		CHECK(stub_own_count == 1, "%u copies", stub_own_count);
		stub_now += 1000;
		stub_complete_own(0, BLK_STS_OK, 7);
		got(app, 7, __LINE__);
	}
}

/* A read with two copies in flight: that at stub_own[0] was first. */
static struct app *hedged(u64 sector)
{
	struct app *app;

	earn(4);
	app = start(sector, SIZE);
	CHECK(stub_own_count == 1 && !app->b->below && !app->b->ended, "the read is not ours");
	late(1000);
	CHECK(stub_own_count == 1, "a read is hedged before it is late");
	late(LATENESS);
	CHECK(stub_own_count == 2 && place(stub_own[0]) != place(stub_own[1]), "%u copies", stub_own_count);
	if (stub_own_count != 2)
		stub_die("no second copy");
	CHECK(!(stub_own[1]->bi_opf & REQ_NOWAIT), "the second copy may be turned away");
	CHECK(stub_own[0]->bi_iter.bi_size == SIZE && stub_own[1]->bi_iter.bi_size == SIZE, "sizes");
	return app;
}

static struct app *answered_meanwhile;

static void answer_first(void)
{
	stub_complete_own(0, BLK_STS_OK, 5);
	got(answered_meanwhile, 5, __LINE__);
}

/* The first copy answers, and the application's bio is gone, while the second is being made. */
static void check_meanwhile(void)
{
	struct cgroup_subsys_state group = { 0 };
	u64 discarded;

	earn(4);
	discarded = count_of(ti, "discarded", -1);
	answered_meanwhile = start(96, SIZE);
	late(1000);
	stub_pool_used = answer_first;
	late(LATENESS);
	CHECK(!stub_pool_used && stub_own_count == 1, "%u copies", stub_own_count);
	stub_complete_own(0, BLK_STS_OK, 6);
	CHECK(count_of(ti, "discarded", -1) == discarded + 1, "the late copy is not discarded");
	/* Both copies are charged to the application's control group, which is let go. */
	group_of_reads = &group;
	answered_meanwhile = hedged(104);
	group_of_reads = NULL;
	CHECK(stub_own[0]->bi_css == &group && stub_own[1]->bi_css == &group && group.references == 1, "control group");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(answered_meanwhile, 1, __LINE__);
	CHECK(group.references == 1, "the loser's group");
	stub_complete_own(0, BLK_STS_OK, 2);
	CHECK(group.references == 0, "the control group is held");
}

static void check_orders(void)
{
	u64 wins = count_of(ti, "hedge_wins", -1), discarded = count_of(ti, "discarded", -1);
	struct app *app = hedged(64);

	/* The second answers; the first is discarded. */
	stub_complete_own(1, BLK_STS_OK, 2);
	CHECK(count_of(ti, "hedge_wins", -1) == wins + 1 && count_of(ti, "discarded", -1) == discarded, "counts");
	got(app, 2, __LINE__);
	stub_complete_own(0, BLK_STS_OK, 1);
	CHECK(count_of(ti, "discarded", -1) == discarded + 1, "the loser is not counted");
	/* The first answers; the loser's error is nobody's but its leg's. */
	app = hedged(72);
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	stub_complete_own(0, BLK_STS_MEDIUM, 2);
	CHECK(count_of(ti, "hedge_wins", -1) == wins + 1 && count_of(ti, "discarded", -1) == discarded + 1, "counts");
	/* Each fails in turn, and the other answers. */
	for (u32 k = 0; k < 2; k++) {
		app = hedged(80);
		stub_complete_own(k, BLK_STS_IOERR, 9);
		CHECK(!app->b->ended, "an error ends a read whose other copy is in flight");
		stub_run_works();
		CHECK(!app->b->below, "it is sent again");
		stub_complete_own(0, BLK_STS_OK, 3);
		got(app, 3, __LINE__);
	}
	for (u32 k = 0; k < 3; k++)
		CHECK(count_of(ti, "inflight", k) == 0, "leg %u counts an I/O in flight", k);
}

/* Both fail: the read goes to the third leg, as any read that has failed. */
static void check_both_fail(void)
{
	struct app *app = hedged(88);
	u64 failovers = count_of(ti, "failovers", -1);
	u32 used = BIT(place(stub_own[0])) | BIT(place(stub_own[1]));

	stub_complete_own(1, BLK_STS_IOERR, 9);
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	CHECK(!app->b->ended && !stub_own_count, "ended");
	stub_run_works();
	CHECK(app->b->below && !(used & BIT(place(&app->b->bio))) && app->b->bio.bi_iter.bi_size == SIZE, "not sent again");
	CHECK(count_of(ti, "failovers", -1) == failovers + 1, "failovers");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	/* The first fails before it is late: no timer needed. */
	app = start(96, SIZE);
	stub_complete_own(0, BLK_STS_IOERR, 9);
	stub_run_works();
	CHECK(app->b->below, "not sent again");
	stub_complete(app->b, BLK_STS_OK);
	late(LATENESS);
	CHECK(!stub_own_count, "a read that has ended is hedged");
	got(app, 0, __LINE__);
	/* What the queue turns away, the application sends again. */
	app = start(96, SIZE);
	stub_complete_own(0, BLK_STS_AGAIN, 9);
	CHECK(app->b->ended == 1 && app->b->bio.bi_status == BLK_STS_AGAIN, "the answer is not passed on");
	free(app->b);
	free(app);
	for (u32 k = 0; k < 3; k++) {
		char words[16];

		snprintf(words, sizeof(words), "revive %u", k);
		tell(ti, words);
	}
}

/* What is not hedged is sent as it is. */
static void plain(u64 size, const char *why)
{
	u32 own = stub_own_count;
	struct app *app = start(8, (u32)size);

	CHECK(stub_own_count == own && app->b->below, "%s: hedged", why);
	stub_complete(app->b, BLK_STS_OK);
	CHECK(app->b->ended == 1, "%s", why);
	free(app->b);
	free(app);
}

static void check_plain(void)
{
	struct app *app;
	u64 unhedged;

	plain(68 << 10, "a large read");
	*stub_param_hedge_kib = 8;
	plain(12 << 10, "beyond hedge_kib");
	*stub_param_hedge_kib = 64;
	tell(ti, "policy baseline");
	plain(SIZE, "baseline");
	tell(ti, "policy shortest-queue");
	tell(ti, "off");
	plain(SIZE, "off");
	tell(ti, "on");
	tell(ti, "fail 1");
	tell(ti, "fail 2");
	plain(SIZE, "one replica");
	tell(ti, "revive 1");
	tell(ti, "revive 2");
	/* No memory for the read, or for one of its pages: 1 + 4 allocations. */
	unhedged = count_of(ti, "unhedged", -1);
	for (u32 i = 0; i < 5; i++) {
		stub_alloc_left = i;
		plain(SIZE, "no memory");
	}
	stub_alloc_left = -1;
	CHECK(count_of(ti, "unhedged", -1) == unhedged + 5, "unhedged");
	/* None for the second copy: the first goes on. */
	earn(4);
	app = start(8, SIZE);
	stub_now += LATENESS;
	stub_run_timers();
	stub_alloc_left = 2;
	stub_run_works();
	stub_alloc_left = -1;
	CHECK(stub_own_count == 1 && count_of(ti, "unhedged", -1) == unhedged + 6, "a copy without memory");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	/* Switched off while it waits; answered while the worker is on its way. */
	earn(4);
	app = start(8, SIZE);
	tell(ti, "hedge 0");
	late(LATENESS);
	CHECK(stub_own_count == 1, "hedged though switched off");
	plain(SIZE, "switched off");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	tell(ti, "hedge 50");
	earn(4);
	app = start(8, SIZE);
	stub_now += LATENESS;
	stub_run_timers();
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	stub_run_works();
	CHECK(!stub_own_count, "a read that was answered is hedged");
}

static bool slept;
static void lose_at_last(void)
{
	slept = true;
	stub_while_asleep = NULL;
	stub_complete_own(0, BLK_STS_OK, 5);
}

/* Suspending waits for the loser, although dm knows of no read in flight. */
static void check_suspend(void)
{
	struct app *app = hedged(104);

	stub_complete_own(1, BLK_STS_OK, 2);
	got(app, 2, __LINE__);
	slept = false;
	stub_while_asleep = lose_at_last;
	ti->type->postsuspend(ti);
	CHECK(slept && !stub_own_count, "suspended with a copy in flight");
	CHECK(ti->type->preresume(ti) == 0, "resume");
	stub_while_asleep = NULL;
}

/* Every read is late: as many are hedged as the budget pays for. */
static void check_budget(void)
{
	u64 hedges, reads = 400; /* each makes the delay 4.9 % longer */

	tell(ti, "hedge 2");
	tell(ti, "reset");
	for (u64 i = 0; i < reads; i++) {
		struct app *app = start(8 * i, SIZE);

		late(count_of(ti, "hedge_us", -1) * 1000 + 1000000);
		stub_complete_own(0, BLK_STS_OK, 1);
		if (stub_own_count)
			stub_complete_own(0, BLK_STS_OK, 2);
		got(app, 1, __LINE__);
	}
	hedges = count_of(ti, "hedges", -1);
	CHECK(hedges <= reads / 50 && hedges >= reads / 50 - 1, "%llu hedges of %llu reads", (unsigned long long)hedges,
	      (unsigned long long)reads);
	CHECK(count_of(ti, "reads", -1) == reads && count_of(ti, "discarded", -1) == hedges, "reads");
}

/* The delay settles where the budget's share of the reads is late. */
static void check_delay(void)
{
	u64 slow = 0, total = 40000, hedges;

	tell(ti, "hedge 0");
	tell(ti, "hedge 2");
	tell(ti, "reset");
	for (u64 i = 0; i < total; i++) {
		struct app *app = start(8, SIZE);
		u64 latency = below(100) < 4 ? 3000000 : 50000 + below(100000);

		slow += latency > 1000000;
		late(min(latency, (u64)1000000));
		while (stub_own_count) {
			stub_complete_own(stub_own_count - 1, BLK_STS_OK, 4);
			stub_run_timers();
		}
		got(app, 4, __LINE__);
	}
	hedges = count_of(ti, "hedges", -1);
	CHECK(hedges > total / 200 && hedges <= total / 50, "%llu hedges, %llu slow reads", (unsigned long long)hedges,
	      (unsigned long long)slow);
	CHECK(count_of(ti, "hedge_us", -1) < 3000, "a delay of %llu us", (unsigned long long)count_of(ti, "hedge_us", -1));
}

/* Random orders of arrivals, late reads, ends and errors: every read ends once, with the first answer that is one. */
static void check_random(void)
{
	static struct app *flying[DEEP];
	static u8 answers[DEEP];

	tell(ti, "hedge 50");
	for (u32 step = 0; step < 40000; step++) {
		u32 i = below(DEEP);

		if (!flying[i] && stub_own_count < STUB_OWN / 2 && step < 39000) {
			flying[i] = start(8 * (i + 1), SIZE);
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
		CHECK(count_of(ti, "inflight", k) == 0, "leg %u counts an I/O in flight", k);
}

/* ---- above md ---- */

static void trust_legs(void)
{
	static struct bio_vec vec;
	struct stub_bio *whole = new_bio(REQ_OP_WRITE, 0, 0, 4096), *part;
	char words[64];

	for (u32 k = 0; k < 2; k++) {
		snprintf(words, sizeof(words), "trust %u %llu", k, (unsigned long long)count_of(ti, "generation", k));
		CHECK(tell(ti, words) == 0, "trust");
	}
	whole->bio.bi_io_vec = &vec;
	stub_submit(ti, whole);
	for (u32 k = 0; k < 2; k++) {
		part = new_bio(REQ_OP_WRITE, 0, 2048, 4096);
		part->bio.bi_io_vec = &vec;
		stub_submit(legs[k], part);
		stub_complete(part, BLK_STS_OK);
		free(part);
	}
	stub_complete(whole, BLK_STS_OK);
	free(whole);
	stub_run_works();
}

static void check_above_md(void)
{
	char *error;
	struct app *app;

	for (u32 k = 0; k < 2; k++) {
		char words[32];

		snprintf(words, sizeof(words), "/dev/leg%u 16", k);
		legs[k] = stub_create_leg(words, k);
	}
	ti = make("md /dev/leg7 2 253:0 2048 253:1 2048 4 policy shortest-queue hedge 50", false, &error);
	CHECK(ti, "a volume: %s", error);
	plain(SIZE, "nothing is trusted");
	trust_legs();
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
	app = start(64, SIZE);
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
	stub_remove(ti);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}

void check_hedges(void)
{
	ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy shortest-queue hedge 50");
	check_meanwhile();
	check_orders();
	check_both_fail();
	check_plain();
	check_suspend();
	check_random();
	check_budget();
	check_delay();
	stub_remove(ti);
	check_above_md();
}
