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

static uint64_t region_of(uint64_t sector)
{
	return sector >> LINNET_LEDGER_REGION_SHIFT;
}

static uint32_t bucket_of(uint64_t sector)
{
	return (uint32_t)(region_of(sector) % LINNET_LEDGER_BUCKETS);
}

static int is_wide(const struct linnet_extent *extent)
{
	return region_of(extent->start) != region_of(extent->end - 1);
}

static const struct linnet_write *overlapping(const struct linnet_write *write, const struct linnet_extent *extent)
{
	for (; write; write = write->next)
		if (write->extent.start < extent->end && extent->start < write->extent.end)
			return write;
	return NULL;
}

int linnet_ledger_overlaps(const struct linnet_ledger *ledger, const struct linnet_extent *extent)
{
	uint32_t i;

	if (overlapping(ledger->wide, extent))
		return 1;
	if (!is_wide(extent))
		return overlapping(ledger->buckets[bucket_of(extent->start)], extent) != NULL;
	for (i = 0; i < LINNET_LEDGER_BUCKETS; i++)
		if (overlapping(ledger->buckets[i], extent))
			return 1;
	return 0;
}

void linnet_ledger_begin(struct linnet_ledger *ledger, struct linnet_write *write, const struct linnet_extent *extent)
{
	struct linnet_write **head = is_wide(extent) ? &ledger->wide : &ledger->buckets[bucket_of(extent->start)];
	uint32_t i;

	write->extent = *extent;
	write->serial = ++ledger->serials;
	write->reached = 0;
	for (i = 0; i < LINNET_LEDGER_LEGS_MAX; i++)
		write->sectors[i] = 0;
	write->next = *head;
	write->link = head;
	if (*head)
		(*head)->link = &write->next;
	*head = write;
}

static void take_out(struct linnet_write *write)
{
	*write->link = write->next;
	if (write->next)
		write->next->link = write->link;
}

void linnet_ledger_end(struct linnet_ledger *ledger, struct linnet_write *write)
{
	uint64_t whole = write->extent.end - write->extent.start;
	uint32_t i;

	take_out(write);
	for (i = 0; i < ledger->count; i++) {
		if (write->sectors[i] != whole)
			linnet_ledger_doubt(ledger, i, LINNET_DOUBT_SHORT);
		else if (write->extent.identity)
			prove(ledger, i);
	}
}

void linnet_ledger_withdraw(struct linnet_ledger *ledger, struct linnet_write *write)
{
	if (write->reached)
		linnet_ledger_end(ledger, write);
	else
		take_out(write);
}

/* ---- what is written to the legs ---- */

static int is_part_of(const struct linnet_extent *part, const struct linnet_extent *whole)
{
	return part->identity == whole->identity && part->op == whole->op && part->start >= whole->start &&
	       part->end <= whole->end;
}

/* The write in flight that the extent is part of. */
static struct linnet_write *find(const struct linnet_ledger *ledger, const struct linnet_extent *extent)
{
	struct linnet_write *write;

	for (write = ledger->buckets[bucket_of(extent->start)]; write; write = write->next)
		if (is_part_of(extent, &write->extent))
			return write;
	for (write = ledger->wide; write; write = write->next)
		if (is_part_of(extent, &write->extent))
			return write;
	return NULL;
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
		return linnet_ledger_doubt(ledger, leg, LINNET_DOUBT_ERROR);
	if (!write || write->serial != serial)
		return doubt_all(ledger);
	ledger->legs[leg].identified++;
	write->sectors[leg] += (uint32_t)(extent->end - extent->start);
}
