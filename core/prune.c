/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Loops of ReLU pruning without vectors: those of the kernel, and of processors whose vectors prune_vectors.c does not
 * know. incremental.h says what each does, incremental.c why. All loops give the same integers.
 *
 * Sums of the first layer are int32, proven to fit. Products with gaps are taken in 64 bits; incremental_tables.c
 * proves that a score and each of its parts stay below 2^62.
 */
#include "prune.h"

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

LINNET_MAY_TEAR
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

LINNET_MAY_TEAR
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

LINNET_MAY_TEAR
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

const struct linnet_prune linnet_prune_portable = { pack, prune, near, far, add, bounds };
