// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks hedged reads (spec/dm-target.md): which copies are sent and when, whose answer the application gets, and what
 * becomes of the others. The check plays the devices: it completes the target's own bios in the order that it wants.
 * A device fills the pages with a byte of its own, also after another has answered and the application's bio is gone,
 * so the sanitizer notices pages and bios that are used for too long.
 */
#include "hedges.h"

extern uint *const stub_param_hedge_kib;

struct dm_target *hedging;
blk_opf_t flags_of_reads = REQ_NOWAIT;

/* The control group of the application; what its reads carry beside their pages. */
static struct cgroup_subsys_state *group_of_reads;
static void *integrity_of_reads, *context_of_reads;

struct app *start_read(u64 sector, u32 size)
{
	struct app *app = calloc(1, sizeof(*app));

	for (u32 i = 0; i < ARRAY_SIZE(app->vecs); i++)
		app->vecs[i] = (struct bio_vec){ &app->pages[i], PAGE_SIZE, 0 };
	app->b = new_bio(REQ_OP_READ | flags_of_reads, 0, sector, size);
	app->b->bio.bi_css = group_of_reads;
	app->b->bio.bi_integrity = integrity_of_reads;
	app->b->bio.bi_crypt_context = context_of_reads;
	app->b->bio.bi_io_vec = size <= SIZE ? app->vecs : NULL;
	stub_submit(hedging, app->b);
	return app;
}

u32 place(const struct bio *bio)
{
	return (u32)(bio->bi_bdev->bd_dev / 16 - 1);
}

void got(struct app *app, u8 fill, int line)
{
	bool right = true;

	CHECK(app->b->ended == 1 && app->b->bio.bi_status == BLK_STS_OK, "line %d: ended %u times, status %u", line,
	      app->b->ended, app->b->bio.bi_status);
	for (u32 page = 0; page < SIZE / PAGE_SIZE; page++) {
		const char *bytes = app->pages[page].bytes;

		/* All of its bytes are the first one. */
		right &= bytes[0] == (char)fill && memcmp(bytes, bytes + 1, PAGE_SIZE - 1) == 0;
	}
	CHECK(right, "line %d: the data are not those of the first answer", line);
	free(app->b);
	free(app);
}

void late(u64 ns)
{
	stub_now += ns;
	stub_run_timers();
	stub_run_works();
}

void earn(u32 count)
{
	for (u32 i = 0; i < count; i++) {
		struct app *app = start_read(8, SIZE);

		CHECK(stub_own_count == 1, "%u copies", stub_own_count);
		stub_now += 1000;
		stub_complete_own(0, BLK_STS_OK, 7);
		got(app, 7, __LINE__);
	}
}

struct app *hedged(u64 sector)
{
	struct app *app;

	earn(4);
	app = start_read(sector, SIZE);
	CHECK(stub_own_count == 1 && !app->b->below && !app->b->ended, "the read is not ours");
	late(1000);
	CHECK(stub_own_count == 1, "a read is hedged before it is late");
	late(LATENESS);
	CHECK(stub_own_count == 2 && place(stub_own[0]) != place(stub_own[1]), "%u copies", stub_own_count);
	if (stub_own_count != 2)
		stub_die("no second copy");
	CHECK((stub_own[0]->bi_opf & REQ_NOWAIT) == flags_of_reads, "a copy of a read that may not wait would wait");
	CHECK((stub_own[1]->bi_opf & REQ_NOWAIT) == (stub_own[1]->bi_bdev->waits ? 0 : REQ_NOWAIT), "the worker would wait");
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
	discarded = count_of(hedging, "discarded", -1);
	answered_meanwhile = start_read(96, SIZE);
	late(1000);
	stub_pool_used = answer_first;
	late(LATENESS);
	CHECK(!stub_pool_used && stub_own_count == 1, "%u copies", stub_own_count);
	stub_complete_own(0, BLK_STS_OK, 6);
	CHECK(count_of(hedging, "discarded", -1) == discarded + 1, "the late copy is not discarded");
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
	u64 wins = count_of(hedging, "hedge_wins", -1), discarded = count_of(hedging, "discarded", -1);
	struct app *app = hedged(64);

	/* The second answers; the first is discarded. */
	stub_complete_own(1, BLK_STS_OK, 2);
	CHECK(count_of(hedging, "hedge_wins", -1) == wins + 1 && count_of(hedging, "discarded", -1) == discarded, "counts");
	got(app, 2, __LINE__);
	stub_complete_own(0, BLK_STS_OK, 1);
	CHECK(count_of(hedging, "discarded", -1) == discarded + 1, "the loser is not counted");
	/* The first answers; the loser's error is nobody's but its leg's. */
	app = hedged(72);
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	stub_complete_own(0, BLK_STS_MEDIUM, 2);
	CHECK(count_of(hedging, "hedge_wins", -1) == wins + 1 && count_of(hedging, "discarded", -1) == discarded + 1, "counts");
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
		CHECK(count_of(hedging, "inflight", k) == 0, "leg %u counts an I/O in flight", k);
}

/* Both fail: the read goes to the third leg, as any read that has failed. */
static void check_both_fail(void)
{
	struct app *app = hedged(88);
	u64 failovers = count_of(hedging, "failovers", -1);
	u32 used = BIT(place(stub_own[0])) | BIT(place(stub_own[1]));

	stub_complete_own(1, BLK_STS_IOERR, 9);
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	CHECK(!app->b->ended && !stub_own_count, "ended");
	stub_run_works();
	CHECK(app->b->below && !(used & BIT(place(&app->b->bio))) && app->b->bio.bi_iter.bi_size == SIZE, "not sent again");
	CHECK(count_of(hedging, "failovers", -1) == failovers + 1, "failovers");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	/* The second would have to wait: its leg has not failed, and the application is not told. */
	app = hedged(112);
	stub_complete_own(1, BLK_STS_AGAIN, 9);
	CHECK(!app->b->ended, "ended by a second copy that would have to wait");
	stub_complete_own(0, BLK_STS_IOERR, 9);
	CHECK(!app->b->ended && !stub_own_count, "ended");
	stub_run_works();
	CHECK(app->b->below && !(app->b->bio.bi_opf & REQ_NOWAIT), "not sent again by a worker that may wait");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	app = hedged(112);
	stub_complete_own(0, BLK_STS_IOERR, 9);
	stub_complete_own(0, BLK_STS_AGAIN, 9);
	CHECK(!app->b->ended, "a second copy that would have to wait is the answer");
	stub_run_works();
	CHECK(app->b->below, "not sent again");
	stub_complete(app->b, BLK_STS_OK);
	got(app, 0, __LINE__);
	/* The first fails before it is late: no timer needed. */
	app = start_read(96, SIZE);
	stub_complete_own(0, BLK_STS_IOERR, 9);
	stub_run_works();
	CHECK(app->b->below, "not sent again");
	stub_complete(app->b, BLK_STS_OK);
	late(LATENESS);
	CHECK(!stub_own_count, "a read that has ended is hedged");
	got(app, 0, __LINE__);
	/* What the queue turns away, the application sends again. */
	app = start_read(96, SIZE);
	stub_complete_own(0, BLK_STS_AGAIN, 9);
	CHECK(app->b->ended == 1 && app->b->bio.bi_status == BLK_STS_AGAIN, "the answer is not passed on");
	free(app->b);
	free(app);
	for (u32 k = 0; k < 3; k++) {
		char words[16];

		snprintf(words, sizeof(words), "revive %u", k);
		tell(hedging, words);
	}
}

void plain(u64 size, const char *why)
{
	u32 own = stub_own_count;
	struct app *app = start_read(8, (u32)size);

	CHECK(stub_own_count == own && app->b->below, "%s: hedged", why);
	stub_complete(app->b, BLK_STS_OK);
	CHECK(app->b->ended == 1, "%s", why);
	free(app->b);
	free(app);
}

/* The largest read that is hedged, as the parameter has it: out of range, it counts as the nearest limit. */
static void check_sizes(void)
{
	static const struct { uint kib; u32 hedged, plain; } cases[] = {
		{ 0, 4 << 10, 8 << 10 }, { 8, 8 << 10, 12 << 10 }, { 64, 64 << 10, 68 << 10 }, { U32_MAX, 64 << 10, 68 << 10 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct bio_vec vecs[16];
		struct page *pages = calloc(16, PAGE_SIZE);
		struct stub_bio *b = new_bio(REQ_OP_READ, 0, 8, cases[i].hedged);

		for (u32 k = 0; k < 16; k++)
			vecs[k] = (struct bio_vec){ &pages[k], PAGE_SIZE, 0 };
		b->bio.bi_io_vec = vecs;
		*stub_param_hedge_kib = cases[i].kib;
		stub_submit(hedging, b);
		CHECK(stub_own_count == 1 && !b->below, "hedge_kib %u: %u bytes are not hedged", cases[i].kib, cases[i].hedged);
		while (stub_own_count)
			stub_complete_own(0, BLK_STS_OK, 1);
		plain(cases[i].plain, "beyond hedge_kib");
		free(b);
		free(pages);
	}
	*stub_param_hedge_kib = 64;
}

/* What a copy would lack, or where somebody polls for the read itself. */
static void check_carried(void)
{
	int something;

	flags_of_reads |= REQ_POLLED;
	plain(SIZE, "polled");
	flags_of_reads &= ~REQ_POLLED;
	integrity_of_reads = &something;
	plain(SIZE, "with integrity data");
	integrity_of_reads = NULL;
	context_of_reads = &something;
	plain(SIZE, "encrypted");
	context_of_reads = NULL;
	earn(1);
}

static void check_plain(void)
{
	struct app *app;
	u64 unhedged;

	tell(hedging, "policy baseline");
	plain(SIZE, "baseline");
	tell(hedging, "policy shortest-queue");
	tell(hedging, "off");
	plain(SIZE, "off");
	tell(hedging, "on");
	tell(hedging, "fail 1");
	tell(hedging, "fail 2");
	plain(SIZE, "one replica");
	tell(hedging, "revive 1");
	tell(hedging, "revive 2");
	/* No memory for the read, or for one of its pages: 1 + 4 allocations. */
	unhedged = count_of(hedging, "unhedged", -1);
	for (u32 i = 0; i < 5; i++) {
		stub_alloc_left = i;
		plain(SIZE, "no memory");
	}
	stub_alloc_left = -1;
	CHECK(count_of(hedging, "unhedged", -1) == unhedged + 5, "unhedged");
	/* None for the second copy: the first goes on. */
	earn(4);
	app = start_read(8, SIZE);
	stub_now += LATENESS;
	stub_run_timers();
	stub_alloc_left = 2;
	stub_run_works();
	stub_alloc_left = -1;
	CHECK(stub_own_count == 1 && count_of(hedging, "unhedged", -1) == unhedged + 6, "a copy without memory");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	/* Switched off while it waits; answered while the worker is on its way. */
	earn(4);
	app = start_read(8, SIZE);
	tell(hedging, "hedge 0");
	late(LATENESS);
	CHECK(stub_own_count == 1, "hedged though switched off");
	plain(SIZE, "switched off");
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	tell(hedging, "hedge 50");
	earn(4);
	app = start_read(8, SIZE);
	stub_now += LATENESS;
	stub_run_timers();
	stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	stub_run_works();
	CHECK(!stub_own_count, "a read that was answered is hedged");
}

/* The worker does not wait for the queue of a drive, where the drive can say that it is full. */
static void check_worker(void)
{
	struct app *app;

	flags_of_reads = 0;
	for (u32 i = 0; i < 2; i++) {
		for (u32 k = 0; k < 3; k++)
			stub_devs[k].bdev->waits = i;
		app = hedged(64);
		if (!i) {
			stub_complete_own(1, BLK_STS_AGAIN, 2);
			CHECK(!app->b->ended, "a second copy that would have to wait is an answer");
		} else {
			stub_complete_own(1, BLK_STS_OK, 1);
		}
		stub_complete_own(0, BLK_STS_OK, 1);
		got(app, 1, __LINE__);
	}
	for (u32 k = 0; k < 3; k++)
		stub_devs[k].bdev->waits = false;
	flags_of_reads = REQ_NOWAIT;
}

static void hedge_again(void)
{
	CHECK(tell(hedging, "hedge 50") == 0, "hedge");
}

/* A message starts the timer while its function, which wants to set it too, waits for the lock. */
static void check_timer(void)
{
	struct app *apps[2];

	late(LATENESS);
	apps[0] = start_read(64, SIZE);
	stub_now += NSEC_PER_MSEC;
	apps[1] = start_read(72, SIZE);
	stub_complete_own(0, BLK_STS_OK, 1);
	got(apps[0], 1, __LINE__);
	stub_now += count_of(hedging, "hedge_us", -1) * 1000 - NSEC_PER_MSEC / 2;
	stub_meanwhile = hedge_again;
	CHECK(stub_run_timers() == 1 && !stub_meanwhile && stub_own_count == 1, "the timer's function has not run");
	CHECK(stub_run_timers() == 1 && !stub_run_timers(), "the timer does not run when the message has it run");
	stub_now += NSEC_PER_MSEC;
	CHECK(stub_run_timers() == 1, "it does not run when the second read is late");
	stub_run_works();
	stub_complete_own(0, BLK_STS_OK, 1);
	got(apps[1], 1, __LINE__);
}

/*
 * Under linnos, and under what it is without a network, the second copy goes where ewma-inflight would send it: not to the
 * first of the other legs, which is busy.
 */
static void check_linnos(void)
{
	put_model("fast", "fast.linnet");
	for (u32 with_network = 0; with_network < 2; with_network++) {
		struct app *busy[2], *app;

		hedging = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy linnos hedge 50");
		CHECK(!with_network || tell(hedging, "load fast.linnet") == 0, "load");
		tell(hedging, "fail 0");
		for (u32 i = 0; i < 2; i++) {
			busy[i] = start_read(8, 68 << 10); /* too large for a copy */
			CHECK(busy[i]->b->below && place(&busy[i]->b->bio) == 1, "leg 1 is not busy");
		}
		tell(hedging, "revive 0");
		app = hedged(64);
		CHECK(place(stub_own[0]) == 0 && place(stub_own[1]) == 2, "copies at legs %u and %u", place(stub_own[0]),
		      place(stub_own[1]));
		stub_complete_own(1, BLK_STS_OK, 2);
		got(app, 2, __LINE__);
		stub_complete_own(0, BLK_STS_OK, 1);
		for (u32 i = 0; i < 2; i++) {
			stub_complete(busy[i]->b, BLK_STS_OK);
			free(busy[i]->b);
			free(busy[i]);
		}
		stub_remove(hedging);
	}
}

/* Under linnet-best the trees of the legs are asked for the second copy, too: it does not go to the one that is called slow. */
static void check_best(void)
{
	struct app *app;

	put_model("fast", "fast.linnet");
	put_model("slow", "slow.linnet");
	hedging = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy linnet-best hedge 50");
	CHECK(tell(hedging, "load fast.linnet") == 0 && tell(hedging, "load 1 slow.linnet") == 0, "load");
	/* Legs of which nothing is known are probed first. */
	app = start_read(8, SIZE);
	stub_run_works();
	while (stub_own_count)
		stub_complete_own(0, BLK_STS_OK, 7);
	got(app, 7, __LINE__);
	app = hedged(64);
	CHECK(place(stub_own[0]) != 1 && place(stub_own[1]) != 1, "a copy at the leg whose trees call it slow");
	stub_complete_own(1, BLK_STS_OK, 2);
	got(app, 2, __LINE__);
	stub_complete_own(0, BLK_STS_OK, 1);
	stub_remove(hedging);
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
	stub_postsuspend(hedging);
	CHECK(slept && !stub_own_count, "suspended with a copy in flight");
	CHECK(stub_preresume(hedging) == 0, "resume");
	stub_while_asleep = NULL;
}

void check_hedges(void)
{
	hedging = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy shortest-queue hedge 50");
	check_meanwhile();
	check_orders();
	check_both_fail();
	check_plain();
	check_sizes();
	check_carried();
	check_worker();
	check_timer();
	check_suspend();
	check_hedges_under_load();
	stub_remove(hedging);
	check_linnos();
	check_best();
	check_hedges_that_are_late();
	check_hedges_above_md();
}
