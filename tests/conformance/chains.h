/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Part of layouts.c: drawn chains of layers, what their numbers prove, and their sums. In most of them a sum lies at a
 * bound of what is proven.
 */
#ifndef LINNET_CHAINS_H
#define LINNET_CHAINS_H

#include "drawn.h"

#define LAYERS 3
#define SIZE 80 /* of a layer, at most */
#define BIT(n) ((linnet_int128)1 << (n))

static unsigned number_of_case;

static void check(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "networks: case %u: %s\n", number_of_case, what);
		exit(1);
	}
}

static size_t up_to(size_t n, size_t unit)
{
	while (n % unit)
		n++;
	return n;
}

static void *memory_of(size_t size)
{
	void *memory = aligned_alloc(LINNET_ALIGN, up_to(size + !size, LINNET_ALIGN));

	check(memory != NULL, "no memory");
	memset(memory, 0xa5, size);
	return memory;
}

/* ---- a chain of layers, and what its numbers prove ---- */

struct chain {
	uint32_t count, input_max, sizes[LAYERS + 1];
	int64_t weights[LAYERS][SIZE][SIZE], biases[LAYERS][SIZE]; /* by output */
	struct linnet_source sources[LAYERS];
	uint8_t bytes[LAYERS][8 * SIZE * SIZE], bias_bytes[LAYERS][8 * SIZE];
	/* Proven: the largest output of each neuron, the width of each layer, and whether its inputs fit 16 bits. */
	linnet_int128 most[SIZE];
	uint8_t width[LAYERS], narrow[LAYERS];
};

/* The sums of the positive products of a neuron, and of the negative ones, for the largest inputs. */
static void ends(const struct chain *chain, uint32_t k, uint32_t o, const linnet_int128 *in, linnet_int128 *up,
		 linnet_int128 *down)
{
	*up = *down = 0;
	for (uint32_t i = 0; i < chain->sizes[k]; i++)
		*(chain->weights[k][o][i] > 0 ? up : down) += chain->weights[k][o][i] * in[i];
}

/* The largest magnitude of a partial sum. */
static linnet_int128 reach_of(linnet_int128 up, linnet_int128 down, linnet_int128 bias)
{
	return (bias < 0 ? -bias : bias) + (up > -down ? up : -down);
}

static void prove(struct chain *chain, uint32_t k)
{
	linnet_int128 in[SIZE], up, down, reach;

	for (uint32_t i = 0; i < chain->sizes[k]; i++)
		in[i] = k ? chain->most[i] : chain->input_max;
	chain->width[k] = k ? chain->width[k - 1] : LINNET_I16;
	chain->narrow[k] = 1;
	for (uint32_t i = 0; i < chain->sizes[k]; i++)
		chain->narrow[k] &= in[i] < BIT(15);
	for (uint32_t o = 0; o < chain->sizes[k + 1]; o++) {
		uint8_t width;

		ends(chain, k, o, in, &up, &down);
		reach = reach_of(up, down, chain->biases[k][o]);
		width = reach < BIT(31) ? LINNET_I16 : reach < BIT(63) ? LINNET_I64 : LINNET_I128;
		for (uint32_t i = 0; i < chain->sizes[k]; i++)
			if (width == LINNET_I16 && chain->weights[k][o][i] != (int16_t)chain->weights[k][o][i])
				width = LINNET_I64;
		chain->width[k] = width > chain->width[k] ? width : chain->width[k];
		chain->most[o] = up + chain->biases[k][o] > 0 ? up + chain->biases[k][o] : 0;
	}
}

/* Some neuron's bias is such that a bound of its sums, or of its output, is reached exactly, or missed by one. */
static void to_an_end(struct chain *chain, uint32_t k)
{
	static const uint8_t bits[] = { 0, 15, 15, 20, 31, 63 };
	linnet_int128 in[SIZE], up, down, bias, end = BIT(bits[below(k == 0 && below(4) ? 4 : 6)]) - below(3);
	uint32_t o = below(2) ? below(chain->sizes[k + 1]) : 0;

	for (uint32_t i = 0; i < chain->sizes[k]; i++)
		in[i] = k ? chain->most[i] : chain->input_max;
	ends(chain, k, o, in, &up, &down);
	switch (below(4)) {
	case 0: bias = end - reach_of(up, down, 0); break;
	case 1: bias = reach_of(up, down, 0) - end; break;
	case 2: bias = end - up; break;
	default: bias = -end - down;
	}
	if (bias == (int64_t)bias)
		chain->biases[k][o] = (int64_t)bias;
	/* The last neuron gives 1 at most. */
	o = chain->sizes[k + 1] - 1;
	ends(chain, k, o, in, &up, &down);
	if (below(2) && up < BIT(62))
		chain->biases[k][o] = (int64_t)(1 - up);
}

/* The largest magnitude of a part of the score of two layers, for digits. */
static linnet_int128 score_reach(const struct chain *chain)
{
	linnet_int128 nines[LINNET_DIGITS], up, down, reach = (linnet_int128)chain->biases[1][1] - chain->biases[1][0];

	for (uint32_t i = 0; i < LINNET_DIGITS; i++)
		nines[i] = 9;
	reach = reach < 0 ? -reach : reach;
	for (uint32_t o = 0; o < chain->sizes[1]; o++) {
		linnet_int128 gap = (linnet_int128)chain->weights[1][1][o] - chain->weights[1][0][o];

		ends(chain, 0, o, nines, &up, &down);
		up += chain->biases[0][o];
		reach += (gap < 0 ? -gap : gap) * (up > 0 ? up : 0);
	}
	return reach;
}

/* A difference of two weights comes to an end of 32 bits, or all parts of the score to 2^62, exactly or nearly. */
static void to_an_end_of_pruning(struct chain *chain)
{
	uint32_t o = below(chain->sizes[1]), larger = below(2);
	int64_t *weights[2] = { &chain->weights[1][0][o], &chain->weights[1][1][o] }, *biases = chain->biases[1];
	linnet_int128 rest;

	if (below(2))
		*weights[larger] = *weights[!larger] + (larger ? (int64_t)INT32_MAX : -(int64_t)INT32_MIN) + below(2);
	biases[1] = biases[0];
	/* The larger bias grows by what is left. */
	rest = biases[0] + BIT(62) - score_reach(chain) - below(2);
	if (rest > biases[0] && rest == (int64_t)rest)
		biases[larger] = (int64_t)rest;
	if (below(16) == 0) {
		biases[larger] = INT64_MAX;
		biases[!larger] = INT64_MIN + below(3);
	}
}

static int64_t weight_up_to(int64_t largest)
{
	uint32_t kind = below(16);

	/* The ends of 16 bits, zeros, and the largest. */
	if (kind == 0 && largest >= INT16_MAX)
		return INT16_MAX + (int64_t)below(1 + (largest > INT16_MAX));
	if (kind == 1 && largest >= INT16_MAX)
		return INT16_MIN - (int64_t)below(1 + (largest > INT16_MAX));
	if (kind < 4)
		return 0;
	if (kind < 6)
		return kind == 4 ? largest : -largest;
	return (int64_t)(draw() >> 1) % (2 * largest + 1) - largest;
}

static void put(uint8_t *bytes, int64_t number, uint32_t count)
{
	for (uint32_t b = 0; b < count; b++)
		bytes[b] = (uint8_t)((uint64_t)number >> 8 * b);
}

/* As a caller has them: in the fewest bytes that hold them, or in more. */
static void source(struct chain *chain, uint32_t k)
{
	uint32_t inputs = chain->sizes[k], outputs = chain->sizes[k + 1], bytes = 2u << below(3);

	for (uint32_t o = 0; o < outputs; o++) {
		put(chain->bias_bytes[k] + 8 * o, chain->biases[k][o], 8);
		for (uint32_t i = 0; i < inputs; i++) {
			int64_t w = chain->weights[k][o][i];

			if (bytes < 8 && w != (int32_t)w)
				bytes = 8;
			else if (bytes < 4 && w != (int16_t)w)
				bytes = 4;
		}
	}
	for (uint32_t o = 0; o < outputs; o++)
		for (uint32_t i = 0; i < inputs; i++)
			put(chain->bytes[k] + bytes * ((size_t)o * inputs + i), chain->weights[k][o][i], bytes);
	chain->sources[k] = (struct linnet_source){ inputs, outputs, bytes, chain->bytes[k], chain->bias_bytes[k] };
}

static uint32_t drawn_size(void)
{
	static const uint8_t sizes[] = { 1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65 };

	return below(2) ? sizes[below(sizeof(sizes))] : 1 + below(SIZE);
}

/* Most networks take the digits to two outputs. */
static void draw_chain(struct chain *chain)
{
	static const uint8_t most_inputs[] = { 1, 8, 9, 9, 9, 9, 9, 255 };
	static const uint8_t bits[] = { 1, 6, 6, 10, 15, 16, 30 };
	int digits = below(4) > 0;

	chain->count = 1 + below(LAYERS);
	if (digits && below(4))
		chain->count = 2;
	chain->input_max = most_inputs[below(8)];
	for (uint32_t k = 0; k <= chain->count; k++)
		chain->sizes[k] = drawn_size();
	if (digits) {
		if (chain->sizes[1] < 15)
			chain->sizes[1] += 15;
		chain->sizes[0] = LINNET_DIGITS;
		chain->sizes[chain->count] = 2;
	}
	for (uint32_t k = 0; k < chain->count; k++) {
		/* The first layer is mostly one that can be packed, and no sum comes near 2^126. */
		int64_t largest = ((int64_t)1 << bits[k == 2 ? 0 : below(k == 0 && digits && below(8) ? 5 : 7)]) - 1;
		int wide = k == 0 && !digits && below(2);

		for (uint32_t o = 0; o < chain->sizes[k + 1]; o++) {
			chain->biases[k][o] = weight_up_to(below(3) ? largest : 9 * largest);
			for (uint32_t i = 0; i < chain->sizes[k]; i++)
				chain->weights[k][o][i] = weight_up_to(wide ? (int64_t)1 << 61 : largest);
		}
		if (below(4))
			to_an_end(chain, k);
		if (digits && k == 1 && chain->count == 2 && below(2))
			to_an_end_of_pruning(chain);
		prove(chain, k);
		source(chain, k);
	}
}

/* The sums of the last of so many layers. */
static void sums(const struct chain *chain, uint32_t count, const uint8_t *inputs, linnet_int128 *out)
{
	linnet_int128 in[SIZE];

	for (uint32_t i = 0; i < chain->sizes[0]; i++)
		in[i] = inputs[i];
	for (uint32_t k = 0; k < count; k++) {
		for (uint32_t o = 0; o < chain->sizes[k + 1]; o++) {
			out[o] = chain->biases[k][o];
			for (uint32_t i = 0; i < chain->sizes[k]; i++)
				out[o] += chain->weights[k][o][i] * in[i];
		}
		for (uint32_t o = 0; o < chain->sizes[k + 1]; o++)
			in[o] = out[o] > 0 ? out[o] : 0;
	}
}

static int64_t score_of(const linnet_int128 *out)
{
	linnet_int128 gap = out[1] - out[0];

	return gap > INT64_MAX ? INT64_MAX : gap < INT64_MIN ? INT64_MIN : (int64_t)gap;
}

#endif
