// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks model files: loaded, refused when damaged, swapped during reads. If one is refused, the old model stays.
 */
#include "hedges.h"
#include "inflight.h"

extern uint *const stub_param_weights_max;

/* The checksum of a file of this size, at its end. */
static void seal(u8 *bytes, size_t size)
{
	u32 crc = linnet_crc32c(bytes, size - 4);

	memcpy(bytes + size - 4, &crc, 4);
}

static void put(const struct file *file, const u8 *bytes, size_t size)
{
	(void)file;
	stub_firmware("linnet/m.linnet", bytes, size);
}

/* Sends some reads, all of which must succeed. */
static void use(struct dm_target *ti)
{
	for (u32 n = 0; n < 6; n++) {
		struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8 * below(1000), 4096 << below(4));

		stub_submit(ti, b);
		stub_now += 1000 + below(100000);
		if (b->below)
			stub_complete(b, BLK_STS_OK);
		CHECK(b->ended == 1, "the read ended %u times", b->ended);
		CHECK(b->bio.bi_status == BLK_STS_OK || b->bio.bi_status == BLK_STS_AGAIN, "status %u", b->bio.bi_status);
		free(b);
	}
}

/* Whether the status says this of the models. */
static bool is_model(struct dm_target *ti, const char *what)
{
	char text[4096], words[32];

	ti->type->status(ti, STATUSTYPE_INFO, 0, text, sizeof(text));
	snprintf(words, sizeof(words), " model %s ", what);
	return strstr(text, words) != NULL;
}

static bool is_loaded(struct dm_target *ti)
{
	return is_model(ti, "loaded");
}

/* Applies damage of a random kind; `mended` means that the checksum is valid again. */
static void damage(const struct file *from, u8 *to, size_t *size, bool mended)
{
	memcpy(to, from->bytes, from->size);
	*size = from->size;
	if (!mended && below(8) == 0) {
		*size = below((u32)from->size);
		return;
	}
	for (u32 n = 1 + below(4); n; n--) {
		/* Mostly in the header and the table of layers, where it has an effect. */
		u32 at = below(3) ? below(128) : below((u32)from->size - 4);

		if (below(4) == 0)
			to[at] = (u8)(below(2) ? 0xff : 0);
		else
			to[at] ^= (u8)(1 << below(8));
	}
	if (mended)
		seal(to, *size);
}

#define TREES (8 + 3 * 64 * 2 + 64 * 8 * 2) /* bytes of the trees, before the checksum */

/* One part of a file that has a network and trees; the other is removed. */
static size_t part_of(const struct file *from, u8 *to, bool trees)
{
	const size_t block = TREES, end = from->size - 4;
	size_t size = trees ? 96 + block : end - block;
	u32 total = (u32)size + 4;

	memcpy(to, from->bytes, size);
	memcpy(to + 16, &total, 4);
	to[76] = trees ? 2 : 1;
	if (trees) {
		memset(to + 12, 0, 4);
		memset(to + 20, 0, 4);
		memcpy(to + 96, from->bytes + end - block, block);
	}
	seal(to, total);
	return total;
}

/* Whether a tagged read that arrives now is revoked. Also checks the counters. */
static bool is_revoked(struct dm_target *ti)
{
	struct stub_bio *b = new_bio(REQ_OP_READ, STUB_TAG, 8, 4096);
	bool revoked;

	stub_submit(ti, b);
	revoked = b->ended;
	stub_now += 100000;
	if (b->below)
		stub_complete(b, BLK_STS_OK);
	free(b);
	return revoked;
}

/* Checks the fallback of a policy whose model lacks a part, and that each part alone can revoke. */
static void check_parts(const struct file *slow, u8 *bytes)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 0");
	size_t size = part_of(slow, bytes, true);

	put(NULL, bytes, size);
	CHECK(tell(ti, "load m.linnet") == 0 && is_loaded(ti), "trees alone");
	use(ti);
	CHECK(count_of(ti, "decisions", -1) == 6, "linnet-best asks trees");
	CHECK(tell(ti, "policy linnos") == 0 && tell(ti, "reset") == 0, "linnos");
	use(ti);
	CHECK(count_of(ti, "decisions", -1) == 0 && count_of(ti, "forced", -1) == 6, "linnos without a network is baseline");
	CHECK(count_of(ti, "reads", 0) == 6, "baseline reads the primary");
	CHECK(tell(ti, "policy baseline") == 0 && tell(ti, "revoke on") == -EINVAL && tell(ti, "ioprio 0x5004") == 0 && tell(ti, "revoke on") == 0, "revoke");
	CHECK(is_revoked(ti), "trees revoke from the first read");
	size = part_of(slow, bytes, false);
	put(NULL, bytes, size);
	CHECK(tell(ti, "load 0 m.linnet") == 0, "a network alone");
	for (u32 n = 0; n < 4; n++)
		CHECK(tell(ti, "revoke off") == 0 && !is_revoked(ti) && tell(ti, "revoke on") == 0, "read %u", n);
	CHECK(is_revoked(ti), "without trees the network revokes");
	stub_remove(ti);
}

/* A read is slow above the score that the file says, here 4096 of every read: not at that score. */
static void check_slow_score(const struct file *slow, u8 *bytes)
{
	struct dm_target *ti = must("1 /dev/leg0 0 3 revoke ioprio 0x5004");

	use(ti); /* which shows the device's state, so that none is needed as a probe */
	for (s16 above = 4095; above <= 4096; above++) {
		memcpy(bytes, slow->bytes, slow->size);
		memcpy(bytes + slow->size - 4 - TREES + 2, &above, 2);
		seal(bytes, slow->size);
		put(NULL, bytes, slow->size);
		CHECK(tell(ti, "load m.linnet") == 0 && is_revoked(ti) == (above < 4096), "slow above %d", above);
	}
	stub_remove(ti);
}

/* An inflection point of 0 means none: no read is slow. A value that is too large is refused. */
static void check_bounds(const struct file *good, u8 *bytes)
{
	struct dm_target *ti = must("1 /dev/leg0 0 0");
	struct linnet_dm *dm = ti->private;
	unsigned int events;

	put(NULL, good->bytes, good->size);
	stub_run_works();
	events = stub_events;
	CHECK(tell(ti, "load m.linnet") == 0 && dm->legs[0].state.inflight.inflection_ns == 1000000, "inflection point");
	memcpy(bytes, good->bytes, good->size);
	memset(bytes + 24, 0, 8);
	seal(bytes, good->size);
	put(NULL, bytes, good->size);
	CHECK(tell(ti, "load m.linnet") == 0 && dm->legs[0].state.inflight.inflection_ns == U64_MAX, "no inflection point");
	stub_run_works();
	CHECK(stub_events == events + 1, "no event when a model is loaded");
	CHECK(tell(ti, "unload") == 0 && stub_run_works() && stub_events == events + 2, "no event when it is unloaded");
	*stub_param_weights_max = 61;
	CHECK(tell(ti, "load m.linnet") == -EFBIG, "a network of 62 weights");
	*stub_param_weights_max = 62;
	CHECK(tell(ti, "load m.linnet") == 0, "a network of 62 weights, which may be");
	*stub_param_weights_max = 65536;
	stub_remove(ti);
}

/* The file is refused with this error, and the log says why; the status says so, until it is told to forget the file. */
static void refused(int error, const char *reason)
{
	struct dm_target *ti = must("1 /dev/leg0 0 2 model m.linnet");

	CHECK(strstr(stub_said, reason), "'%s' lacks '%s'", stub_said, reason);
	CHECK(tell(ti, "load m.linnet") == error, "no error %d: %s", error, reason);
	CHECK(is_model(ti, "model-error") && tell(ti, "unload") == 0 && is_model(ti, "none"), "a model that was refused");
	stub_remove(ti);
}

/* What is too large is said, so that nobody raises weights_max in vain. */
static void check_too_large(const struct file *good)
{
	const size_t most = 4 << 20;
	u8 *bytes = calloc(1, most + 1);
	struct dm_target *ti;

	memcpy(bytes, good->bytes, good->size);
	put(NULL, bytes, most);
	refused(-EBADMSG, "its length is wrong");
	put(NULL, bytes, most + 1);
	refused(-EFBIG, "the file is larger than 4 MiB");
	ti = must("1 /dev/leg0 0 0");
	put_model("wide", "m.linnet");
	CHECK(tell(ti, "load m.linnet") == 0, "almost 16 KiB of memory for each CPU");
	stub_remove(ti);
	put_model("wider", "m.linnet");
	refused(-EFBIG, "more than 16 KiB of memory for each CPU");
	*stub_param_weights_max = 61;
	refused(-EFBIG, "more weights than weights_max");
	*stub_param_weights_max = 65536;
	free(bytes);
}

/* Policies of which nothing is left to ask. */
static void check_unload(const struct file *good)
{
	struct dm_target *ti = must("2 /dev/leg0 0 /dev/leg1 0 0");
	u64 forced;

	put(NULL, good->bytes, good->size);
	for (u32 i = 0; i < 2; i++) {
		CHECK(tell(ti, "load m.linnet") == 0 && tell(ti, "policy linnos") == 0, "load");
		CHECK(tell(ti, "unload 0") == 0 && tell(ti, i ? "unload 1" : "unload") == 0, "unload");
		forced = count_of(ti, "forced", -1);
		use(ti);
		CHECK(count_of(ti, "forced", -1) == forced + 6 && policy_traced == LINNET_BASELINE, "linnos without a network is policy %u",
		      policy_traced);
		CHECK(tell(ti, "policy linnet-best") == 0, "policy");
		use(ti);
		CHECK(policy_traced == LINNET_BEST, "linnet-best without trees is policy %u", policy_traced);
	}
	stub_remove(ti);
}

/* A file with this 95th percentile, ns. */
static void put_p95(const struct file *good, u8 *bytes, u64 p95_ns)
{
	memcpy(bytes, good->bytes, good->size);
	memcpy(bytes + 32, &p95_ns, 8);
	seal(bytes, good->size);
	put(NULL, bytes, good->size);
}

/* The delay starts at the lowest of the models' 95th percentiles, whichever leg has it; 0 is none. */
static void check_first_delay(const struct file *good, u8 *bytes)
{
	static const u64 p95_us[][3] = { { 7000, 3000, 0 }, { 3000, 0, 7000 }, { 0, 7000, 7000 }, { 0, 0, 0 } };
	static const u64 delay_us[] = { 3000, 3000, 7000, LINNET_HEDGE_START_NS / 1000 };

	for (u32 i = 0; i < ARRAY_SIZE(delay_us); i++) {
		struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 2 policy shortest-queue");

		for (u32 k = 0; k < 3; k++) {
			char words[] = "load 0 m.linnet";

			words[5] += k;
			put_p95(good, bytes, 1000 * p95_us[i][k]);
			CHECK(tell(ti, words) == 0, "load %u", k);
		}
		CHECK(tell(ti, "hedge 2") == 0 && count_of(ti, "hedge_us", -1) == delay_us[i], "case %u: a delay of %lu us", i,
		      count_of(ti, "hedge_us", -1));
		stub_remove(ti);
	}
}

/* A 95th percentile of 292 years, as a file may give it. No timer is set for that. */
static void check_delay(const struct file *good, u8 *bytes)
{
	const u64 most_us = LINNET_LATENCY_NS_MAX / 1000;
	struct app *app;

	put_p95(good, bytes, 1ULL << 63);
	hedging = must("2 /dev/leg0 0 /dev/leg1 0 6 policy shortest-queue hedge 2 model m.linnet");
	CHECK(count_of(hedging, "hedge_us", -1) == most_us, "a delay of %lu us", count_of(hedging, "hedge_us", -1));
	app = start_read(8, SIZE);
	CHECK(stub_own_count == 1, "%u copies", stub_own_count);
	stub_now += NSEC_PER_SEC;
	CHECK(!stub_run_timers(), "a timer that always runs");
	/* A late read makes it longer, if it can be. */
	late(LINNET_LATENCY_NS_MAX);
	CHECK(count_of(hedging, "hedge_us", -1) == most_us, "a delay of %lu us", count_of(hedging, "hedge_us", -1));
	while (stub_own_count)
		stub_complete_own(0, BLK_STS_OK, 1);
	got(app, 1, __LINE__);
	stub_remove(hedging);
}

/* A file may lie on the device itself: none is read while the device is suspended, or about to be. */
static void check_suspended(const struct file *slow)
{
	char with_model[2][64] = { "1 /dev/leg0 0 2 model m.linnet", "1 /dev/leg0 0 2 model m.linnet" };
	char line[] = "2 /dev/leg0 0 /dev/leg1 0 0", *error;
	struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 5 policy linnos revoke ioprio 0x5004");

	put(NULL, slow->bytes, slow->size);
	CHECK(tell(ti, "load m.linnet") == 0, "a good file");
	ti->type->presuspend(ti);
	CHECK(tell(ti, "load m.linnet") == -EBUSY && tell(ti, "load 1 m.linnet") == -EBUSY && is_loaded(ti), "suspending");
	stub_held = true;
	CHECK(tell(ti, "policy linnet-best") == 0 && tell(ti, "policy linnos") == 0, "this needs memory");
	CHECK(tell(ti, "hedge 2") == -EBUSY && tell(ti, "hedge 0") == 0, "and this a thread");
	CHECK(tell(ti, "unload") == 0 && !is_loaded(ti), "this reads no file");
	stub_held = false;
	ti->type->presuspend_undo(ti);
	CHECK(tell(ti, "load m.linnet") == 0, "the suspend failed");
	CHECK(tell(ti, "hedge 2") == 0, "the suspend failed");
	ti->type->presuspend(ti);
	stub_postsuspend(ti);
	CHECK(tell(ti, "load m.linnet") == -EBUSY && !stub_noio, "suspended");
	stub_held = true;
	CHECK(tell(ti, "hedge 0") == 0 && tell(ti, "hedge 3") == 0, "this makes nothing");
	stub_held = false;
	CHECK(stub_preresume(ti) == 0 && tell(ti, "load m.linnet") == -EBUSY, "another target may refuse the resume");
	ti->type->resume(ti);
	CHECK(tell(ti, "load m.linnet") == 0 && is_loaded(ti), "resumed");
	stub_remove(ti);
	/* The resume to a new table is refused: it is the live one, and the device stays suspended. */
	ti = stub_load(line, true, &error);
	CHECK(ti && tell(ti, "load m.linnet") == -EBUSY, "a new table that was not resumed");
	ti->type->resume(ti);
	CHECK(tell(ti, "load m.linnet") == 0, "a new table that was");
	stub_remove(ti);
	/* A table that is loaded while the device is suspended reads none, and no file is looked for. */
	for (u32 suspended = 0; suspended < 2; suspended++) {
		stub_suspended = suspended;
		ti = stub_load(suspended ? with_model[1] : with_model[0], true, &error);
		stub_suspended = false;
		CHECK(ti && is_loaded(ti) == !suspended, "suspended: %u", suspended);
		CHECK(!suspended || strstr(stub_said, "send `load` after the resume"), "the log says %s", stub_said);
		ti->type->resume(ti);
		CHECK(tell(ti, "load m.linnet") == 0 && is_loaded(ti), "resumed");
		stub_remove(ti);
	}
}

/* What follows from the parts and numbers of a file. */
void check_model_rules(void)
{
	struct file slow = load_file("slow");
	u8 *bytes = malloc(1 << 16);

	check_parts(&slow, bytes);
	check_slow_score(&slow, bytes);
	check_bounds(&slow, bytes);
	check_too_large(&slow);
	check_unload(&slow);
	check_first_delay(&slow, bytes);
	check_delay(&slow, bytes);
	check_suspended(&slow);
	stub_firmware("linnet/m.linnet", NULL, 0);
	free(slow.bytes);
	free(bytes);
}

void check_models(unsigned long inputs)
{
	struct dm_target *ti = must("3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 5 policy linnos revoke ioprio 0x5004");
	struct file files[4] = { load_file("slow"), load_file("fast"), load_file("busy"), load_file("random") };
	unsigned long refused = 0, taken = 0;
	unsigned int logged;
	u8 *bytes = malloc(1 << 16);
	size_t size;

	CHECK(tell(ti, "load m.linnet") < 0, "a file that is not there");
	CHECK(!is_loaded(ti), "loaded");
	put(NULL, files[0].bytes, files[0].size);
	CHECK(tell(ti, "load m.linnet") == 0, "a good file");
	CHECK(is_loaded(ti), "not loaded");
	for (unsigned long n = 0; n < inputs / 10; n++) {
		const struct file *file = &files[below(4)];
		bool mended = below(2);
		char words[32];
		int error;

		damage(file, bytes, &size, mended);
		put(file, bytes, size);
		if (below(2))
			snprintf(words, sizeof(words), "load %u m.linnet", below(3));
		else
			strcpy(words, "load m.linnet");
		error = tell(ti, words);
		/* The flips may have cancelled out. */
		CHECK(error || mended || (size == file->size && !memcmp(bytes, file->bytes, size)), "damage passed");
		refused += error != 0;
		taken += error == 0;
		CHECK(is_loaded(ti), "the old model is gone");
		if (n % 4 == 0) {
			tell(ti, below(2) ? "policy linnet-best" : "policy linnos");
			use(ti);
		}
	}
	CHECK(refused > inputs / 40 && taken > inputs / 200, "refused %lu, taken %lu", refused, taken);

	/* Swaps with reads in flight: each read ends with the model that it began with, or with the next one. */
	for (unsigned long n = 0; n < 1000; n++) {
		struct stub_bio *b = new_bio(REQ_OP_READ, 0, 8 * below(1000), 4096);

		stub_submit(ti, b);
		put(NULL, files[n % 4].bytes, files[n % 4].size);
		CHECK(tell(ti, "load m.linnet") == 0, "swap %lu", n);
		if (n % 10 == 0)
			CHECK(tell(ti, "unload") == 0, "unload");
		stub_now += 100000;
		CHECK(b->below, "the read is not in flight");
		stub_complete(b, BLK_STS_OK);
		CHECK(b->ended == 1 && b->bio.bi_status == BLK_STS_OK, "the read was lost");
		free(b);
	}
	stub_remove(ti);
	stub_firmware("linnet/m.linnet", NULL, 0);

	/* A table with a damaged file loads, reports it, and submits every read. */
	stub_firmware("linnet/m.linnet", files[0].bytes, files[0].size - 1);
	logged = stub_logged;
	ti = must("2 /dev/leg0 0 /dev/leg1 0 5 revoke ioprio 0x5004 model m.linnet");
	ti->type->status(ti, STATUSTYPE_INFO, 0, (char *)bytes, 4096);
	CHECK(strstr((char *)bytes, " model model-error ") != NULL, "status '%s'", (char *)bytes);
	use(ti);
	CHECK(count_of(ti, "revokes", -1) == 0, "revoked without a model");
	CHECK(stub_logged == logged + 1, "the reason is logged %u times", stub_logged - logged);
	stub_remove(ti);
	stub_firmware("linnet/m.linnet", NULL, 0);
	printf("model files: %lu damaged refused, %lu with a mended checksum taken\n", refused, taken);
	for (u32 i = 0; i < 4; i++)
		free(files[i].bytes);
	free(bytes);
}
