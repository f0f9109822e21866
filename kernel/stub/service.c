// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks which replicas are candidates (spec/dm-target.md, "Policies"): out of service after errors, for longer each
 * time, and back after one probe; taken out and put back by message or table; switched off. Times are checked to the
 * nanosecond.
 */
#include "check.h"

#define NOWHERE UINT32_MAX
#define MS 1000000ULL

/* The current replica of the read. */
static u32 where(const struct stub_bio *b)
{
	return b->below ? (u32)(b->bio.bi_bdev->bd_dev / 16 - 1) : NOWHERE;
}

static struct stub_bio *start(struct dm_target *ti)
{
	struct stub_bio *b = new_bio(REQ_OP_READ, 0, 8, 4096);

	stub_submit(ti, b);
	return b;
}

/* It succeeds where it is. */
static void finish(struct stub_bio *b)
{
	stub_complete(b, BLK_STS_OK);
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_OK, "a read is lost");
	free(b);
}

/* Sends one read, which succeeds at once. Returns its replica. */
static u32 one(struct dm_target *ti)
{
	struct stub_bio *b = start(ti);
	u32 leg = where(b);

	finish(b);
	return leg;
}

/* The probe of the target's own that is at this replica. */
static void end_probe(u32 leg, blk_status_t status)
{
	CHECK(stub_own_count == 1 && stub_own[0]->bi_bdev == stub_devs[leg].bdev, "no probe at %u", leg);
	if (stub_own_count)
		stub_complete_own(0, status, 9);
}

/* It fails where it is, and fails over. */
static void fail(struct stub_bio *b, blk_status_t status)
{
	stub_complete(b, status);
	stub_run_works();
}

char state_of(struct dm_target *ti, u32 leg)
{
	char text[4096], *at = text;

	ti->type->status(ti, STATUSTYPE_INFO, 0, text, sizeof(text));
	for (u32 k = 0; at && k <= leg; k++)
		at = strstr(at + 1, " state ");
	CHECK(at, "no replica %u in the status", leg);
	return at ? at[7] : 0;
}

/* Three consecutive errors, the last one now. */
static void take_out(struct dm_target *ti)
{
	for (u32 n = 0; n < 3; n++) {
		struct stub_bio *b = start(ti);

		CHECK(state_of(ti, 0) == 'A', "out of service after %u errors", n);
		CHECK(where(b) == 0, "a read goes to %u", where(b));
		fail(b, BLK_STS_IOERR);
		CHECK(where(b) == 1, "a read that failed goes to %u", where(b));
		finish(b);
	}
	CHECK(state_of(ti, 0) == 'D', "in service after three errors");
}

static void check_errors(const char *policy)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 0");
	u64 absence_ns = 10 * MS, probes = 0, forced;
	unsigned int events;

	CHECK(tell(ti, policy) == 0, "%s", policy);
	stub_run_works();
	events = stub_events;
	take_out(ti);
	CHECK(stub_events == events + 1, "%u events", stub_events - events);
	forced = count_of(ti, "forced", -1);
	one(ti);
	CHECK(count_of(ti, "forced", -1) == forced + !!strcmp(policy, "policy baseline"), "a policy with one candidate");
	for (u32 n = 0; n < 10; n++) {
		u64 out_ns = stub_now;

		stub_now = out_ns + absence_ns - 1;
		CHECK(one(ti) == 1, "%s: tried too early, after absence %u", policy, n);
		stub_now = out_ns + absence_ns;
		stub_run_works();
		CHECK(!stub_own_count, "%s: probed too early, after absence %u", policy, n);
		CHECK(one(ti) == 1, "%s: a read of the application's is the probe", policy);
		stub_run_works();
		CHECK(one(ti) == 1, "%s: two probes at a time", policy);
		stub_run_works();
		CHECK(count_of(ti, "probes", -1) == ++probes && count_of(ti, "own_probes", -1) == probes, "probes");
		end_probe(0, BLK_STS_IOERR);
		absence_ns = min(2 * absence_ns, 1000 * MS);
	}
	CHECK(count_of(ti, "failovers", -1) == 3 && count_of(ti, "errors", 0) == 13, "errors and failovers");
	stub_now += absence_ns;
	CHECK(one(ti) == 1, "%s: a read of the application's is the last probe", policy);
	stub_run_works();
	end_probe(0, BLK_STS_OK);
	CHECK(state_of(ti, 0) == 'A', "not back after a probe that went well");
	CHECK(one(ti) == 0, "%s: a replica that is back is left aside", policy);
	stub_run_works();
	CHECK(stub_events == events + 2, "%u events", stub_events - events);
	/* Errors that are not consecutive, and old ones, have no effect. */
	take_out(ti);
	stub_now += 10 * MS;
	CHECK(one(ti) == 1, "%s: a read of the application's is the probe", policy);
	stub_run_works();
	CHECK(count_of(ti, "own_probes", -1) == probes + 2, "%s: the first absence is as long as ever", policy);
	end_probe(0, BLK_STS_OK);
	stub_remove(ti);
}

/*
 * Above md, every read of leg 0 fails and every write succeeds: reads avoid the leg, but for a probe now and then. A write
 * ends the errors of writes.
 */
static void check_writes(void)
{
	char words[2][16] = { "/dev/leg0 16", "/dev/leg1 16" }, *error;
	struct dm_target *legs[2] = { stub_create_leg(words[0], 0), stub_create_leg(words[1], 1) };
	struct dm_target *ti = make("md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue", false, &error);
	u32 met = 0;

	CHECK(ti, "%s", error);
	trust_both(ti, legs);
	for (u32 n = 0; n < 200; n++) {
		struct stub_bio *b = start(ti);

		if (where(b) == 0) {
			fail(b, BLK_STS_MEDIUM);
			met++;
		}
		finish(b);
		stub_run_works();
		while (stub_own_count)
			stub_complete_own(0, stub_own[0]->bi_bdev == stub_devs[0].bdev ? BLK_STS_MEDIUM : BLK_STS_OK, 9);
		stub_now += MS / 10;
		trust_both(ti, legs); /* writes to both */
	}
	CHECK(met == 3, "%u reads of 200 go to a leg whose reads fail", met);
	stub_remove(ti);
	stub_remove(legs[0]);
	stub_remove(legs[1]);
	ti = must("1 /dev/leg0 0 0");
	for (u32 n = 0; n < 6; n++) {
		struct stub_bio *b = new_bio(REQ_OP_WRITE, 0, 8, 4096);

		stub_submit(ti, b);
		stub_complete(b, n % 3 < 2 ? BLK_STS_NOSPC : BLK_STS_OK);
		free(b);
		CHECK(state_of(ti, 0) == 'A', "out of service after errors of writes that are not in a row");
	}
	stub_remove(ti);
}

/* Reads in flight when a replica goes out of service: their errors do not lengthen the time. */
static void check_burst(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy baseline");
	struct stub_bio *reads[10];
	u64 out_ns = 0;

	for (u32 n = 0; n < ARRAY_SIZE(reads); n++)
		reads[n] = start(ti);
	for (u32 n = 0; n < ARRAY_SIZE(reads); n++) {
		stub_now += MS / 100;
		fail(reads[n], BLK_STS_IOERR);
		if (n == 2)
			out_ns = stub_now;
		finish(reads[n]);
	}
	for (u64 absence_ns = 10 * MS; absence_ns <= 20 * MS; absence_ns *= 2) {
		stub_now = out_ns + absence_ns - 1;
		one(ti);
		stub_run_works();
		CHECK(!stub_own_count, "probed too early, for an absence of %lu ns", absence_ns);
		stub_now++;
		one(ti);
		stub_run_works();
		out_ns = stub_now;
		end_probe(0, BLK_STS_IOERR);
	}
	stub_remove(ti);
}

/*
 * What is known of two replicas has expired: a probe goes to the one that the policy does not prefer, and no other while
 * it is in flight.
 */
static void check_one_probe(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue");
	struct stub_bio *both[2] = { start(ti), start(ti) };
	u64 probes;
	u32 preferred;

	CHECK(where(both[0]) != where(both[1]), "the second read waits behind the first");
	stub_now += MS / 10;
	finish(both[0]);
	finish(both[1]);
	CHECK(tell(ti, "policy ewma-inflight") == 0, "policy");
	stub_now += 1001 * MS;
	probes = count_of(ti, "probes", -1);
	preferred = one(ti);
	stub_run_works();
	CHECK(count_of(ti, "probes", -1) == probes + 1 && count_of(ti, "own_probes", -1) == 1, "no probe");
	stub_now += 1001 * MS;
	for (u32 n = 0; n < 4; n++) {
		struct stub_bio *b = start(ti);

		CHECK(where(b) == preferred, "read %u goes where a probe is in flight", n);
		stub_now += MS / 10;
		finish(b);
		stub_run_works();
		CHECK(stub_own_count == 1, "a second probe");
	}
	end_probe(!preferred, BLK_STS_OK);
	stub_remove(ti);
}

/* If no candidate is in service, those that are out because of errors are tried. */
static void check_all_out(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy ewma-inflight");

	for (u32 n = 0; n < 3; n++) {
		/* Readahead fails at each of them once (flags.c). */
		struct stub_bio *b = new_bio(REQ_OP_READ | REQ_RAHEAD, 0, 8, 4096);

		stub_submit(ti, b);
		fail(b, BLK_STS_MEDIUM);
		fail(b, BLK_STS_IOERR);
		CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_IOERR, "the last error is the application's");
		free(b);
	}
	CHECK(state_of(ti, 0) == 'D' && state_of(ti, 1) == 'D', "in service after errors");
	CHECK(one(ti) == 0, "no replica is tried");
	CHECK(state_of(ti, 0) == 'A', "not back");
	stub_remove(ti);
}

/* Errors that do not indicate a fault of a replica reach the application unchanged. */
static void check_answers(void)
{
	static const blk_status_t answers[] = { BLK_STS_AGAIN, BLK_STS_NOTSUPP, BLK_STS_DM_REQUEUE, BLK_STS_INVAL };
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy ewma-inflight");

	for (u32 n = 0; n < 12; n++) {
		struct stub_bio *b = start(ti);

		fail(b, answers[n % 4]);
		CHECK(b->ended == 1 && b->bio.bi_status == answers[n % 4], "status %u", b->bio.bi_status);
		free(b);
	}
	CHECK(state_of(ti, 0) == 'A' && count_of(ti, "errors", 0) == 0, "taken for errors");
	CHECK(count_of(ti, "failovers", -1) == 0 && count_of(ti, "inflight", 0) == 0, "sent on");
	stub_remove(ti);
}

/* A drive gives a read up after the time that its priority allows: no error of the drive, and another may be in time. */
static void check_limits(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 4 policy baseline ioprio 0x4009");

	for (u32 n = 0; n < 4; n++) {
		struct stub_bio *b = start(ti);

		fail(b, BLK_STS_DURATION_LIMIT);
		CHECK(where(b) == 1, "read %u goes to %u", n, where(b));
		finish(b);
	}
	CHECK(state_of(ti, 0) == 'A' && count_of(ti, "errors", 0) == 0 && count_of(ti, "inflight", 0) == 0, "taken for errors");
	CHECK(count_of(ti, "failovers", -1) == 4, "failovers");
	stub_remove(ti);
}

static void check_fail_and_revive(void)
{
	struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 3 policy ewma-inflight out:1");
	unsigned int events;

	CHECK(state_of(ti, 0) == 'A' && state_of(ti, 1) == 'D', "out by table");
	stub_run_works();
	events = stub_events;
	CHECK(tell(ti, "fail 0") == 0 && state_of(ti, 0) == 'D', "fail");
	CHECK(one(ti) == 2, "a replica that is out gets a read");
	CHECK(tell(ti, "fail 2") == -EBUSY && state_of(ti, 2) == 'A', "the last one may not go");
	stub_now += 10000 * MS;
	CHECK(one(ti) == 2, "it comes back by itself");
	CHECK(tell(ti, "revive 0") == 0 && state_of(ti, 0) == 'A' && one(ti) == 0, "revive");
	stub_run_works();
	CHECK(stub_events > events, "no event");
	/* The errors of a replica are cleared. */
	tell(ti, "policy baseline");
	tell(ti, "revive 1");
	take_out(ti);
	CHECK(tell(ti, "revive 0") == 0 && state_of(ti, 0) == 'A' && one(ti) == 0, "forgiven");
	stub_remove(ti);
}

/* Off: as under baseline, and no decision is counted. */
static void check_off(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 3 policy shortest-queue off");
	struct stub_bio *held = start(ti);

	CHECK(where(held) == 0 && one(ti) == 0, "steered though off");
	CHECK(count_of(ti, "decisions", -1) == 0 && count_of(ti, "forced", -1) == 0, "counted though off");
	CHECK(tell(ti, "on") == 0 && one(ti) == 1, "not steered though on");
	CHECK(tell(ti, "off") == 0 && one(ti) == 0, "steered though off");
	finish(held);
	stub_remove(ti);
}

void check_service(void)
{
	check_errors("policy baseline");
	check_errors("policy shortest-queue");
	check_writes();
	check_burst();
	check_one_probe();
	check_all_out();
	check_answers();
	check_limits();
	check_fail_and_revive();
	check_off();
}
