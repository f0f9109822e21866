// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Losses and the functions that they use, against the mathematical library and the definitions in doubles; and when the loss
 * of an epoch is not finite.
 */
#include "training.h"

#define OUTPUTS_MAX 5

static int close_to(double found, double truth, double error)
{
	return fabs(found - truth) <= error * fabs(truth);
}

static void functions(void)
{
	double x = nextafter(-708, 0), most = linnet_exp(709);

	CHECK(linnet_exp(-708) == 0 && linnet_exp(-708.3) == 0 && linnet_exp(-INFINITY) == 0);
	CHECK(close_to(linnet_exp(x), exp(x), 1e-15) && close_to(most, exp(709), 1e-15));
	CHECK(linnet_exp(nextafter(709, 710)) == most && linnet_exp(710) == most && linnet_exp(INFINITY) == most);
	CHECK(linnet_exp(0) == 1 && linnet_log(1) == 0);
	for (int i = 0; i < 4000; i++) {
		/* Over all of the range; around 0; around where the power of two changes. */
		double wide = 708 * (double)unit(), near = (double)unit() * 0x1p-10, at = (below(200) - 99.5) * log(2);
		double m = 1 + (unit() + 1) / 2, power = ldexp(m, (int)below(2045) - 1022);

		CHECK(close_to(linnet_exp(wide), exp(wide), 1e-15) && close_to(linnet_exp(near), exp(near), 1e-15));
		CHECK(close_to(linnet_exp(at + near), exp(at + near), 1e-15));
		CHECK(close_to(linnet_log(m), log(m), 1e-15) && close_to(linnet_log(power), log(power), 1e-15));
		CHECK(close_to(linnet_log(1 + near), log(1 + near), 1e-15));
		CHECK(close_to(linnet_log(sqrt(2) + near), log(sqrt(2) + near), 1e-15));
		CHECK(close_to(linnet_sigmoid((float)wide), (float)(1 / (1 + exp(-(double)(float)wide))), 1.2e-7));
		CHECK(close_to(linnet_sigmoid((float)near), (float)(1 / (1 + exp(-(double)(float)near))), 1.2e-7));
	}
	CHECK(linnet_sigmoid(0) == 0.5f && linnet_sigmoid(-0.0f) == 0.5f);
	CHECK(linnet_sigmoid(INFINITY) == 1 && linnet_sigmoid(-INFINITY) == 0 && linnet_sigmoid(-800) == 0);
	/* Right below the middle of two floats. */
	CHECK(linnet_sigmoid(0x1.34p-17f) == 0x1.00004cp-1f);
	CHECK(isnan(linnet_exp(NAN)) && isnan(linnet_sigmoid(NAN)));
}

/* The loss of one row and its slopes by the sums of the last layer, as train.h names them. */
static double loss_of(uint32_t loss, uint32_t activation, uint32_t n, const float *z, const float *y, double *slopes)
{
	double own = 0, other = 0, sum = 0, total = 0, top = z[0];
	uint32_t at = 0;

	for (uint32_t o = 0; o < n; o++) {
		double rival = (1 - y[o]) * z[o];

		own += y[o] * z[o];
		total += y[o];
		top = fmax(top, z[o]);
		/* Of equal ones the first. */
		if (o == 0 || rival > other) {
			other = rival;
			at = o;
		}
	}
	for (uint32_t o = 0; o < n; o++)
		sum += exp(z[o] - top);
	if (loss == LINNET_HINGE) {
		for (uint32_t o = 0; o < n; o++)
			slopes[o] = 1 + other > own ? (o == at ? 1 - y[o] : 0) - y[o] : 0;
		return fmax(0, 1 + other - own);
	}
	if (loss == LINNET_SOFTMAX) {
		for (uint32_t o = 0; o < n; o++)
			slopes[o] = total * exp(z[o] - top) / sum - y[o];
		return total * (log(sum) + top) - own;
	}
	sum = 0;
	for (uint32_t o = 0; o < n; o++) {
		double p = activation == LINNET_SIGMOID ? 1 / (1 + exp(-z[o])) : z[o], slope = 1;

		if (activation == LINNET_SIGMOID)
			slope = p * (1 - p);
		if (activation == LINNET_RELU)
			slope = p > 0;
		if (loss == LINNET_BINARY) {
			sum += fmax(z[o], 0) - (double)z[o] * y[o] + log1p(exp(-fabs(z[o])));
			slopes[o] = (p - y[o]) / n;
		} else {
			sum += (p - y[o]) * (p - y[o]);
			slopes[o] = 2 * (p - y[o]) * slope / n;
		}
	}
	return sum / n;
}

/* A draw of sums, which are often equal or 0, and of targets. */
static void draw_row(uint32_t loss, uint32_t n, float *z, float *y)
{
	uint32_t scale = below(8), kind = below(3), class = below(n);

	for (uint32_t o = 0; o < n; o++) {
		z[o] = ((float)below(17) - 8) * (scale == 0 ? 256 : scale == 1 ? 0.5f : 0.25f);
		y[o] = kind == 0 ? (float)below(5) / 4 : kind == 1 ? (float)below(2) : (float)(o == class);
	}
	if (loss == LINNET_HINGE && kind == 0)
		y[0] = 1;
}

static uint64_t check_loss(uint32_t loss, uint32_t activation, uint32_t n, uint64_t hash)
{
	/* Only two classes may have a weight: that of a slow row whose outputs say fast. */
	int classes = n == 2 || (n == 1 && loss == LINNET_BINARY), missed;
	struct linnet_train_options options = { .loss = loss, .false_submit_weight = classes ? (float)below(4) : 1 };
	float z[OUTPUTS_MAX], y[OUTPUTS_MAX], share = 0.125f * (float)(1 + below(8)), found;
	double slopes[OUTPUTS_MAX], expected, weight;
	size_t bytes = sizeof(float) * n;
	float *delta = room(bytes);

	draw_row(loss, n, z, y);
	for (uint32_t o = 0; activation == LINNET_RELU && o < n; o++)
		z[o] = fmaxf(z[o], 0);
	missed = n == 1 ? y[0] > 0.5f && z[0] <= 0 : y[1] > y[0] && z[1] <= z[0];
	weight = missed ? options.false_submit_weight : 1;
	expected = weight * loss_of(loss, activation, n, z, y, slopes);
	found = linnet_loss(&options, activation, n, z, y, share, delta);
	CHECK(fabs(found - expected) <= 1e-6 * (1 + fabs(expected)));
	for (uint32_t o = 0; o < n; o++)
		CHECK(fabs(delta[o] - share * weight * slopes[o]) <= 1e-6 * (1 + fabs(share * weight * slopes[o])));
	hash = hash_of(&found, sizeof(found), hash_of(delta, bytes, hash));
	/* A training that diverges is told of. */
	z[below(n)] = NAN;
	found = linnet_loss(&options, activation, n, z, y, share, delta);
	CHECK(isnan(found));
	leave(delta, bytes);
	return hash;
}

/* The loss is finite if the row's loss, the network and the moments are: each of them by itself, and none. */
static void divergences(void)
{
	static const struct {
		uint32_t loss, optimiser;
		float rate, input, target, weight;
		int diverges;
	} runs[] = {
		{ LINNET_SQUARE, LINNET_ADAM, 1, 1, 1e15f, 1, 0 },  { LINNET_SQUARE, LINNET_ADAM, 1, 1, 1e20f, 1, 1 },
		{ LINNET_HINGE, LINNET_ADAM, 1, 1e18f, 1, 1, 0 },   { LINNET_HINGE, LINNET_ADAM, 1, 1e25f, 1, 1, 1 },
		{ LINNET_HINGE, LINNET_ADAM, 1, 1, 1, 1e18f, 0 },   { LINNET_HINGE, LINNET_ADAM, 1, 1, 1, 1e25f, 1 },
		{ LINNET_HINGE, LINNET_SGD, 1e38f, 1, 1, 1, 0 },    { LINNET_HINGE, LINNET_SGD, 1e38f, 10, 1, 1, 1 },
		{ LINNET_SQUARE, LINNET_SGD, 0, 1, 1e20f, 1, 1 },
	};
	const struct linnet_float_shape shape = { 2, LINNET_LINEAR };
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	float *values = room(sizeof(float) * 64);

	for (uint32_t n = 0; n < sizeof(runs) / sizeof(runs[0]); n++) {
		const struct linnet_train_options options = {
			.loss = runs[n].loss, .optimiser = runs[n].optimiser, .batch = 1, .learning_rate = runs[n].rate,
			.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-7f, .false_submit_weight = runs[n].weight,
		};
		const float inputs[] = { runs[n].input, 0 }, targets[] = { 0, runs[n].target };
		struct linnet_rows rows = { .count = 1, .values = inputs, .targets = targets };
		double loss = 0;
		size_t size;
		void *memory;

		CHECK(linnet_float_plan(&network, 2, &shape, 1) == 0);
		CHECK(linnet_float_place(&network, values, network.value_count, 1) == 0);
		memset(values, 0, sizeof(float) * network.value_count);
		size = linnet_trainer_size(&network, 1);
		memory = room(size);
		CHECK(linnet_trainer_init(&trainer, &network, &options, 1, memory, size) == 0);
		CHECK(linnet_trainer_epoch(&trainer, &rows, &loss) == 0);
		CHECK(runs[n].diverges ? !isfinite(loss) : isfinite(loss));
		leave(memory, size);
	}
	leave(values, sizeof(float) * 64);
}

void check_losses(void)
{
	uint64_t hash = HASH_START;

	functions();
	divergences();
	for (uint32_t draw = 0; draw < 600; draw++) {
		for (uint32_t loss = LINNET_HINGE; loss <= LINNET_SOFTMAX; loss++)
			hash = check_loss(loss, LINNET_LINEAR, 2 + below(OUTPUTS_MAX - 1), hash);
		hash = check_loss(LINNET_BINARY, LINNET_SIGMOID, 1 + below(OUTPUTS_MAX), hash);
		for (uint32_t activation = LINNET_LINEAR; activation <= LINNET_SIGMOID; activation++)
			hash = check_loss(LINNET_SQUARE, activation, 1 + below(OUTPUTS_MAX), hash);
	}
	printf("losses: %016llx\n", (unsigned long long)hash);
}
