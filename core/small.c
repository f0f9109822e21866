/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Small networks: shape, memory, inference. online.c trains them.
 *
 * A layer's outputs are processed four at a time. If their number is not a multiple of four, the last vector overlaps
 * the one before: a lane that is computed twice has the same bits both times, and no padding is needed. Layers of one
 * to three outputs are computed one by one in the same order.
 */
#include "float.h"
#include "small.h"

#define GROUP 4 /* vectors of one row that are processed together */

int linnet_small_plan(struct linnet_small *network, uint32_t inputs, const struct linnet_float_shape *layers,
		      uint32_t layer_count)
{
	struct linnet_small plan;
	uint32_t widest = 0, sum = 0;

	if (layer_count < 1 || layer_count > LINNET_LAYERS_MAX || inputs < 1 || inputs > LINNET_SMALL_SIZE_MAX)
		return LINNET_E_SHAPE;
	linnet_zero(&plan, sizeof(plan));
	plan.layer_count = layer_count;
	plan.inputs = inputs;
	plan.outputs = layers[layer_count - 1].outputs;
	for (uint32_t k = 0; k < layer_count; k++) {
		struct linnet_small_layer *layer = &plan.layers[k];
		uint32_t outputs = layers[k].outputs;

		if (outputs < 1 || outputs > LINNET_SMALL_SIZE_MAX)
			return LINNET_E_SHAPE;
		if (layers[k].activation > LINNET_SOFTMAX_OUTPUT)
			return LINNET_E_SHAPE;
		if (layers[k].activation == LINNET_SOFTMAX_OUTPUT && k + 1 < layer_count)
			return LINNET_E_SHAPE;
		layer->inputs = (uint16_t)inputs;
		layer->outputs = (uint16_t)outputs;
		layer->activation = layers[k].activation;
		layer->values = plan.value_count;
		plan.value_count += (inputs + 1) * outputs;
		widest = outputs > widest ? outputs : widest;
		sum += outputs;
		inputs = outputs;
	}
	plan.forward_floats = 2 * widest;
	plan.train_floats = sum + 2 * widest;
	linnet_copy(network, &plan, sizeof(plan));
	return 0;
}

void linnet_small_place(struct linnet_small *network, float *values, float *momentum)
{
	network->values = values;
	network->momentum = momentum;
	if (momentum)
		linnet_zero(momentum, network->value_count * sizeof(float));
}

/* The next number of splitmix64 (Steele, Lea and Flood, OOPSLA 2014), also the generator of crates/sim. */
static uint64_t next(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

float linnet_float_glorot(uint64_t *state, uint32_t inputs, uint32_t outputs)
{
	float limit = __builtin_sqrtf(6.0f / (float)(inputs + outputs));
	float unit = (float)(next(state) >> 40) * 0x1p-24f;

	return limit * (2 * unit - 1);
}

void linnet_small_start(struct linnet_small *network, uint64_t seed)
{
	uint64_t state = seed;

	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_small_layer *layer = &network->layers[k];
		uint32_t m = layer->inputs, n = layer->outputs;
		float *value = network->values + layer->values;

		/* Output by output, as in float.c: the same seed gives both the same weights. */
		for (uint32_t o = 0; o < n; o++)
			for (uint32_t i = 0; i < m; i++)
				value[i * n + o] = linnet_float_glorot(&state, m, n);
		linnet_zero(value + m * n, n * sizeof(float));
	}
	if (network->momentum)
		linnet_zero(network->momentum, network->value_count * sizeof(float));
}

int linnet_small_get(const struct linnet_small *network, uint32_t number, float *weights, float *biases)
{
	const struct linnet_small_layer *layer = network->layers;

	if (number >= network->layer_count)
		return LINNET_E_SHAPE;
	layer += number;
	for (uint32_t o = 0; o < layer->outputs; o++) {
		const float *value = network->values + layer->values + o;

		for (uint32_t i = 0; i < layer->inputs; i++, value += layer->outputs)
			weights[o * layer->inputs + i] = *value;
		biases[o] = *value;
	}
	return 0;
}

int linnet_small_set(struct linnet_small *network, uint32_t number, const float *weights, const float *biases)
{
	const struct linnet_small_layer *layer = network->layers;

	if (number >= network->layer_count)
		return LINNET_E_SHAPE;
	layer += number;
	for (uint32_t o = 0; o < layer->outputs; o++) {
		float *value = network->values + layer->values + o;

		for (uint32_t i = 0; i < layer->inputs; i++, value += layer->outputs)
			*value = weights[o * layer->inputs + i];
		*value = biases[o];
	}
	return 0;
}

/* Where vector v of a row of n begins. */
INLINE uint32_t place(uint32_t v, uint32_t n)
{
	uint32_t at = v * LANES;

	return at + LANES <= n ? at : n - LANES;
}

/* A NaN stays one: a ReLU that made it 0 would hide it from the caller. */
INLINE lanes activate(uint32_t activation, lanes x)
{
	if (activation == LINNET_SIGMOID)
		return lanes_sigmoid(x);
	return activation == LINNET_RELU ? (lanes)((lanes_mask)x & ~(x <= 0.0f)) : x;
}

/* `count` vectors of a layer's outputs, starting at vector `first`. Two independent chains of sums. */
INLINE void forward_group(const struct linnet_small_layer *layer, const float *values, const float *inputs,
			  uint32_t first, uint32_t count, float *outputs)
{
	uint32_t n = layer->outputs, m = layer->inputs, at[GROUP];
	const float *biases = values + m * n;
	lanes even[GROUP], odd[GROUP];

	for (uint32_t v = 0; v < count; v++) {
		at[v] = place(first + v, n);
		even[v] = load(biases + at[v]);
		odd[v] = spread(0);
	}
	for (; m > 1; m -= 2, inputs += 2, values += 2 * n) {
		for (uint32_t v = 0; v < count; v++) {
			even[v] += load(values + at[v]) * inputs[0];
			odd[v] += load(values + n + at[v]) * inputs[1];
		}
	}
	if (m == 1)
		for (uint32_t v = 0; v < count; v++)
			even[v] += load(values + at[v]) * inputs[0];
	for (uint32_t v = 0; v < count; v++)
		store(outputs + at[v], activate(layer->activation, even[v] + odd[v]));
}

/* Like forward_group, for layers of one to three outputs. */
static void forward_few(const struct linnet_small_layer *layer, const float *values, const float *inputs,
			float *outputs)
{
	uint32_t n = layer->outputs, m = layer->inputs;

	for (uint32_t o = 0; o < n; o++) {
		float chain[2] = { values[m * n + o], 0 };

		for (uint32_t i = 0; i < m; i++)
			chain[i & 1] += values[i * n + o] * inputs[i];
		outputs[o] = activate(layer->activation, spread(chain[0] + chain[1]))[0];
	}
}

/* e^(x - largest), divided by the sum of all, in place. */
void linnet_small_softmax(float *x, uint32_t n)
{
	float top = x[0], sum = 0;

	for (uint32_t o = 1; o < n; o++)
		top = x[o] > top ? x[o] : top;
	if (n < LANES) {
		for (uint32_t o = 0; o < n; o++)
			x[o] = lanes_exp(spread(x[o] - top))[0];
	} else {
		/* The last four may overlap those before: load them before the others change. */
		lanes last = lanes_exp(load(x + n - LANES) - top);

		for (uint32_t o = 0; o + LANES <= n; o += LANES)
			store(x + o, lanes_exp(load(x + o) - top));
		store(x + n - LANES, last);
	}
	for (uint32_t o = 0; o < n; o++)
		sum += x[o];
	for (uint32_t o = 0; o < n; o++)
		x[o] /= sum;
}

void linnet_small_layer_forward(const struct linnet_small_layer *layer, const float *values, const float *inputs,
				float *outputs)
{
	uint32_t vectors = (layer->outputs + LANES - 1u) / LANES, first = 0;

	values += layer->values;
	if (layer->outputs < LANES) {
		forward_few(layer, values, inputs, outputs);
	} else {
		for (; vectors - first >= GROUP; first += GROUP)
			forward_group(layer, values, inputs, first, GROUP, outputs);
		if (vectors - first == 3)
			forward_group(layer, values, inputs, first, 3, outputs);
		else if (vectors - first == 2)
			forward_group(layer, values, inputs, first, 2, outputs);
		else if (vectors - first == 1)
			forward_group(layer, values, inputs, first, 1, outputs);
	}
	if (layer->activation == LINNET_SOFTMAX_OUTPUT)
		linnet_small_softmax(outputs, layer->outputs);
}

void linnet_small_forward(const struct linnet_small *network, const float *inputs, float *scratch, float *outputs)
{
	uint32_t last = network->layer_count - 1;
	float *out = scratch, *other = scratch + network->forward_floats / 2, *swap;

	for (uint32_t k = 0; k < last; k++) {
		linnet_small_layer_forward(&network->layers[k], network->values, inputs, out);
		inputs = out;
		swap = out;
		out = other;
		other = swap;
	}
	linnet_small_layer_forward(&network->layers[last], network->values, inputs, outputs);
}

int linnet_small_classify(const struct linnet_small *network, const float *inputs, float *scratch, uint32_t *class_,
			  uint32_t *confidence_ppm)
{
	uint32_t n = network->outputs, at = 0;
	uint32_t activation = network->layers[network->layer_count - 1].activation;
	/* The half of the scratch that the layer before the last does not write. */
	float *out = scratch + (network->layer_count & 1 ? 0u : network->forward_floats / 2), share;

	linnet_small_forward(network, inputs, scratch, out);
	if (!linnet_float_within(out, n, 3e38f))
		return LINNET_E_RANGE;
	for (uint32_t o = 1; o < n; o++)
		at = out[o] > out[at] ? o : at;
	if (activation == LINNET_LINEAR)
		linnet_small_softmax(out, n);
	/* Outputs that are no shares, of a ReLU, may be above 1; the largest is never below 0. */
	share = out[at] > 1 ? 1 : out[at];
	*class_ = at;
	*confidence_ppm = (uint32_t)(share * 1000000 + 0.5f);
	return 0;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_small_layer) == 12, "struct linnet_small_layer");
_Static_assert(sizeof(struct linnet_small) == 40 + 12 * LINNET_LAYERS_MAX, "struct linnet_small");
