// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The loops of training (core/float.h), for every instruction set that is linked and that this machine has, against
 * plain sums in the order that is promised: the same bits. Layers have every number of outputs around a vector.
 */
#include "training.h"

#pragma weak linnet_loops_avx2
#pragma weak linnet_loops_avx512
extern const struct linnet_float_loops linnet_loops_avx2, linnet_loops_avx512;

uint32_t loops_here(const struct linnet_float_loops *sets[3])
{
	uint32_t count = 0;

	sets[count++] = &linnet_loops_portable;
	if (&linnet_loops_avx2 && has_avx2())
		sets[count++] = &linnet_loops_avx2;
	if (&linnet_loops_avx512 && has_avx512())
		sets[count++] = &linnet_loops_avx512;
	return count;
}

/* The sum of products in sixteen lanes, which are then added in pairs that are 8, 4, 2, 1 apart. */
static float product(const float *a, const float *b, uint32_t n)
{
	float lanes[16] = { 0 };

	for (uint32_t i = 0; i < n; i++)
		lanes[i % 16] += a[i] * b[i];
	for (uint32_t l = 0; l < 8; l++)
		lanes[l] += lanes[l + 8];
	for (uint32_t l = 0; l < 4; l++)
		lanes[l] += lanes[l + 4];
	return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

static void forward(const struct linnet_float_layer *layer, const float *values, const float *inputs, float *sums)
{
	for (uint32_t o = 0; o < layer->outputs; o++) {
		const float *row = values + layer->weights + (size_t)o * layer->stride;

		sums[o] = values[layer->biases + o];
		if (!layer->wide)
			sums[o] += product(inputs, row, layer->inputs);
		for (uint32_t i = 0; layer->wide && i < layer->inputs; i++)
			if (inputs[i] != 0)
				sums[o] += inputs[i] * values[layer->weights + (size_t)i * layer->stride + o];
		if (layer->activation == LINNET_RELU && sums[o] <= 0)
			sums[o] = 0;
	}
}

static void backward(const struct linnet_float_layer *layer, const float *values, float *gradients,
		     const float *inputs, const float *delta, float *back)
{
	size_t stride = layer->stride, w = layer->weights;

	for (uint32_t o = 0; o < layer->outputs; o++) {
		gradients[layer->biases + o] += delta[o];
		for (uint32_t i = 0; i < layer->inputs; i++)
			gradients[w + (layer->wide ? i * stride + o : o * stride + i)] += inputs[i] * delta[o];
	}
	for (uint32_t i = 0; i < layer->inputs; i++) {
		back[i] = 0;
		if (layer->wide)
			back[i] = product(values + w + i * stride, delta, layer->outputs);
		for (uint32_t o = 0; !layer->wide && o < layer->outputs; o++)
			back[i] += delta[o] * values[w + o * stride + i];
	}
}

/* n numbers in -1..1, a third of them 0; zeros behind them. */
static float *row_of(uint32_t n, uint32_t size)
{
	float *row = room(sizeof(float) * size);

	for (uint32_t i = 0; i < size; i++)
		row[i] = i < n && below(3) ? unit() : 0;
	return row;
}

static void check_layer(const struct linnet_float_loops *loops, uint32_t inputs, uint32_t outputs, uint32_t activation)
{
	/* Behind another layer, so that it does not begin at 0. */
	struct linnet_float_shape shape[] = { { inputs, LINNET_LINEAR }, { outputs, activation } };
	struct linnet_float_network network;
	const struct linnet_float_layer *layer = &network.layers[1];
	uint32_t n = 0, ins = (inputs + 15) / 16 * 16, outs = (outputs + 15) / 16 * 16, wrote, *used;
	float *values, *gradients, *model, *x, *delta, *sums, *expected, *back;
	size_t bytes, size = sizeof(float);

	CHECK(linnet_float_plan(&network, 3, shape, 2) == 0);
	bytes = size * network.value_count;
	values = room(bytes);
	CHECK(linnet_float_place(&network, values, network.value_count, below(100)) == 0);
	for (uint32_t o = 0; o < outputs; o++)
		values[layer->biases + o] = below(4) ? unit() : -0.0f;
	x = row_of(below(4) ? inputs : 0, ins);
	delta = row_of(outputs, outs);
	used = room(size * inputs);
	CHECK(linnet_float_used(x, inputs, used) <= inputs);
	for (uint32_t i = 0; i < inputs; i++)
		if (x[i] != 0)
			CHECK(used[n++] == i);
	CHECK(linnet_float_used(x, inputs, used) == n);

	/* A wide layer writes its padding, too. */
	wrote = layer->wide ? outs : outputs;
	sums = room(size * wrote);
	expected = row_of(0, outs);
	loops->forward(layer, values, x, used, layer->wide ? n : 0, sums);
	forward(layer, values, x, expected);
	CHECK(memcmp(sums, expected, size * wrote) == 0);
	/* No activation hides a NaN. */
	values[layer->biases] = NAN;
	loops->forward(layer, values, x, used, layer->wide ? n : 0, sums);
	CHECK(isnan(sums[0]) && memcmp(sums + 1, expected + 1, size * (wrote - 1)) == 0);
	values[layer->biases] = 0;
	leave(sums, size * wrote);
	leave(expected, size * outs);

	gradients = room(bytes);
	model = room(bytes);
	for (size_t j = 0; j < network.value_count; j++)
		gradients[j] = model[j] = values[j] + 2;
	/* A narrow layer writes the padding of its inputs. */
	wrote = layer->wide ? inputs : ins;
	back = room(size * wrote);
	expected = row_of(0, ins);
	backward(layer, values, model, x, delta, expected);
	loops->backward(layer, values, gradients, x, used, layer->wide ? n : 0, delta, back);
	CHECK(memcmp(gradients, model, bytes) == 0 && memcmp(back, expected, size * wrote) == 0);
	backward(layer, values, model, x, delta, expected);
	loops->backward(layer, values, gradients, x, used, layer->wide ? n : 0, delta, NULL);
	CHECK(memcmp(gradients, model, bytes) == 0);
	leave(back, size * wrote);
	leave(expected, size * ins);
	leave(gradients, bytes);
	leave(model, bytes);
	leave(values, bytes);
	leave(x, size * ins);
	leave(delta, size * outs);
	leave(used, size * inputs);
}

static void check_steps(const struct linnet_float_loops *loops, uint32_t count)
{
	size_t size = sizeof(float) * count;
	float *values = row_of(count, count), *gradients = row_of(count, count), *m = row_of(count, count);
	float *v = row_of(count, count), x[70], x2[70], g[70], m2[70], v2[70];
	float rate = 0.01f + fabsf(unit()), beta1 = fabsf(unit()), beta2 = fabsf(unit()), epsilon = 1e-3f;

	for (uint32_t i = 0; i < count; i++) {
		v[i] = fabsf(v[i]);
		g[i] = gradients[i];
		m2[i] = beta1 * m[i] + (1 - beta1) * g[i];
		v2[i] = beta2 * v[i] + (1 - beta2) * (g[i] * g[i]);
		x[i] = values[i] - rate * m2[i] / (sqrtf(v2[i]) + epsilon);
		x2[i] = x[i] + (beta1 * m2[i] - rate * g[i]);
	}
	loops->adam(values, gradients, m, v, count, rate, beta1, beta2, epsilon);
	CHECK(memcmp(values, x, size) == 0 && memcmp(m, m2, size) == 0 && memcmp(v, v2, size) == 0);
	for (uint32_t i = 0; i < count; i++) {
		CHECK(gradients[i] == 0);
		gradients[i] = g[i];
	}
	loops->sgd(values, gradients, m, count, rate, beta1);
	CHECK(memcmp(values, x2, size) == 0);
	for (uint32_t i = 0; i < count; i++)
		CHECK(gradients[i] == 0 && m[i] == beta1 * m2[i] - rate * g[i]);
	leave(values, size);
	leave(gradients, size);
	leave(m, size);
	leave(v, size);
}

void check_loops(void)
{
	static const uint32_t large[] = { 127, 128, 129, 143, 144, 145, 256, 257, 300 };
	const struct linnet_float_loops *sets[3];
	uint32_t count = loops_here(sets);

	for (uint32_t set = 0; set < count; set++) {
		for (uint32_t outputs = 1; outputs <= 49; outputs++)
			check_layer(sets[set], 1 + below(40), outputs, outputs % 3);
		for (uint32_t inputs = 1; inputs <= 33; inputs++)
			check_layer(sets[set], inputs, 1 + below(20), inputs % 3);
		for (uint32_t n = 0; n < 9; n++)
			check_layer(sets[set], 1 + below(20), large[n], n % 3);
		for (uint32_t values = 1; values <= 70; values++)
			check_steps(sets[set], values);
	}
}
