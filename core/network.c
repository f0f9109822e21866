/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Loads a network: proves bounds on its sums, chooses widths and lays out its numbers.
 *
 * A network is a chain of dense layers on integers, with ReLU between them, none after the last, and no rescaling. Its
 * inputs are 0..input_max, and the output of a ReLU is never negative, so the bounds of a neuron are simple. Let P be
 * the sum of its positive weights, each times the largest value of its input, and N the same for the magnitudes of the
 * negative weights. Then every partial sum, in any order and with or without the bias, has a magnitude of at most
 * |bias| + max(P, N). If that is below 2^31 and the weights fit 16 bits, int32 sums are exact; below 2^63, int64 sums
 * are exact. Below 2^126, 128-bit sums are exact, and so is the difference of two such sums. Anything larger is
 * refused. The largest output of the neuron, max(0, bias + P), bounds the input of the next layer.
 */
#include "linnet.h"

#define LIMIT_I32 ((linnet_uint128)INT32_MAX)
#define LIMIT_I64 ((linnet_uint128)INT64_MAX)
#define LIMIT_I128 (((linnet_uint128)1 << 126) - 1)
#define PAD 32 /* numbers; a row of int16 or int32 is whole vectors */
#define BY_INPUT_MIN 16 /* a layer with at least this many outputs is stored by input */

static uint32_t padded(uint32_t n)
{
	return (n + PAD - 1) / PAD * PAD;
}

static int aligned(const void *p)
{
	return ((uintptr_t)p & (LINNET_ALIGN - 1)) == 0;
}

static size_t round_up(size_t n)
{
	return (n + LINNET_ALIGN - 1) & ~(size_t)(LINNET_ALIGN - 1);
}

static int64_t number(const uint8_t *bytes, uint32_t width, size_t index)
{
	const uint8_t *p = bytes + index * width;
	uint64_t bits = 0;

	for (uint32_t i = 0; i < width; i++)
		bits |= (uint64_t)p[i] << (8 * i);
	if (width == 2)
		return (int16_t)(uint16_t)bits;
	if (width == 4)
		return (int32_t)(uint32_t)bits;
	return (int64_t)bits;
}

static uint64_t magnitude(int64_t x)
{
	return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* sum += weight * input. Returns false if the result exceeds LIMIT_I128. sum and input are within it. */
static int add_product(linnet_uint128 *sum, uint64_t weight, linnet_uint128 input)
{
	linnet_uint128 high = (linnet_uint128)weight * (uint64_t)(input >> 64);
	linnet_uint128 low = (linnet_uint128)weight * (uint64_t)input;

	if (high >> 62)
		return 0;
	/*
	 * A magnitude is 2^63 at most: low is below 2^127, high << 64 below 2^126, and neither sum below exceeds 2^128.
	 */
	low += high << 64;
	if (low > LIMIT_I128 - *sum)
		return 0;
	*sum += low;
	return 1;
}

static int check_shape(const struct linnet_source *layers, uint32_t layer_count)
{
	if (layer_count < 1 || layer_count > LINNET_LAYERS_MAX)
		return LINNET_E_SHAPE;
	for (uint32_t k = 0; k < layer_count; k++) {
		const struct linnet_source *s = &layers[k];

		if (s->inputs < 1 || s->inputs > LINNET_SIZE_MAX || s->outputs < 1 || s->outputs > LINNET_SIZE_MAX)
			return LINNET_E_SHAPE;
		if (k > 0 && s->inputs != layers[k - 1].outputs)
			return LINNET_E_SHAPE;
		if (s->weight_bytes != 2 && s->weight_bytes != 4 && s->weight_bytes != 8)
			return LINNET_E_SHAPE;
	}
	return 0;
}

static uint32_t longest(const struct linnet_source *layers, uint32_t layer_count)
{
	uint32_t n = padded(layers[0].inputs);

	for (uint32_t k = 0; k < layer_count; k++)
		if (padded(layers[k].outputs) > n)
			n = padded(layers[k].outputs);
	return n;
}

size_t linnet_network_work_size(const struct linnet_source *layers, uint32_t layer_count)
{
	if (check_shape(layers, layer_count) < 0)
		return 0;
	return 2 * sizeof(linnet_uint128) * (size_t)longest(layers, layer_count);
}

/*
 * Bounds the sums and the output of one neuron. Raises *width if the neuron needs a wider one.
 */
static int bound_neuron(const struct linnet_source *s, uint32_t o, const linnet_uint128 *input_max,
			linnet_uint128 *output_max, uint8_t *width)
{
	linnet_uint128 up = 0, down = 0, reach;
	int64_t bias = number(s->biases, 8, o);
	uint8_t needed = LINNET_I16;

	for (uint32_t i = 0; i < s->inputs; i++) {
		int64_t w = number(s->weights, s->weight_bytes, (size_t)o * s->inputs + i);

		if (!add_product(w < 0 ? &down : &up, magnitude(w), input_max[i]))
			return LINNET_E_RANGE;
		if (w < INT16_MIN || w > INT16_MAX)
			needed = LINNET_I64;
	}
	reach = (up > down ? up : down) + magnitude(bias);
	if (reach > LIMIT_I128)
		return LINNET_E_RANGE;
	if (reach > LIMIT_I64)
		needed = LINNET_I128;
	else if (reach > LIMIT_I32)
		needed = LINNET_I64;
	if (needed > *width)
		*width = needed;
	if (bias >= 0)
		*output_max = up + magnitude(bias);
	else
		*output_max = up > magnitude(bias) ? up - magnitude(bias) : 0;
	return 0;
}

static void lay_out(struct linnet_layer *layer, size_t *memory_size)
{
	size_t weights, biases;

	layer->by_input = layer->width == LINNET_I16 && layer->outputs >= BY_INPUT_MIN;
	if (layer->by_input) {
		layer->stride = padded(layer->outputs);
		weights = 2 * sizeof(int16_t) * (size_t)layer->stride * ((layer->inputs + 1) / 2);
		biases = sizeof(int32_t) * (size_t)layer->stride;
	} else if (layer->width == LINNET_I16) {
		layer->stride = padded(layer->inputs);
		weights = sizeof(int16_t) * (size_t)layer->stride * layer->outputs;
		biases = sizeof(int32_t) * (size_t)layer->outputs;
	} else {
		layer->stride = layer->inputs;
		weights = sizeof(int64_t) * (size_t)layer->stride * layer->outputs;
		biases = sizeof(int64_t) * (size_t)layer->outputs;
	}
	*memory_size += round_up(weights) + round_up(biases);
}

int linnet_network_plan(struct linnet_network *network, const struct linnet_source *layers, uint32_t layer_count,
			uint32_t input_max, void *work, size_t work_size)
{
	static const uint8_t sum_bytes[] = { sizeof(int32_t), sizeof(int64_t), sizeof(linnet_int128) };
	struct linnet_network plan;
	linnet_uint128 *in = work, *out;
	uint8_t width = LINNET_I16;
	int error = check_shape(layers, layer_count);

	if (error < 0)
		return error;
	if (input_max < 1 || input_max > UINT8_MAX)
		return LINNET_E_SHAPE;
	if (!aligned(work) || work_size < linnet_network_work_size(layers, layer_count))
		return LINNET_E_MEMORY;

	linnet_zero(&plan, sizeof(plan));
	plan.layer_count = layer_count;
	plan.inputs = layers[0].inputs;
	plan.outputs = layers[layer_count - 1].outputs;
	plan.input_max = input_max;
	plan.row_max = longest(layers, layer_count);
	plan.dense = &linnet_dense_portable;
	out = in + plan.row_max;
	for (uint32_t i = 0; i < plan.inputs; i++)
		in[i] = input_max;
	for (uint32_t k = 0; k < layer_count; k++) {
		struct linnet_layer *layer = &plan.layers[k];
		linnet_uint128 *swap = in;

		layer->inputs = layers[k].inputs;
		layer->outputs = layers[k].outputs;
		layer->narrow = 1;
		for (uint32_t i = 0; i < layer->inputs; i++)
			if (in[i] > INT16_MAX)
				layer->narrow = 0;
		for (uint32_t o = 0; o < layer->outputs; o++) {
			error = bound_neuron(&layers[k], o, in, &out[o], &width);
			if (error < 0)
				return error;
		}
		layer->width = width;
		lay_out(layer, &plan.memory_size);
		in = out;
		out = swap;
	}
	plan.width = width;
	/* Narrow inputs, the list of used pairs, and two rows of sums. */
	plan.scratch_size = (size_t)plan.row_max * (2 * sizeof(int16_t) + 2 * (size_t)sum_bytes[width]);
	linnet_copy(network, &plan, sizeof(plan));
	return 0;
}

/* Index of a weight in an I16 layer. */
static size_t place_of(const struct linnet_layer *layer, uint32_t o, uint32_t i)
{
	if (layer->by_input)
		return 2 * ((size_t)(i / 2) * layer->stride + o) + (i & 1);
	return (size_t)o * layer->stride + i;
}

int linnet_network_place(struct linnet_network *network, const struct linnet_source *layers, void *memory,
			 size_t memory_size)
{
	uint8_t *at = memory;

	if (!aligned(memory) || memory_size < network->memory_size)
		return LINNET_E_MEMORY;
	linnet_zero(memory, network->memory_size);
	for (uint32_t k = 0; k < network->layer_count; k++) {
		struct linnet_layer *layer = &network->layers[k];
		const struct linnet_source *s = &layers[k];
		size_t rows = layer->by_input ? 2 * (size_t)((layer->inputs + 1) / 2) : layer->outputs;
		size_t biases = layer->by_input ? layer->stride : layer->outputs;
		size_t unit = layer->width == LINNET_I16 ? sizeof(int16_t) : sizeof(int64_t);
		int16_t *w16 = (int16_t *)(void *)at;
		int64_t *w64 = (int64_t *)(void *)at;
		int32_t *b32;
		int64_t *b64;

		layer->weights = at;
		at += round_up(unit * layer->stride * rows);
		layer->biases = at;
		b32 = (int32_t *)(void *)at;
		b64 = (int64_t *)(void *)at;
		at += round_up((layer->width == LINNET_I16 ? sizeof(int32_t) : sizeof(int64_t)) * biases);
		for (uint32_t o = 0; o < layer->outputs; o++) {
			int64_t bias = number(s->biases, 8, o);

			if (layer->width == LINNET_I16)
				b32[o] = (int32_t)bias;
			else
				b64[o] = bias;
			for (uint32_t i = 0; i < layer->inputs; i++) {
				size_t from = (size_t)o * layer->inputs + i;
				int64_t w = number(s->weights, s->weight_bytes, from);

				if (layer->width == LINNET_I16)
					w16[place_of(layer, o, i)] = (int16_t)w;
				else
					w64[from] = w;
			}
		}
	}
	return 0;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_source) == 32, "struct linnet_source");
_Static_assert(sizeof(struct linnet_layer) == 32, "struct linnet_layer");
_Static_assert(sizeof(struct linnet_network) == 48 + 32 * LINNET_LAYERS_MAX, "struct linnet_network");
