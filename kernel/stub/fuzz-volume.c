// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random volumes above md (spec/md-volume.md), part of check fuzz. It plays the application, md and the drives: md
 * sends the parts of a write in any order, loses a leg, and rebuilds it; somebody else writes to a leg that md has given
 * up; user space gives trust by the rule, with the generation that it read some steps before. Each block of a drive has
 * the number of the write that it holds. A read whose answer is a drive's must have found the last write that was
 * acknowledged before the read began, or a later one. What it finds is any that the drive has held from its submission to
 * its end.
 */
#include "check.h"
#include "fuzz.h"

#define ARRAY 7
#define OFFSET 2048
#define SHIFT 16
#define BLOCKS 6 /* of 8 sectors; few, so that writes overlap */
#define WRITES 6
#define READS 6
#define FOREIGN 0 /* what others have written; the volume's writes are numbered from 1 on */
#define HELD 8

struct write {
	struct stub_bio *b, *parts[2];
	struct bio_vec vec;
	u32 block, sent; /* bit per leg that has got its part */
	u64 version;
};

struct read {
	struct stub_bio *b;
	struct bio_vec vec;
	u32 block;
	u64 acknowledged;
	u64 held[2][HELD]; /* by each drive, since it was submitted */
	u32 count[2];
};

/* A write that is not the volume's, to a leg that md has given up. */
struct around {
	struct stub_bio *b;
	struct bio_vec vec;
	u32 block;
	bool done;
};

static struct dm_target *top, *legs[2];
static struct write writes[WRITES];
static struct read reads[READS];
static struct around arounds[2];
static u64 disk[2][BLOCKS], acknowledged[BLOCKS], version, seen[2];
static bool lost[2];
static u32 looked; /* steps of giving trust that are done */
struct volume_counts volumes;

static u32 place(const struct stub_bio *b) { return (u32)(b->bio.bi_bdev->bd_dev / 16 - 1); }

static struct stub_bio *start(struct dm_target *ti, blk_opf_t opf, u64 sector, struct bio_vec *vec)
{
	struct stub_bio *b = new_bio(opf, 0, sector, 4096);

	b->bio.bi_io_vec = vec;
	stub_submit(ti, b);
	return b;
}

/* A drive writes a block. */
static void put(u32 k, u32 block, u64 held)
{
	disk[k][block] = held;
	for (u32 i = 0; i < READS; i++)
		if (reads[i].b && reads[i].block == block)
			reads[i].held[k][reads[i].count[k] < HELD ? reads[i].count[k]++ : below(HELD)] = held;
}

static void write_block(struct write *w)
{
	if (w->b)
		return;
	*w = (struct write){ .block = below(BLOCKS), .version = ++version };
	w->b = start(top, REQ_OP_WRITE, 8 * w->block, &w->vec);
	volumes.writes++;
}

/* md sends a part, a drive ends one, or md ends the write. */
static void go_on(struct write *w)
{
	u32 k = below(2);

	if (!w->b || !w->b->below) /* held back: another one overlaps it */
		return;
	if (w->parts[k]) {
		bool bad = !below(16) && !lost[!k];

		if (!bad || below(2))
			put(k, w->block, w->version);
		lost[k] |= bad;
		stub_complete(w->parts[k], bad ? BLK_STS_IOERR : BLK_STS_OK);
		CHECK(w->parts[k]->ended == 1, "a part is lost");
		free(w->parts[k]);
		w->parts[k] = NULL;
	} else if (!(w->sent & BIT(k)) && !lost[k]) {
		w->sent |= BIT(k);
		w->parts[k] = start(legs[k], REQ_OP_WRITE, OFFSET + 8 * w->block, &w->vec);
		CHECK(place(w->parts[k]) == k, "a part of leg %u is at drive %u", k, place(w->parts[k]));
	} else if (w->sent && !w->parts[0] && !w->parts[1] && (w->sent | lost[0] | lost[1] << 1) == 3) {
		/* Before the end is told: the read that follows it must find the write. */
		acknowledged[w->block] = w->version;
		stub_complete(w->b, BLK_STS_OK);
		CHECK(w->b->ended == 1 && w->b->bio.bi_status == BLK_STS_OK, "a write is lost");
		free(w->b);
		w->b = NULL;
	}
}

static bool idle(void)
{
	for (u32 i = 0; i < WRITES; i++)
		if (writes[i].b)
			return false;
	return true;
}

/* Somebody else writes to a leg, which md does not use any more: none of its own writes is there. */
static void write_around(u32 k)
{
	struct around *a = &arounds[k];

	for (u32 i = 0; i < WRITES; i++)
		if (writes[i].b && writes[i].parts[k])
			return;
	if (!a->b && lost[k]) {
		*a = (struct around){ .block = below(BLOCKS) };
		a->b = start(legs[k], REQ_OP_WRITE, OFFSET + 8 * a->block, &a->vec);
		volumes.foreign++;
	} else if (a->b && !a->done) {
		put(k, a->block, FOREIGN);
		a->done = true;
	} else if (a->b) {
		stub_complete(a->b, BLK_STS_OK);
		free(a->b);
		a->b = NULL;
	}
}

/* md takes a leg back: when its writes have ended, it copies all blocks from the other one. */
static void rebuild(u32 k)
{
	if (!lost[k] || lost[!k] || arounds[k].b)
		return;
	for (u32 n = 0; n < 400 && !idle(); n++) {
		go_on(&writes[n % WRITES]);
		stub_run_works();
	}
	if (!idle() || lost[!k])
		return;
	for (u32 block = 0; block < BLOCKS; block++) {
		struct bio_vec own = { 0 };
		struct stub_bio *b = start(legs[k], REQ_OP_WRITE, OFFSET + 8 * block, &own);

		put(k, block, disk[!k][block]);
		stub_complete(b, BLK_STS_OK);
		free(b);
	}
	lost[k] = false;
	volumes.rebuilt++;
}

static void read_block(struct read *r)
{
	if (r->b)
		return;
	*r = (struct read){ .block = below(BLOCKS) };
	r->acknowledged = acknowledged[r->block];
	r->b = start(top, REQ_OP_READ, 8 * r->block, &r->vec);
	for (u32 k = 0; k < 2; k++)
		r->held[k][r->count[k]++] = disk[k][r->block];
	CHECK(r->b->below, "a read is at no device");
}

static void end_read(struct read *r)
{
	bool bad = !below(10);
	u64 found = 0;
	u32 at;

	if (!r->b || !r->b->below)
		return;
	at = place(r->b);
	if (at == ARRAY) {
		volumes.through++;
		bad = false;
	} else {
		CHECK(at < 2 && r->b->bio.bi_iter.bi_sector == OFFSET + SHIFT + 8 * r->block, "a read's place");
		found = r->held[at][below(r->count[at])];
		volumes.steered++;
	}
	stub_complete(r->b, bad ? BLK_STS_MEDIUM : BLK_STS_OK);
	if (at != ARRAY && !r->b->ended) {
		volumes.doubted += !bad;
		stub_run_works();
		CHECK(r->b->below && place(r->b) == ARRAY, "a read that failed, or may be wrong, is not with md");
		return;
	}
	CHECK(at == ARRAY || found >= r->acknowledged, "a read of leg %u finds write %lu, but %lu was acknowledged", at, found,
	      r->acknowledged);
	CHECK(r->b->ended == 1 && r->b->bio.bi_status == BLK_STS_OK, "a read is lost");
	free(r->b);
	r->b = NULL;
}

/* A drive answers a probe that the target made itself; it belongs to no read of the application. */
static void end_probe(void)
{
	u32 i = below(stub_own_count);
	u64 at = stub_own[i]->bi_iter.bi_sector - OFFSET - SHIFT;

	CHECK(stub_own[i]->bi_bdev->bd_dev / 16 <= 2 && at % 8 == 0 && at < 8 * BLOCKS, "a probe's place");
	stub_complete_own(i, below(3) ? BLK_STS_OK : BLK_STS_MEDIUM, 9);
}

/* User space: the generations first, md's state after them, and then trust; other things happen in between. */
static void give_trust(void)
{
	char words[64];

	switch (looked) {
	case 0:
		for (u32 k = 0; k < 2; k++)
			seen[k] = count_of(top, "generation", (int)k);
		looked = 1;
		return;
	case 1:
		looked = lost[0] || lost[1] ? 0 : 2;
		return;
	}
	looked = 0;
	for (u32 k = 0; k < 2; k++) {
		snprintf(words, sizeof(words), "trust %u %llu", k, (unsigned long long)seen[k]);
		volumes.trusts += tell(top, words) == 0;
	}
}

static void suspend_leg(u32 k)
{
	for (u32 i = 0; i < READS; i++)
		if (reads[i].b)
			return;
	if (arounds[k].b)
		return;
	while (stub_own_count)
		end_probe();
	legs[k]->type->presuspend(legs[k]);
	legs[k]->type->resume(legs[k]);
}

static void step(void)
{
	static const char *const messages[] = { "policy shortest-queue", "policy ewma-inflight", "policy baseline", "off", "on", "on",
						"fail 0", "revive 0", "revive 1", "reset", "distrust", "policy shortest-queue" };

	stub_cpu = below(STUB_CPUS);
	stub_now += below(50) ? below(100000) : below(40) * NSEC_PER_MSEC;
	if (stub_own_count && !below(4))
		end_probe();
	switch (below(26)) {
	case 0: case 1: case 2: write_block(&writes[below(WRITES)]); break;
	case 3: case 4: case 5: read_block(&reads[below(READS)]); break;
	case 6: case 7: case 8: end_read(&reads[below(READS)]); break;
	case 9: case 10: case 11: give_trust(); break;
	case 12: stub_run_works(); break;
	case 13: if (!below(4)) tell(top, messages[below(ARRAY_SIZE(messages))]); break;
	case 14: if (!below(8)) suspend_leg(below(2)); break;
	case 15: if (!below(8)) lost[below(2)] |= !lost[0] && !lost[1]; break;
	case 16: rebuild(below(2)); break;
	case 17: case 18: write_around(below(2)); break;
	default: go_on(&writes[below(WRITES)]);
	}
}

void fuzz_volume(void)
{
	char *error;

	version = 1;
	for (u32 block = 0; block < BLOCKS; block++)
		disk[0][block] = disk[1][block] = acknowledged[block] = version;
	lost[0] = lost[1] = false;
	looked = 0;
	for (u32 k = 0; k < 2; k++) {
		char words[32];

		snprintf(words, sizeof(words), "/dev/leg%u %u", k, SHIFT);
		legs[k] = stub_create_leg(words, k);
		CHECK(legs[k], "a leg");
	}
	top = make("md /dev/leg7 2 253:0 2048 253:1 2048 2 policy shortest-queue", false, &error);
	CHECK(top, "a volume: %s", error);
	for (u32 n = 200 + below(600); n; n--)
		step();
	for (u32 n = 0; n < 4000; n++) {
		stub_run_works();
		go_on(&writes[n % WRITES]);
		end_read(&reads[n % READS]);
		if (arounds[n % 2].b)
			write_around(n % 2);
		while (stub_own_count)
			end_probe();
	}
	CHECK(idle(), "a write never ends");
	for (u32 i = 0; i < READS; i++)
		CHECK(!reads[i].b, "a read never ends");
	stub_remove(top);
	for (u32 k = 0; k < 2; k++)
		stub_remove(legs[k]);
	volumes.cases++;
}
