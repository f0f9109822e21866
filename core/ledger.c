// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Which legs of a volume above md hold every acknowledged write: ledger.h, spec/md-volume.md. */
#include "ledger.h"

#define LINNET_DOUBT_NAME(number, constant, name) [number] = name,
const char *const linnet_doubt_names[LINNET_DOUBTS] = { LINNET_DOUBT_TABLE(LINNET_DOUBT_NAME) };

void linnet_ledger_init(struct linnet_ledger *ledger, uint32_t count, uint64_t first)
{
	uint32_t i;

	linnet_zero(ledger, sizeof(*ledger));
	ledger->count = count;
	ledger->generations = first;
	ledger->serials = first;
	for (i = 0; i < count; i++)
		ledger->legs[i].generation = ++ledger->generations;
}

/* ---- trust ---- */

void linnet_ledger_doubt(struct linnet_ledger *ledger, uint32_t leg, enum linnet_doubt doubt)
{
	struct linnet_ledger_leg *l = &ledger->legs[leg];

	l->generation = ++ledger->generations;
	l->doubts[doubt]++;
	/* What a leg that is not trusted misses says less than why it lost its trust. */
	if (l->trust != LINNET_UNTRUSTED || doubt == LINNET_DOUBT_SUSPENDED)
		l->doubt = (uint8_t)doubt;
	l->trust = LINNET_UNTRUSTED;
	if (doubt == LINNET_DOUBT_SUSPENDED)
		l->proven = 0;
	ledger->trusted &= (uint8_t)~(1U << leg);
}

/*
 * Data of unknown origin was written to a leg. If it was written to md, around the volume, a leg that has failed in md
 * got none of it and noticed nothing: no leg is trusted.
 */
static void doubt_all(struct linnet_ledger *ledger)
{
	uint32_t i;

	for (i = 0; i < ledger->count; i++)
		linnet_ledger_doubt(ledger, i, LINNET_DOUBT_UNKNOWN);
}

/* A pending leg that is proven is trusted. */
static void settle(struct linnet_ledger *ledger, uint32_t leg)
{
	struct linnet_ledger_leg *l = &ledger->legs[leg];

	if (l->trust == LINNET_UNTRUSTED || !l->proven)
		return;
	l->trust = LINNET_TRUSTED;
	ledger->trusted |= (uint8_t)(1U << leg);
}

static void prove(struct linnet_ledger *ledger, uint32_t leg)
{
	ledger->legs[leg].proven = 1;
	settle(ledger, leg);
}

int linnet_ledger_trust(struct linnet_ledger *ledger, uint32_t leg, uint64_t generation)
{
	struct linnet_ledger_leg *l = &ledger->legs[leg];

	if (l->generation != generation)
		return -1;
	if (l->trust == LINNET_UNTRUSTED)
		l->trust = LINNET_PENDING;
	settle(ledger, leg);
	return 0;
}

/* ---- writes in flight ---- */

/*
 * A treap (Seidel and Aragon, Randomized Search Trees, 1996): ordered by sector, and by rank from the root down. Its shape
 * is that of a tree into which the writes went by falling rank, which is random, whatever their order. With n writes in
 * it, a path has about 2 ln n of them, and the longest hardly more than 5 ln n. Writes in flight do not overlap, so one path
 * leads to the one that overlaps an extent, or contains it.
 *
 * Each region has a tree, shared by those of the same bucket; writes that lie in several regions have one together.
 */
#define WIDE LINNET_LEDGER_BUCKETS

static uint64_t region_of(uint64_t sector)
{
	return sector >> LINNET_LEDGER_REGION_SHIFT;
}

static uint32_t bucket_of(uint64_t region)
{
	return (uint32_t)(region % LINNET_LEDGER_BUCKETS);
}

/* As good as drawn, and no two writes in flight have the same. */
static uint64_t rank_of(const struct linnet_write *write)
{
	uint64_t z = write->serial * 0x9e3779b97f4a7c15;

	return (z ^ z >> 32) * 0xbf58476d1ce4e5b9;
}

static int overlaps(const struct linnet_write *tree, const struct linnet_extent *extent)
{
	while (tree) {
		if (extent->end <= tree->extent.start)
			tree = tree->below[0];
		else if (extent->start >= tree->extent.end)
			tree = tree->below[1];
		else
			return 1;
	}
	return 0;
}

/* Goes in above all of lower ranks on its path, and these are divided into those of lower and those of higher sectors. */
static void put_in(struct linnet_write **link, struct linnet_write *write)
{
	struct linnet_write **lower = &write->below[0], **higher = &write->below[1], *rest;

	while (*link && rank_of(*link) > rank_of(write))
		link = &(*link)->below[(*link)->extent.start < write->extent.start];
	rest = *link;
	*link = write;
	while (rest) {
		if (rest->extent.start < write->extent.start) {
			*lower = rest;
			lower = &rest->below[1];
			rest = *lower;
		} else {
			*higher = rest;
			higher = &rest->below[0];
			rest = *higher;
		}
	}
	*lower = NULL;
	*higher = NULL;
}

/* What is below it takes its place: at each step the higher rank of the two sides. */
static void take_out(struct linnet_write **link, const struct linnet_write *write)
{
	struct linnet_write *lower = write->below[0], *higher = write->below[1];

	while (*link != write)
		link = &(*link)->below[(*link)->extent.start < write->extent.start];
	while (lower && higher) {
		if (rank_of(lower) > rank_of(higher)) {
			*link = lower;
			link = &lower->below[1];
			lower = *link;
		} else {
			*link = higher;
			link = &higher->below[0];
			higher = *link;
		}
	}
	*link = lower ? lower : higher;
}

int linnet_ledger_begin(struct linnet_ledger *ledger, struct linnet_write *write)
{
	const struct linnet_extent *extent = &write->extent;
	uint64_t region = region_of(extent->start), last = region_of(extent->end - 1);
	uint32_t i;

	if (overlaps(ledger->trees[WIDE], extent))
		return -1;
	for (i = 0; i <= last - region && i < LINNET_LEDGER_BUCKETS; i++)
		if (overlaps(ledger->trees[bucket_of(region + i)], extent))
			return -1;
	write->tree = region == last ? bucket_of(region) : WIDE;
	write->serial = ++ledger->serials;
	write->reached = 0;
	for (i = 0; i < LINNET_LEDGER_LEGS_MAX; i++)
		write->sectors[i] = 0;
	put_in(&ledger->trees[write->tree], write);
	return 0;
}

/* It is in flight no more. If it was `carried` out, legs that have not reported all of it do not hold it. */
static void leave(struct linnet_ledger *ledger, const struct linnet_write *write, int carried)
{
	uint64_t whole = write->extent.end - write->extent.start;
	uint32_t i;

	take_out(&ledger->trees[write->tree], write);
	for (i = 0; carried && i < ledger->count; i++) {
		if (write->sectors[i] != whole)
			linnet_ledger_doubt(ledger, i, LINNET_DOUBT_SHORT);
		else if (write->extent.identity && !ledger->legs[i].proven)
			prove(ledger, i);
	}
}

void linnet_ledger_end(struct linnet_ledger *ledger, struct linnet_write *write)
{
	leave(ledger, write, 1);
}

void linnet_ledger_withdraw(struct linnet_ledger *ledger, struct linnet_write *write)
{
	leave(ledger, write, write->reached != 0);
}

/* ---- what is written to the legs ---- */

/* The write in the tree that the extent is part of. */
static struct linnet_write *whole_of(struct linnet_write *tree, const struct linnet_extent *part)
{
	while (tree) {
		if (part->start < tree->extent.start)
			tree = tree->below[0];
		else if (part->end > tree->extent.end)
			tree = tree->below[1];
		else
			break;
	}
	return tree;
}

/* The write in flight that it is part of. */
static struct linnet_write *find(const struct linnet_ledger *ledger, const struct linnet_extent *part)
{
	struct linnet_write *write = whole_of(ledger->trees[bucket_of(region_of(part->start))], part);

	if (!write)
		write = whole_of(ledger->trees[WIDE], part);
	return write && part->identity == write->extent.identity && part->op == write->extent.op ? write : NULL;
}

uint64_t linnet_ledger_arrive(struct linnet_ledger *ledger, const struct linnet_extent *extent)
{
	struct linnet_write *write = find(ledger, extent);

	if (write) {
		write->reached = 1;
		return write->serial;
	}
	doubt_all(ledger);
	return 0;
}

void linnet_ledger_report(struct linnet_ledger *ledger, uint32_t leg, const struct linnet_extent *extent,
			  uint64_t serial, int failed)
{
	/* The write may have ended meanwhile, and another begun with the same memory: its serial differs. */
	struct linnet_write *write = serial ? find(ledger, extent) : NULL;

	if (failed)
		linnet_ledger_doubt(ledger, leg, LINNET_DOUBT_ERROR);
	if (!write || write->serial != serial) {
		doubt_all(ledger); /* also if it failed: another leg may hold data of the same origin */
	} else if (!failed) {
		ledger->legs[leg].identified++;
		write->sectors[leg] += (uint32_t)(extent->end - extent->start);
	}
}
