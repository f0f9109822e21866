// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks the writes that a volume above md holds back (spec/md-volume.md), however many a program has in flight: few of them are
 * compared at a time, and all are carried out, those of the same sectors in their order.
 */
#include "check.h"

#define WINDOW 128 /* of held writes that are compared */

static struct dm_target *top;

static struct stub_bio *write_at(u64 sector, u32 sectors)
{
	static struct bio_vec vecs[8]; /* those of the same pages may be the same */
	struct stub_bio *b = new_bio(REQ_OP_WRITE, 0, sector, sectors << SECTOR_SHIFT);

	b->bio.bi_io_vec = &vecs[sector / 8 % 8];
	stub_submit(top, b);
	return b;
}

static void end(struct stub_bio *b)
{
	stub_complete(b, BLK_STS_OK);
	CHECK(b->ended == 1, "a write is lost");
	free(b);
}

#define FLOOD 20000

/*
 * A program sends writes that overlap, and does not wait. Each map and each run of the worker compares a bounded number of
 * them, with interrupts off; and all are carried out, those of the same sectors in their order.
 */
static void check_flood(void)
{
	struct stub_bio **flood = calloc(FLOOD, sizeof(*flood));
	u32 left = FLOOD, next[8], rounds = 0;
	unsigned long before, most = 0;

	for (u32 i = 0; i < FLOOD; i++) {
		before = stub_looked_at;
		/* The sectors of the last of four hundred are no others'. */
		flood[i] = write_at(i % 400 == 399 ? 8000 + 8 * (i / 400) : 8 * (i % 8), 8);
		most = max(most, stub_looked_at - before);
	}
	CHECK(most <= WINDOW, "a write is compared with %lu others", most);
	CHECK(count_of(top, "held", -1) >= FLOOD - 16, "held");
	for (u32 k = 0; k < 8; k++)
		next[k] = k;
	for (most = 0; left && rounds < 2 * FLOOD; rounds++) {
		for (u32 k = 0; k < 8; k++) {
			while (next[k] < FLOOD && (next[k] % 400 == 399 || flood[next[k]]->ended))
				next[k] += 8;
			for (u32 i = next[k] + 8; i < min(next[k] + 64, (u32)FLOOD); i += 8)
				CHECK(i % 400 == 399 || !flood[i]->below, "write %u goes before write %u", i, next[k]);
			if (next[k] < FLOOD && flood[next[k]]->below)
				stub_complete(flood[next[k]], BLK_STS_OK), left--;
		}
		for (u32 i = 399; i < FLOOD; i += 400)
			if (flood[i]->below)
				stub_complete(flood[i], BLK_STS_OK), left--;
		before = stub_looked_at;
		stub_run_works();
		most = max(most, stub_looked_at - before);
	}
	CHECK(!left, "%u writes are held for ever", left);
	CHECK(most <= WINDOW * WINDOW / 2, "the worker compares %lu", most);
	for (u32 i = 0; i < FLOOD; i++) {
		CHECK(flood[i]->ended == 1, "write %u", i);
		free(flood[i]);
	}
	free(flood);
}

/* A write of the whole window is in flight, and each of so many writes waits for it; a further one waits for none. */
static void check_window(void)
{
	struct stub_bio *whole = write_at(0, 8 * 4 * WINDOW), *inside[2 * WINDOW], *beyond[2], *other;
	unsigned long before;
	u32 count = 0;

	other = write_at(8 * 8 * WINDOW, 8);
	while (count < WINDOW - 1)
		inside[count] = write_at(8 * count, 8), count++;
	beyond[0] = write_at(8 * 5 * WINDOW, 8);
	CHECK(beyond[0]->below, "a write is not compared with %u others, and held", count);
	inside[count] = write_at(8 * count, 8), count++;
	beyond[1] = write_at(8 * 6 * WINDOW, 8);
	CHECK(!beyond[1]->below, "a write is compared with %u others", count);
	while (count < ARRAY_SIZE(inside))
		inside[count] = write_at(8 * count, 8), count++;
	/* The worker compares those of the window with each other. */
	end(other);
	before = stub_looked_at;
	stub_run_works();
	CHECK(stub_looked_at - before == WINDOW * (WINDOW - 1) / 2, "the worker compares %lu", stub_looked_at - before);
	end(whole);
	end(beyond[0]);
	for (u32 i = 0; i < ARRAY_SIZE(inside); i++) {
		stub_run_works();
		end(inside[i]);
	}
	stub_run_works();
	end(beyond[1]);
}

static struct stub_bio *first, *held;

static void while_a_read_waits(void)
{
	end(first);
	stub_run_works();
	CHECK(held->below, "a held write waits behind a read that waits for a drive");
}

/* A read that failed at its drive goes to md, where it waits for a drive that hangs. Held writes of others go on. */
static void check_hang(struct dm_target *legs[2])
{
	struct stub_bio *read = new_bio(REQ_OP_READ, 0, 800, 4096);

	trust_both(top, legs);
	stub_submit(top, read);
	CHECK(count_of(top, "steered", -1), "a steered read");
	first = write_at(0, 8);
	held = write_at(0, 8);
	CHECK(!held->below, "an overlapping write is not held");
	stub_complete(read, BLK_STS_IOERR);
	stub_queue_full = while_a_read_waits;
	stub_run_works();
	CHECK(!stub_queue_full && read->below, "the read is not sent again");
	stub_complete(read, BLK_STS_OK);
	CHECK(read->ended == 1, "a read is lost");
	free(read);
	end(held);
}

void check_held_writes(void)
{
	struct dm_target *legs[2];
	char *error;

	make_legs(legs);
	top = make("md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue", false, &error);
	CHECK(top, "a volume: %s", error);
	check_flood();
	check_window();
	check_hang(legs);
	stub_remove(top);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
}
