// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks which reads the target finds late, and when, where several are in flight: those of tests/conformance/late.txt,
 * whose file the environment names in LATE. The array is checked with the same file.
 */
#include "hedges.h"
#include "hedge.h"

#define READS 1024

static struct app *reads[READS];
static u64 epoch;

/* Copies of this read in flight; the place of the first or of the last of them. */
static u32 copies_of(u32 read, bool last, u32 *at)
{
	u32 count = 0;

	for (u32 i = 0; i < stub_own_count; i++) {
		if (stub_own[i]->bi_iter.bi_sector != 8 * (read + 1))
			continue;
		if (last || !count)
			*at = i;
		count++;
	}
	return count;
}

static void answer(u32 read, bool second)
{
	u32 at = 0;

	CHECK(copies_of(read, second, &at), "read %u has no copy in flight", read);
	stub_complete_own(at, BLK_STS_OK, 1);
	if (reads[read])
		got(reads[read], 1, __LINE__);
	reads[read] = NULL;
}

/* A line: what happens at this time, to which read, and a flag. What follows from it is compared. */
static void step(const char *what, u64 at_ns, u32 read, bool flag, u64 delay_ns)
{
	u32 at;

	if (stub_now > epoch + at_ns || read >= READS)
		stub_die("a line out of order, or a read too many");
	stub_now = epoch + at_ns;
	while (stub_run_timers())
		stub_run_works();
	if (!strcmp(what, "send"))
		reads[read] = start_read(8 * (read + 1), SIZE);
	else if (!strcmp(what, "answer"))
		answer(read, flag);
	else
		CHECK(copies_of(read, false, &at) == 1 + flag, "read %u has %u copies", read, copies_of(read, false, &at));
	if (delay_ns)
		CHECK(linnet_hedge_delay_ns(hedging->private) == delay_ns, "after read %u at %lu", read, at_ns);
}

/* A device that hedges this share of its reads. */
static void begin(u32 percent)
{
	char table[96];

	snprintf(table, sizeof(table), "3 /dev/leg0 0 /dev/leg1 0 /dev/leg2 0 4 policy shortest-queue hedge %u", percent);
	hedging = must(table);
	epoch = stub_now += NSEC_PER_SEC;
}

static void end(u64 hedges)
{
	CHECK(!stub_own_count && hedges > 5, "%lu reads were hedged", hedges);
	CHECK(count_of(hedging, "hedges", -1) == hedges, "%lu hedges", count_of(hedging, "hedges", -1));
	stub_remove(hedging);
}

void check_hedges_that_are_late(void)
{
	FILE *file = fopen(getenv("LATE") ?: "late.txt", "r");
	char line[128], what[8];
	u64 at_ns, delay_ns, hedges = 0;
	u32 read, flag;

	if (!file)
		stub_die("LATE names no file");
	begin(2);
	while (fgets(line, sizeof(line), file)) {
		flag = delay_ns = 0;
		if (sscanf(line, "hedge %x", &read) == 1) {
			end(hedges);
			begin(read);
			hedges = 0;
			continue;
		}
		if (sscanf(line, "%7[a-z] %lx %x %x = %lx", what, &at_ns, &read, &flag, &delay_ns) < 3)
			continue;
		step(what, at_ns, read, flag, delay_ns);
		hedges += flag && !strcmp(what, "late");
	}
	fclose(file);
	end(hedges);
}
