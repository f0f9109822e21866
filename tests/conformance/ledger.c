// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks core/ledger.c against a model of md raid1: ledger SEED STEPS. The invariant is that of spec/md-volume.md:
 * every leg that is trusted holds what was last acknowledged, in each sector that no write is changing.
 *
 * First directed interleavings, then random ones. In these, legs fail, are removed, overwritten, added again and
 * recovered; writes fail, wait at md's barrier, or are copied (write-behind); a check repairs; somebody writes to md
 * and not to the volume; user space reads the generation, looks at md and gives trust at three different times.
 */
#include "ledger_flight.h"
#include "ledger_md.h"

/* ---- interleavings ---- */

static void begin(int w, unsigned start, unsigned sectors, uint32_t op, int around)
{
	writes[w] = (struct write){ .extent = { BASE + start, BASE + start + sectors, op == DATA ? &memory[w] : NULL, op },
				    .version = ++version, .around = around };
	if (around)
		writes[w].extent.identity = &copy;
	writes[w].state = HELD;
}

/* A write that waited for others, or for md's barrier, goes on. */
static void go_on(int w)
{
	int in_ledger = 0;

	if (writes[w].state == HELD && writes[w].around) {
		/*
		 * md orders nothing: a write around the volume must be disjoint, or what the sectors hold is undefined.
		 */
		for (int v = 0; v < WRITES; v++)
			if (writes[v].state > HELD && overlap(&writes[v].extent, &writes[w].extent))
				return;
		take(w);
	} else if (writes[w].state == HELD) {
		for (int v = 0; v < WRITES; v++)
			if (writes[v].state > HELD && (writes[v].around || writes[v].ended) &&
			    overlap(&writes[v].extent, &writes[w].extent))
				return;
		for (int v = 0; v < WRITES; v++)
			in_ledger |= writes[v].state > HELD && overlap(&writes[v].extent, &writes[w].extent);
		if (take(w) == in_ledger)
			broken("a write waits for no other, or not for one in flight", -1, w);
	}
	if (writes[w].state == BARRIER && !in_chunk(&writes[w].extent))
		fly(w);
}

/* One random event. A fault, or what follows one, is `faults` in 1,000 of them. */
static void step(unsigned faults)
{
	int w = (int)random_below(WRITES), i = (int)random_below(OPS), k = (int)random_below(LEGS);
	unsigned start = random_below(SECTORS), length = SECTORS - start < 12 ? SECTORS - start : 12;
	struct linnet_extent extent = { BASE + start, BASE + start + 1, &copy, DATA };
	unsigned what = random_below(8);

	for (int n = 0; n < OPS && !ops[i].used; n++)
		i = (i + 1) % OPS;
	if (random_below(1000) >= faults) {
		if (what < 2 && writes[w].state == IDLE)
			begin(w, start, 1 + random_below(length), !faults || random_below(8) ? DATA : DISCARD, 0);
		else if (what == 2 && writes[w].state == BARRIER && !writes[w].around && faults && random_below(4) == 0)
			turn_away(w);
		else if (what < 4)
			go_on(w);
		else if (what < 6 && ops[i].used)
			complete(i, random_below(2000) < faults);
		else if (what == 6)
			give_trust(k);
		else if (legs[k].state == RECOVERING)
			copy_chunk(k, legs[k].cursor);
		else
			barrier_down();
	} else if (what == 0) {
		fail_leg(k);
	} else if (what < 3) {
		add_again(k, (int)random_below(2));
	} else if (what == 3 && legs[k].state == IN_SYNC) {
		copy_chunk(k, (int)random_below(SECTORS / CHUNK) * CHUNK);
	} else if (what == 4 && writes[w].state == IDLE) {
		begin(w, start, 1, DATA, 1);
	} else if (what == 5) {
		linnet_ledger_doubt(&ledger, (uint32_t)k, LINNET_DOUBT_SUSPENDED);
	} else if (what == 6 && legs[k].state == FAULTY) {
		send_op(k, -1, extent, &(unsigned){ ++version }); /* a removed leg is overwritten */
		legs[k].missed[start] = 1;
	}
	check();
}

enum { FIRST = 1000 }; /* generations and serials of this ledger are above */

static void reset(void)
{
	memset(legs, 0, sizeof(legs));
	memset(writes, 0, sizeof(writes));
	memset(ops, 0, sizeof(ops));
	memset(acknowledged, 0, sizeof(acknowledged));
	chunk = -1;
	behind = 0;
	without_discard = -1;
	version = 0;
	linnet_ledger_init(&ledger, LEGS, FIRST);
	for (int k = 0; k < LEGS; k++)
		if (ledger.legs[k].generation <= FIRST || ledger.legs[k].generation > FIRST + LEGS)
			broken("a generation that an earlier ledger had", k, 0);
	if (ledger.generations != FIRST + LEGS)
		broken("generations of legs that are not there", -1, 0);
}

/* Without faults every leg becomes trusted, and no write takes that away. */
static void heal(void)
{
	uint64_t generations = 0;

	behind = 0;
	for (int n = 0; n < 30000; n++) {
		step(0);
		for (int k = 0; k < LEGS; k++)
			add_again(k, 1);
		if (n == 24000)
			generations = ledger.generations;
	}
	if (ledger.trusted != (1 << LEGS) - 1)
		broken("a leg without faults is not trusted", ledger.trusted, 0);
	if (ledger.generations != generations)
		broken("a leg without faults was doubted", 0, 0);
}

/* Completes what a leg has in flight. */
static void drain(int leg)
{
	for (int i = 0; i < OPS; i++)
		if (ops[i].used && ops[i].leg == leg)
			complete(i, 0);
}

static void all_trusted(void)
{
	reset();
	for (int k = 0; k < LEGS; k++)
		if (linnet_ledger_trust(&ledger, (uint32_t)k, ledger.legs[k].generation))
			broken("a generation is refused", k, 0);
	if (ledger.trusted)
		broken("trusted before a write has proven where the leg is", 0, 0);
	begin(0, 0, 1, DATA, 0);
	go_on(0);
	for (int k = 0; k < LEGS; k++)
		drain(k);
	if (ledger.trusted != (1 << LEGS) - 1)
		broken("not trusted after a write", 0, 0);
	for (int k = 0; k < LEGS; k++)
		if (ledger.legs[k].identified != 1 || ledger.legs[k].trust != LINNET_TRUSTED)
			broken("not the reports that counted, or another word for it", k, 0);
}

/* A write that ends with the last sector of a region lies in one region; one sector more makes it two. */
static void regions(void)
{
	phase = "regions";
	for (int n = 0; n < 3; n++) {
		reset();
		begin(0, SECTORS / 2 - 2, 1 + (unsigned)n, DATA, 0);
		take(0);
		if ((ledger.trees[LINNET_LEDGER_BUCKETS] != NULL) != (n == 2))
			broken("a write that lies in other regions than it says", -1, n);
	}
}

/*
 * One write is in flight, a leg fails, and an overlapping write comes. What the leg then completes of the first write
 * must not count for the second.
 */
static void overlapping(void)
{
	phase = "overlapping writes";
	all_trusted();
	begin(0, 8, 8, DATA, 0);
	go_on(0);
	fail_leg(1);
	begin(1, 8, 8, DATA, 0);
	go_on(1);
	for (int k = 0; k < LEGS; k++)
		drain(k);
	go_on(1);
	for (int k = 0; k < LEGS; k++)
		drain(k);
	check();
	if (writes[1].state != IDLE || ledger.trusted & 2)
		broken("a leg that missed a write is trusted", 1, 8);
}

/* A repair writes where a write waits at the barrier; then the leg fails, and misses the write. */
static void repaired(void)
{
	phase = "a repair while a write waits";
	all_trusted();
	begin(0, 6, 6, DATA, 0);
	writes[0].state = HELD;
	take(0);
	copy_chunk(1, 6);
	drain(1);
	barrier_down();
	fail_leg(1);
	go_on(0);
	drain(0);
	drain(2);
	if (ledger.trusted & 2)
		broken("a leg that missed a write is trusted", 1, 6);
}

/* Trust that was found before a write was missed is refused. */
static void late_trust(void)
{
	phase = "a generation that has passed";
	all_trusted();
	legs[1].generation = ledger.legs[1].generation;
	fail_leg(1);
	begin(0, 0, 4, DATA, 0);
	go_on(0);
	drain(0);
	drain(2);
	if (linnet_ledger_trust(&ledger, 1, legs[1].generation) != -1)
		broken("a generation that has passed is accepted", 1, 0);
	check();
}

/* Doubts are counted, and a leg that is not trusted keeps the reason, unless it is suspended. */
static void doubted(void)
{
	static const enum linnet_doubt said[] = { LINNET_DOUBT_UNKNOWN, LINNET_DOUBT_SUSPENDED, LINNET_DOUBT_UNKNOWN };
	static const enum linnet_doubt kept[] = { LINNET_DOUBT_UNKNOWN, LINNET_DOUBT_SUSPENDED, LINNET_DOUBT_SUSPENDED };

	phase = "doubts";
	all_trusted();
	for (int n = 0; n < 3; n++) {
		linnet_ledger_doubt(&ledger, 1, said[n]);
		if (ledger.legs[1].doubt != kept[n])
			broken("another reason", 1, n);
	}
	if (ledger.legs[1].doubts[LINNET_DOUBT_UNKNOWN] != 2 || ledger.legs[1].doubts[LINNET_DOUBT_SUSPENDED] != 1)
		broken("not as many doubts", 1, 0);
}

/* A leg that was seen where the volume says needs no other write; one that was suspended may be elsewhere since. */
static void proven(void)
{
	static const enum linnet_doubt doubts[] = { LINNET_DOUBT_SHORT, LINNET_DOUBT_ERROR, LINNET_DOUBT_UNKNOWN,
						    LINNET_DOUBT_TOLD, LINNET_DOUBT_SUSPENDED };

	phase = "proof";
	for (int n = 0; n < 5; n++) {
		all_trusted();
		linnet_ledger_doubt(&ledger, 1, doubts[n]);
		if (linnet_ledger_trust(&ledger, 1, ledger.legs[1].generation))
			broken("a generation is refused", 1, n);
		if (ledger.legs[1].trust != (doubts[n] == LINNET_DOUBT_SUSPENDED ? LINNET_PENDING : LINNET_TRUSTED))
			broken("trusted without proof, or not with it", 1, n);
	}
	/* The range of a discard alone says where it went. */
	begin(0, 0, 4, DISCARD, 0);
	go_on(0);
	for (int k = 0; k < LEGS; k++)
		drain(k);
	if (writes[0].state != IDLE || ledger.legs[1].trust != LINNET_PENDING)
		broken("a discard is taken for proof", 1, 0);
}

/* A request that outlives its write does not count for the next one in the same memory. */
static void reused(void)
{
	struct linnet_extent extent = { BASE, BASE + 4, &memory[0], DATA };
	uint64_t serial;

	phase = "memory that is used again";
	all_trusted();
	begin(0, 0, 4, DATA, 0);
	take(0);
	/* Nor for a write of another ledger: when a table is loaded again, serials begin above all earlier ones. */
	if (writes[0].entry.serial <= FIRST)
		broken("a serial that an earlier ledger had", -1, 0);
	serial = linnet_ledger_arrive(&ledger, &extent);
	linnet_ledger_end(&ledger, &writes[0].entry);
	for (int k = 0; k < LEGS; k++)
		linnet_ledger_trust(&ledger, (uint32_t)k, ledger.legs[k].generation);
	take(0);
	linnet_ledger_report(&ledger, 1, &extent, serial, 0);
	linnet_ledger_end(&ledger, &writes[0].entry);
	if (ledger.trusted & 2)
		broken("an old request counts for a new write", 1, 0);
}

/* Data of unknown origin ends the trust in every leg, both when it arrives and when it has been written, or has failed. */
static void around(int failed)
{
	struct linnet_extent extent = { BASE, BASE + 4, &copy, DATA };

	phase = "a write around the volume";
	all_trusted();
	fail_leg(2);
	if (linnet_ledger_arrive(&ledger, &extent) != 0)
		broken("a serial for data of unknown origin", -1, 0);
	if (ledger.trusted || ledger.legs[LEGS].generation)
		broken("trusted while data of unknown origin is written, or a leg too many is doubted", ledger.trusted, 0);
	for (int k = 0; k < LEGS; k++)
		linnet_ledger_trust(&ledger, (uint32_t)k, ledger.legs[k].generation);
	linnet_ledger_report(&ledger, 0, &extent, 0, failed);
	if (ledger.trusted)
		broken("trusted after data of unknown origin was written", ledger.trusted, failed);
	if (ledger.legs[0].doubt != (failed ? LINNET_DOUBT_ERROR : LINNET_DOUBT_UNKNOWN))
		broken("another reason", 0, failed);
}

/* md turns a write away. If no leg was asked to write it, none is doubted; else none is trusted. */
static void turned_away(void)
{
	phase = "a write that md turns away";
	all_trusted();
	begin(0, 4, 4, DATA, 0);
	take(0);
	turn_away(0);
	if (ledger.trusted != (1 << LEGS) - 1)
		broken("a write that nobody has seen is missed", ledger.trusted, 4);
	begin(0, 4, 4, DATA, 0);
	if (!take(0))
		broken("a write that nobody has seen is in flight", -1, 4);
	fly(0);
	complete(0, 0);
	linnet_ledger_withdraw(&ledger, &writes[0].entry);
	if (ledger.trusted & ~1)
		broken("trusted although one leg alone has a write", ledger.trusted, 4);
	all_trusted();
	begin(0, 4, 4, DATA, 0);
	take(0);
	fly(0);
	linnet_ledger_withdraw(&ledger, &writes[0].entry);
	if (ledger.trusted)
		broken("trusted while legs write what was withdrawn", ledger.trusted, 4);
}

int main(int argc, char **argv)
{
	unsigned long steps;

	if (argc != 3) {
		fprintf(stderr, "usage: ledger SEED STEPS\n");
		return 2;
	}
	seed = strtoul(argv[1], NULL, 10);
	steps = strtoul(argv[2], NULL, 10);
	regions();
	overlapping();
	repaired();
	late_trust();
	doubted();
	proven();
	reused();
	around(0);
	around(1);
	turned_away();
	check_flight(seed, 4 * steps);
	check_depth(seed);
	phase = "random interleavings";
	for (unsigned long n = 0, run = 0; n < steps; n++) {
		if (n % 20000 == 0) {
			reset();
			behind = run % 8 == 2;
			without_discard = run % 8 == 3 ? 1 : -1;
			run++;
		}
		step(run % 2 ? 20 : 200);
		if (n % 20000 == 19999)
			heal();
	}
	printf("ledger: %lu steps, %lu sectors of trusted legs checked, trust given %lu times and refused %lu times\n", steps,
	       checked, grants, refusals);
	return grants == 0 || refusals == 0;
}
