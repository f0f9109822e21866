// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks volumes above md (spec/md-volume.md): the targets linnet and linnet-leg, with the check in md's place. It
 * sends the legs what md would send, or less. The array is /dev/leg7, and the drives are /dev/leg0 and /dev/leg1.
 */
#include "check.h"

#define ARRAY 7
#define OFFSET 2048 /* md's data on a leg */
#define SHIFT 16    /* a leg on its drive */

static struct dm_target *top, *legs[2];
static struct bio_vec vecs[8];

static u32 place(const struct stub_bio *b)
{
	return (u32)(b->bio.bi_bdev->bd_dev / 16 - 1);
}

static struct stub_bio *start(struct dm_target *ti, blk_opf_t opf, u64 sector, u32 sectors, struct bio_vec *vec)
{
	struct stub_bio *b = new_bio(opf, 0, sector, sectors << SECTOR_SHIFT);

	b->bio.bi_io_vec = vec;
	stub_submit(ti, b);
	return b;
}

static void end(struct stub_bio *b, blk_status_t status)
{
	stub_complete(b, status);
	CHECK(b->ended == 1 && b->bio.bi_status == status, "an I/O is lost");
	free(b);
}

/* md writes a part to a leg. */
static struct stub_bio *part(u32 k, u64 sector, u32 sectors, struct bio_vec *vec)
{
	return start(legs[k], vec ? REQ_OP_WRITE : REQ_OP_DISCARD, OFFSET + sector, sectors, vec);
}

/* A write that md sends to the legs in `on`, by bit. */
static void write_to(u32 on, u64 sector, struct bio_vec *vec)
{
	struct stub_bio *b = start(top, vec ? REQ_OP_WRITE : REQ_OP_DISCARD, sector, 8, vec);

	CHECK(place(b) == ARRAY && b->bio.bi_iter.bi_sector == sector, "a write goes to %u", place(b));
	for (u32 k = 0; k < 2; k++)
		if (on & BIT(k))
			end(part(k, sector, 8, vec), BLK_STS_OK);
	end(b, BLK_STS_OK);
}

static void trust_of(u32 k, char *text, size_t size, const char *key)
{
	char status[4096], *at = status;
	char format[32];

	top->type->status(top, STATUSTYPE_INFO, 0, status, sizeof(status));
	snprintf(format, sizeof(format), " %s ", key);
	at = strstr(at, " dev ");
	if (k)
		at = strstr(at + 1, " dev ");
	at = strstr(at, format) + strlen(format);
	snprintf(text, size, "%.*s", (int)strcspn(at, " "), at);
}

static void wants(u32 k, const char *trust, const char *why, int line)
{
	char got[32], because[32];

	trust_of(k, got, sizeof(got), "trust");
	trust_of(k, because, sizeof(because), "why");
	CHECK(!strcmp(got, trust) && (!why || !strcmp(because, why)), "line %d: leg %u is %s (%s), not %s (%s)", line, k, got,
	      because, trust, why ?: "any");
}

static int trust(u32 k, u64 generation)
{
	char words[64];

	snprintf(words, sizeof(words), "trust %u %llu", k, (unsigned long long)generation);
	return tell(top, words);
}

static void trust_legs(void)
{
	trust_both(top, legs);
	for (u32 k = 0; k < 2; k++)
		wants(k, "trusted", NULL, __LINE__);
}

/* Where reads go: bit per drive, and ARRAY. */
static u32 reads(void)
{
	struct stub_bio *b[4];
	u32 seen = 0;

	for (u32 i = 0; i < 4; i++) {
		b[i] = start(top, REQ_OP_READ | REQ_NOWAIT, 40 + i, 1, &vecs[7]);
		seen |= 1U << place(b[i]);
		CHECK(b[i]->bio.bi_iter.bi_sector == 40 + i + (place(b[i]) == ARRAY ? 0 : OFFSET + SHIFT), "a read's sector");
		CHECK(b[i]->bio.bi_opf & REQ_NOWAIT, "a read that may not wait would wait");
	}
	for (u32 i = 0; i < 4; i++)
		end(b[i], BLK_STS_OK);
	return seen;
}

static void check_trust(void)
{
	u64 old;

	CHECK(reads() == 1U << ARRAY, "reads go past md while nothing is trusted");
	wants(0, "untrusted", "new", __LINE__);
	CHECK(trust(0, count_of(top, "generation", 0)) == 0 && trust(0, 1) == -ESTALE, "generations");
	wants(0, "pending", NULL, __LINE__);
	CHECK(tell(top, "trust 2 1") == -EINVAL && tell(top, "trust 0 -1") == -EINVAL && tell(top, "trust 0") == -EINVAL,
	      "messages that are refused");
	CHECK(tell(top, "ioprio 0x5004") == 0 && tell(top, "revoke on") == -EINVAL, "a volume above md revokes");
	trust_legs();
	CHECK(reads() == 3, "reads do not go to both drives");
	old = count_of(top, "generation", 1);
	write_to(1, 8, &vecs[0]);
	wants(1, "untrusted", "short", __LINE__);
	wants(0, "trusted", NULL, __LINE__);
	CHECK(reads() == 1U << ARRAY, "reads go past md with one trusted leg");
	CHECK(trust(1, old) == -ESTALE, "an old generation is taken");
	trust_legs();
	for (u32 i = 0; i < 2; i++) {
		CHECK(tell(top, i ? "policy baseline" : "off") == 0 && reads() == 1U << ARRAY, "steered though off");
		CHECK(tell(top, i ? "policy shortest-queue" : "on") == 0 && reads() == 3, "not steered though on");
	}
	CHECK(tell(top, "fail 0") == 0 && reads() != 1, "reads go to a leg that is out of service");
	/* md serves what no leg may. */
	CHECK(tell(top, "fail 1") == 0 && reads() == 1U << ARRAY, "reads past md, though both legs are out of service");
	CHECK(tell(top, "revive 0") == 0 && tell(top, "revive 1") == 0 && reads() == 3, "revived");
	write_to(3, 8, NULL);
	wants(1, "trusted", NULL, __LINE__);
	write_to(2, 8, NULL);
	wants(0, "untrusted", "short", __LINE__);
	trust_legs();
}

/* One write flies when leg 1 fails in md; one that overlaps it waits, and then goes to leg 0 alone. */
static void check_overlap(void)
{
	struct stub_bio *second = start(top, REQ_OP_WRITE, 100, 8, &vecs[2]), *first, *third, *parts[2];
	u64 held = count_of(top, "held", -1);

	for (u32 k = 0; k < 2; k++)
		parts[k] = part(k, 100, 8, &vecs[2]);
	first = start(top, REQ_OP_WRITE, 104, 8, &vecs[1]);
	third = start(top, REQ_OP_WRITE, 110, 4, &vecs[3]);
	CHECK(!first->below && !third->below && count_of(top, "held", -1) == held + 2, "overlapping writes are not held back");
	end(parts[1], BLK_STS_OK);
	end(parts[0], BLK_STS_OK);
	end(second, BLK_STS_OK);
	stub_run_works();
	CHECK(first->below && !third->below, "held writes are released together");
	wants(1, "trusted", NULL, __LINE__);
	end(part(0, 104, 8, &vecs[1]), BLK_STS_OK);
	/* md's own write, of the same sectors, does not count for it. */
	end(first, BLK_STS_OK);
	wants(1, "untrusted", "short", __LINE__);
	stub_run_works();
	CHECK(third->below, "a write is held for ever");
	for (u32 k = 0; k < 2; k++)
		end(part(k, 110, 4, &vecs[3]), BLK_STS_OK);
	end(third, BLK_STS_OK);
	trust_legs();
}

static void check_doubts(void)
{
	struct stub_bio *b;

	/* Superblock and bitmap lie before the data. */
	end(start(legs[0], REQ_OP_WRITE, 8, 8, &vecs[4]), BLK_STS_OK);
	wants(0, "trusted", NULL, __LINE__);
	/* Data that are not the volume's; those of the volume, elsewhere. */
	end(part(0, 200, 8, &vecs[4]), BLK_STS_OK);
	wants(0, "untrusted", "unknown", __LINE__);
	wants(1, "untrusted", "unknown", __LINE__);
	trust_legs();
	/* The same, from before the trust was given; and they fail. */
	b = part(0, 200, 8, &vecs[4]);
	trust_legs();
	end(b, BLK_STS_IOERR);
	wants(0, "untrusted", "error", __LINE__);
	wants(1, "untrusted", "unknown", __LINE__);
	trust_legs();
	b = start(top, REQ_OP_WRITE, 300, 8, &vecs[1]);
	end(part(0, 304, 8, &vecs[1]), BLK_STS_OK);
	wants(1, "untrusted", "unknown", __LINE__);
	end(b, BLK_STS_OK);
	trust_legs();
	/* In two parts, of which one fails. */
	b = start(top, REQ_OP_WRITE, 300, 8, &vecs[1]);
	for (u32 k = 0; k < 2; k++)
		end(part(k, 300, 4, &vecs[1]), BLK_STS_OK);
	end(part(0, 304, 4, &vecs[1]), BLK_STS_OK);
	end(part(1, 304, 4, &vecs[1]), BLK_STS_MEDIUM);
	wants(1, "untrusted", "error", __LINE__);
	end(b, BLK_STS_OK);
	wants(0, "trusted", NULL, __LINE__);
	trust_legs();
	/* A flush has no data, and goes to md. */
	b = start(top, REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, NULL);
	CHECK(place(b) == ARRAY, "a flush goes to %u", place(b));
	end(start(legs[0], REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, NULL), BLK_STS_OK);
	end(start(legs[1], REQ_OP_WRITE | REQ_PREFLUSH, 0, 0, NULL), BLK_STS_IOERR);
	end(b, BLK_STS_OK);
	wants(0, "trusted", NULL, __LINE__);
	wants(1, "untrusted", "error", __LINE__);
	trust_legs();
}

/* md turns a write away that may not wait: no leg has missed anything, unless one has a part of it. */
static void check_turned_away(void)
{
	struct stub_bio *b, *waiting, *one;
	u64 before = count_of(top, "generation", 1);

	b = start(top, REQ_OP_WRITE | REQ_NOWAIT, 600, 8, &vecs[1]);
	CHECK(b->below && b->bio.bi_opf & REQ_NOWAIT, "a write that may not wait would wait");
	waiting = start(top, REQ_OP_WRITE | REQ_NOWAIT, 604, 8, &vecs[2]);
	CHECK(!waiting->below && !waiting->ended, "an overlapping write is not held back");
	end(b, BLK_STS_AGAIN);
	stub_run_works();
	CHECK(waiting->below, "held for ever");
	CHECK(!(waiting->bio.bi_opf & REQ_NOWAIT), "a worker's write is turned away, and io_uring cannot send it again");
	for (u32 k = 0; k < 2; k++)
		end(part(k, 604, 8, &vecs[2]), BLK_STS_OK);
	end(waiting, BLK_STS_OK);
	CHECK(count_of(top, "generation", 1) == before && reads() == 3, "a write that nobody carried out costs trust");
	b = start(top, REQ_OP_WRITE | REQ_NOWAIT, 600, 8, &vecs[1]);
	one = part(0, 600, 4, &vecs[1]);
	end(b, BLK_STS_AGAIN);
	wants(0, "untrusted", "short", __LINE__);
	wants(1, "untrusted", "short", __LINE__);
	end(one, BLK_STS_OK);
	trust_legs();
}

/*
 * A read waits in a drive's queue while md gives the leg up and somebody writes to it, and then succeeds. What it has read
 * may be foreign. `again`: the leg is trusted again by then.
 */
static void check_foreign(bool again)
{
	struct stub_bio *b = start(top, REQ_OP_READ | REQ_NOWAIT, 64, 8, &vecs[7]), *other;
	u64 failovers = count_of(top, "failovers", -1), errors;
	u32 at = place(b);

	CHECK(at < 2, "not steered");
	errors = count_of(top, "errors", (int)at);
	end(part(at, 64, 8, &vecs[4]), BLK_STS_OK);
	if (again)
		trust_legs();
	stub_complete(b, BLK_STS_OK);
	CHECK(!b->ended, "the answer is what somebody else has written");
	stub_run_works();
	CHECK(b->below && place(b) == ARRAY && b->bio.bi_iter.bi_sector == 64 && b->bio.bi_iter.bi_size == 4096 &&
	      !(b->bio.bi_opf & (REQ_NOWAIT | LINNET_FAILFAST)), "goes to %u, flags %x", place(b), b->bio.bi_opf);
	end(b, BLK_STS_OK);
	CHECK(count_of(top, "failovers", -1) == failovers + 1 && count_of(top, "errors", (int)at) == errors, "counts");
	trust_legs();
	/* It concerns the leg of the read alone, and a read that fails has failed. */
	b = start(top, REQ_OP_READ, 64, 8, &vecs[7]);
	at = place(b);
	other = start(top, REQ_OP_READ, 64, 8, &vecs[7]);
	CHECK(at < 2 && place(other) == !at, "not steered");
	write_to(1U << at, 8, &vecs[0]);
	wants(!at, "untrusted", "short", __LINE__);
	end(b, BLK_STS_OK);
	stub_complete(other, BLK_STS_MEDIUM);
	stub_run_works();
	CHECK(place(other) == ARRAY && count_of(top, "errors", !at) > 0, "an error that does not count");
	end(other, BLK_STS_OK);
	tell(top, at ? "revive 0" : "revive 1");
	trust_legs();
}

/* Where four reads of the volume's last sectors go. */
static u32 last_reads(void)
{
	struct stub_bio *b[4];
	u32 seen = 0;

	for (u32 i = 0; i < 4; i++) {
		b[i] = start(top, REQ_OP_READ, (1 << 20) - 8, 8, &vecs[7]);
		seen |= 1U << place(b[i]);
		CHECK(place(b[i]) != ARRAY || !(b[i]->bio.bi_opf & LINNET_FAILFAST), "md does not try again");
	}
	for (u32 i = 0; i < 4; i++)
		end(b[i], BLK_STS_OK);
	return seen;
}

/* A leg that ends before the volume does: what lies beyond is not read past md, for there is somebody else's data. */
static void check_length(void)
{
	CHECK(stub_leg_type->features & DM_TARGET_SINGLETON, "a leg need not be the only target of its device");
	CHECK(last_reads() == 3, "not steered");
	for (u32 i = 0; i < 2; i++) {
		struct dm_target *reloaded;
		char words[32];

		snprintf(words, sizeof(words), "/dev/leg0 %u", SHIFT);
		stub_leg_sectors = OFFSET + (1 << 20) - !i;
		reloaded = stub_load_leg(words, 0);
		stub_leg_sectors = STUB_LEG_SECTORS;
		legs[0]->type->presuspend(legs[0]);
		reloaded->type->resume(reloaded);
		stub_discard(legs[0]);
		legs[0] = reloaded;
		trust_legs();
		CHECK(reads() == 3, "not steered");
		CHECK(i ? last_reads() == 3 : !(last_reads() & 1), "reads go beyond the leg, or not to its end");
	}
}

/* A read that fails at a drive goes through md, which repairs it. */
static void check_read_error(void)
{
	struct stub_bio *b = start(top, REQ_OP_READ, 64, 8, &vecs[7]);
	u64 failovers = count_of(top, "failovers", -1);

	CHECK(place(b) < 2, "not steered");
	CHECK(b->bio.bi_opf & REQ_FAILFAST_DEV, "the driver tries again for seconds, while md could read");
	stub_complete(b, BLK_STS_MEDIUM);
	stub_run_works();
	CHECK(!(b->bio.bi_opf & REQ_FAILFAST_DEV), "nobody is left, and md does not try again");
	CHECK(b->below && place(b) == ARRAY && b->bio.bi_iter.bi_sector == 64 && b->bio.bi_iter.bi_size == 4096,
	      "a read that failed goes to %u", place(b));
	end(b, BLK_STS_OK);
	CHECK(count_of(top, "failovers", -1) == failovers + 1, "failovers");
	/* A worker sends it again, where no submitter waits. */
	b = start(top, REQ_OP_READ | REQ_NOWAIT, 64, 8, &vecs[7]);
	stub_complete(b, BLK_STS_MEDIUM);
	stub_run_works();
	CHECK(place(b) == ARRAY && !(b->bio.bi_opf & REQ_NOWAIT), "md turns a worker's read away");
	end(b, BLK_STS_OK);
	/* A drive's full queue is an answer for who may not wait. Of others it asks nothing, and md serves them. */
	for (u32 i = 0; i < 2; i++) {
		b = start(top, REQ_OP_READ | (i ? REQ_NOWAIT : 0), 64, 8, &vecs[7]);
		stub_complete(b, BLK_STS_AGAIN);
		stub_run_works();
		CHECK(i ? b->ended == 1 && b->bio.bi_status == BLK_STS_AGAIN : b->below && place(b) == ARRAY, "an answer");
		if (b->below)
			end(b, BLK_STS_OK);
		else
			free(b);
	}
	/* md has become smaller than the volume. */
	stub_devs[ARRAY].bdev->sectors = 42;
	CHECK((reads() & 1U << ARRAY) != 0, "a read beyond the array is steered");
	stub_devs[ARRAY].bdev->sectors = 1 << 20;
	CHECK(reads() == 3, "not steered");
}

/* Counters begin again, and nothing else does. */
static void check_reset(void)
{
	static const char *const counters[] = { "identified", "short", "failed", "unknown" };
	u64 generation = count_of(top, "generation", 1), counted = 0;

	for (u32 i = 0; i < ARRAY_SIZE(counters); i++)
		counted += count_of(top, counters[i], 1) > 0;
	CHECK(counted == ARRAY_SIZE(counters) && count_of(top, "held", -1) && count_of(top, "steered", -1), "nothing to reset");
	CHECK(tell(top, "reset") == 0, "reset");
	CHECK(!count_of(top, "held", -1) && !count_of(top, "steered", -1), "counters of the volume");
	for (u32 k = 0; k < 2; k++)
		for (u32 i = 0; i < ARRAY_SIZE(counters); i++)
			CHECK(!count_of(top, counters[i], (int)k), "leg %u: %s", k, counters[i]);
	CHECK(count_of(top, "generation", 1) == generation && reads() == 3, "trust that a reset ends");
	write_to(1, 8, &vecs[0]);
	CHECK(count_of(top, "identified", 0) == 1 && count_of(top, "short", 1) == 1, "counted from zero");
	trust_legs();
}

/* Somebody knows that the legs are not to be trusted. What is in flight goes on, and a read that is at a drive ends with md. */
static void check_distrust(void)
{
	struct stub_bio *b = start(top, REQ_OP_READ, 64, 8, &vecs[7]), *w = start(top, REQ_OP_WRITE, 8, 8, &vecs[0]);
	u64 generation = count_of(top, "generation", 0);

	CHECK(place(b) < 2, "not steered");
	for (u32 k = 0; k < 2; k++)
		end(part(k, 8, 8, &vecs[0]), BLK_STS_OK);
	CHECK(tell(top, "distrust") == 0, "distrust");
	for (u32 k = 0; k < 2; k++)
		wants(k, "untrusted", "told", __LINE__);
	CHECK(reads() == 1U << ARRAY, "reads go past md");
	CHECK(trust(0, generation) == -ESTALE, "trust from before");
	stub_complete(b, BLK_STS_OK);
	stub_run_works();
	CHECK(b->below && place(b) == ARRAY, "what was read at a drive is taken");
	end(b, BLK_STS_OK);
	end(w, BLK_STS_OK);
	for (u32 k = 0; k < 2; k++)
		CHECK(trust(k, count_of(top, "generation", (int)k)) == 0, "trust");
	CHECK(reads() == 3, "where the legs are was known");
	/* A volume that is suspended is told, too. */
	top->type->presuspend(top);
	stub_postsuspend(top);
	generation = count_of(top, "generation", 1);
	CHECK(tell(top, "distrust") == 0 && count_of(top, "generation", 1) > generation, "while suspended");
	CHECK(stub_preresume(top) == 0, "resume");
	if (top->type->resume)
		top->type->resume(top);
	trust_legs();
}

static void check_suspend(void)
{
	legs[0]->type->presuspend(legs[0]);
	wants(0, "untrusted", "suspended", __LINE__);
	wants(1, "trusted", NULL, __LINE__);
	CHECK(reads() == 1U << ARRAY, "reads go to a leg that is suspended");
	legs[0]->type->resume(legs[0]);
	CHECK(trust(0, count_of(top, "generation", 0)) == 0, "trust");
	wants(0, "pending", NULL, __LINE__);
	trust_legs();
	stub_postsuspend(top);
	wants(1, "untrusted", "suspended", __LINE__);
	/* What ends after the volume has gone, and comes back, is unknown to it. */
	{
		struct stub_bio *b = part(1, 400, 8, &vecs[5]);

		CHECK(stub_preresume(top) == 0, "resume");
		CHECK(trust(1, count_of(top, "generation", 1)) == 0, "trust");
		end(b, BLK_STS_OK);
		wants(1, "untrusted", "unknown", __LINE__);
	}
	trust_legs();
}

#define VOLUME "md /dev/leg7 2 253:0 2048 /dev/dm-1 2048 2 policy shortest-queue"

static void both_untrusted(int line)
{
	for (u32 k = 0; k < 2; k++)
		wants(k, "untrusted", NULL, line);
	CHECK(reads() == 1U << ARRAY, "line %d: reads go past md", line);
}

/* The three losses of the mirror that volumes above md replace (docs/design/dm-md.md). */
static void check_losses(void)
{
	u64 old = count_of(top, "generation", 1), before;
	struct stub_bio *b;
	char *error;

	/* Leg 1 is lost, and comes back. While md rebuilds it, and after that, only `trust` lets reads go there. */
	write_to(1, 500, &vecs[1]);
	wants(1, "untrusted", "short", __LINE__);
	before = count_of(top, "generation", 1);
	/* Two writes fail at it, one after the other: the second is noticed as the first was. */
	for (u32 i = 0; i < 2; i++) {
		b = start(top, REQ_OP_WRITE, 500, 8, &vecs[2]);
		end(part(0, 500, 8, &vecs[2]), BLK_STS_OK);
		end(part(1, 500, 8, &vecs[2]), BLK_STS_IOERR);
		CHECK(count_of(top, "generation", 1) > before, "a lost write is not noticed");
		before = count_of(top, "generation", 1);
		end(b, BLK_STS_OK);
	}
	CHECK(trust(1, old) == -ESTALE, "trust from before the loss");
	end(part(1, 500, 8, &vecs[4]), BLK_STS_OK);
	both_untrusted(__LINE__);
	trust_legs();
	CHECK(reads() == 3, "not steered");
	/* The power fails right after that. Whatever was known is gone, and a leg is trusted on no account but md's. */
	before = count_of(top, "generation", 0);
	stub_remove(top);
	stub_now += NSEC_PER_MSEC;
	top = make(VOLUME, false, &error);
	both_untrusted(__LINE__);
	CHECK(trust(0, before) == -ESTALE, "trust from before the cut");
	write_to(3, 500, &vecs[1]);
	both_untrusted(__LINE__);
	trust_legs();
}

static void check_refused(void)
{
	static const char *const bad[] = {
		"md", "md /dev/leg7", "md /dev/leg7 1 253:0 0 0", "md /dev/leg7 2 253:0 0 253:0 0 0", "md /dev/leg7 2 253:0 0 0",
		"md /dev/leg7 2 253:0 0 253:9 0 0", "md /dev/leg7 2 253:0 x 253:1 0 0", "md /dev/none 2 253:0 0 253:1 0 0",
		"md /dev/leg7 2 253:0 0 253:1 0 3 revoke ioprio 0x5004", "md /dev/leg7 2 253:0 0 /dev/leg1 0 0",
		"md /dev/leg7 2 253:0 0 253:1 0 5 log core 2 1024 nosync",
	};
	char *error, line[] = "md 259:7 2 253:0 2048 253:1 2048 2 policy shortest-queue", table[256];

	for (u32 i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK(!make(bad[i], false, &error) && error, "taken: %s", bad[i]);
	table_of(top, table, sizeof(table));
	CHECK(!strcmp(table, line), "table: %s", table);
}

void check_volume(void)
{
	char *error;

	for (u32 k = 0; k < 2; k++) {
		char words[32];

		snprintf(words, sizeof(words), "/dev/leg%u %u", k, SHIFT);
		legs[k] = stub_create_leg(words, k);
		CHECK(legs[k], "a leg");
	}
	top = make(VOLUME, false, &error);
	CHECK(top, "a volume: %s", error);
	check_trust();
	check_overlap();
	check_doubts();
	check_turned_away();
	check_read_error();
	check_foreign(false);
	check_foreign(true);
	check_length();
	check_reset();
	check_distrust();
	check_suspend();
	check_losses();
	check_refused();
	stub_remove(top);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}
