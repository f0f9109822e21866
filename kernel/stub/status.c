// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks status, counters and module parameters against spec/dm-target.md: keys and their order, what each number
 * counts, the limits of the histogram's buckets, defaults.
 */
#include "check.h"

extern uint *const stub_param_age_ms, *const stub_param_revoke_percent, *const stub_param_places, *const stub_param_weights_max;

static const char *const keys[] = {
	"version", "policy", "model", "on", "revoke", "reads", "writes", "decisions", "revokes", "forced", "failovers", "probes",
	"own_probes", "unprobed", "untracked", "hedge", "hedges", "hedge_wins", "discarded", "unhedged", "hedge_us", "replicas",
};
static const char *const leg_keys[] = { "dev", "state", "inflight", "reads", "writes", "errors", "ewma_us", "lat" };

static void text_of(struct dm_target *ti, char *text, size_t size)
{
	text[0] = 0;
	ti->type->status(ti, STATUSTYPE_INFO, 0, text, (unsigned int)size);
}

static void check_keys(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 3 revoke ioprio 0x5004");
	char text[4096], *rest = text, *word;
	u32 n = 0;

	text_of(ti, text, sizeof(text));
	CHECK(!strncmp(text, "version 1 policy linnet-best model none on 1 revoke 1 reads 0 ", 62), "'%s'", text);
	CHECK(strstr(text, " replicas 2 dev 259:0 state A inflight 0 reads 0 writes 0 errors 0 ewma_us 0 lat 0,0,0,"), "'%s'", text);
	while ((word = strsep(&rest, " "))) {
		const char *key = n < ARRAY_SIZE(keys) ? keys[n] : leg_keys[(n - ARRAY_SIZE(keys)) % ARRAY_SIZE(leg_keys)];
		char *value = strsep(&rest, " ");

		CHECK(!strcmp(word, key) && value && *value, "key %u is '%s', not '%s'", n, word, key);
		n++;
	}
	CHECK(n == ARRAY_SIZE(keys) + 2 * ARRAY_SIZE(leg_keys), "%u keys", n);
	stub_remove(ti);
}

/* Bucket of one read of this latency. */
static u32 bucket_of(struct dm_target *ti, u64 latency_ns)
{
	struct stub_bio *b = new_bio(REQ_OP_READ, 0, 0, 4096);
	char text[4096], *at;
	u32 bucket = 0;

	tell(ti, "reset");
	stub_submit(ti, b);
	stub_now += latency_ns;
	stub_complete(b, BLK_STS_OK);
	free(b);
	text_of(ti, text, sizeof(text));
	at = strstr(text, " lat ");
	CHECK(at && count_of(ti, "reads", 0) == 1, "no histogram of one read");
	for (at += 5; *at == '0'; at += 2)
		bucket++;
	CHECK(*at == '1', "the histogram '%s'", at);
	return bucket;
}

static void check_buckets(void)
{
	struct dm_target *ti = must("1 /dev/leg0 0 0");
	u64 end_ns = 64000;

	CHECK(bucket_of(ti, 0) == 0, "no time at all");
	for (u32 i = 0; i < 15; i++, end_ns *= 2) {
		CHECK(bucket_of(ti, end_ns - 1) == i, "%lu ns", end_ns - 1);
		CHECK(bucket_of(ti, end_ns) == i + 1, "%lu ns", end_ns);
	}
	CHECK(bucket_of(ti, 1000 * end_ns) == 15, "the last holds all above");
	stub_remove(ti);
}

static void run(struct dm_target *ti, blk_opf_t opf, u32 times)
{
	while (times--) {
		struct stub_bio *b = new_bio(opf, 0, 0, 4096);

		stub_submit(ti, b);
		stub_now += 100000;
		stub_complete(b, BLK_STS_OK);
		CHECK(b->ended == 1, "lost");
		free(b);
	}
}

#define COUNTS(ti, r, d, f) \
	CHECK(count_of(ti, "reads", -1) == (r) && count_of(ti, "decisions", -1) == (d) && count_of(ti, "forced", -1) == (f), \
	      "%lu reads, %lu decisions, %lu forced", count_of(ti, "reads", -1), count_of(ti, "decisions", -1), \
	      count_of(ti, "forced", -1))

/* A choice is counted under every policy except baseline; a read without a choice counts as forced. */
static void check_counts(void)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 2 policy baseline");

	run(ti, REQ_OP_READ, 3);
	COUNTS(ti, 3, 0, 0);
	CHECK(tell(ti, "policy shortest-queue") == 0, "policy");
	run(ti, REQ_OP_READ, 4);
	COUNTS(ti, 7, 4, 0);
	CHECK(tell(ti, "fail 1") == 0, "fail");
	run(ti, REQ_OP_READ, 5);
	COUNTS(ti, 12, 4, 5);
	CHECK(tell(ti, "revive 1") == 0 && tell(ti, "policy linnos") == 0, "linnos");
	run(ti, REQ_OP_READ, 6); /* without a network */
	COUNTS(ti, 18, 4, 11);
	CHECK(count_of(ti, "reads", 0) + count_of(ti, "reads", 1) == 18, "reads of the replicas");
	CHECK(tell(ti, "reset") == 0, "reset");
	COUNTS(ti, 0, 0, 0);
	CHECK(count_of(ti, "reads", 0) == 0 && count_of(ti, "ewma_us", 0) == 100, "a reset forgets what is known");
	stub_remove(ti);

	/* A single replica may be written; writes that completed are counted. */
	char *error;

	ti = make("1 /dev/leg0 0 0", false, &error);
	CHECK(ti, "one replica may not be written: %s", error);
	run(ti, REQ_OP_WRITE, 2);
	run(ti, REQ_OP_READ, 1);
	CHECK(count_of(ti, "writes", -1) == 2 && count_of(ti, "writes", 0) == 2 && count_of(ti, "reads", 0) == 1, "writes");
	stub_remove(ti);
}

static u32 places_of(const struct dm_target *ti)
{
	const struct linnet_leg *leg = ((struct linnet_dm *)ti->private)->legs;
	u32 count = 0;

	for (u32 place = leg->state.free; place != LINNET_UNTRACKED; place = leg->places[place].newer)
		count++;
	return count;
}

/* Linux sets what it is told; what is out of range counts as the nearest limit. */
static void check_places(void)
{
	static const struct { uint set; u32 places; } cases[] = {
		{ 0, 16 }, { 15, 16 }, { 17, 17 }, { 65536, 65536 }, { 65537, 65536 }, { U32_MAX, 65536 },
	};

	for (u32 i = 0; i < ARRAY_SIZE(cases); i++) {
		struct dm_target *ti;

		*stub_param_places = cases[i].set;
		ti = must("1 /dev/leg0 0 0");
		CHECK(places_of(ti) == cases[i].places, "%u places are %u", cases[i].set, places_of(ti));
		stub_remove(ti);
	}
	*stub_param_places = 1024;
}

static void check_parameters(void)
{
	CHECK(*stub_param_age_ms == 10 && *stub_param_revoke_percent == 100, "age_ms, revoke_percent");
	CHECK(*stub_param_places == 1024 && *stub_param_weights_max == 65536, "places, weights_max");
}

void check_status(void)
{
	check_parameters();
	check_places();
	check_keys();
	check_buckets();
	check_counts();
}
