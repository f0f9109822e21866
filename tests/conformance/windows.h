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
		linnet_rule_init(&rule);
		says = linnet_rule_decide(&rule, p, &verdict);
		check(says == (strcmp(words[1], "none") != 0), "whether the rule says something");
		if (!says || count != 4)
			return;
		check(verdict.reading == (uint32_t)number(words[1]), "reading");
		check(verdict.kib == (uint32_t)number(words[2]), "KiB");
		check(verdict.confidence_ppm == (uint32_t)number(words[3]), "confidence");
	}
}

#endif
