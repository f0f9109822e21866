/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From the features of a window to a value. The rule of thresholds is the baseline that every model has to beat, and
 * the default as long as none does.
 */
#include "readahead.h"

#define MILLION 1000000u
/* Pages that one read in vain must bring to be proof enough: 16 MiB where a page has 4 KiB. */
#define WASTED_PAGES 4096
#define WASTED_PPM 860000u
#define WASTED_USED_Q16 1311 /* 2 % */

const uint32_t linnet_readahead_ladder[LINNET_READAHEAD_LEVELS] = { 8, 16, 32, 64, 128, 256, 512, 1024, 2048 };

void linnet_rule_init(struct linnet_rule *rule, uint32_t page_kib)
{
	rule->random_pages = 6;
	rule->sequential_pages = 48;
	rule->random_kib = page_kib > 8 ? page_kib : 8;
	rule->page_kib = page_kib;
}

/* The integer square root, rounded down, bit by bit. */
static uint64_t root(uint64_t x)
{
	uint64_t result = 0;

	for (int bit = 31; bit >= 0; bit--) {
		uint64_t next = result | (uint64_t)1 << bit;

		if (next * next <= x)
			result = next;
	}
	return result;
}

uint32_t linnet_certainty_ppm(uint64_t observations)
{
	uint64_t n = observations < 1 ? 1 : observations;

	/* 1 - 0.8 / sqrt(n); the root has 12 bits of fraction. */
	n = n > (uint64_t)1 << 39 ? (uint64_t)1 << 39 : n;
	return MILLION - (uint32_t)(((uint64_t)800000 << 12) / root(n << 24));
}

uint32_t linnet_scattered_ppm(const struct linnet_pattern *pattern)
{
	uint32_t counted = linnet_certainty_ppm(pattern->jumps);
	uint64_t jumps = pattern->jumps ? pattern->jumps : 1;

	/* Where each brings many megabytes in vain, two are enough: more would take seconds. */
	if (pattern->jumps >= 2 && pattern->added / jumps >= WASTED_PAGES && pattern->used_q16 < WASTED_USED_Q16)
		return counted > WASTED_PPM ? counted : WASTED_PPM;
	return counted;
}

/* The smallest value of the ladder that holds `pages_q16` pages, fewer than 2^47, of `page_kib`, at most 2^16. */
static uint32_t on_ladder(uint64_t pages_q16, uint32_t page_kib)
{
	for (uint32_t i = 0; i < LINNET_READAHEAD_LEVELS; i++)
		if ((uint64_t)linnet_readahead_ladder[i] << 16 >= page_kib * pages_q16)
			return linnet_readahead_ladder[i];
	return linnet_readahead_ladder[LINNET_READAHEAD_LEVELS - 1];
}

int linnet_rule_decide(const struct linnet_rule *rule, const struct linnet_pattern *pattern,
		       struct linnet_readahead_verdict *verdict)
{
	uint64_t run = pattern->run_pages_q16;

	if (pattern->accesses == 0)
		return 0;
	verdict->kib = 0;
	if (run <= (uint64_t)rule->random_pages << 16) {
		verdict->reading = LINNET_READING_RANDOM;
		verdict->kib = rule->random_kib;
		verdict->confidence_ppm = linnet_scattered_ppm(pattern);
	} else if (run < (uint64_t)rule->sequential_pages << 16) {
		uint32_t kib = on_ladder(run / 2, rule->page_kib); /* half a run */

		verdict->reading = LINNET_READING_RUNS;
		verdict->kib = kib < LINNET_READAHEAD_DEFAULT_KIB ? kib : LINNET_READAHEAD_DEFAULT_KIB;
		verdict->confidence_ppm = linnet_scattered_ppm(pattern);
	} else {
		int back = pattern->reverse_q16 > LINNET_Q16 / 2;

		verdict->reading = back ? LINNET_READING_REVERSE : LINNET_READING_SEQUENTIAL;
		verdict->confidence_ppm = linnet_certainty_ppm(pattern->accesses);
	}
	return 1;
}

void linnet_model_verdict(const struct linnet_rule *rule, const struct linnet_pattern *pattern, uint32_t kib,
			  uint32_t confidence_ppm, struct linnet_readahead_verdict *verdict)
{
	uint32_t seen;

	if (kib <= rule->random_kib)
		verdict->reading = LINNET_READING_RANDOM;
	else if (kib < LINNET_READAHEAD_DEFAULT_KIB)
		verdict->reading = LINNET_READING_RUNS;
	else
		verdict->reading = pattern->reverse_q16 > LINNET_Q16 / 2 ? LINNET_READING_REVERSE : LINNET_READING_SEQUENTIAL;
	/* Features do not say how many reads they rest on: one gives the same row as a thousand of its kind. */
	seen = kib < LINNET_READAHEAD_DEFAULT_KIB ? linnet_scattered_ppm(pattern) : linnet_certainty_ppm(pattern->accesses);
	verdict->kib = kib < rule->page_kib ? rule->page_kib : kib;
	verdict->confidence_ppm = seen < confidence_ppm ? seen : confidence_ppm;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_readahead_verdict) == 12, "struct linnet_readahead_verdict");
_Static_assert(sizeof(struct linnet_rule) == 16, "struct linnet_rule");
