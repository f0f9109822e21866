// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks how two CPUs share what is known of the replicas (kernel/dm/digest.c): what a decision of one knows of the
 * events of the other, and that none of them is lost, late or out of order.
 */
#include "check.h"

extern uint *const stub_param_digest_us;

#define US 1000

static u32 where(const struct stub_bio *b)
{
	return b->below ? (u32)(b->bio.bi_bdev->bd_dev / 16 - 1) : LINNET_NO_LEG;
}

static struct stub_bio *submit_on(struct dm_target *ti, u32 cpu, blk_opf_t opf)
{
	struct stub_bio *b = new_bio(opf, 0, 8, 4096);

	stub_cpu = cpu;
	stub_submit(ti, b);
	return b;
}

static struct stub_bio *read_on(struct dm_target *ti, u32 cpu)
{
	return submit_on(ti, cpu, REQ_OP_READ);
}

static void end_on(struct stub_bio *b, u32 cpu, blk_status_t status)
{
	stub_cpu = cpu;
	stub_complete(b, status);
}

static void finish_on(struct stub_bio *b, u32 cpu)
{
	end_on(b, cpu, BLK_STS_OK);
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_OK, "a read is lost");
	free(b);
}

/* A target of which both CPUs have had events. */
static struct dm_target *shared(const char *line)
{
	struct dm_target *ti = must(line);

	stub_now += 10 * NSEC_PER_SEC;
	finish_on(read_on(ti, 0), 0);
	finish_on(read_on(ti, 1), 1);
	stub_now += 30 * US;
	finish_on(read_on(ti, 0), 0);
	stub_now += 30 * US;
	return ti;
}

/* Each CPU knows of its own reads, and of the other's once the digest is renewed. Alone, it knows of all. */
static void check_digest(void)
{
	struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 policy shortest-queue");
	static const struct { u32 cpu, later_us, leg; const char *what; } steps[] = {
		{ 0, 0, 0, "the first read" },
		{ 0, 2000, 1, "alone" },
		{ 0, 0, 2, "alone, at the same time" },
		{ 0, 0, 0, "alone, all have one" },
		{ 1, 0, 1, "another CPU, which renews the digest" },
		{ 1, 5, 2, "its own read in mind" },
		{ 0, 5, 1, "without the other's reads" },
		{ 0, 5, 2, "its own read in mind" },
		{ 0, 5, 0, "the digest is renewed: two, three and three" },
		{ 1, 5, 0, "without the last read" },
		{ 1, 20, 1, "the digest is renewed: all have three or four" },
		{ 0, 5, 1, "without the last read" },
		{ 1, 5, 2, "its own read in mind" },
		{ 1, 0, 0, "its own two in mind" },
		{ 1, 20, 2, "the CPU that renewed the digest last is not alone: the other's read counts" },
	};
	struct stub_bio *bios[ARRAY_SIZE(steps)];

	for (u32 n = 0; n < ARRAY_SIZE(steps); n++) {
		stub_now += steps[n].later_us * US;
		bios[n] = read_on(ti, steps[n].cpu);
		CHECK(where(bios[n]) == steps[n].leg, "step %u, %s: to %u", n, steps[n].what, where(bios[n]));
	}
	for (int k = 0; k < 3; k++)
		CHECK(count_of(ti, "inflight", k) == 5, "in flight at %d", k);
	for (u32 n = 0; n < ARRAY_SIZE(steps); n++)
		finish_on(bios[n], n % 2);
	for (int k = 0; k < 3; k++)
		CHECK(count_of(ti, "inflight", k) == 0, "in flight at %d at the end", k);
	stub_remove(ti);
}

/* Reads on a CPU, and says whether it renewed the digest. */
static bool renews(struct dm_target *ti, u32 cpu, u32 later_us)
{
	struct linnet_dm *dm = ti->private;

	stub_now += later_us * US;
	finish_on(read_on(ti, cpu), cpu);
	return dm->digest.renewed_ns == stub_now && dm->digest.owner == cpu;
}

/* The CPU that renewed the digest last comes first for a millisecond; another only if it does not come. */
static void check_owner(void)
{
	struct dm_target *ti = shared("2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue");

	renews(ti, 0, 50);
	CHECK(renews(ti, 1, 50), "a digest that is 50 us old");
	CHECK(!renews(ti, 0, 30), "another than the owner after 30 us");
	CHECK(renews(ti, 1, 0), "the owner after 30 us");
	CHECK(!renews(ti, 0, 39), "another after 39 us");
	CHECK(renews(ti, 0, 1), "another after 40 us");
	for (u32 n = 0; n < 33; n++) {
		CHECK(!renews(ti, 1, 30), "another after %u us", 30 * (n + 1));
		CHECK(renews(ti, 0, 0), "the owner after %u us", 30 * (n + 1));
	}
	CHECK(renews(ti, 1, 30), "the owner's millisecond is over");
	CHECK(!renews(ti, 0, 30), "the next one's is not");
	stub_remove(ti);
}

/* However old the parameter lets it get, the digest is renewed after a millisecond. */
static void check_limit(void)
{
	struct dm_target *ti = shared("2 /dev/leg0 0 /dev/leg1 0 2 policy shortest-queue");
	uint before = *stub_param_digest_us;

	CHECK(renews(ti, 1, 50), "the owner");
	*stub_param_digest_us = 5000;
	CHECK(!renews(ti, 0, 600), "another after 600 us");
	CHECK(!renews(ti, 1, 399), "the owner after 999 us");
	CHECK(renews(ti, 1, 1), "the owner after 1000 us");
	*stub_param_digest_us = before;
	stub_remove(ti);
}

/* Events are applied in the order of their times, whichever CPUs had them. */
static void check_order(void)
{
	struct dm_target *ti = shared("1 /dev/leg0 0 0");
	struct linnet_dm *dm = ti->private;
	u64 ewma_ns = dm->legs[0].state.ewma_ns;
	struct stub_bio *a, *b;

	CHECK(ewma_ns == 0, "reads that took no time");
	a = read_on(ti, 0);
	stub_now += 2 * US;
	b = read_on(ti, 1);
	stub_now += 4 * US;
	finish_on(b, 0);
	stub_now += 4 * US;
	finish_on(a, 1);
	CHECK(count_of(ti, "inflight", 0) == 0, "in flight");
	CHECK(dm->legs[0].state.ewma_ns == 4 * US - 4 * US / 8 + 10 * US / 8, "reads of 4 and 10 us make %lu ns", dm->legs[0].state.ewma_ns);
	stub_remove(ti);
}

/* An end is found whose arrival another CPU is about to queue: it waits. */
static void check_late(void)
{
	struct dm_target *ti = shared("1 /dev/leg0 0 0");
	struct linnet_dm *dm = ti->private;
	struct llist_head *queue = &per_cpu_ptr(dm->cpus, 0)->events, hidden;
	struct stub_bio *b;

	count_of(ti, "reads", 0);
	b = read_on(ti, 0);
	hidden = *queue;
	CHECK(hidden.first && !hidden.first->next, "an arrival is queued");
	init_llist_head(queue);
	stub_now += 3 * US;
	finish_on(b, 1);
	CHECK(count_of(ti, "inflight", 0) == 0 && dm->digest.late, "the end waits");
	*queue = hidden;
	CHECK(count_of(ti, "inflight", 0) == 0 && !dm->digest.late, "the arrival, and then the end");
	CHECK(dm->legs[0].state.events == 8 && dm->legs[0].state.ewma_ns == 3 * US, "%lu events", dm->legs[0].state.events);
	stub_remove(ti);
}

/* It waits on, although the CPU that found it is alone and applies events of its own meanwhile. */
static void check_late_alone(void)
{
	struct dm_target *ti = shared("1 /dev/leg0 0 0");
	struct linnet_dm *dm = ti->private;
	struct llist_head *queue = &per_cpu_ptr(dm->cpus, 0)->events, hidden;
	struct stub_bio *b, *own;

	count_of(ti, "reads", 0);
	b = read_on(ti, 0);
	hidden = *queue;
	init_llist_head(queue);
	finish_on(b, 1);
	stub_now += 10 * NSEC_PER_MSEC;
	CHECK(count_of(ti, "inflight", 0) == 0 && dm->digest.late && dm->digest.owner == 1, "the end waits");
	stub_now += US;
	own = read_on(ti, 1);
	/* An interrupt while this CPU has the lock. */
	dm->digest.lock.held = 1;
	finish_on(own, 1);
	dm->digest.lock.held = 0;
	CHECK(!llist_empty(&per_cpu_ptr(dm->cpus, 1)->events), "an end of its own is queued");
	finish_on(read_on(ti, 1), 1);
	CHECK(dm->digest.late, "the end waits on");
	*queue = hidden;
	CHECK(count_of(ti, "inflight", 0) == 0 && !dm->digest.late, "an end is lost");
	stub_remove(ti);
}

/* Errors take a replica out of service although nobody reads on. */
static void check_errors(void)
{
	struct dm_target *ti = shared("2 /dev/leg0 0 /dev/leg1 0 2 policy ewma-inflight");
	struct linnet_dm *dm = ti->private;
	struct stub_bio *bios[3];

	/* Leg 0 answers in 1 us and leg 1 in 100 us, so three reads at once go to leg 0. */
	for (u32 n = 0; n < 2; n++) {
		bios[n] = read_on(ti, 0);
		CHECK(where(bios[n]) == n, "to %u", where(bios[n]));
		stub_now += n ? 100 * US : US;
		finish_on(bios[n], 0);
		stub_now += 30 * US;
	}
	for (u32 n = 0; n < 3; n++) {
		bios[n] = read_on(ti, 0);
		CHECK(where(bios[n]) == 0, "to %u", where(bios[n]));
	}
	for (u32 n = 0; n < 3; n++)
		end_on(bios[n], 1, BLK_STS_IOERR);
	CHECK(test_bit(LINNET_LEG_OUT, &dm->legs[0].flags), "in service after three errors");
	stub_run_works();
	for (u32 n = 0; n < 3; n++)
		finish_on(bios[n], 0);
	stub_remove(ti);
}

/* A read that would be a probe knows of every event: of two at the same time, one is. */
static void check_probe(const char *policy)
{
	struct dm_target *ti = shared("2 /dev/leg0 0 /dev/leg1 0 2 policy ewma-inflight");
	struct stub_bio *one, *other, *third;

	CHECK(tell(ti, policy) == 0, "%s", policy);
	for (u32 n = 0; n < 3; n++) {
		/* Readahead fails at each of them once (flags.c). */
		one = submit_on(ti, n % 2, REQ_OP_READ | REQ_RAHEAD);
		end_on(one, n % 2, BLK_STS_IOERR);
		stub_run_works();
		end_on(one, n % 2, BLK_STS_IOERR);
		stub_run_works();
		CHECK(one->ended == 1 && one->bio.bi_status == BLK_STS_IOERR, "both replicas have failed");
		free(one);
	}
	CHECK(state_of(ti, 0) == 'D' && state_of(ti, 1) == 'D', "in service");
	stub_now += 20 * NSEC_PER_MSEC;
	CHECK(count_of(ti, "probes", -1) == 0, "probes"); /* and the digest is renewed */
	one = read_on(ti, 0);
	other = read_on(ti, 1);
	CHECK(where(one) != where(other), "%s: two probes of replica %u", policy, where(one));
	third = read_on(ti, 0);
	CHECK(where(third) == 0, "%s: to %u, though both have one", policy, where(third));
	finish_on(third, 0);
	finish_on(one, 0);
	finish_on(other, 1);
	CHECK(count_of(ti, "probes", -1) == 2, "%s: %lu probes", policy, count_of(ti, "probes", -1));
	end_probes(ti);
	stub_remove(ti);
}

/* A read that is decided under the lock, as a leg is due for a probe, is in flight for the next read too. */
static void check_locked(void)
{
	struct dm_target *ti = shared("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 policy shortest-queue");
	struct stub_bio *one, *next;

	for (u32 n = 0; n < 3; n++) {
		one = read_on(ti, 0);
		CHECK(where(one) == 0, "to %u", where(one));
		end_on(one, 1, BLK_STS_IOERR);
		stub_run_works();
		finish_on(one, 1);
		stub_now += 30 * US;
	}
	CHECK(state_of(ti, 0) == 'D', "in service");
	stub_now += 20 * NSEC_PER_MSEC;
	CHECK(count_of(ti, "inflight", 0) == 0, "in flight"); /* and the digest is renewed */
	one = read_on(ti, 0);
	CHECK(where(one) == 1 && stub_run_works() == 1, "to %u while replica 0 is probed", where(one));
	next = read_on(ti, 0);
	CHECK(where(next) == 2, "to %u, the second of two", where(next));
	finish_on(one, 0);
	finish_on(next, 0);
	end_probes(ti);
	stub_remove(ti);
}

/* More I/Os than a CPU has records: memory is asked for. Without it the read is served, and counted as untracked. */
static void check_records(void)
{
	struct dm_target *ti = shared("1 /dev/leg0 0 0");
	struct stub_bio *bios[200], *b;

	for (u32 n = 0; n < ARRAY_SIZE(bios); n++)
		bios[n] = read_on(ti, 0);
	CHECK(count_of(ti, "inflight", 0) == ARRAY_SIZE(bios), "in flight");
	stub_alloc_left = 0;
	b = read_on(ti, 0);
	stub_alloc_left = -1;
	CHECK(where(b) == 0, "a read without a record");
	CHECK(count_of(ti, "untracked", -1) == 1 && count_of(ti, "inflight", 0) == ARRAY_SIZE(bios), "untracked");
	finish_on(b, 1);
	CHECK(count_of(ti, "reads", 0) == 4 && count_of(ti, "writes", 0) == 0, "a read without a record is no write");
	for (u32 n = 0; n < ARRAY_SIZE(bios); n++)
		finish_on(bios[n], 1);
	CHECK(count_of(ti, "reads", 0) == 4 + ARRAY_SIZE(bios), "reads");
	CHECK(count_of(ti, "inflight", 0) == 0, "in flight at the end");
	stub_alloc_left = 0; /* the records have come back */
	finish_on(read_on(ti, 0), 1);
	stub_alloc_left = -1;
	CHECK(count_of(ti, "untracked", -1) == 1, "a record is lost");
	stub_remove(ti);
}

void check_sharing(void)
{
	u32 cpu = stub_cpu;

	check_digest();
	check_owner();
	check_limit();
	check_order();
	check_late();
	check_late_alone();
	check_errors();
	check_probe("policy baseline");
	check_probe("policy shortest-queue");
	check_probe("policy ewma-inflight");
	check_locked();
	check_records();
	stub_cpu = cpu;
}
