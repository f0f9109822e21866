/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: checks windows of reads, their features and verdicts; spec/readahead.md. */
#ifndef LINNET_WINDOWS_H
#define LINNET_WINDOWS_H

#include "readahead.h"

#define COUNTERS (sizeof(struct linnet_counts) / sizeof(uint64_t))

static struct linnet_pattern window;

static void pattern_of(char **words, size_t count)
{
	static uint64_t counts[COUNTERS];

	if (count != 2 + COUNTERS) {
		fail("words of a window");
		return;
	}
	for (size_t i = 0; i < COUNTERS; i++)
		counts[i] = (uint64_t)number(words[2 + i]);
	linnet_pattern_of((const struct linnet_counts *)(const void *)counts, number(words[1]) != 0, &window);
}

static void windows(char **words, size_t count)
{
	const struct linnet_pattern *p = &window;
	const uint64_t found[] = { p->accesses, p->jumps, p->run_pages_q16, p->local_q16, p->reverse_q16, p->near_q16,
				   p->far_q16, p->spread_q16, p->request_pages, p->mapped_q16, p->used_q16,
				   p->added_each_q16, p->batches_each_q16, p->added };
	uint32_t row[LINNET_READAHEAD_INPUTS];
	struct linnet_readahead_verdict verdict = { 0 };
	struct linnet_rule rule;
	int says;

	if (strcmp(words[0], "window") == 0) {
		pattern_of(words, count);
	} else if (strcmp(words[0], "pattern") == 0) {
		check(count == 1 + sizeof(found) / sizeof(*found), "words of a pattern");
		for (size_t i = 0; i + 1 < count && i < sizeof(found) / sizeof(*found); i++)
			check(found[i] == (uint64_t)number(words[1 + i]), "a feature");
	} else if (strcmp(words[0], "row") == 0) {
		linnet_pattern_row(p, row);
		check(count == 1 + LINNET_READAHEAD_INPUTS, "words of a row");
		for (size_t i = 0; i + 1 < count && i < LINNET_READAHEAD_INPUTS; i++)
			check(row[i] == (uint32_t)number(words[1 + i]), "an input");
	} else {
		linnet_rule_init(&rule, 4);
		says = linnet_rule_decide(&rule, p, &verdict);
		check(says == (strcmp(words[1], "none") != 0), "whether the rule says something");
		if (!says || count != 4)
			return;
		check(verdict.reading == (uint32_t)number(words[1]), "reading");
		check(verdict.kib == (uint32_t)number(words[2]), "KiB");
		check(verdict.confidence_ppm == (uint32_t)number(words[3]), "confidence");
	}
}

/* Half a run in bytes, whatever a page has; and no value below one page, of which the kernel would make none at all. */
static void verdicts_by_page(void)
{
	/* KiB of a page, pages of a run, and the value. */
	const uint32_t runs[][3] = { { 4, 7, 16 }, { 4, 32, 64 }, { 16, 7, 64 }, { 16, 8, 64 }, { 16, 9, 128 }, { 64, 7, 128 } };
	/* KiB of a page, a model's value, and what is set. */
	const uint32_t models[][3] = { { 4, 8, 8 }, { 16, 8, 16 }, { 16, 32, 32 }, { 64, 8, 64 }, { 64, 64, 64 } };
	struct linnet_pattern p = { .accesses = 100, .jumps = 100, .added = 400 };
	struct linnet_readahead_verdict verdict;
	struct linnet_rule rule;

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		linnet_rule_init(&rule, runs[i][0]);
		p.run_pages_q16 = (uint64_t)runs[i][1] << 16;
		check(linnet_rule_decide(&rule, &p, &verdict) == 1 && verdict.reading == LINNET_READING_RUNS, "runs");
		check(verdict.kib == runs[i][2], "half a run in KiB");
		p.run_pages_q16 = LINNET_Q16;
		check(linnet_rule_decide(&rule, &p, &verdict) == 1 && verdict.reading == LINNET_READING_RANDOM, "random reads");
		check(verdict.kib == (runs[i][0] > 8 ? runs[i][0] : 8), "a page or 8 KiB");
	}
	for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
		linnet_rule_init(&rule, models[i][0]);
		linnet_model_verdict(&rule, &p, models[i][1], 1000000, &verdict);
		check(verdict.kib == models[i][2], "a model's value, or a page");
		check(verdict.reading == (models[i][1] <= rule.random_kib ? LINNET_READING_RANDOM : LINNET_READING_RUNS),
		      "one page is for random reads");
	}
}

/* Rounding, limits and the steps between verdicts; vectors of windows seldom meet them. */
static void verdicts_at_limits(void)
{
	struct linnet_pattern p = { .accesses = 100, .jumps = 2, .added = 2 * 4096, .used_q16 = 1310 };
	struct linnet_readahead_verdict verdict;
	struct linnet_rule rule;
	/* Pages of a run, and the KiB of the ladder that hold half of it. */
	const uint32_t runs[][2] = { { 4, 8 }, { 5, 16 }, { 8, 16 }, { 9, 32 }, { 32, 64 }, { 33, 128 }, { 40000, 128 } };

	for (size_t i = 0; i < LINNET_READAHEAD_LEVELS; i++)
		check(linnet_readahead_ladder[i] == 8u << i, "a step of the ladder");
	/* 1 - 0.8 / sqrt(n), the root rounded down at 12 bits of fraction. */
	check(linnet_certainty_ppm(0) == 200000 && linnet_certainty_ppm(1) == 200000, "certainty of one");
	check(linnet_certainty_ppm(5) == 642193 && linnet_certainty_ppm(64) == 900000, "certainty");
	check(linnet_certainty_ppm((uint64_t)1 << 39) == 999999 && linnet_certainty_ppm(UINT64_MAX) == 999999, "most certainty");
	check(linnet_scattered_ppm(&p) == 860000, "two wasteful jumps are enough");
	p.used_q16++;
	check(linnet_scattered_ppm(&p) == linnet_certainty_ppm(2), "what was used was no waste");
	linnet_rule_init(&rule, 4);
	rule.random_pages = 3;
	rule.sequential_pages = 50000;
	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		p.run_pages_q16 = (uint64_t)runs[i][0] << 16;
		memset(&verdict, 0xa5, sizeof(verdict));
		check(linnet_rule_decide(&rule, &p, &verdict) == 1 && verdict.reading == LINNET_READING_RUNS, "runs");
		check(verdict.kib == runs[i][1], "half a run");
	}
	memset(&verdict, 0xa5, sizeof(verdict));
	p.run_pages_q16 = (uint64_t)rule.random_pages << 16;
	check(linnet_rule_decide(&rule, &p, &verdict) == 1 && verdict.reading == LINNET_READING_RANDOM, "random reads");
	check(verdict.kib == rule.random_kib, "the value for random reads");
	memset(&verdict, 0xa5, sizeof(verdict));
	linnet_model_verdict(&rule, &p, rule.random_kib, 1000000, &verdict);
	check(verdict.reading == LINNET_READING_RANDOM && verdict.kib == rule.random_kib, "the smallest value is for random reads");
	linnet_model_verdict(&rule, &p, rule.random_kib + 1, 1000000, &verdict);
	check(verdict.reading == LINNET_READING_RUNS && verdict.confidence_ppm == linnet_certainty_ppm(2), "more is for runs");
	linnet_model_verdict(&rule, &p, LINNET_READAHEAD_DEFAULT_KIB, 1000000, &verdict);
	check(verdict.confidence_ppm == linnet_certainty_ppm(p.accesses), "reads in order count one by one");
	linnet_model_verdict(&rule, &p, LINNET_READAHEAD_DEFAULT_KIB, 7, &verdict);
	check(verdict.reading == LINNET_READING_SEQUENTIAL && verdict.confidence_ppm == 7, "the default is for order");
	/* Backwards is where more than half of the reads in order are. */
	for (uint32_t more = 0; more <= 1; more++) {
		const uint32_t reading = more ? LINNET_READING_REVERSE : LINNET_READING_SEQUENTIAL;

		p.reverse_q16 = LINNET_Q16 / 2 + more;
		linnet_model_verdict(&rule, &p, LINNET_READAHEAD_DEFAULT_KIB, 7, &verdict);
		check(verdict.reading == reading, "the direction of the model's order");
		p.run_pages_q16 = (uint64_t)rule.sequential_pages << 16;
		memset(&verdict, 0xa5, sizeof(verdict));
		check(linnet_rule_decide(&rule, &p, &verdict) == 1 && verdict.reading == reading, "the direction of the rule's");
		check(verdict.kib == 0, "what is read in order keeps the file's own value");
	}
}

#endif
