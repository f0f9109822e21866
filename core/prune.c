/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Loops of ReLU pruning. incremental.h says what each does, incremental.c why. This file is compiled once per
 * instruction set: LINNET_PRUNE names the table. All versions give the same integers.
 *
 * Sums of the first layer are int32, proven to fit. Products with gaps are taken in 64 bits; incremental.c proves that
 * a score and each of its parts stay below 2^62.
 */
#include "incremental.h"

#ifndef LINNET_PRUNE
#define LINNET_PRUNE linnet_prune_portable
#endif

#define INLINE static inline __attribute__((always_inline))

/* Weights of digits 12 and 13 of each output, as pairs; those of 14 and 15 follow a stride later. */
INLINE const int16_t *now_weights(const struct linnet_layer *first)
{
	return (const int16_t *)first->weights + 2 * (size_t)(LINNET_NOW_AT / 2) * first->stride;
}

/* Score of the positive outputs. */
INLINE int64_t settled(const struct linnet_precomputed *pre, const uint8_t *now)
{
	return (int64_t)((uint64_t)pre->base + (uint64_t)pre->tens * now[1] + (uint64_t)pre->units * now[2]);
}

#if defined(__AVX512BW__) || defined(__AVX2__)
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

#define PACK NULL
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

#else

#define PACK pack

/* Weights of a pair. */
INLINE int32_t tens_of(int32_t pair)
{
	return (int16_t)(uint16_t)(uint32_t)pair;
}

INLINE int32_t units_of(int32_t pair)
{
	return pair >> 16;
}

INLINE int32_t cut(int32_t x)
{
	return x & ~(x >> 31);
}

/*
 * Packed sums: one multiplication serves three or four outputs. Exact, since a word is a sum of numbers that each fit
 * their bits in the end, and all intermediate results are modulo 2^64.
 */
INLINE const uint64_t *digit_row(const struct linnet_tables *tables, uint32_t digit)
{
	return tables->packed + (size_t)(1 + digit) * tables->words;
}

static void pack(const struct linnet_tables *tables, struct linnet_precomputed *pre)
{
	const uint64_t *rows[LINNET_DIGITS];
	uint64_t factors[LINNET_DIGITS], *words = linnet_precomputed_words(pre);
	uint32_t n = 0, count = tables->words, w = 0;

	for (uint32_t i = 0; i < LINNET_DIGITS; i++) {
		rows[n] = digit_row(tables, i);
		factors[n] = pre->digits[i];
		n += pre->digits[i] != 0;
	}
	/* Six sums at a time stay in registers. */
	for (; w + 6 <= count; w += 6) {
		const uint64_t *bias = tables->packed + w;
		uint64_t a = bias[0], b = bias[1], c = bias[2], d = bias[3], e = bias[4], f = bias[5];

		for (uint32_t u = 0; u < n; u++) {
			const uint64_t *row = rows[u] + w;
			uint64_t factor = factors[u];

			a += row[0] * factor;
			b += row[1] * factor;
			c += row[2] * factor;
			d += row[3] * factor;
			e += row[4] * factor;
			f += row[5] * factor;
		}
		words[w] = a;
		words[w + 1] = b;
		words[w + 2] = c;
		words[w + 3] = d;
		words[w + 4] = e;
		words[w + 5] = f;
	}
	for (; w < count; w++) {
		uint64_t a = tables->packed[w];

		for (uint32_t u = 0; u < n; u++)
			a += rows[u][w] * factors[u];
		words[w] = a;
	}
}

/* The output at `shift` of a word. */
INLINE int32_t unpack(uint64_t word, uint32_t shift, uint32_t bits)
{
	return (int32_t)(word >> shift & ((UINT64_C(1) << bits) - 1)) - (1 << (bits - 1));
}

/* Places of outputs: number, word, shift. */
#define PLACE(o, w, shift) ((o) | (w) << 12 | (uint32_t)(shift) << 24)

/* The highest bit of an output's room says that it is not negative: here, that sum plus top is above zero. */
INLINE uint32_t places_alive(const struct linnet_tables *tables, const uint64_t *words, uint64_t hundreds,
			     uint32_t bits, int32_t *list)
{
	const uint64_t *top = tables->packed + (size_t)LINNET_PACK_TOP * tables->words;
	const uint64_t *row = digit_row(tables, LINNET_NOW_AT);
	uint32_t alive = 0, place = 0;

	for (uint32_t w = 0; w < tables->words; w++) {
		uint64_t most = words[w] + top[w] + (hundreds ? row[w] * hundreds : 0);

#pragma GCC unroll 4
		for (uint32_t shift = 0; shift + bits <= 64; shift += bits) {
			list[alive] = (int32_t)(place + PLACE(shift / bits, 0, shift));
			alive += most >> (shift + bits - 1) & 1;
		}
		place += PLACE(64 / bits, 1, 0);
	}
	return alive;
}

INLINE uint32_t outputs_alive(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t hundreds,
			      int32_t *list)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre), *top = tables->top;
	uint32_t lanes = tables->lanes, alive = 0;

	for (uint32_t o = 0; o < lanes; o++) {
		int32_t most = sums[o] + top[o];

		if (hundreds)
			most += weights[2 * o] * (int32_t)hundreds;
		list[alive] = (int32_t)o;
		alive += most > 0;
	}
	return alive;
}

/* The sum of the outputs that are positive for all tens and units, and the list of the others. */
struct parted {
	int64_t base, tens, units;
	uint32_t count;
};

INLINE void part(struct parted *to, const struct linnet_tables *tables, struct linnet_precomputed *pre, uint32_t o,
		 int32_t sum)
{
	uint32_t lanes = tables->lanes, n = to->count;
	int32_t pair = tables->near[o], t = tens_of(pair), u = units_of(pair);
	int32_t lowest = sum + 9 * (t - cut(t) + u - cut(u));
	int64_t gap = tables->gap[o], sure = gap & ~(int64_t)(lowest >> 31);

	to->base += sure * sum;
	to->tens += sure * t;
	to->units += sure * u;
	linnet_precomputed_rest(pre, lanes)[n] = sum;
	linnet_precomputed_near(pre, lanes)[n] = pair;
	linnet_precomputed_gap(pre, lanes)[n] = (int32_t)gap;
	to->count = n + (lowest < 0);
}

INLINE void part_packed(struct parted *to, const struct linnet_tables *tables, struct linnet_precomputed *pre,
			uint32_t bits)
{
	const uint64_t *words = linnet_precomputed_words(pre), *row = digit_row(tables, LINNET_NOW_AT);
	uint64_t hundreds = pre->hundreds;
	int32_t *list = linnet_precomputed_gap(pre, tables->lanes);
	uint32_t alive;

	if (hundreds)
		alive = places_alive(tables, words, hundreds, bits, list);
	else
		alive = places_alive(tables, words, 0, bits, list);
	for (uint32_t i = 0; i < alive; i++) {
		uint32_t place = (uint32_t)list[i], w = place >> 12 & 0xfff;
		uint64_t word = words[w] + row[w] * hundreds;

		part(to, tables, pre, place & 0xfff, unpack(word, place >> 24, bits));
	}
}

/* Without branches, because the sign of an output cannot be predicted. */
static void prune(const struct linnet_tables *tables, struct linnet_precomputed *pre)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre);
	struct parted to = { tables->gap_bias, 0, 0, 0 };
	int32_t hundreds = (int32_t)pre->hundreds;
	/* Indices are stored where the list of gaps will be; none is overwritten before it is read. */
	int32_t *list = linnet_precomputed_gap(pre, tables->lanes);

	if (tables->pack_bits == 16) {
		part_packed(&to, tables, pre, 16);
	} else if (tables->pack_bits == 21) {
		part_packed(&to, tables, pre, 21);
	} else {
		uint32_t alive = hundreds ? outputs_alive(tables, pre, pre->hundreds, list)
					  : outputs_alive(tables, pre, 0, list);

		for (uint32_t i = 0; i < alive; i++) {
			uint32_t o = (uint32_t)list[i];

			part(&to, tables, pre, o, sums[o] + weights[2 * o] * hundreds);
		}
	}
	pre->count = to.count;
	pre->base = to.base;
	pre->tens = to.tens;
	pre->units = to.units;
}

static int64_t near(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now)
{
	const int32_t *rest = linnet_precomputed_rest(pre, tables->lanes), *near = linnet_precomputed_near(pre, tables->lanes);
	const int32_t *gap = linnet_precomputed_gap(pre, tables->lanes);
	uint64_t sum = (uint64_t)settled(pre, now);
	int32_t tens = now[1], units = now[2];
	uint32_t count = pre->count;

	for (uint32_t i = 0; i < count; i++) {
		int32_t add = tens_of(near[i]) * tens + units_of(near[i]) * units;

		sum += (uint64_t)((int64_t)cut((int32_t)((uint32_t)rest[i] + (uint32_t)add)) * gap[i]);
	}
	return (int64_t)sum;
}

INLINE int32_t now_sum(const int32_t *sums, const int16_t *weights, uint32_t stride, uint32_t o, const uint8_t *now)
{
	int32_t add = weights[2 * o] * now[0] + weights[2 * o + 1] * now[1] + weights[2 * (stride + o)] * now[2];

	return (int32_t)((uint32_t)sums[o] + (uint32_t)add);
}

INLINE int64_t far_packed(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now,
			  uint32_t bits)
{
	const uint64_t *words = linnet_precomputed_words(pre), *row = digit_row(tables, LINNET_NOW_AT);
	const int32_t *gap = tables->gap;
	uint32_t count = tables->words;
	uint64_t sum = (uint64_t)tables->gap_bias, hundreds = now[0], tens = now[1], units = now[2];

	for (uint32_t w = 0; w < count; w++) {
		uint64_t word = words[w] + row[w] * hundreds + row[count + w] * tens + row[2 * count + w] * units;

#pragma GCC unroll 4
		for (uint32_t shift = 0; shift + bits <= 64; shift += bits)
			sum += (uint64_t)((int64_t)cut(unpack(word, shift, bits)) * *gap++);
	}
	return (int64_t)sum;
}

static int64_t far(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre);
	uint64_t sum = (uint64_t)tables->gap_bias;

	if (tables->pack_bits == 16)
		return far_packed(tables, pre, now, 16);
	if (tables->pack_bits == 21)
		return far_packed(tables, pre, now, 21);
	for (uint32_t o = 0; o < tables->lanes; o++)
		sum += (uint64_t)((int64_t)cut(now_sum(sums, weights, tables->lanes, o, now)) * tables->gap[o]);
	return (int64_t)sum;
}

static void add(const struct linnet_tables *tables, const struct linnet_precomputed *pre, const uint8_t *now, int32_t *out)
{
	const int16_t *weights = now_weights(&tables->network->layers[0]);
	const int32_t *sums = linnet_precomputed_sums(pre);

	for (uint32_t o = 0; o < tables->lanes; o++)
		out[o] = now_sum(sums, weights, tables->lanes, o, now);
}

static void bounds(const struct linnet_tables *tables, const struct linnet_precomputed *pre, uint32_t tens, int64_t *low,
		   int64_t *high)
{
	const int32_t *rest = linnet_precomputed_rest(pre, tables->lanes), *near = linnet_precomputed_near(pre, tables->lanes);
	const int32_t *gap = linnet_precomputed_gap(pre, tables->lanes);
	int64_t base = pre->base + pre->tens * tens, units = 9 * pre->units;
	int64_t least = base + (units < 0 ? units : 0), most = base + (units > 0 ? units : 0);

	for (uint32_t i = 0; i < pre->count; i++) {
		int32_t a = rest[i] + tens_of(near[i]) * (int32_t)tens, b = a + 9 * units_of(near[i]);
		int64_t x = (int64_t)cut(a) * gap[i], y = (int64_t)cut(b) * gap[i];

		least += x < y ? x : y;
		most += x < y ? y : x;
	}
	*low = least;
	*high = most;
}

#endif

const struct linnet_prune LINNET_PRUNE = { PACK, prune, near, far, add, bounds };
