// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks probes of the target's own (spec/dm-target.md): a leg in doubt is read by the target and by no application, as
 * long as another leg is in service. The check plays the devices. They fill the probe's pages after anything else has
 * ended, so the sanitizer notices pages that are freed too early.
 */
#include "check.h"

#define MS 1000000ULL

static struct dm_target *top;

static struct stub_bio *start(u64 sector, u32 size)
{
	struct stub_bio *b = new_bio(REQ_OP_READ | REQ_NOWAIT, 0, sector, size);

	stub_submit(top, b);
	return b;
}

static u32 where(const struct stub_bio *b)
{
	return b->below ? (u32)(b->bio.bi_bdev->bd_dev / 16 - 1) : UINT32_MAX;
}

static void finish(struct stub_bio *b, int line)
{
	CHECK(b->below && !b->ended, "line %d: a read is not at a device", line);
	stub_complete(b, BLK_STS_OK);
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_OK, "line %d: a read is lost", line);
	free(b);
}

/* A read that goes there, and ends well at once. */
static void goes_to(u32 leg, int line)
{
	struct stub_bio *b = start(64, 4096);

	CHECK(where(b) == leg, "line %d: a read goes to %u", line, where(b));
	finish(b, line);
}

/* Takes leg 0 out of service, under a policy that prefers it. Its time is over afterwards. */
static void take_out(void)
{
	for (u32 n = 0; n < 3; n++) {
		struct stub_bio *b = start(64, 4096);

		CHECK(where(b) == 0, "a read goes to %u", where(b));
		stub_complete(b, BLK_STS_IOERR);
		stub_run_works();
		finish(b, __LINE__);
	}
	CHECK(state_of(top, 0) == 'D', "in service after three errors");
	stub_now += 10 * MS;
}

/* What is sent, and what becomes of its errors. */
static void check_bio(void)
{
	u64 sent = count_of(top, "own_probes", -1), reads = count_of(top, "reads", -1);
	struct stub_bio *b;
	struct bio *bio;

	take_out();
	b = start(72, 64 << 10);
	CHECK(where(b) == 1 && !stub_own_count, "the application's read waits for the probe");
	CHECK((b->bio.bi_opf & LINNET_FAILFAST) == LINNET_FAILFAST, "two legs could serve it");
	finish(b, __LINE__);
	stub_run_works();
	CHECK(stub_own_count == 1, "%u probes", stub_own_count);
	bio = stub_own[0];
	CHECK(bio->bi_bdev == stub_devs[0].bdev && bio->bi_iter.bi_sector == 16 + 72 && bio->bi_iter.bi_size == 4096,
	      "sector %lu, %u bytes", bio->bi_iter.bi_sector, bio->bi_iter.bi_size);
	CHECK(bio->bi_opf == (REQ_OP_READ | LINNET_FAILFAST) && !bio->bi_ioprio, "flags %x", bio->bi_opf);
	CHECK(count_of(top, "inflight", 0) == 1, "it is no I/O of the leg");
	stub_now += 3 * MS;
	stub_complete_own(0, BLK_STS_TIMEOUT, 9);
	CHECK(state_of(top, 0) == 'D' && count_of(top, "errors", 0) == 4, "its error is none of the leg's");
	stub_now += 20 * MS;
	/* A small read is probed as it is. */
	b = start(80, 512);
	stub_run_works();
	CHECK(stub_own_count == 1 && stub_own[0]->bi_iter.bi_size == 512, "%u probes", stub_own_count);
	finish(b, __LINE__);
	/* An answer that is no error leaves the leg as it was: the next read has it probed again. */
	stub_complete_own(0, BLK_STS_AGAIN, 9);
	CHECK(state_of(top, 0) == 'D' && count_of(top, "errors", 0) == 4 && count_of(top, "inflight", 0) == 0, "AGAIN");
	goes_to(1, __LINE__);
	stub_run_works();
	stub_now += MS / 2;
	stub_complete_own(0, BLK_STS_OK, 9);
	CHECK(state_of(top, 0) == 'A' && count_of(top, "ewma_us", 0) == 500 && count_of(top, "reads", 0) == 1,
	      "not learnt from");
	goes_to(0, __LINE__);
	CHECK(count_of(top, "own_probes", -1) == sent + 3 && count_of(top, "reads", -1) == reads + 7, "counts");
	CHECK(count_of(top, "unprobed", -1) == 0, "unprobed");
}

/* A drive hangs for longer than the leg is out: reads stay away, however long that takes. */
static void check_hang(const char *policy, u32 refused)
{
	u64 unprobed = count_of(top, "unprobed", -1);

	CHECK(tell(top, policy) == 0, "%s", policy);
	take_out();
	goes_to(1, __LINE__);
	goes_to(1, __LINE__); /* the worker has not come yet */
	CHECK(count_of(top, "unprobed", -1) == unprobed + 1, "unprobed");
	stub_run_works();
	for (u32 n = 0; n < 8; n++) {
		stub_now += 500 * MS;
		goes_to(1, __LINE__);
		stub_run_works();
		CHECK(stub_own_count == 1, "%u probes of a leg", stub_own_count);
	}
	CHECK(count_of(top, "unprobed", -1) == unprobed + refused, "%s: unprobed", policy);
	stub_complete_own(0, BLK_STS_OK, 9);
	CHECK(state_of(top, 0) == 'A', "not back");
}

/* Nobody else is in service: the application's read is the probe. */
static void check_last(void)
{
	u64 sent = count_of(top, "own_probes", -1), probes = count_of(top, "probes", -1);

	take_out();
	CHECK(tell(top, "fail 1") == 0, "fail");
	goes_to(0, __LINE__);
	stub_run_works();
	CHECK(!stub_own_count && count_of(top, "own_probes", -1) == sent && count_of(top, "probes", -1) == probes + 1,
	      "probes");
	CHECK(tell(top, "revive 1") == 0 && state_of(top, 0) == 'A', "revive");
	/* A read that failed at the other, and has no other. */
	take_out();
	struct stub_bio *b = start(64, 4096);

	CHECK(where(b) == 1, "goes to %u", where(b));
	stub_run_works();
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	stub_complete(b, BLK_STS_IOERR);
	stub_run_works();
	CHECK(where(b) == 0, "goes to %u after it has failed", where(b));
	finish(b, __LINE__);
	tell(top, "revive 0");
}

static blk_status_t last_status;
static bool slept;

static void answer_at_last(void)
{
	slept = true;
	CHECK(stub_own_count == 1, "%u probes", stub_own_count);
	stub_complete_own(0, last_status, 9);
}

/* Suspending waits for a probe in flight, and gives up one that was not sent. */
static void check_suspend(blk_status_t status)
{
	u64 sent = count_of(top, "own_probes", -1);

	take_out();
	goes_to(1, __LINE__);
	stub_postsuspend(top);
	stub_run_works();
	CHECK(!stub_own_count && count_of(top, "own_probes", -1) == sent, "a probe is sent below a suspended device");
	CHECK(stub_preresume(top) == 0, "resume");
	goes_to(1, __LINE__);
	stub_run_works();
	CHECK(stub_own_count == 1, "%u probes", stub_own_count);
	last_status = status;
	slept = false;
	stub_while_asleep = answer_at_last;
	stub_postsuspend(top);
	stub_while_asleep = NULL;
	CHECK(slept && !stub_own_count, "suspended with a probe in flight");
	CHECK(stub_preresume(top) == 0 && count_of(top, "inflight", 0) == 0, "resume");
	tell(top, "revive 0");
}

/* The same at removal. */
static void check_remove(void)
{
	take_out();
	goes_to(1, __LINE__);
	stub_run_works();
	last_status = BLK_STS_OK;
	slept = false;
	stub_while_asleep = answer_at_last;
	stub_remove(top);
	stub_while_asleep = NULL;
	CHECK(slept && !stub_own_count, "removed with a probe in flight");
}

/* A drive whose blocks are larger than a page is read by whole blocks. */
static void check_blocks(void)
{
	struct stub_bio *b;

	stub_devs[1].bdev->block_bytes = 16384;
	top = must("2 /dev/leg0 16 /dev/leg1 16 2 policy baseline");
	take_out();
	b = start(64, 65536);
	stub_run_works();
	CHECK(stub_own_count == 1 && stub_own[0]->bi_iter.bi_size == 16384, "not a block");
	stub_complete_own(0, BLK_STS_OK, 9);
	finish(b, __LINE__);
	stub_remove(top);
	stub_devs[1].bdev->block_bytes = 512;
}

/* What several replicas are known by has expired: one read has all probed but the one that the policy prefers. */
static void check_expired(const char *policy)
{
	struct stub_bio *all[3];
	u64 decisions;

	top = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy shortest-queue model random.linnet");
	for (u32 k = 0; k < 3; k++)
		all[k] = start(64, 4096);
	stub_now += MS / 10;
	for (u32 k = 0; k < 3; k++)
		finish(all[k], __LINE__);
	CHECK(tell(top, policy) == 0, "%s", policy);
	stub_now += 1001 * MS;
	decisions = count_of(top, "decisions", -1);
	all[0] = start(64, 4096);
	stub_run_works();
	CHECK(stub_own_count == 2, "%s: %u probes", policy, stub_own_count);
	for (u32 k = 0; k < stub_own_count; k++)
		CHECK(stub_own[k]->bi_bdev != all[0]->bio.bi_bdev, "%s: the read is where a probe is", policy);
	CHECK(count_of(top, "decisions", -1) == decisions + 1 && count_of(top, "forced", -1) == 0, "%s: one decision", policy);
	finish(all[0], __LINE__);
	/* They fail; nobody notices. */
	stub_complete_own(1, BLK_STS_MEDIUM, 9);
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	CHECK(count_of(top, "failovers", -1) == 0, "%s: failovers", policy);
	stub_remove(top);
}

/* ---- above md ---- */

static struct dm_target *legs[2];

/* Leg 0 fails steered reads, which go through md. Its time is over afterwards. */
static void fail_steered(void)
{
	for (u32 n = 0; n < 3; n++) {
		struct stub_bio *b = start(64, 4096);

		CHECK(where(b) == 0, "a read goes to %u", where(b));
		stub_complete(b, BLK_STS_IOERR);
		stub_run_works();
		CHECK(where(b) == 7, "a read that failed goes to %u", where(b));
		finish(b, __LINE__);
	}
	stub_now += 10 * MS;
}

static void check_above_md(void)
{
	struct linnet_member *member;
	struct stub_bio *b;
	char *error;

	make_legs(legs);
	top = make("md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue", false, &error);
	CHECK(top, "a volume: %s", error);
	trust_both(top, legs);
	fail_steered();
	goes_to(1, __LINE__);
	stub_run_works();
	CHECK(stub_own_count == 1 && stub_own[0]->bi_bdev == stub_devs[0].bdev &&
	      stub_own[0]->bi_iter.bi_sector == 64 + 2048 + 16, "a probe's place");
	/* Its error goes neither to an application nor through md. */
	stub_complete_own(0, BLK_STS_MEDIUM, 9);
	stub_run_works();
	CHECK(count_of(top, "failovers", -1) == 3 && !stub_own_count, "sent again");
	/* The leg loses its trust before the worker comes: its drive may be going away. */
	stub_now += 20 * MS;
	goes_to(1, __LINE__);
	legs[0]->type->presuspend(legs[0]);
	stub_run_works();
	CHECK(!stub_own_count && count_of(top, "unprobed", -1) == 1, "a leg that is suspended is probed");
	legs[0]->type->resume(legs[0]);
	trust_both(top, legs);
	CHECK(state_of(top, 0) == 'D', "md's write there puts a leg whose reads fail back in service");
	CHECK(tell(top, "revive 0") == 0, "revive");
	fail_steered();
	/* The leg has less than the read wants. */
	member = ((struct linnet_dm *)top->private)->legs[0].member;
	member->sectors = 2048 + (1 << 20) - 1;
	b = start((1 << 20) - 8, 4096);
	CHECK(where(b) == 1, "a read goes to %u", where(b));
	finish(b, __LINE__);
	stub_run_works();
	CHECK(!stub_own_count && count_of(top, "unprobed", -1) == 2, "a probe goes beyond the leg");
	goes_to(1, __LINE__);
	stub_run_works();
	CHECK(stub_own_count == 1, "%u probes", stub_own_count);
	stub_complete_own(0, BLK_STS_OK, 9);
	goes_to(0, __LINE__);
	/* No probe keeps the drive (wait_event in the stub checks that). */
	for (u32 k = 0; k < 2; k++) {
		legs[k]->type->presuspend(legs[k]);
		legs[k]->type->resume(legs[k]);
	}
	stub_remove(top);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}

void check_probes(void)
{
	top = must("2 /dev/leg0 16 /dev/leg1 16 2 policy baseline");
	check_bio();
	check_hang("policy shortest-queue", 1); /* the probe is in its queue */
	check_hang("policy baseline", 9);
	check_last();
	check_suspend(BLK_STS_OK);
	check_suspend(BLK_STS_IOERR);
	check_remove();
	check_blocks();
	put_model("random", "random.linnet");
	check_expired("policy ewma-inflight");
	check_expired("policy linnet-best");
	stub_firmware("linnet/random.linnet", NULL, 0);
	check_above_md();
}
