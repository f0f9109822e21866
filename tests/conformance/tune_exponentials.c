// SPDX-License-Identifier: MIT OR Apache-2.0
/* Sigmoid and softmax, over the range of the exponential and beyond its ends; see tune.c. */
#include "tune.h"

#include "small.h"

static float sigmoid(float x)
{
	const struct linnet_float_shape shape[] = { { 1, LINNET_SIGMOID } };
	struct linnet_small network;
	float values[2] = { 1, 0 }, scratch[2], found;

	CHECK(linnet_small_plan(&network, 1, shape, 1) == 0);
	linnet_small_place(&network, values, NULL);
	linnet_small_forward(&network, &x, scratch, &found);
	return found;
}

/* The share of x beside 0. */
static float softmax(float x)
{
	float both[2] = { x, 0 };

	linnet_small_softmax(both, 2);
	return both[0];
}

/* e^x is computed for -80..80, and is that of the end outside. */
void check_exponentials(void)
{
	for (int i = -1000; i <= 1000; i++) {
		float x = (float)i / 11;
		double end = x < -80 ? -80 : x > 80 ? 80 : x, exact = 1 / (1 + exp(-end));

		CHECK(fabs(sigmoid(x) - exact) <= 3e-7 * exact);
		CHECK(fabs(softmax(x) - exact) <= 3e-7 * exact);
	}
	CHECK(sigmoid(-INFINITY) == sigmoid(-80) && sigmoid(INFINITY) == 1 && isnan(sigmoid(NAN)));
}
