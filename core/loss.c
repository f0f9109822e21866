/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Losses of one row, and the functions that they use. */
#include "float.h"

#define LN2_HIGH 0.693145751953125 /* exact products with small integers */
#define LN2_LOW 1.42860682030941723212e-6
#define LOG2_E 1.44269504088896340736

union bits {
	double value;
	uint64_t bits;
};

double linnet_exp(double x)
{
	/* e^x = 2^n e^r with |r| at most ln(2)/2, for which fourteen terms are exact to the last bit. */
	union bits power;
	double r, sum = 1;
	int n;

	if (!(x > -708))
		return x == x ? 0 : x;
	if (x > 709)
		x = 709;
	n = (int)(x * LOG2_E + (x < 0 ? -0.5 : 0.5));
	r = x - n * LN2_HIGH - n * LN2_LOW;
	for (int k = 14; k > 0; k--)
		sum = 1 + sum * r / k;
	power.bits = (uint64_t)(n + 1023) << 52;
	return sum * power.value;
}

double linnet_log(double x)
{
	/* x = m 2^n with m around 1; log m = 2 artanh((m - 1) / (m + 1)). */
	union bits parts = { .value = x };
	int n = (int)(parts.bits >> 52 & 0x7ff) - 1023;
	double s, square, sum = 0;

	parts.bits = (parts.bits & 0xfffffffffffff) | (uint64_t)1023 << 52;
	if (parts.value > 1.41421356237309505) {
		parts.value *= 0.5;
		n++;
	}
	s = (parts.value - 1) / (parts.value + 1);
	square = s * s;
	for (int k = 23; k > 0; k -= 2)
		sum = sum * square + 1.0 / k;
	return 2 * s * sum + n * LN2_LOW + n * LN2_HIGH;
}

float linnet_sigmoid(float x)
{
	if (x < 0) {
		double e = linnet_exp(x);

		return (float)(e / (1 + e));
	}
	return (float)(1 / (1 + linnet_exp(-x)));
}

static uint32_t largest(const float *x, uint32_t count)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < count; i++)
		if (x[i] > x[at])
			at = i;
	return at;
}

/*
 * max(0, 1 + max((1 - y) p) - sum(y p)), as Keras defines it: the second term is at least 0, since the maximum includes
 * the true class as (1 - 1) p. There its gradient is 0.
 */
static double hinge(uint32_t outputs, const float *p, const float *y, float scale, float *delta)
{
	float own = 0, other = (1 - y[0]) * p[0], loss;
	uint32_t at = 0;

	for (uint32_t o = 0; o < outputs; o++) {
		float x = (1 - y[o]) * p[o];

		own += y[o] * p[o];
		if (x > other) {
			other = x;
			at = o;
		}
	}
	loss = 1 + other - own;
	if (!(loss > 0)) {
		for (uint32_t o = 0; o < outputs; o++)
			delta[o] = 0;
		return loss == loss ? 0 : loss;
	}
	for (uint32_t o = 0; o < outputs; o++)
		delta[o] = -scale * y[o];
	delta[at] += scale * (1 - y[at]);
	return loss;
}

static double softmax(uint32_t outputs, const float *z, const float *y, float scale, float *delta)
{
	double top = z[largest(z, outputs)], sum = 0, own = 0, weight = 0;

	for (uint32_t o = 0; o < outputs; o++) {
		sum += linnet_exp(z[o] - top);
		own += y[o] * (z[o] - top);
		weight += y[o];
	}
	for (uint32_t o = 0; o < outputs; o++)
		delta[o] = (float)(scale * (weight * linnet_exp(z[o] - top) / sum - y[o]));
	return weight * linnet_log(sum) - own;
}

static double binary(uint32_t outputs, const float *z, const float *y, float scale, float *delta)
{
	double sum = 0;

	for (uint32_t o = 0; o < outputs; o++) {
		double x = z[o], size = x < 0 ? -x : x;

		sum += (x > 0 ? x : 0) - x * y[o] + linnet_log(1 + linnet_exp(-size));
		delta[o] = scale * (linnet_sigmoid(z[o]) - y[o]) / (float)outputs;
	}
	return sum / outputs;
}

static double square(uint32_t outputs, uint32_t activation, const float *z, const float *y, float scale, float *delta)
{
	double sum = 0;

	for (uint32_t o = 0; o < outputs; o++) {
		float p = activation == LINNET_SIGMOID ? linnet_sigmoid(z[o]) : z[o];
		float gap = p - y[o], slope = 1;

		if (activation == LINNET_SIGMOID)
			slope = p * (1 - p);
		if (activation == LINNET_RELU && !(p > 0))
			slope = 0;
		sum += (double)gap * gap;
		delta[o] = scale * 2 * gap * slope / (float)outputs;
	}
	return sum / outputs;
}

/* The row is slow and the outputs say fast. Class 0 is fast; a tie is fast. */
static int false_submit(uint32_t outputs, const float *sums, const float *target)
{
	if (outputs == 1)
		return target[0] > 0.5f && !(sums[0] > 0);
	return target[1] > target[0] && !(sums[1] > sums[0]);
}

float linnet_loss(const struct linnet_train_options *options, uint32_t activation, uint32_t outputs,
		  const float *sums, const float *target, float share, float *delta)
{
	float weight = 1, scale;
	double loss;

	if (options->false_submit_weight != 1 && false_submit(outputs, sums, target))
		weight = options->false_submit_weight;
	scale = weight * share;
	switch (options->loss) {
	case LINNET_HINGE:
		loss = hinge(outputs, sums, target, scale, delta);
		break;
	case LINNET_SOFTMAX:
		loss = softmax(outputs, sums, target, scale, delta);
		break;
	case LINNET_BINARY:
		loss = binary(outputs, sums, target, scale, delta);
		break;
	default:
		loss = square(outputs, activation, sums, target, scale, delta);
	}
	return (float)(weight * loss);
}
