/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The loops of prune.c for AVX2 and AVX-512. This file is compiled once for each instruction set, with LINNET_PRUNE as
 * the name of the table; without it there is nothing to compile.
 */
#include "prune.h"

#ifdef LINNET_PRUNE
#include <immintrin.h>

#if defined(__AVX512BW__)
typedef __m512i vector;
#define LOAD(p) _mm512_loadu_si512((const void *)(p))
#define STORE(p, v) _mm512_storeu_si512((void *)(p), v)
#define SPREAD(x) _mm512_set1_epi32(x)
#define ZERO() _mm512_setzero_si512()
#define ADD(a, b) _mm512_add_epi32(a, b)
#define ADD64(a, b) _mm512_add_epi64(a, b)
#define MAX(a, b) _mm512_max_epi32(a, b)
#define AND(a, b) _mm512_and_si512(a, b)
#ifdef __AVX512VNNI__
#define ADD_PAIRS(sum, a, b) _mm512_dpwssd_epi32(sum, a, b)
#else
#define ADD_PAIRS(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#endif
#define MUL(a, b) _mm512_mul_epi32(a, b)
#define ODD(a) _mm512_srli_epi64(a, 32)
#define HIGH_HALF(a) _mm512_srai_epi32(a, 16)
#define LOW_HALF(a) _mm512_srai_epi32(_mm512_slli_epi32(a, 16), 16)
#define CHOOSE(sign, neg, pos) _mm512_mask_mov_epi32(pos, _mm512_cmplt_epi32_mask(sign, ZERO()), neg)
#define ACROSS64(v) _mm512_reduce_add_epi64(v)
#else
typedef __m256i vector;
#define LOAD(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define SPREAD(x) _mm256_set1_epi32(x)
#define ZERO() _mm256_setzero_si256()
#define ADD(a, b) _mm256_add_epi32(a, b)
#define ADD64(a, b) _mm256_add_epi64(a, b)
#define MAX(a, b) _mm256_max_epi32(a, b)
#define AND(a, b) _mm256_and_si256(a, b)
#define ADD_PAIRS(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
#define MUL(a, b) _mm256_mul_epi32(a, b)
#define ODD(a) _mm256_srli_epi64(a, 32)
#define HIGH_HALF(a) _mm256_srai_epi32(a, 16)
#define LOW_HALF(a) _mm256_srai_epi32(_mm256_slli_epi32(a, 16), 16)
#define CHOOSE(sign, neg, pos) \
	_mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(pos), _mm256_castsi256_ps(neg), \
					     _mm256_castsi256_ps(sign)))
INLINE int64_t across64(__m256i v)
{
	__m128i x = _mm_add_epi64(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	return _mm_cvtsi128_si64(_mm_add_epi64(x, _mm_unpackhi_epi64(x, x)));
}
#define ACROSS64(v) across64(v)
#endif

#define LANES ((uint32_t)(sizeof(vector) / sizeof(int32_t)))
#define PAIR(low, high) SPREAD((int32_t)((uint32_t)(low) | (uint32_t)(high) << 16))

/* Sum of products of two rows of int32, in 64 bits. */
INLINE vector add_products(vector sum, vector a, vector b)
{
	return ADD64(sum, ADD64(MUL(a, b), MUL(ODD(a), ODD(b))));
}

#if defined(__AVX512BW__)
/* Appends the lanes of three vectors in which `key` (of the first) is positive, or negative, to three lists. */
#define PICK(key, compare, n, a, x, b, y, c, z)                                                                  \
	do {                                                                                                     \
		__mmask16 mask = _mm512_##compare##_epi32_mask(key, ZERO());                                      \
		STORE((a) + (n), _mm512_maskz_compress_epi32(mask, x));                                           \
		STORE((b) + (n), _mm512_maskz_compress_epi32(mask, y));                                           \
		STORE((c) + (n), _mm512_maskz_compress_epi32(mask, z));                                           \
		(n) += (uint32_t)__builtin_popcount(mask);                                                        \
	} while (0)
#else
#define A 0, 1, 2, 3
#define B 4, 5, 6, 7
#define C 8, 9, 10, 11
#define D 12, 13, 14, 15
#define N 128, 128, 128, 128
static const uint8_t packing[16][16] __attribute__((aligned(16))) = {
	{ N, N, N, N }, { A, N, N, N }, { B, N, N, N }, { A, B, N, N }, { C, N, N, N }, { A, C, N, N },
	{ B, C, N, N }, { A, B, C, N }, { D, N, N, N }, { A, D, N, N }, { B, D, N, N }, { A, B, D, N },
	{ C, D, N, N }, { A, C, D, N }, { B, C, D, N }, { A, B, C, D },
};
#undef A
#undef B
#undef C
#undef D
#undef N

INLINE void pick4(uint32_t mask, uint32_t n, int32_t *a, __m128i x, int32_t *b, __m128i y, int32_t *c, __m128i z)
{
	__m128i order = _mm_load_si128((const __m128i *)(const void *)packing[mask]);

	_mm_storeu_si128((__m128i *)(void *)(a + n), _mm_shuffle_epi8(x, order));
	_mm_storeu_si128((__m128i *)(void *)(b + n), _mm_shuffle_epi8(y, order));
	_mm_storeu_si128((__m128i *)(void *)(c + n), _mm_shuffle_epi8(z, order));
}

#define cmpgt(key) _mm256_cmpgt_epi32(key, ZERO())
#define cmplt(key) (key)
#define PICK(key, compare, n, a, x, b, y, c, z)                                                                  \
	do {                                                                                                     \
		uint32_t mask = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(compare(key)));                  \
		pick4(mask & 15, n, a, _mm256_castsi256_si128(x), b, _mm256_castsi256_si128(y), c,                \
		      _mm256_castsi256_si128(z));                                                                 \
		(n) += (uint32_t)__builtin_popcount(mask & 15);                                                   \
		pick4(mask >> 4, n, a, _mm256_extracti128_si256(x, 1), b, _mm256_extracti128_si256(y, 1), c,      \
		      _mm256_extracti128_si256(z, 1));                                                            \
		(n) += (uint32_t)__builtin_popcount(mask >> 4);                                                   \
	} while (0)
#endif

/* Two passes: the first drops dead outputs cheaply; the second separates the others, a third or less. */
static void prune(const struct linnet_tables *tables, struct linnet_precomputed *pre)
{
	const struct linnet_layer *first = &tables->network->layers[0];
	uint32_t lanes = tables->lanes, alive = 0, n = 0;
	const int32_t *sums = linnet_precomputed_sums(pre);
	int32_t *rest = linnet_precomputed_rest(pre, lanes), *near = linnet_precomputed_near(pre, lanes);
	int32_t *gap = linnet_precomputed_gap(pre, lanes);
	const int16_t *hundreds = now_weights(first);
	vector digit = SPREAD((int32_t)pre->hundreds), nines = SPREAD(9 << 16 | 9);
	vector base = ZERO(), tens = ZERO(), units = ZERO();

	for (uint32_t o = 0; o < lanes; o += LANES) {
		vector sum = LOAD(sums + o), most;

		if (pre->hundreds)
			sum = ADD_PAIRS(sum, LOAD(hundreds + 2 * o), digit);
		most = ADD(sum, LOAD(tables->top + o));
		PICK(most, cmpgt, alive, rest, sum, near, LOAD(tables->near + o), gap, LOAD(tables->gap + o));
	}
	STORE(rest + alive, ZERO());
	STORE(near + alive, ZERO());
	STORE(gap + alive, ZERO());
	for (uint32_t i = 0; i < alive; i += LANES) {
		vector sum = LOAD(rest + i), weights = LOAD(near + i), gaps = LOAD(gap + i), lowest, sure;
		vector t = LOW_HALF(weights), u = HIGH_HALF(weights);

		/* The lowest value that tens and units can give; if it is below zero the output is not settled. */
#if defined(__AVX512BW__)
		lowest = _mm512_min_epi16(weights, ZERO());
#else
		lowest = _mm256_min_epi16(weights, ZERO());
#endif
		lowest = ADD_PAIRS(sum, lowest, nines);
		sure = CHOOSE(lowest, ZERO(), gaps);
		base = add_products(base, sum, sure);
		tens = add_products(tens, t, sure);
		units = add_products(units, u, sure);
		PICK(lowest, cmplt, n, rest, sum, near, weights, gap, gaps);
	}
	STORE(rest + n, ZERO());
	STORE(near + n, ZERO());
	STORE(gap + n, ZERO());
	pre->count = n;
	pre->base = tables->gap_bias + ACROSS64(base);
	pre->tens = ACROSS64(tens);
	pre->units = ACROSS64(units);
}

LINNET_MAY_TEAR
static int64_t near(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now)
{
	const int32_t *rest = linnet_precomputed_rest(pre, tables->lanes), *near = linnet_precomputed_near(pre, tables->lanes);
	const int32_t *gap = linnet_precomputed_gap(pre, tables->lanes);
	vector digits = PAIR(now[1], now[2]), sum = ZERO();
	uint32_t count = pre->count;

	for (uint32_t i = 0; i < count; i += LANES) {
		vector x = ADD_PAIRS(LOAD(rest + i), LOAD(near + i), digits);

		sum = add_products(sum, MAX(x, ZERO()), LOAD(gap + i));
	}
	return (int64_t)((uint64_t)settled(pre, now) + (uint64_t)ACROSS64(sum));
}

INLINE vector now_sums(const int32_t *sums, const int16_t *weights, uint32_t stride, uint32_t o, const uint8_t *now)
{
	vector x = ADD_PAIRS(LOAD(sums + o), LOAD(weights + 2 * o), PAIR(now[0], now[1]));

	return ADD_PAIRS(x, LOAD(weights + 2 * ((size_t)stride + o)), PAIR(now[2], 0));
}

LINNET_MAY_TEAR
static int64_t far(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre);
	uint32_t lanes = tables->lanes;
	vector sum = ZERO();

	for (uint32_t o = 0; o < lanes; o += LANES)
		sum = add_products(sum, MAX(now_sums(sums, weights, lanes, o, now), ZERO()), LOAD(tables->gap + o));
	return (int64_t)((uint64_t)tables->gap_bias + (uint64_t)ACROSS64(sum));
}

LINNET_MAY_TEAR
static void add(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now, int32_t *out)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre);
	uint32_t lanes = tables->lanes;

	for (uint32_t o = 0; o < lanes; o += LANES)
		STORE(out + o, now_sums(sums, weights, lanes, o, now));
}

static void bounds(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t tens, int64_t *low,
		   int64_t *high)
{
	const int32_t *rest = linnet_precomputed_rest(pre, tables->lanes), *near = linnet_precomputed_near(pre, tables->lanes);
	const int32_t *gap = linnet_precomputed_gap(pre, tables->lanes);
	vector digit = PAIR(tens, 0), least = ZERO(), most = ZERO(), nine = PAIR(0, 9);
	int64_t base = pre->base + pre->tens * tens, units = 9 * pre->units;

	for (uint32_t i = 0; i < pre->count; i += LANES) {
		vector weights = LOAD(near + i), gaps = LOAD(gap + i);
		vector a = ADD_PAIRS(LOAD(rest + i), weights, digit), b = ADD_PAIRS(a, weights, nine);
		vector from, to;

		/* a and b are the extremes over units; the sign of the gap says which gives the lowest score. */
		a = MAX(a, ZERO());
		b = MAX(b, ZERO());
#if defined(__AVX512BW__)
		from = _mm512_min_epi32(a, b);
#else
		from = _mm256_min_epi32(a, b);
#endif
		to = MAX(a, b);
		least = add_products(least, CHOOSE(gaps, to, from), gaps);
		most = add_products(most, CHOOSE(gaps, from, to), gaps);
	}
	*low = base + (units < 0 ? units : 0) + ACROSS64(least);
	*high = base + (units > 0 ? units : 0) + ACROSS64(most);
}

const struct linnet_prune LINNET_PRUNE = { NULL, prune, near, far, add, bounds };
#endif
