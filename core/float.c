/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The network of floats: shape, initial weights, copying of layers, forward pass. */
#include "float.h"

#define WIDE_MIN LINNET_LANES /* a layer with at least this many outputs is stored by input */

static uint32_t padded(uint32_t n)
{
	return (n + LINNET_LANES - 1) / LINNET_LANES * LINNET_LANES;
}

int linnet_float_plan(struct linnet_float_network *network, uint32_t inputs, const struct linnet_float_shape *layers,
		      uint32_t layer_count)
{
	struct linnet_float_network plan;

	if (layer_count < 1 || layer_count > LINNET_LAYERS_MAX || inputs < 1 || inputs > LINNET_SIZE_MAX)
		return LINNET_E_SHAPE;
	linnet_zero(&plan, sizeof(plan));
	plan.layer_count = layer_count;
	plan.inputs = inputs;
	plan.outputs = layers[layer_count - 1].outputs;
	plan.row_max = padded(inputs);
	plan.loops = &linnet_loops_portable;
	for (uint32_t k = 0; k < layer_count; k++) {
		struct linnet_float_layer *layer = &plan.layers[k];

		if (layers[k].outputs < 1 || layers[k].outputs > LINNET_SIZE_MAX)
			return LINNET_E_SHAPE;
		if (layers[k].activation > LINNET_SIGMOID)
			return LINNET_E_SHAPE;
		layer->inputs = k == 0 ? inputs : layers[k - 1].outputs;
		layer->outputs = layers[k].outputs;
		layer->activation = (uint8_t)layers[k].activation;
		layer->wide = layer->outputs >= WIDE_MIN;
		layer->stride = padded(layer->wide ? layer->outputs : layer->inputs);
		layer->weights = plan.value_count;
		plan.value_count += (size_t)layer->stride * (layer->wide ? layer->inputs : layer->outputs);
		layer->biases = plan.value_count;
		plan.value_count += padded(layer->outputs);
		if (padded(layer->outputs) > plan.row_max)
			plan.row_max = padded(layer->outputs);
	}
	plan.scratch_size = 3 * sizeof(float) * (size_t)plan.row_max;
	linnet_copy(network, &plan, sizeof(plan));
	return 0;
}

static size_t place_of(const struct linnet_float_layer *layer, uint32_t o, uint32_t i)
{
	size_t at = layer->wide ? (size_t)i * layer->stride + o : (size_t)o * layer->stride + i;

	return layer->weights + at;
}

int linnet_float_place(struct linnet_float_network *network, float *values, size_t value_count, uint64_t seed)
{
	uint64_t state = seed;

	if (((uintptr_t)values & (LINNET_ALIGN - 1)) != 0 || value_count < network->value_count)
		return LINNET_E_MEMORY;
	network->values = values;
	linnet_zero(values, sizeof(float) * network->value_count);
	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];

		for (uint32_t o = 0; o < layer->outputs; o++)
			for (uint32_t i = 0; i < layer->inputs; i++)
				values[place_of(layer, o, i)] =
					linnet_float_glorot(&state, layer->inputs, layer->outputs);
	}
	return 0;
}

int linnet_float_get(const struct linnet_float_network *network, uint32_t layer, float *weights, float *biases)
{
	const struct linnet_float_layer *l = network->layers;

	if (layer >= network->layer_count)
		return LINNET_E_SHAPE;
	l += layer;
	for (uint32_t o = 0; o < l->outputs; o++) {
		for (uint32_t i = 0; i < l->inputs; i++)
			weights[(size_t)o * l->inputs + i] = network->values[place_of(l, o, i)];
		biases[o] = network->values[l->biases + o];
	}
	return 0;
}

int linnet_float_set(struct linnet_float_network *network, uint32_t layer, const float *weights, const float *biases)
{
	const struct linnet_float_layer *l = network->layers;

	if (layer >= network->layer_count)
		return LINNET_E_SHAPE;
	l += layer;
	for (uint32_t o = 0; o < l->outputs; o++) {
		for (uint32_t i = 0; i < l->inputs; i++)
			network->values[place_of(l, o, i)] = weights[(size_t)o * l->inputs + i];
		network->values[l->biases + o] = biases[o];
	}
	return 0;
}

uint32_t linnet_float_used(const float *inputs, uint32_t count, uint32_t *used)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		used[n] = i;
		n += inputs[i] != 0;
	}
	return n;
}

void linnet_float_logits(const struct linnet_float_network *network, const float *inputs, void *scratch,
			 float *logits)
{
	float *in = scratch, *out = in + network->row_max, *swap;
	uint32_t *used = (uint32_t *)(void *)(out + network->row_max);

	for (uint32_t i = 0; i < padded(network->inputs); i++)
		in[i] = i < network->inputs ? inputs[i] : 0;
	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];
		uint32_t n = layer->wide ? linnet_float_used(in, layer->inputs, used) : 0;

		network->loops->forward(layer, network->values, in, used, n, out);
		if (layer->activation == LINNET_SIGMOID && k + 1 < network->layer_count)
			for (uint32_t o = 0; o < layer->outputs; o++)
				out[o] = linnet_sigmoid(out[o]);
		for (uint32_t o = layer->outputs; o < padded(layer->outputs); o++)
			out[o] = 0;
		swap = in;
		in = out;
		out = swap;
	}
	for (uint32_t o = 0; o < network->outputs; o++)
		logits[o] = in[o];
}
