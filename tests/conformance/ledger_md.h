/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For ledger.c: a model of md raid1 with its legs, its barrier and its recovery; the writes of a volume above it;
 * whoever gives trust; and the invariant.
 */
#ifndef LEDGER_MD_H
#define LEDGER_MD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ledger.h"

#define LEGS 3
#define SECTORS 48
#define BASE ((1u << LINNET_LEDGER_REGION_SHIFT) - SECTORS / 2) /* half of them in each of two regions */
#define WRITES 6
#define OPS 64
#define CHUNK 6 /* what md recovers at a time */
#define ANY ~0u /* a member that knows no discards keeps the data: reads may find either */
#define DATA 1  /* values of op */
#define DISCARD 3

enum leg_state { IN_SYNC, RECOVERING, FAULTY };
enum write_state { IDLE, HELD, BARRIER, FLYING };

struct write {
	struct linnet_write entry;
	struct linnet_extent extent;
	enum write_state state;
	int around;  /* written to md, not to the volume */
	int ended;   /* acknowledged, although parts are still in flight (write-behind) */
	unsigned version, parts;
};

/* One request in flight at a leg. */
struct op {
	int used, leg, owner; /* owner: the write, or -1 for md's own */
	struct linnet_extent extent;
	unsigned version[SECTORS]; /* by sector from extent.start */
	uint64_t serial;
};

static struct linnet_ledger ledger;
static struct leg {
	enum leg_state state;
	unsigned content[SECTORS];
	int cursor, full;             /* of the recovery */
	int missed[SECTORS];          /* md's bitmap: what the leg lacks */
	int step, fit;                /* of who gives trust */
	uint64_t generation;
} legs[LEGS];
static struct write writes[WRITES];
static struct op ops[OPS];
static unsigned acknowledged[SECTORS], version;
static char memory[WRITES], copy; /* identities */
static int behind, without_discard, chunk = -1, chunk_leg;
static unsigned long seed, steps_done, grants, refusals, checked;
static const char *phase;

static unsigned random_below(unsigned n)
{
	static uint64_t state;
	uint64_t z;

	if (!steps_done++)
		state = seed;
	z = (state += 0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (unsigned)((z ^ (z >> 31)) % n);
}

static void broken(const char *what, int leg, int sector)
{
	printf("ledger: %s, seed %lu: %s (leg %d, sector %d)\n", phase, seed, what, leg, sector);
	exit(1);
}

static int overlap(const struct linnet_extent *a, const struct linnet_extent *b)
{
	return a->start < b->end && b->start < a->end;
}

static int at(uint64_t sector)
{
	return (int)(sector - BASE);
}

/* ---- the invariant ---- */

static void check(void)
{
	for (int s = 0; s < SECTORS; s++) {
		int changing = 0;

		for (int w = 0; w < WRITES; w++)
			changing |= writes[w].state >= BARRIER && !writes[w].ended && BASE + s >= writes[w].extent.start &&
				    BASE + s < writes[w].extent.end;
		for (int k = 0; !changing && k < LEGS; k++)
			if (ledger.trusted >> k & 1 && ++checked && acknowledged[s] != ANY &&
			    legs[k].content[s] != acknowledged[s])
				broken("a trusted leg misses an acknowledged write", k, s);
	}
}

/* ---- md ---- */

static int send_op(int leg, int owner, struct linnet_extent extent, const unsigned *values)
{
	for (int i = 0; i < OPS; i++)
		if (!ops[i].used) {
			ops[i] = (struct op){ .used = 1, .leg = leg, .owner = owner, .extent = extent };
			memcpy(ops[i].version, values, (extent.end - extent.start) * sizeof(*values));
			ops[i].serial = linnet_ledger_arrive(&ledger, &extent);
			return i;
		}
	return -1;
}

static void end_write(int w)
{
	if (!writes[w].ended) {
		if (!writes[w].around)
			linnet_ledger_end(&ledger, &writes[w].entry);
		for (uint64_t s = writes[w].extent.start; s < writes[w].extent.end; s++)
			acknowledged[at(s)] = writes[w].extent.op == DISCARD && without_discard >= 0 ? ANY : writes[w].version;
	}
	writes[w].ended = 1;
	if (!writes[w].parts)
		writes[w].state = IDLE;
	check();
}

/* A write that may not wait meets md's barrier: md ends it before any leg has seen it. */
static void turn_away(int w)
{
	linnet_ledger_withdraw(&ledger, &writes[w].entry);
	writes[w].state = IDLE;
	check();
}

/* md sends the write to every leg that is not faulty, in one piece or two. */
static void fly(int w)
{
	unsigned values[SECTORS];

	for (int s = 0; s < SECTORS; s++)
		values[s] = writes[w].version;
	writes[w].state = FLYING;
	writes[w].parts = 0;
	for (int k = 0; k < LEGS; k++) {
		struct linnet_extent part = writes[w].extent;

		if (part.op == DISCARD && without_discard == k)
			continue;
		if (legs[k].state == FAULTY) {
			for (uint64_t s = part.start; s < part.end; s++)
				legs[k].missed[at(s)] = 1;
			continue;
		}
		if (behind && k > 0 && part.identity)
			part.identity = &copy;
		while (part.start < writes[w].extent.end) {
			part.end = writes[w].extent.end;
			if (part.end - part.start > 1 && random_below(3) == 0)
				part.end = part.start + 1 + random_below((unsigned)(part.end - part.start - 1));
			if (send_op(k, w, part, values) < 0)
				broken("the model has no room", k, 0);
			writes[w].parts++;
			part.start = part.end;
		}
	}
	if (!writes[w].parts)
		end_write(w);
}

/* Returns 0 if it must wait. */
static int take(int w)
{
	memset(&writes[w].entry, 0xa5, sizeof(writes[w].entry));
	writes[w].entry.extent = writes[w].extent;
	if (!writes[w].around && linnet_ledger_begin(&ledger, &writes[w].entry))
		return 0;
	writes[w].state = BARRIER;
	return 1;
}

static int in_chunk(const struct linnet_extent *extent)
{
	const struct linnet_extent c = { BASE + chunk, BASE + chunk + CHUNK, NULL, 0 };

	return chunk >= 0 && overlap(extent, &c);
}

static int in_sync_besides(int leg)
{
	for (int k = 0; k < LEGS; k++)
		if (k != leg && legs[k].state == IN_SYNC)
			return k;
	return -1;
}

static void fail_leg(int k)
{
	if (legs[k].state == IN_SYNC && in_sync_besides(k) < 0)
		return;
	legs[k].state = FAULTY;
}

static void complete(int i, int failed)
{
	struct op *op = &ops[i];
	int w = op->owner;

	if (failed && (legs[op->leg].state == IN_SYNC && in_sync_besides(op->leg) < 0))
		failed = 0;
	for (uint64_t s = op->extent.start; s < op->extent.end; s++) {
		if (!failed)
			legs[op->leg].content[at(s)] = op->version[s - op->extent.start];
		/* What was in flight when the leg failed may be lost: md copies it again. */
		legs[op->leg].missed[at(s)] |= failed || legs[op->leg].state == FAULTY;
	}
	linnet_ledger_report(&ledger, (uint32_t)op->leg, &op->extent, op->serial, failed);
	op->used = 0;
	if (failed)
		fail_leg(op->leg);
	if (w < 0)
		return;
	writes[w].parts--;
	/* With write-behind md acknowledges once the first leg has it. */
	if (behind && !writes[w].ended && op->leg == 0 && writes[w].extent.identity)
		for (int j = 0, left = 0; j <= OPS; j++) {
			if (j == OPS && !left)
				end_write(w);
			left |= j < OPS && ops[j].used && ops[j].owner == w && ops[j].leg == 0;
		}
	if (!writes[w].parts && writes[w].state == FLYING)
		end_write(w);
}

/* Lowers the barrier when md's own requests have ended. */
static void barrier_down(void)
{
	for (int i = 0; i < OPS; i++)
		if (ops[i].used && ops[i].owner < 0)
			return;
	if (chunk >= 0 && legs[chunk_leg].state == RECOVERING) {
		legs[chunk_leg].cursor = chunk + CHUNK;
		if (legs[chunk_leg].cursor >= SECTORS) {
			legs[chunk_leg].state = IN_SYNC;
			memset(legs[chunk_leg].missed, 0, sizeof(legs[chunk_leg].missed));
		}
	}
	chunk = -1;
}

/* Recovers a chunk of a leg, or repairs one of a leg in sync: md copies it from another leg. */
static void copy_chunk(int k, int from_chunk)
{
	struct linnet_extent extent = { BASE + from_chunk, BASE + from_chunk + CHUNK, &copy, DATA };
	int source = in_sync_besides(k), needed = legs[k].full || legs[k].state == IN_SYNC;

	for (int w = 0; w < WRITES; w++)
		if (writes[w].state == FLYING && overlap(&writes[w].extent, &extent))
			return; /* md waits for these first */
	if (source < 0 || chunk >= 0)
		return;
	chunk = from_chunk;
	chunk_leg = k;
	for (int s = 0; s < CHUNK; s++)
		needed |= legs[k].missed[from_chunk + s];
	if (needed)
		send_op(k, -1, extent, legs[source].content + from_chunk);
	barrier_down();
}

/* A leg that has failed is added again, when neither it nor md's own work has requests in flight. */
static void add_again(int k, int full)
{
	if (legs[k].state != FAULTY || chunk >= 0)
		return;
	for (int i = 0; i < OPS; i++)
		if (ops[i].used && ops[i].leg == k)
			return;
	legs[k].state = RECOVERING;
	legs[k].cursor = 0;
	legs[k].full = full;
}

/* ---- who gives trust: linnet dm trust ---- */

static void give_trust(int k)
{
	struct leg *leg = &legs[k];

	switch (leg->step++) {
	case 0:
		leg->generation = ledger.legs[k].generation;
		break;
	case 1:
		leg->fit = leg->state == IN_SYNC && chunk < 0;
		for (int s = 0; s < SECTORS; s++)
			leg->fit &= !leg->missed[s]; /* the list of bad blocks is empty */
		break;
	default:
		leg->step = 0;
		if (!leg->fit)
			break;
		if (linnet_ledger_trust(&ledger, (uint32_t)k, leg->generation))
			refusals++;
		else
			grants++;
	}
}

#endif
