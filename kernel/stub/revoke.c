// SPDX-License-Identifier: GPL-2.0-only
/* Checks that reads with the tag are revoked if their replica is predicted slow, and that no others are. */
#include "check.h"
#include "incremental.h"

extern uint *const stub_param_revoke_percent, *const stub_param_age_ms;

/* A read that shows the device's state, so that the next one is not needed as a probe. */
static void refresh(struct dm_target *ti)
{
	struct stub_bio *b = new_bio(REQ_OP_READ, 0, 0, 4096);

	stub_now += 1000000;
	stub_submit(ti, b);
	stub_now += 100000;
	stub_complete(b, BLK_STS_OK);
	free(b);
}

/* Sends one bio and checks that it is revoked or reaches a device. Returns the flags that it had there. */
static blk_opf_t one(struct dm_target *ti, const char *what, blk_opf_t opf, u16 ioprio, bool revoked)
{
	u64 before = count_of(ti, "revokes", -1);
	struct stub_bio *b = new_bio(opf, ioprio, 8, 4096);
	blk_opf_t at_device;

	refresh(ti);
	stub_submit(ti, b);
	at_device = b->bio.bi_opf;
	if (revoked)
		CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_AGAIN && !b->below, "%s: not revoked", what);
	else
		CHECK(b->below && !b->ended, "%s: revoked or lost", what);
	CHECK(count_of(ti, "revokes", -1) == before + revoked, "%s: the counter", what);
	if (b->below)
		stub_complete(b, BLK_STS_OK);
	CHECK(b->ended == 1, "%s: ended %u times", what, b->ended);
	free(b);
	return at_device;
}

static const struct {
	const char *what;
	blk_opf_t opf;
	u16 ioprio;
	bool revoked;
} rows[] = {
	{ "tagged", REQ_OP_READ | REQ_SYNC, STUB_TAG, true },
	{ "tagged, NOWAIT", REQ_OP_READ | REQ_SYNC | REQ_NOWAIT, STUB_TAG, true },
	{ "untagged", REQ_OP_READ | REQ_SYNC, 0, false },
	{ "another hint", REQ_OP_READ, STUB_TAG + 8, false },
	{ "another level", REQ_OP_READ, STUB_TAG - 1, false },
	{ "nice 19", REQ_OP_READ, 0x4007, false },
	{ "the default", REQ_OP_READ, 0x4004, false },
	{ "idle", REQ_OP_READ, 0x6007, false },
	{ "untagged, NOWAIT", REQ_OP_READ | REQ_NOWAIT, 0, false },
	{ "metadata", REQ_OP_READ | REQ_META, STUB_TAG, false },
	{ "metadata with priority", REQ_OP_READ | REQ_META | REQ_PRIO, STUB_TAG, false },
	{ "priority", REQ_OP_READ | REQ_PRIO, STUB_TAG, false },
	{ "readahead", REQ_OP_READ | REQ_RAHEAD, STUB_TAG, false },
	{ "swap", REQ_OP_READ | REQ_SWAP, STUB_TAG, false },
	{ "polled", REQ_OP_READ | REQ_POLLED | REQ_NOWAIT, STUB_TAG, false },
	{ "write", REQ_OP_WRITE, STUB_TAG, false },
	{ "flush", REQ_OP_WRITE | REQ_PREFLUSH, STUB_TAG, false },
	{ "write with FUA", REQ_OP_WRITE | REQ_FUA, STUB_TAG, false },
	{ "discard", REQ_OP_DISCARD, STUB_TAG, false },
	{ "zeroes", REQ_OP_WRITE_ZEROES, STUB_TAG, false },
};

static void none_is_revoked(struct dm_target *ti, const char *why)
{
	for (u32 i = 0; i < ARRAY_SIZE(rows); i++)
		one(ti, why, rows[i].opf, rows[i].ioprio, false);
}

static void check_rows(const char *policy)
{
	struct dm_target *ti = must("1 /dev/leg0 0 5 revoke ioprio 0x5004 model slow.linnet");

	CHECK(tell(ti, policy) == 0, "%s", policy);
	for (u32 i = 0; i < 4; i++)
		refresh(ti); /* the network wants a history */
	for (u32 i = 0; i < ARRAY_SIZE(rows); i++) {
		blk_opf_t opf = one(ti, rows[i].what, rows[i].opf, rows[i].ioprio, rows[i].revoked);

		if (!rows[i].revoked)
			CHECK(!((opf ^ rows[i].opf) & REQ_NOWAIT), "%s: who may not wait would wait", rows[i].what);
	}
	CHECK(tell(ti, "ioprio 0x500c") == 0, "ioprio");
	one(ti, "the new tag", REQ_OP_READ, 0x500c, true);
	one(ti, "the old tag", REQ_OP_READ, STUB_TAG, false);
	tell(ti, "ioprio 0x5004");
	tell(ti, "off");
	none_is_revoked(ti, "off");
	tell(ti, "on");
	tell(ti, "revoke off");
	none_is_revoked(ti, "revoke off");
	tell(ti, "revoke on");
	one(ti, "on again", REQ_OP_READ, STUB_TAG, true);
	tell(ti, "load fast.linnet");
	none_is_revoked(ti, "a model that calls it fast");
	tell(ti, "unload");
	none_is_revoked(ti, "no model");
	stub_remove(ti);
}

/*
 * A device that is always predicted slow is probed with single reads when its state has expired; otherwise it could not
 * recover.
 */
static void check_probe(const char *policy, u64 age_ns)
{
	struct dm_target *ti = must("1 /dev/leg0 0 5 revoke ioprio 0x5004 model slow.linnet");
	struct stub_bio *first = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);
	struct stub_bio *second = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);

	CHECK(tell(ti, policy) == 0, "%s", policy);
	for (u32 i = 0; i < 4; i++)
		refresh(ti); /* the network wants a history */
	stub_now += age_ns - 1000;
	stub_submit(ti, first);
	CHECK(first->ended == 1 && !first->below, "%s: not revoked before it has expired", policy);
	free(first);
	first = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);
	stub_now += 2000;
	stub_submit(ti, first);
	CHECK(first->below && !first->ended, "%s: no probe", policy);
	stub_submit(ti, second);
	CHECK(second->ended == 1 && !second->below, "%s: two probes at a time", policy);
	stub_complete(first, BLK_STS_OK);
	CHECK(count_of(ti, "probes", -1) == 1, "probes");
	free(first);
	free(second);
	stub_remove(ti);
}

/* With an age of 0 a device that is predicted slow is never probed again. */
static void check_never_expires(void)
{
	struct dm_target *ti = must("1 /dev/leg0 0 5 revoke ioprio 0x5004 model slow.linnet");
	struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);

	*stub_param_age_ms = 0;
	refresh(ti);
	stub_now += 1ULL << 50;
	stub_submit(ti, b);
	CHECK(b->ended == 1 && !b->below, "a probe though nothing expires");
	*stub_param_age_ms = 10;
	free(b);
	stub_remove(ti);
}

/* The network predicts nothing before four reads have completed. */
static void check_history(void)
{
	struct dm_target *ti = must("1 /dev/leg0 0 7 policy linnos revoke ioprio 0x5004 model slow.linnet");

	for (u32 n = 0; n < 6; n++) {
		struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);

		stub_submit(ti, b);
		CHECK(b->ended == (n >= 4), "read %u after %u that completed", n, min(n, 4U));
		stub_now += 100000;
		if (b->below)
			stub_complete(b, BLK_STS_OK);
		free(b);
	}
	stub_remove(ti);
}

static const struct linnet_prune *own_loops;
static struct stub_bio *ends_meanwhile, *interrupts;

static void another_cpu_ends(void)
{
	stub_complete(ends_meanwhile, BLK_STS_OK);
}

static void prune(const struct linnet_tables *tables, struct linnet_precomputed *pre)
{
	unsigned int atomic = stub_atomic;

	if (ends_meanwhile->below) {
		stub_atomic = 0; /* an interrupt on this CPU, which is alone so far */
		stub_complete(interrupts, BLK_STS_OK);
		stub_atomic = atomic;
		stub_meanwhile = another_cpu_ends;
		stub_let_others();
	}
	own_loops->prune(tables, pre);
}

/* Reads end while a CPU processes the history, by interrupts of another CPU and of its own, and need not wait for that. */
static void check_end_meanwhile(void)
{
	struct dm_target *ti = must("1 /dev/leg0 0 7 policy linnos revoke ioprio 0x5004 model linnos.linnet");
	struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);
	struct linnet_dm *dm = ti->private;
	struct linnet_leg_model *leg_model = dm->legs[0].leg_model;
	struct linnet_tables *tables = &leg_model->loaded->tables;
	struct linnet_prune loops = *tables->loops;

	ends_meanwhile = new_bio(REQ_OP_READ, 0, 8, 4096);
	stub_submit(ti, ends_meanwhile);
	interrupts = new_bio(REQ_OP_READ, 0, 8, 4096);
	stub_submit(ti, interrupts);
	for (u32 i = 0; i < 4; i++)
		refresh(ti);
	own_loops = tables->loops;
	loops.prune = prune;
	tables->loops = &loops;
	CHECK(linnet_incremental_behind(leg_model->net), "nothing to process");
	stub_submit(ti, b);
	CHECK(ends_meanwhile->ended == 1 && interrupts->ended == 1, "no history was processed");
	CHECK(!linnet_incremental_behind(leg_model->net), "a decision by a history of which reads are missing");
	CHECK(count_of(ti, "inflight", 0) == b->below, "ends are lost");
	tables->loops = own_loops;
	if (b->below)
		stub_complete(b, BLK_STS_OK);
	free(b);
	free(ends_meanwhile);
	free(interrupts);
	stub_remove(ti);
}

/* A read that was submitted and failed is sent to the other replicas, and is not revoked on the way. */
static void check_failover(void)
{
	struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 5 revoke ioprio 0x5004 model slow.linnet");
	struct stub_bio *b = new_bio(REQ_OP_READ | REQ_NOWAIT, 0, 8, 4096);

	refresh(ti);
	stub_submit(ti, b);
	/* The first two are tried again, as they failed without having tried again themselves. */
	for (u32 n = 0; n < 5; n++) {
		CHECK(b->below && !b->ended, "attempt %u", n);
		CHECK(!(b->bio.bi_opf & REQ_NOWAIT) == (n > 0), "attempt %u: NOWAIT", n);
		b->bio.bi_ioprio = STUB_TAG;
		stub_now += 1000;
		stub_complete(b, BLK_STS_IOERR);
		stub_run_works();
	}
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_IOERR, "after all replicas have failed");
	CHECK(count_of(ti, "failovers", -1) == 4, "failovers");
	CHECK(count_of(ti, "revokes", -1) == 0, "revokes");
	free(b);
	end_probes(ti);
	stub_remove(ti);
}

static struct dm_target *contended;
static struct stub_bio *other;

static void another_cpu_submits(void)
{
	stub_submit(contended, other);
}

/*
 * A read that was about to be submitted is decided again, because a read of another CPU arrived first, and is then
 * revoked. It is not recorded, and its end is not an event of the replica.
 */
static void check_changed_mind(const char *policy)
{
	struct dm_target *ti = contended = must("1 /dev/leg0 0 5 revoke ioprio 0x5004 model busy.linnet");
	struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);

	CHECK(tell(ti, policy) == 0, "%s", policy);
	for (u32 i = 0; i < 4; i++)
		refresh(ti);
	other = new_bio(REQ_OP_READ, 0, 8, 64 * 4096); /* makes the replica slow */
	stub_meanwhile = another_cpu_submits;
	stub_submit(ti, b);
	CHECK(other->below && !other->ended, "%s: the other CPU's read", policy);
	CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_AGAIN, "%s: not decided on again", policy);
	CHECK(count_of(ti, "inflight", 0) == 1, "%s: in flight after a read that was revoked", policy);
	stub_complete(other, BLK_STS_OK);
	CHECK(count_of(ti, "inflight", 0) == 0 && count_of(ti, "reads", 0) == 5, "%s: events of a read that never was there", policy);
	free(b);
	free(other);
	stub_remove(ti);
}

/* A model that always predicts slow revokes no more than its budget: a burst at once, and then a share. */
static void check_budget(uint percent)
{
	struct dm_target *ti = must("1 /dev/leg0 0 5 revoke ioprio 0x5004 model slow.linnet");
	const u32 reads = 6000;
	u64 revokes, most = min(1024 + reads * percent / 100, reads);

	*stub_param_revoke_percent = percent;
	for (u32 n = 0; n < reads; n++) {
		struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);

		refresh(ti);
		stub_submit(ti, b);
		CHECK(b->ended == !b->below, "revoked or sent on");
		if (b->below)
			stub_complete(b, BLK_STS_OK);
		free(b);
	}
	revokes = count_of(ti, "revokes", -1);
	CHECK(revokes <= most && revokes + 1 >= most, "%lu revokes at %u percent, not %lu", revokes, percent, most);
	CHECK(count_of(ti, "probes", -1) == 0, "a read beyond the budget is no probe");
	*stub_param_revoke_percent = 100;
	stub_remove(ti);
}

void check_revoke(void)
{
	put_model("slow", "slow.linnet");
	put_model("fast", "fast.linnet");
	check_rows("policy linnos");
	check_rows("policy linnet-best");
	check_rows("policy baseline");
	check_probe("policy linnos", LINNET_AGE_NS);
	check_probe("policy linnet-best", 5ULL * LINNET_AGE_NS);
	check_probe("policy baseline", 5ULL * LINNET_AGE_NS);
	*stub_param_age_ms = 30;
	check_probe("policy linnos", 3ULL * LINNET_AGE_NS);
	check_probe("policy linnet-best", 15ULL * LINNET_AGE_NS);
	*stub_param_age_ms = 10;
	check_never_expires();
	check_history();
	put_model("linnos", "linnos.linnet");
	check_end_meanwhile();
	stub_firmware("linnet/linnos.linnet", NULL, 0);
	check_failover();
	put_model("busy", "busy.linnet");
	check_changed_mind("policy linnet-best");
	check_changed_mind("policy linnos");
	stub_cpu = 0; /* budgets are per CPU */
	check_budget(100);
	check_budget(25);
	check_budget(0);
	check_budget(429497); /* counts as 100, though in millionths it has more than 32 bits */
	stub_firmware("linnet/slow.linnet", NULL, 0);
	stub_firmware("linnet/fast.linnet", NULL, 0);
}
