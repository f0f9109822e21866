// SPDX-License-Identifier: MIT OR Apache-2.0
/* Checks how core/ledger.c finds writes in flight: ledger_flight.h. */
#include "ledger_flight.h"

#include <stdio.h>
#include <stdlib.h>

#include "ledger.h"

#define LEGS 2
#define REGION (UINT64_C(1) << LINNET_LEDGER_REGION_SHIFT)
#define ROUND (REGION * LINNET_LEDGER_BUCKETS) /* sectors after which regions come to the same bucket again */
#define SLOTS 160
#define DEEP 4096
#define PATH_MAX 48 /* writes on a path; about 28 on the longest of a random tree of 4,096 */

static struct linnet_ledger ledger;
static const char *phase;
static unsigned long seed;
static uint64_t state;

static uint64_t random_below(uint64_t n)
{
	uint64_t z = state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % n;
}

static void broken(const char *what, const struct linnet_extent *extent)
{
	printf("ledger: %s, seed %lu: %s (sectors %llu to %llu)\n", phase, seed, what, (unsigned long long)extent->start,
	       (unsigned long long)extent->end);
	exit(1);
}

/* ---- against a list ---- */

/* A write of the ledger, and what is expected of it. */
struct slot {
	struct linnet_write write;
	struct linnet_extent extent;
	uint64_t sectors[LEGS];
	uint64_t serial; /* also of the last one */
	int flies, reached;
};

static struct slot slots[SLOTS];
static char identities[3];

static const struct slot *overlapping(const struct linnet_extent *extent)
{
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].flies && slots[i].extent.start < extent->end && extent->start < slots[i].extent.end)
			return &slots[i];
	return NULL;
}

static struct slot *whole_of(const struct linnet_extent *part)
{
	for (int i = 0; i < SLOTS; i++) {
		const struct linnet_extent *whole = &slots[i].extent;

		if (slots[i].flies && part->start >= whole->start && part->end <= whole->end && part->op == whole->op &&
		    part->identity == whole->identity)
			return &slots[i];
	}
	return NULL;
}

/* Few places, so that writes often overlap or touch; about regions of one bucket and of others, and now and then across. */
static struct linnet_extent any_extent(void)
{
	uint64_t start = random_below(3) * ROUND + random_below(4) * REGION + REGION - 24 + random_below(48);
	uint64_t length = 1 + random_below(8), kind = random_below(64);
	uint32_t op = 1 + 2 * (uint32_t)(random_below(4) == 0);

	if (kind == 0)
		length = 1 + random_below(5 * REGION);
	else if (kind == 1)
		length = 1 + random_below(2 * ROUND);
	return (struct linnet_extent){ start, start + length, op == 1 ? &identities[random_below(3)] : NULL, op };
}

static void begin(struct slot *slot)
{
	const struct linnet_extent extent = any_extent();
	const struct slot *other = overlapping(&extent);

	slot->write.extent = extent;
	if (linnet_ledger_begin(&ledger, &slot->write) != (other ? -1 : 0))
		broken(other ? "overlaps a write in flight, and begins" : "overlaps none, and must wait", &extent);
	if (other)
		return;
	if (slot->write.serial <= slot->serial)
		broken("a serial of before", &extent);
	*slot = (struct slot){ .write = slot->write, .extent = extent, .serial = slot->write.serial, .flies = 1 };
}

/* An extent that is part of a write in flight, or nearly. */
static struct linnet_extent any_part(const struct slot *slot)
{
	struct linnet_extent part = slot->extent;
	uint64_t length = part.end - part.start, kind = random_below(16);

	part.start += random_below(length);
	part.end = part.start + 1 + random_below(slot->extent.end - part.start);
	if (kind == 0)
		part.start = slot->extent.start - 1;
	else if (kind == 1)
		part.end = slot->extent.end + 1;
	else if (kind == 2)
		part.identity = &identities[random_below(3)];
	else if (kind == 3)
		part.op = 1 + (uint32_t)random_below(4);
	return part;
}

static void arrive_and_report(const struct slot *slot)
{
	const struct linnet_extent part = any_part(slot);
	struct slot *whole = whole_of(&part), *of;
	uint64_t serial = linnet_ledger_arrive(&ledger, &part), before, generations;
	uint32_t leg = (uint32_t)random_below(LEGS);

	if (serial != (whole ? whole->serial : 0))
		broken(whole ? "a part of a write in flight is of none" : "a part of no write is of one", &part);
	if (whole)
		whole->reached = 1;
	/* It is reported as of this write, as of any other, or with the serial of one that has ended. */
	if (random_below(4) == 0)
		serial = slots[random_below(SLOTS)].serial;
	before = ledger.legs[leg].identified;
	generations = ledger.generations;
	linnet_ledger_report(&ledger, leg, &part, serial, 0);
	of = whole && whole->serial == serial ? whole : NULL;
	if (ledger.legs[leg].identified != before + (of != NULL) || ledger.generations != generations + (of ? 0 : LEGS))
		broken("a report that counts, or does not", &part);
	if (!of)
		return;
	of->sectors[leg] += part.end - part.start;
	if (of->write.sectors[leg] != (uint32_t)of->sectors[leg])
		broken("other sectors are reported", &part);
}

static void end(struct slot *slot)
{
	uint64_t generations = ledger.generations;
	int turned_away = random_below(4) == 0, missed = 0;

	for (int k = 0; k < LEGS; k++)
		missed += (!turned_away || slot->reached) && slot->sectors[k] != slot->extent.end - slot->extent.start;
	if (turned_away)
		linnet_ledger_withdraw(&ledger, &slot->write);
	else
		linnet_ledger_end(&ledger, &slot->write);
	slot->flies = 0;
	if (ledger.generations != generations + (uint64_t)missed)
		broken("ends with more doubts, or fewer, than legs miss it", &slot->extent);
}

void check_flight(unsigned long from, unsigned long steps)
{
	phase = "writes in flight";
	state = seed = from;
	linnet_ledger_init(&ledger, LEGS, 1 + random_below(UINT64_C(1) << 50));
	for (unsigned long n = 0; n < steps; n++) {
		struct slot *slot = &slots[random_below(SLOTS)];

		if (!slot->flies)
			begin(slot);
		else if (random_below(4))
			arrive_and_report(slot);
		else
			end(slot);
	}
	for (int i = 0; i < SLOTS; i++)
		if (slots[i].flies)
			end(&slots[i]);
	for (uint32_t i = 0; i <= LINNET_LEDGER_BUCKETS; i++)
		if (ledger.trees[i])
			broken("in flight after its end", &ledger.trees[i]->extent);
}

/* ---- depth ---- */

static struct linnet_write deep[DEEP];

/* Where the nth of 4,096 writes is: all come to one tree, that of a bucket or that of writes in two regions. */
static struct linnet_extent place(uint64_t n, int wide)
{
	uint64_t start = wide ? (n + 1) * REGION - 4 : n / 256 * ROUND + n % 256 * 8;

	return (struct linnet_extent){ start, start + 8, identities, 1 };
}

static uint64_t reversed(uint64_t n)
{
	uint64_t r = 0;

	for (int bit = 0; bit < 12; bit++)
		r = r << 1 | (n >> bit & 1);
	return r;
}

/* The nth of an order: up, down, from both ends, by halves, in strides, at random. */
static uint64_t nth(int order, uint64_t n)
{
	const uint64_t places[] = { n, DEEP - 1 - n, n % 2 ? DEEP - 1 - n / 2 : n / 2, reversed(n), n * 1597 % DEEP };

	return order < 5 ? places[order] : 0;
}

static void shuffle(uint64_t *order)
{
	for (uint64_t n = DEEP - 1; n > 0; n--) {
		uint64_t other = random_below(n + 1), kept = order[n];

		order[n] = order[other];
		order[other] = kept;
	}
}

/* The longest path to any of these writes; each must be where its sectors lead to. */
static int longest(int wide)
{
	int most = 0;

	for (uint64_t n = 0; n < DEEP; n++) {
		const struct linnet_extent extent = place(n, wide);
		const struct linnet_write *write = ledger.trees[wide ? LINNET_LEDGER_BUCKETS : 0];
		int passed = 1;

		for (; write && write->extent.start != extent.start; passed++)
			write = write->below[write->extent.start < extent.start];
		if (!write)
			broken("not in its tree", &extent);
		most = passed > most ? passed : most;
	}
	return most;
}

/* A write asks the trees of its regions, and that of writes in several: only there it meets one that overlaps everything. */
static void check_asked(void)
{
	static struct linnet_write lure = { .extent = { 0, UINT64_MAX, identities, 1 } };

	linnet_ledger_init(&ledger, LEGS, 1);
	for (uint32_t regions = 1; regions < 4; regions++)
		for (uint32_t tree = 0; tree <= LINNET_LEDGER_BUCKETS; tree++) {
			int asks = tree == LINNET_LEDGER_BUCKETS || (tree >= 2 && tree < 2 + regions);

			ledger.trees[tree] = &lure;
			deep[0].extent = (struct linnet_extent){ 3 * REGION - 1, (2 + regions) * REGION, identities, 1 };
			if (linnet_ledger_begin(&ledger, &deep[0]) != (asks ? -1 : 0))
				broken(asks ? "does not ask a tree of its regions" : "asks others", &deep[0].extent);
			if (!asks)
				linnet_ledger_withdraw(&ledger, &deep[0]);
			ledger.trees[tree] = NULL;
		}
}

void check_depth(unsigned long from)
{
	static uint64_t order[DEEP];
	int most = 0;

	phase = "4,096 writes in flight";
	state = seed = from;
	check_asked();
	for (int run = 0; run < 12; run++) {
		linnet_ledger_init(&ledger, LEGS, 1 + random_below(UINT64_C(1) << 50));
		for (uint64_t n = 0; n < DEEP; n++)
			order[n] = run / 2 < 5 ? nth(run / 2, n) : n;
		if (run / 2 == 5)
			shuffle(order);
		/* All begin; then each ends and begins again, three times, the oldest first. */
		for (uint64_t n = 0; n < 4 * DEEP; n++) {
			struct linnet_write *write = &deep[order[n % DEEP]];

			if (n >= DEEP)
				linnet_ledger_withdraw(&ledger, write);
			write->extent = place(order[n % DEEP], run % 2);
			if (linnet_ledger_begin(&ledger, write))
				broken("overlaps none, and must wait", &write->extent);
			if (n % DEEP == DEEP - 1) {
				int path = longest(run % 2);

				most = path > most ? path : most;
			}
		}
	}
	printf("ledger: of 4,096 writes in flight, no call looks at more than %d in a tree\n", most);
	if (most > PATH_MAX)
		broken("a path is long", &deep[0].extent);
}
