/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Features of a window of reads, in integers. Products stay below 2^64: counts are at most 2^44, shares 2^16.
 */
#include "readahead.h"

#define COUNT_MAX ((uint64_t)1 << 44)
#define NEAR_BUCKETS 5
#define FAR_BUCKET 10
#define BATCH_PAGES 32 /* of one of the default's batches */

void linnet_counts_add(struct linnet_counts *to, const struct linnet_counts *from)
{
	uint64_t *a = &to->accesses;
	const uint64_t *b = &from->accesses;

	for (uint32_t i = 0; i < sizeof(*to) / sizeof(*a); i++) {
		uint64_t sum = a[i] + b[i];

		a[i] = sum < a[i] || sum > COUNT_MAX ? COUNT_MAX : sum;
	}
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* part / whole, at most 2^60; 0 where there is nothing. */
static uint64_t ratio_q16(uint64_t part, uint64_t whole)
{
	return whole ? (least(part, COUNT_MAX) << 16) / whole : 0;
}

static uint32_t share_q16(uint64_t part, uint64_t whole)
{
	return (uint32_t)ratio_q16(least(part, whole), whole);
}

/* log2 of x / 2^16, for x of 2^16 or more, rounded down: the bits of the fraction follow from squaring. */
static uint32_t log2_q16(uint64_t x)
{
	uint32_t whole = 63 - (uint32_t)__builtin_clzll(x), fraction = 0;
	/* 1..2 as a multiple of 2^-31 */
	uint64_t m = whole > 31 ? x >> (whole - 31) : x << (31 - whole);

	for (int bit = 0; bit < 16; bit++) {
		m = m * m >> 31;
		fraction <<= 1;
		if (m >> 32) {
			m >>= 1;
			fraction |= 1;
		}
	}
	return ((whole - 16) << 16) + fraction;
}

/* The middle read, as the power of two below it. */
static uint32_t middle(const uint64_t *size)
{
	uint64_t total = 0, seen = 0;

	for (uint32_t log = 0; log < LINNET_SIZES; log++)
		total += size[log];
	for (uint32_t log = 0; log < LINNET_SIZES; log++) {
		seen += size[log];
		if (total > 0 && 2 * seen >= total)
			return 1u << log;
	}
	return 1;
}

/* Bits that a distance's bucket carries, of the 4 that sixteen buckets could: log2 n - sum of c log2 c / n. */
static uint32_t spread_q16(const uint64_t *distance)
{
	uint64_t total = 0, sum = 0, n;
	uint32_t shift = 0, bits;

	for (uint32_t b = 0; b < LINNET_DISTANCES; b++)
		total += distance[b];
	/* So that c log2 c fits: 2^32 * 2^22 */
	while (total >> shift > UINT32_MAX)
		shift++;
	n = 0;
	for (uint32_t b = 0; b < LINNET_DISTANCES; b++)
		n += distance[b] >> shift;
	if (n == 0)
		return 0;
	for (uint32_t b = 0; b < LINNET_DISTANCES; b++) {
		uint64_t c = distance[b] >> shift;

		if (c)
			sum += c * log2_q16(c << 16);
	}
	bits = log2_q16(n << 16);
	sum = (sum + n - 1) / n; /* up, so that one bucket gives 0 */
	return sum < bits ? (uint32_t)(bits - sum) / 4 : 0;
}

static void of_added(const struct linnet_counts *counts, struct linnet_pattern *pattern)
{
	/* A batch that joins another one is not counted as begun; its pages are. */
	uint64_t all = counts->added / BATCH_PAGES, joined = all > counts->batches ? all - counts->batches : 0;

	pattern->accesses = counts->batches + joined;
	pattern->jumps = counts->batches;
	pattern->local_q16 = share_q16(joined, pattern->accesses);
	pattern->run_pages_q16 = LINNET_Q16;
	if (joined > counts->batches)
		pattern->run_pages_q16 = ratio_q16(counts->added, counts->batches ? counts->batches : 1);
}

void linnet_pattern_of(const struct linnet_counts *counts, int demands, struct linnet_pattern *pattern)
{
	uint64_t local = counts->forward + counts->reverse, distances = 0, near = 0, far = 0;
	uint64_t pages = counts->pages ? counts->pages : 1;

	linnet_zero(pattern, sizeof(*pattern));
	pattern->added = counts->added;
	pattern->request_pages = 1;
	if (!demands) {
		of_added(counts, pattern);
		return;
	}
	for (uint32_t b = 0; b < LINNET_DISTANCES; b++) {
		distances += counts->distance[b];
		near += b < NEAR_BUCKETS ? counts->distance[b] : 0;
		far += b >= FAR_BUCKET ? counts->distance[b] : 0;
	}
	pattern->accesses = counts->accesses;
	pattern->jumps = counts->jumps;
	pattern->run_pages_q16 = ratio_q16(counts->pages, counts->jumps ? counts->jumps : 1);
	pattern->local_q16 = share_q16(local, counts->accesses);
	pattern->reverse_q16 = share_q16(counts->reverse, local);
	pattern->near_q16 = share_q16(near, distances);
	pattern->far_q16 = share_q16(far, distances);
	pattern->spread_q16 = spread_q16(counts->distance);
	pattern->request_pages = middle(counts->size);
	pattern->mapped_q16 = share_q16(counts->faults, counts->accesses);
	pattern->used_q16 = share_q16(counts->used, counts->added);
	pattern->added_each_q16 = ratio_q16(counts->added, pages);
	pattern->batches_each_q16 = ratio_q16(counts->batches, pages);
}

/* A multiple of 2^-16 below 2^8 as the bits of a float, exactly. */
static uint32_t float_of_q16(uint32_t x)
{
	uint32_t top;

	if (x == 0)
		return 0;
	top = 31 - (uint32_t)__builtin_clz(x);
	return (127 - 16 + top) << 23 | ((x << (31 - top) >> 8) & 0x7fffff);
}

void linnet_pattern_row(const struct linnet_pattern *pattern, uint32_t row[LINNET_READAHEAD_INPUTS])
{
	uint64_t run = pattern->run_pages_q16 > LINNET_Q16 ? pattern->run_pages_q16 : LINNET_Q16;
	uint64_t request = pattern->request_pages ? (uint64_t)pattern->request_pages << 16 : LINNET_Q16;
	uint32_t values[LINNET_READAHEAD_INPUTS] = {
		pattern->local_q16, pattern->reverse_q16, (uint32_t)least(log2_q16(run) / 8, 2 * LINNET_Q16),
		pattern->near_q16, pattern->far_q16, pattern->spread_q16, log2_q16(request) / 8, pattern->mapped_q16,
	};

	for (uint32_t i = 0; i < LINNET_READAHEAD_INPUTS; i++)
		row[i] = float_of_q16(values[i]);
}

uint64_t linnet_pattern_cost_q16(const struct linnet_pattern *pattern, uint32_t jump_pages_q16)
{
	/* The product stays below 2^63. */
	uint64_t batches = least(pattern->batches_each_q16, UINT32_MAX / 2);

	return pattern->added_each_q16 + (batches * jump_pages_q16 >> 16);
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_counts) == 8 * (10 + LINNET_DISTANCES + LINNET_SIZES), "struct linnet_counts");
_Static_assert(sizeof(struct linnet_reads) == 60 * 8, "struct linnet_reads");
_Static_assert(sizeof(struct linnet_pattern) == 80, "struct linnet_pattern");
