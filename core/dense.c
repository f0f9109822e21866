/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Sums of a layer of 16-bit weights on 16-bit inputs that are never negative. This file is compiled once per
 * instruction set: LINNET_DENSE names the table, and the compiler's flags select the loops. All versions add the same
 * integers modulo 2^32 in different orders; network.c proves that no order overflows.
 *
 * pairs: weights interleaved by pairs of inputs, so that one multiply-add of two 16-bit lanes serves one output. A pair
 *        of zero inputs adds nothing and is skipped; most digits of a quiet device are zeros. `inputs` is padded to an
 *        even count with zero, `used` has room for one index per pair, `sums` for the stride.
 * rows:  one row of weights per output, padded with zeros to the stride, and so are `inputs`.
 * take:  bytes to 16 bits; returns the largest.
 * pass:  the ReLU between two layers, from sums of at most 32767 to 16 bits. Both pad to a multiple of 32 with zeros.
 */
#include "linnet.h"

#ifndef LINNET_DENSE
#define LINNET_DENSE linnet_dense_portable
#endif

#if defined(__AVX512BW__) || defined(__AVX2__)
#include <immintrin.h>
#endif

#define PAD 32 /* numbers in a row are padded to this */

static uint32_t used_pairs(const struct linnet_layer *layer, const int16_t *inputs, uint16_t *used)
{
	uint32_t pairs = (layer->inputs + 1) / 2, n = 0;

	for (uint32_t p = 0; p < pairs; p++) {
		used[n] = (uint16_t)p;
		n += (inputs[2 * p] | inputs[2 * p + 1]) != 0;
	}
	return n;
}

static uint32_t take(const uint8_t *inputs, uint32_t count, int16_t *narrow)
{
	uint8_t largest = 0;

	for (uint32_t i = 0; i < count; i++) {
		narrow[i] = inputs[i];
		largest = inputs[i] > largest ? inputs[i] : largest;
	}
	for (uint32_t i = count; i % PAD != 0; i++)
		narrow[i] = 0;
	return largest;
}

static void pass(const int32_t *sums, uint32_t count, int16_t *narrow)
{
	uint32_t i = 0;

	/* A constant length lets the compiler use whole vectors. */
	for (; i + PAD <= count; i += PAD)
		for (uint32_t j = i; j < i + PAD; j++)
			narrow[j] = (int16_t)(sums[j] > 0 ? sums[j] : 0);
	for (; i < count; i++)
		narrow[i] = (int16_t)(sums[i] > 0 ? sums[i] : 0);
	for (; i % PAD != 0; i++)
		narrow[i] = 0;
}

#if defined(__AVX512BW__) || defined(__AVX2__)

#if defined(__AVX512BW__)
typedef __m512i vector;
#define LOAD(p) _mm512_load_si512((const void *)(p))
#define STORE(p, v) _mm512_store_si512((void *)(p), v)
#define SPREAD(x) _mm512_set1_epi32(x)
#define ZERO() _mm512_setzero_si512()
#ifdef __AVX512VNNI__
#define ADD_PAIRS(sum, a, b) _mm512_dpwssd_epi32(sum, a, b)
#else
#define ADD_PAIRS(sum, a, b) _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
#endif
#define ACROSS(v) _mm512_reduce_add_epi32(v)
#else
typedef __m256i vector;
#define LOAD(p) _mm256_load_si256((const __m256i *)(const void *)(p))
#define STORE(p, v) _mm256_store_si256((__m256i *)(void *)(p), v)
#define SPREAD(x) _mm256_set1_epi32(x)
#define ZERO() _mm256_setzero_si256()
#define ADD_PAIRS(sum, a, b) _mm256_add_epi32(sum, _mm256_madd_epi16(a, b))
static inline int32_t across(__m256i v)
{
	__m128i x = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));

	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0x4e));
	x = _mm_add_epi32(x, _mm_shuffle_epi32(x, 0xb1));
	return _mm_cvtsi128_si32(x);
}
#define ACROSS(v) across(v)
#endif

#define LANES (sizeof(vector) / sizeof(int32_t))
#define BLOCK 8 /* vectors of sums held in registers */

/* Sums of `vectors` (a constant, at most BLOCK) vectors of outputs from column `at`. */
static inline __attribute__((always_inline)) void block(const struct linnet_layer *layer, const int16_t *inputs,
							 const uint16_t *used, uint32_t n, uint32_t at,
							 uint32_t vectors, int32_t *sums)
{
	const int16_t *weights = (const int16_t *)layer->weights + 2 * (size_t)at;
	const int32_t *biases = (const int32_t *)layer->biases + at;
	vector sum[BLOCK];

	for (uint32_t v = 0; v < vectors; v++)
		sum[v] = LOAD(biases + v * LANES);
	for (uint32_t u = 0; u < n; u++) {
		const int16_t *row = weights + 2 * (size_t)used[u] * layer->stride;
		int32_t two;

		__builtin_memcpy(&two, inputs + 2 * used[u], sizeof(two));
		for (uint32_t v = 0; v < vectors; v++)
			sum[v] = ADD_PAIRS(sum[v], LOAD(row + 2 * v * LANES), SPREAD(two));
	}
	for (uint32_t v = 0; v < vectors; v++)
		STORE(sums + at + v * LANES, sum[v]);
}

static void pairs(const struct linnet_layer *layer, const int16_t *inputs, uint16_t *used, int32_t *sums)
{
	uint32_t n = used_pairs(layer, inputs, used), at = 0;

	for (; at + BLOCK * LANES <= layer->stride; at += BLOCK * LANES)
		block(layer, inputs, used, n, at, BLOCK, sums);
	for (; at < layer->stride; at += 2 * LANES)
		block(layer, inputs, used, n, at, 2, sums);
}

static void rows(const struct linnet_layer *layer, const int16_t *inputs, int32_t *sums)
{
	const int16_t *row = layer->weights;
	const int32_t *biases = layer->biases;

	for (uint32_t o = 0; o < layer->outputs; o++, row += layer->stride) {
		vector sum = ZERO();

		for (uint32_t i = 0; i < layer->stride; i += 2 * LANES)
			sum = ADD_PAIRS(sum, LOAD(row + i), LOAD(inputs + i));
		sums[o] = (int32_t)((uint32_t)biases[o] + (uint32_t)ACROSS(sum));
	}
}

#else

static void pairs(const struct linnet_layer *layer, const int16_t *inputs, uint16_t *used, int32_t *sums)
{
	uint32_t n = used_pairs(layer, inputs, used);
	const int32_t *biases = layer->biases;

	/* Eight outputs at a time fit the registers of machines that have few. */
	for (uint32_t at = 0; at < layer->stride; at += 8) {
		int32_t sum[8];

		for (uint32_t j = 0; j < 8; j++)
			sum[j] = biases[at + j];
		for (uint32_t u = 0; u < n; u++) {
			const int16_t *w = (const int16_t *)layer->weights;
			int32_t a = inputs[2 * used[u]], b = inputs[2 * used[u] + 1];

			w += 2 * ((size_t)used[u] * layer->stride + at);
			/* Without vectors multiplications dominate the time, so zeros are skipped. */
			if (b == 0)
				for (uint32_t j = 0; j < 8; j++)
					sum[j] += w[2 * j] * a;
			else if (a == 0)
				for (uint32_t j = 0; j < 8; j++)
					sum[j] += w[2 * j + 1] * b;
			else
				for (uint32_t j = 0; j < 8; j++)
					sum[j] += w[2 * j] * a + w[2 * j + 1] * b;
		}
		for (uint32_t j = 0; j < 8; j++)
			sums[at + j] = sum[j];
	}
}

static void rows(const struct linnet_layer *layer, const int16_t *inputs, int32_t *sums)
{
	const int16_t *row = layer->weights;
	const int32_t *biases = layer->biases;

	for (uint32_t o = 0; o < layer->outputs; o++, row += layer->stride) {
		int32_t sum = biases[o];

		for (uint32_t i = 0; i < layer->inputs; i++)
			sum += row[i] * inputs[i];
		sums[o] = sum;
	}
}

#endif

const struct linnet_dense LINNET_DENSE = { pairs, rows, take, pass };
