// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random tables, messages, model files and I/O in random order: check fuzz SEED SECONDS [FIRST CASES]. A case is one
 * device from its table to its removal. Tables and messages come from the grammar of spec/dm-target.md, so that most
 * are good, and are then damaged at times. Between any two steps memory may run out, the clock may jump, a timer or a
 * worker may run, and another CPU may complete an I/O just before a lock is taken.
 *
 * What must hold in each case: every bio ends once; it fails only if a device failed it, or if it may be revoked; a
 * read is at a device of the table, at its place, and again where it has failed only once, if the driver may try again
 * this time and might not before; the answer of a hedged read is whole and of one device; second copies stay within the
 * budget; a printed table is accepted and prints itself.
 */
#include <stdarg.h>
#include <time.h>

#include "check.h"
#include "fuzz.h"

#define DEEP 24 /* reads in flight: each has two copies at most */
#define PAGES 17
#define LEG_SECTORS (1 << 20)

extern uint *const stub_param_age_ms, *const stub_param_revoke_percent, *const stub_param_places,
	*const stub_param_hedge_kib, *const stub_param_weights_max;

/* A bio of the application. */
struct io {
	struct stub_bio *b;
	struct page *pages;
	struct bio_vec vecs[PAGES];
	u64 sector;
	u32 size;
	u32 failed;      /* legs at which it has failed, by bit */
	u32 hasty;       /* of them, where the target had asked the driver not to try again */
	u32 again;       /* where it was a second time */
	bool own_failed; /* a copy of the target's own may have failed for it */
	bool revocable, killed;
};

static struct dm_target *ti;
static struct io ios[DEEP];
static u32 io_count;
static struct file models[5];
static bool readonly, told_revoke, twins; /* two legs at one place */
static u32 legs; /* of the table */
static u64 reads, revoked;
static struct { unsigned long steps, tables, refused, obeyed, disobeyed, bios, own, others, revoked; } done;

static const char *const model_names[] = { "a.linnet", "b.linnet", "absent.linnet" };
#define NAME(number, constant, name) name,
static const char *const policies[] = { LINNET_POLICY_TABLE(NAME) };
#undef NAME

/* ---- words ---- */

/* Appends words to a line. */
__attribute__((format(printf, 2, 3))) static void say(char *line, const char *format, ...)
{
	size_t at = strlen(line);
	va_list args;

	va_start(args, format);
	vsnprintf(line + at, 2048 - at, format, args);
	va_end(args);
}

/* A number that is good in most cases: below `most`. */
static u64 number(u32 most)
{
	static const u64 odd[] = { 0, 8, 9, 31, 32, 51, 255, 256, U32_MAX, U32_MAX + 1ULL, U64_MAX / 512, U64_MAX };

	return below(24) ? below(most ?: 1) : odd[below(ARRAY_SIZE(odd))];
}

/* Of a class that may be a tag's, and with a hint; now and then any. */
static u32 random_tag(void)
{
	return below(16) ? (1 + below(3)) << 13 | (1 + below(1023)) << 3 | below(8) : (u32)number(0x10000);
}

static const char *any_model(void) { return below(24) ? model_names[below(ARRAY_SIZE(model_names))] : "../a.linnet"; }

/* Damages a line in a few bytes, seldom. */
static void spoil(char *line)
{
	if (below(12) || !*line)
		return;
	for (u32 n = 1 + below(3); n; n--)
		line[below((u32)strlen(line))] = (char)(below(3) ? ' ' + below(95) : 1 + below(255));
}

static void random_table(char *line)
{
	char words[2048] = "";
	u32 count = 0, n = (u32)number(9), order = below(8);

	*line = 0;
	legs = n;
	say(line, "%u", n);
	for (u32 k = 0; k < n && k < 10; k++)
		say(line, " /dev/leg%llu %llu", (unsigned long long)(below(40) ? k % STUB_LEGS : number(9)),
		    (unsigned long long)(below(2) ? 0 : number(4096)));
	for (u32 i = 0; i < 8; i++) {
		if (below(3))
			continue;
		switch ((i + order) % 8) {
		case 0: say(words, " policy %s", below(20) ? policies[below(LINNET_POLICIES)] : "best"), count += 2; break;
		case 1: say(words, " model %s", any_model()), count += 2; break;
		case 2: say(words, " model:%llu %s", (unsigned long long)number(n + 1), any_model()), count += 2; break;
		case 3:
			say(words, " revoke"), count++;
			if (below(16) == 0)
				break;
			/* fall through */
		case 4:
			if (!strstr(words, " ioprio ") || below(16) == 0)
				say(words, " ioprio 0x%x", random_tag()), count += 2;
			break;
		case 5: say(words, " off"), count++; break;
		case 6: say(words, " hedge %llu", (unsigned long long)number(51)), count += 2; break;
		case 7: say(words, " out:%llu", (unsigned long long)number(n + 1)), count++; break;
		}
	}
	say(line, " %u%s", below(30) ? count : count + 1, words);
	spoil(line);
}

static void random_message(char *line)
{
	*line = 0;
	switch (below(16)) {
	case 0: case 1: say(line, "policy %s", below(16) ? policies[below(LINNET_POLICIES)] : ""); break;
	case 2: case 3: say(line, "load %s", any_model()); break;
	case 4: say(line, "load %llu %s", (unsigned long long)number(9), any_model()); break;
	case 5: say(line, "unload"); break;
	case 6: say(line, "unload %llu", (unsigned long long)number(9)); break;
	case 7: case 8: say(line, "revoke %s", below(2) ? "on" : "off"); break;
	case 9: say(line, "ioprio 0x%x", random_tag()); break;
	case 10: say(line, "%s", below(3) ? "on" : "off"); break;
	case 11: say(line, "fail %llu", (unsigned long long)number(9)); break;
	case 12: say(line, "revive %llu", (unsigned long long)number(9)); break;
	case 13: say(line, "%s", below(4) ? "revive 0" : "reset"); break;
	default: say(line, "hedge %llu", (unsigned long long)number(51));
	}
	spoil(line);
}

/* ---- model files ---- */

static void random_model(void)
{
	struct file *from = &models[below(ARRAY_SIZE(models))];
	size_t size = from->size;
	u8 *bytes = malloc(size);
	char path[64];

	memcpy(bytes, from->bytes, size);
	if (below(2)) {
		u32 crc;

		for (u32 n = 1 + below(4); n; n--)
			bytes[below(3) ? below(128) : below((u32)size - 4)] ^= (u8)(1 << below(8));
		crc = linnet_crc32c(bytes, size - 4);
		memcpy(bytes + size - 4, &crc, 4);
		if (!below(8))
			size = below((u32)size);
	}
	snprintf(path, sizeof(path), "linnet/%s", model_names[below(2)]);
	stub_firmware(path, below(12) ? bytes : NULL, size);
	free(bytes);
}

/* ---- I/O ---- */

static u32 place(const struct bio *bio) { return (u32)(bio->bi_bdev->bd_dev / 16 - 1); }

/* The leg of the table at this device where that sector of the target is, or LINNET_NO_LEG. */
static u32 leg_at(const struct bio *bio, u64 sector)
{
	struct linnet_dm *dm = ti->private;

	for (u32 k = 0; k < dm->leg_count; k++)
		if (dm->legs[k].dev->bdev == bio->bi_bdev && dm->legs[k].start + sector == bio->bi_iter.bi_sector)
			return k;
	return LINNET_NO_LEG;
}

/* Where the bio is now is right. */
static void look_at(struct io *io)
{
	u32 leg;

	if (!io->b->below || bio_op(&io->b->bio) != REQ_OP_READ)
		return;
	leg = leg_at(&io->b->bio, io->sector);
	CHECK(leg != LINNET_NO_LEG, "a read of sector %lu is at device %u, sector %lu", io->sector, place(&io->b->bio),
	      io->b->bio.bi_iter.bi_sector);
	CHECK(io->b->bio.bi_iter.bi_size == io->size, "a read of %u has become one of %u", io->size,
	      io->b->bio.bi_iter.bi_size);
}

/* Takes bios that have ended off the list, and checks how they ended. */
static void reap(void)
{
	for (u32 i = 0; i < io_count; i++) {
		struct io *io = &ios[i];
		blk_status_t status = io->b->bio.bi_status;

		CHECK(io->b->ended < 2, "a bio ended %u times", io->b->ended);
		if (!io->b->ended) {
			look_at(io);
			continue;
		}
		/* A copy of another read may have failed meanwhile. */
		if (status == BLK_STS_AGAIN && io->revocable && !io->failed)
			revoked++;
		else
			CHECK(status == BLK_STS_OK || io->failed || io->own_failed || io->killed,
			      "a bio fails with %u though no device failed it", status);
		if (status == BLK_STS_OK && io->pages && io->pages[0].bytes[0]) {
			bool whole = true;

			for (u32 at = 0; at < io->size; at++)
				whole &= io->pages[at / PAGE_SIZE].bytes[at % PAGE_SIZE] == io->pages[0].bytes[0];
			CHECK(whole, "the answer of a hedged read is of two devices");
		}
		free(io->pages);
		free(io->b);
		*io = ios[--io_count];
		/* The pages' places are in the moved entry. */
		if (i < io_count && ios[i].b->bio.bi_io_vec)
			ios[i].b->bio.bi_io_vec = ios[i].vecs;
		i--;
	}
}

static void submit(void)
{
	static const blk_opf_t flags[] = { REQ_NOWAIT, REQ_META, REQ_PRIO, REQ_RAHEAD, REQ_POLLED, REQ_SWAP, REQ_SYNC };
	static const u32 others[] = { REQ_OP_WRITE, REQ_OP_DISCARD, REQ_OP_FLUSH, REQ_OP_WRITE_ZEROES };
	struct linnet_dm *dm = ti->private;
	blk_opf_t opf = below(8) ? REQ_OP_READ : others[below(4)];
	struct io *io = &ios[io_count];
	u16 tag = below(2) ? dm->ioprio : (u16)below(0x10000);

	if (io_count == DEEP)
		return;
	for (u32 n = below(3); n; n--)
		opf |= flags[below(ARRAY_SIZE(flags))];
	*io = (struct io){ .sector = 8 * below(64), .size = bio_op(&(struct bio){ .bi_opf = opf }) == REQ_OP_FLUSH ? 0 :
			   below(6) ? 512 * (1 + below(32)) : below(2) ? 64 << 10 : 68 << 10 };
	io->b = new_bio(opf, tag, io->sector, io->size);
	io->pages = calloc(PAGES, sizeof(*io->pages));
	for (u32 i = 0; i < PAGES; i++)
		io->vecs[i] = (struct bio_vec){ &io->pages[i], PAGE_SIZE, 0 };
	io->b->bio.bi_io_vec = io->vecs;
	io->revocable = (opf & REQ_OP_MASK) == REQ_OP_READ && told_revoke;
	io->killed = (opf & REQ_OP_MASK) != REQ_OP_READ && dm->leg_count > 1;
	reads += (opf & REQ_OP_MASK) == REQ_OP_READ;
	io_count++;
	done.bios++;
	stub_submit(ti, io->b);
}

static blk_status_t random_status(void)
{
	static const blk_status_t bad[] = { BLK_STS_IOERR, BLK_STS_MEDIUM, BLK_STS_AGAIN, BLK_STS_NOTSUPP, BLK_STS_TIMEOUT,
					    BLK_STS_DM_REQUEUE, BLK_STS_RESOURCE, BLK_STS_NOSPC };

	return below(6) ? BLK_STS_OK : bad[below(ARRAY_SIZE(bad))];
}

/* A device answers. Returns false if nothing is at a device. */
static bool complete(void)
{
	u32 from = below(io_count + 1);

	if (stub_own_count && below(2)) {
		blk_status_t status = random_status();

		/* Which read it belongs to is the target's secret. */
		for (u32 i = 0; status && i < io_count; i++)
			ios[i].own_failed = true;
		done.own++;
		stub_complete_own(below(stub_own_count), status, (u8)(1 + below(255)));
		return true;
	}
	for (u32 n = 0; n < io_count; n++) {
		struct io *io = &ios[(from + n) % io_count];
		blk_status_t status = random_status();
		u32 leg;

		if (!io->b->below)
			continue;
		leg = leg_at(&io->b->bio, io->sector);
		if (leg != LINNET_NO_LEG && bio_op(&io->b->bio) == REQ_OP_READ) {
			bool hasty = io->b->bio.bi_opf & LINNET_FAILFAST;

			CHECK(twins || !(io->failed & BIT(leg)) || (io->hasty & ~io->again & BIT(leg) && !hasty),
			      "a read is again where it failed");
			io->again |= io->failed & BIT(leg);
			io->failed |= status ? BIT(leg) : 0;
			io->hasty |= status && hasty ? BIT(leg) : 0;
		} else {
			io->killed = true;
		}
		stub_complete(io->b, status);
		return true;
	}
	return false;
}

/* Another CPU, just before a raw lock is taken. */
static void meanwhile(void)
{
	done.others++;
	if (below(3))
		complete();
	else
		stub_run_timers();
}

static void asleep(void)
{
	if (stub_own_count)
		stub_complete_own(below(stub_own_count), random_status(), 9);
	else
		stub_run_works();
}

/* ---- steps ---- */

/* Status and table into places of any size; a table that prints is taken again, if it fits. */
static void print(void)
{
	u32 size = 1 + (below(2) ? below(2047) : 2047);
	char *text = malloc(size), *again = malloc(2048);

	text[0] = 0;
	ti->type->status(ti, STATUSTYPE_INFO, 0, text, size);
	CHECK(strlen(text) < size, "status");
	ti->type->status(ti, below(8) ? STATUSTYPE_TABLE : STATUSTYPE_IMA, 0, text, size);
	CHECK(strlen(text) < size, "table");
	table_of(ti, again, 2048);
	if (below(4) == 0 && !((struct linnet_dm *)ti->private)->legs[0].dev->refs)
		CHECK(0, "the device of a leg is not held");
	free(text);
	free(again);
}

static void check_printed(void)
{
	char first[2048], second[2048], copy[2048], *error;
	struct dm_target *other;

	table_of(ti, first, sizeof(first));
	strcpy(copy, first);
	other = stub_create(copy, readonly, &error);
	CHECK(other, "'%s' is not accepted: %s", first, error ?: "no reason");
	if (!other)
		return;
	table_of(other, second, sizeof(second));
	CHECK(!strcmp(first, second), "'%s' prints '%s'", first, second);
	stub_remove(other);
}

static void set_parameter(void)
{
	uint *const parameters[] = { stub_param_age_ms, stub_param_revoke_percent, stub_param_hedge_kib };
	static const u32 values[] = { 0, 1, 4, 10, 64, 100, 101, 1000, U32_MAX };

	*parameters[below(3)] = values[below(ARRAY_SIZE(values))];
}

static void step(void)
{
	char line[2048];
	int error;

	done.steps++;
	stub_cpu = below(STUB_CPUS);
	/* Memory fails now and then, of the kind that waits and of the kind that does not. */
	stub_alloc_left = below(12) ? -1 : below(6);
	switch (below(32)) {
	case 0: case 1: case 2:
		random_message(line);
		error = tell(ti, line);
		told_revoke |= ((struct linnet_dm *)ti->private)->revoke;
		*(error ? &done.disobeyed : &done.obeyed) += 1;
		break;
	case 3: random_model(); break;
	case 4: print(); break;
	case 5: stub_now += below(2) ? below(1000) : below(2000) * NSEC_PER_MSEC; break;
	case 6: case 7: stub_now += below(20) * NSEC_PER_MSEC; stub_run_timers(); break;
	case 8: case 9: case 10: stub_run_works(); break;
	case 11: if (!below(8)) set_parameter(); break;
	default:
		if (below(4) == 0)
			stub_meanwhile = meanwhile;
		stub_now += below(100000);
		if (below(2))
			submit();
		else
			complete();
		stub_meanwhile = NULL;
	}
	stub_alloc_left = -1;
	reap();
}

/* The device is suspended: dm waits for all bios of the application. */
static void drain(void)
{
	for (u32 n = 0; io_count; n++) {
		while (complete())
			reap();
		stub_run_works();
		reap();
		if (n > 100)
			stub_die("a bio never ends");
	}
}

static bool has_twins(const struct linnet_dm *dm)
{
	for (u32 k = 1; k < dm->leg_count; k++)
		for (u32 i = 0; i < k; i++)
			if (dm->legs[i].dev == dm->legs[k].dev && dm->legs[i].start == dm->legs[k].start)
				return true;
	return false;
}

static void one(void)
{
	char line[2048], *error = NULL;
	u64 hedges;

	random_table(line);
	readonly = below(16) > 0 && legs > 1;
	stub_alloc_left = below(16) ? -1 : below(60);
	ti = make(line, readonly, &error);
	stub_alloc_left = -1;
	CHECK(ti || (error && *error), "'%s' is refused without a reason", line);
	if (!ti) {
		done.refused++;
		return;
	}
	done.tables++;
	reads = revoked = 0;
	twins = has_twins(ti->private);
	told_revoke = ((struct linnet_dm *)ti->private)->revoke;
	for (u32 n = 50 + below(400); n; n--)
		step();
	drain();
	stub_while_asleep = asleep;
	stub_postsuspend(ti);
	stub_run_works();
	CHECK(!stub_own_count, "%u copies are in flight below a suspended device", stub_own_count);
	check_printed();
	for (u32 k = 0; k < ((struct linnet_dm *)ti->private)->leg_count; k++)
		CHECK(count_of(ti, "inflight", (int)k) == 0, "leg %u counts I/O in flight", k);
	hedges = count_of(ti, "hedges", -1);
	/* At most half of the reads pay for hedges, and what a CPU has saved at a reset stays. */
	CHECK(hedges <= reads / 2 + STUB_CPUS * 256, "%lu hedges of %lu reads", hedges, reads);
	CHECK(count_of(ti, "revokes", -1) <= revoked, "%lu revokes, but %lu reads ended so", count_of(ti, "revokes", -1), revoked);
	done.revoked += revoked;
	stub_remove(ti);
	stub_while_asleep = NULL;
}

int fuzz(u64 from, unsigned int seconds, u64 first, u64 cases)
{
	static const char *const names[] = { "slow", "fast", "busy", "random", "pages" };
	time_t end = time(NULL) + seconds;
	u64 n;

	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		models[i] = load_file(names[i]);
	printf("seed %lu\n", from);
	for (n = first; n < first + cases && time(NULL) < end; n++) {
		unsigned long before = failures;

		seed = from;
		chance_from(from ^ n * 0x9e3779b97f4a7c15);
		*stub_param_age_ms = 10, *stub_param_revoke_percent = 100, *stub_param_hedge_kib = 64;
		if (below(4))
			one();
		else
			fuzz_volume();
		if (failures != before)
			printf("repeat with: check fuzz %lu %u %lu 1\n", from, seconds, n);
	}
	for (u32 i = 0; i < 2; i++) {
		char path[64];

		snprintf(path, sizeof(path), "linnet/%s", model_names[i]);
		stub_firmware(path, NULL, 0);
	}
	for (u32 i = 0; i < ARRAY_SIZE(names); i++)
		free(models[i].bytes);
	printf("dm: %lu cases, %lu steps; tables: %lu accepted, %lu refused; messages: %lu accepted, %lu refused; "
	       "%lu bios, %lu answers of copies, %lu of another CPU, %lu revoked; %lu found\n", n - first, done.steps,
	       done.tables, done.refused, done.obeyed, done.disobeyed, done.bios, done.own, done.others, done.revoked, failures);
	printf("volumes: %lu, %lu writes, %lu reads past md, %lu through it, %lu whose leg was doubted, %lu written around md, "
	       "%lu trusts, %lu rebuilt\n", volumes.cases, volumes.writes, volumes.steered, volumes.through, volumes.doubted,
	       volumes.foreign, volumes.trusts, volumes.rebuilt);
	if (n - first >= 1000 && (!volumes.steered || !volumes.doubted || !volumes.foreign || !volumes.trusts || !volumes.rebuilt ||
				  !done.tables || !done.refused || !done.obeyed || !done.disobeyed || !done.own || !done.others ||
				  !done.revoked)) {
		printf("dm: something never happened; the tables or the steps test nothing\n");
		failures++;
	}
	return failures != 0;
}
