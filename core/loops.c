/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Hot loops of training; float.h states their guarantees. The compiler lowers sixteen floats to the vectors that it
 * has, and a flag forbids it to fuse multiplications with additions, so every build rounds alike.
 */
#include "float.h"

#ifndef LINNET_LOOPS
#define LINNET_LOOPS linnet_loops_portable
#endif

typedef float lanes __attribute__((vector_size(4 * LINNET_LANES), may_alias));
typedef int32_t mask __attribute__((vector_size(4 * LINNET_LANES)));

#define BLOCK 8 /* vectors of one row that are processed together */

#define INLINE static inline __attribute__((always_inline))

INLINE lanes spread(float x)
{
	return (lanes){ x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x };
}

/* A NaN stays one, so that the loss shows it. */
INLINE lanes relu(lanes x)
{
	return (lanes)((mask)x & ~(x <= 0));
}

/* Adds lanes in pairs that are 8, 4, 2, 1 apart. */
INLINE float across(lanes x)
{
	float a[LINNET_LANES];

	for (uint32_t l = 0; l < LINNET_LANES; l++)
		a[l] = x[l];
	for (uint32_t apart = LINNET_LANES / 2; apart > 0; apart /= 2)
		for (uint32_t l = 0; l < apart; l++)
			a[l] += a[l + apart];
	return a[0];
}

INLINE void forward_block(const float *weights, uint32_t stride, const float *biases, const float *inputs,
			  const uint32_t *used, uint32_t n, int cut, uint32_t vectors, float *sums)
{
	lanes sum[BLOCK];

	for (uint32_t v = 0; v < vectors; v++)
		sum[v] = ((const lanes *)biases)[v];
	for (uint32_t u = 0; u < n; u++) {
		const lanes *row = (const lanes *)(weights + (size_t)used[u] * stride);
		lanes x = spread(inputs[used[u]]);

		for (uint32_t v = 0; v < vectors; v++)
			sum[v] += x * row[v];
	}
	for (uint32_t v = 0; v < vectors; v++)
		((lanes *)sums)[v] = cut ? relu(sum[v]) : sum[v];
}

static void forward(const struct linnet_float_layer *layer, const float *values, const float *inputs,
		    const uint32_t *used, uint32_t n, float *sums)
{
	const float *weights = values + layer->weights, *biases = values + layer->biases;
	uint32_t at = 0;
	int cut = layer->activation == LINNET_RELU;

	if (layer->wide) {
		for (; at + BLOCK * LINNET_LANES <= layer->stride; at += BLOCK * LINNET_LANES)
			forward_block(weights + at, layer->stride, biases + at, inputs, used, n, cut, BLOCK,
				      sums + at);
		for (; at < layer->stride; at += LINNET_LANES)
			forward_block(weights + at, layer->stride, biases + at, inputs, used, n, cut, 1, sums + at);
		return;
	}
	for (uint32_t o = 0; o < layer->outputs; o++, weights += layer->stride) {
		lanes sum = spread(0);
		float x;

		for (uint32_t i = 0; i < layer->stride / LINNET_LANES; i++)
			sum += ((const lanes *)inputs)[i] * ((const lanes *)weights)[i];
		x = biases[o] + across(sum);
		sums[o] = cut && x <= 0 ? 0 : x;
	}
}

INLINE void gradient_block(float *gradients, uint32_t stride, const float *inputs, const uint32_t *used, uint32_t n,
			   const float *delta, uint32_t vectors)
{
	lanes d[BLOCK];

	for (uint32_t v = 0; v < vectors; v++)
		d[v] = ((const lanes *)delta)[v];
	for (uint32_t u = 0; u < n; u++) {
		lanes *row = (lanes *)(gradients + (size_t)used[u] * stride);
		lanes x = spread(inputs[used[u]]);

		for (uint32_t v = 0; v < vectors; v++)
			row[v] += x * d[v];
	}
}

static void backward_wide(const struct linnet_float_layer *layer, const float *values, float *gradients,
			  const float *inputs, const uint32_t *used, uint32_t n, const float *delta, float *back)
{
	const float *weights = values + layer->weights;
	lanes *biases = (lanes *)(gradients + layer->biases);
	uint32_t stride = layer->stride, at = 0;

	gradients += layer->weights;
	for (; at + BLOCK * LINNET_LANES <= stride; at += BLOCK * LINNET_LANES)
		gradient_block(gradients + at, stride, inputs, used, n, delta + at, BLOCK);
	for (; at < stride; at += LINNET_LANES)
		gradient_block(gradients + at, stride, inputs, used, n, delta + at, 1);
	for (uint32_t v = 0; v < stride / LINNET_LANES; v++)
		biases[v] += ((const lanes *)delta)[v];
	if (!back)
		return;
	for (uint32_t i = 0; i < layer->inputs; i++, weights += stride) {
		lanes sum = spread(0);

		for (uint32_t v = 0; v < stride / LINNET_LANES; v++)
			sum += ((const lanes *)weights)[v] * ((const lanes *)delta)[v];
		back[i] = across(sum);
	}
}

static void backward(const struct linnet_float_layer *layer, const float *values, float *gradients,
		     const float *inputs, const uint32_t *used, uint32_t n, const float *delta, float *back)
{
	const float *weights = values + layer->weights;
	float *biases = gradients + layer->biases;

	if (layer->wide) {
		backward_wide(layer, values, gradients, inputs, used, n, delta, back);
		return;
	}
	gradients += layer->weights;
	for (uint32_t v = 0; back && v < layer->stride / LINNET_LANES; v++)
		((lanes *)back)[v] = spread(0);
	for (uint32_t o = 0; o < layer->outputs; o++) {
		lanes d = spread(delta[o]);

		if (delta[o] != 0) {
			for (uint32_t v = 0; v < layer->stride / LINNET_LANES; v++)
				((lanes *)gradients)[v] += d * ((const lanes *)inputs)[v];
			for (uint32_t v = 0; back && v < layer->stride / LINNET_LANES; v++)
				((lanes *)back)[v] += d * ((const lanes *)weights)[v];
			biases[o] += delta[o];
		}
		gradients += layer->stride;
		weights += layer->stride;
	}
}

/* Elementwise, so every vector width rounds alike. A correctly rounded square root is one instruction. */
static void adam(float *restrict values, float *restrict gradients, float *restrict moments1,
		 float *restrict moments2, size_t count, float rate, float beta1, float beta2, float epsilon)
{
	for (size_t i = 0; i < count; i++) {
		float g = gradients[i];
		float m = beta1 * moments1[i] + (1 - beta1) * g;
		float v = beta2 * moments2[i] + (1 - beta2) * (g * g);

		moments1[i] = m;
		moments2[i] = v;
		values[i] -= rate * m / (__builtin_sqrtf(v) + epsilon);
		gradients[i] = 0;
	}
}

static void sgd(float *restrict values, float *restrict gradients, float *restrict moments, size_t count, float rate,
		float momentum)
{
	for (size_t i = 0; i < count; i++) {
		float v = momentum * moments[i] - rate * gradients[i];

		moments[i] = v;
		values[i] += v;
		gradients[i] = 0;
	}
}

const struct linnet_float_loops LINNET_LOOPS = { forward, backward, adam, sgd };
