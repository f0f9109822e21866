// SPDX-License-Identifier: MIT OR Apache-2.0
/* The ends of every range that the library of knobs states: accepted there, refused one step further; see tune.c. */
#include "tune.h"

/* The draws of splitmix64 as its authors give it, and the share from which on each is kept. */
static void samplers(void)
{
	struct linnet_sampler sampler;
	uint64_t state = 11;

	memset(&sampler, DIRT, sizeof(sampler));
	CHECK(linnet_sampler_init(&sampler, LINNET_SAMPLE_ALL, 7) == 0);
	CHECK(sampler.seen == 0 && sampler.kept == 0 && sampler.seed == 7);
	CHECK(linnet_sampler_init(&sampler, 0, state) == 0);
	for (int i = 0; i < 40000; i++) {
		uint64_t z = state += 0x9e3779b97f4a7c15;
		uint32_t drawn;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
		z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
		drawn = (uint32_t)(((z ^ (z >> 31)) >> 32) * 1000000 >> 32);
		sampler.share_ppm = drawn;
		CHECK(!linnet_sampler_keep(&sampler) && sampler.kept == (uint64_t)i);
		sampler.seen--;
		sampler.share_ppm = drawn + 1;
		CHECK(linnet_sampler_keep(&sampler));
	}
}

static void rings(void)
{
	uint64_t words[64] = { 0 }, record[64], taken[64];
	struct linnet_ring ring;

	for (uint64_t i = 0; i < 64; i++)
		record[i] = i * i + 1;
	/* The words are counted first: no memory of this size is touched. */
	CHECK(linnet_ring_init(&ring, 1u << 24, 64, words, (size_t)64 << 24) == 0);
	CHECK(linnet_ring_init(&ring, 1u << 24, 64, words, ((size_t)64 << 24) - 1) == LINNET_E_MEMORY);
	CHECK(linnet_ring_init(&ring, 1u << 25, 1, words, SIZE_MAX) == LINNET_E_SHAPE);
	CHECK(linnet_ring_init(&ring, 0, 1, words, SIZE_MAX) == LINNET_E_SHAPE);
	CHECK(linnet_ring_init(&ring, 1, 65, words, SIZE_MAX) == LINNET_E_SHAPE);
	for (uint32_t size = 1; size <= 64; size += 63) {
		memset(&ring, DIRT, sizeof(ring));
		CHECK(linnet_ring_init(&ring, 1, size, words, size) == 0);
		for (int lap = 0; lap < 3; lap++) {
			CHECK(linnet_ring_waiting(&ring) == 0 && linnet_ring_lost(&ring) == (uint64_t)lap);
			CHECK(linnet_ring_put(&ring, record) && !linnet_ring_put(&ring, record));
			CHECK(linnet_ring_waiting(&ring) == 1);
			memset(taken, DIRT, sizeof(taken));
			CHECK(linnet_ring_take(&ring, taken) && !linnet_ring_take(&ring, taken));
			CHECK(memcmp(taken, record, size * sizeof(*record)) == 0);
			CHECK(size == 64 || taken[1] == 0x5a5a5a5a5a5a5a5a);
		}
	}
}

/* Of a number well above a mean with this deviation. */
static float z_score(double mean, double deviation)
{
	struct linnet_moments moments = { .mean = mean, .variance = deviation * deviation };
	struct linnet_normaliser normaliser = { .rows = 9, .inputs = 1, .moments = &moments };
	const float x = (float)mean + 1;
	float z;

	linnet_normaliser_apply(&normaliser, &x, &z);
	return z;
}

static void normalisers(void)
{
	struct linnet_moments moments[LINNET_KNOB_INPUTS_MAX + 1];
	struct linnet_normaliser normaliser;

	CHECK(linnet_normaliser_init(&normaliser, 0, 0, moments) == LINNET_E_SHAPE);
	CHECK(linnet_normaliser_init(&normaliser, LINNET_KNOB_INPUTS_MAX + 1, 0, moments) == LINNET_E_SHAPE);
	for (uint32_t inputs = 1; inputs <= LINNET_KNOB_INPUTS_MAX; inputs += LINNET_KNOB_INPUTS_MAX - 1) {
		uint64_t beyond;

		memset(&normaliser, DIRT, sizeof(normaliser));
		memset(moments, DIRT, sizeof(moments));
		CHECK(linnet_normaliser_init(&normaliser, inputs, 9, moments) == 0);
		CHECK(normaliser.rows == 0 && normaliser.refused == 0 && normaliser.memory == 9);
		for (uint32_t i = 0; i < inputs; i++)
			CHECK(moments[i].mean == 0 && moments[i].variance == 0);
		memcpy(&beyond, &moments[inputs], 8);
		CHECK(beyond == 0x5a5a5a5a5a5a5a5a);
	}
	/* A number that is not finite, in each place. */
	for (uint32_t i = 0; i < 3 * 3; i++) {
		const float wrong[3] = { NAN, INFINITY, -INFINITY };
		float row[3] = { 1, 2, 3 };

		CHECK(linnet_normaliser_init(&normaliser, 3, 0, moments) == 0);
		row[i % 3] = wrong[i / 3];
		CHECK(linnet_normaliser_learn(&normaliser, row) == LINNET_E_INPUT);
		CHECK(normaliser.rows == 0 && normaliser.refused == 1 && moments[0].mean == 0);
	}
	/* From the largest moments of a file on, the largest floats are learned, and all stays finite. */
	for (uint32_t memory = 1; memory <= 100; memory += 33) {
		CHECK(linnet_normaliser_init(&normaliser, 1, memory, moments) == 0);
		moments[0] = (struct linnet_moments){ -0x1.fffffffffffffp127, 0x1.fffffffffffffp255 };
		normaliser.rows = memory;
		for (int r = 0; r < 1000; r++) {
			const float x = r % 2 ? -0x1.fffffep127f : 0x1.fffffep127f;

			CHECK(linnet_normaliser_learn(&normaliser, &x) == 0);
			CHECK(moments[0].mean > -0x1p128 && moments[0].mean < 0x1p128);
			CHECK(moments[0].variance >= 0 && moments[0].variance < 0x1p258);
		}
	}
	/* A deviation of a billionth of the mean or less is none. */
	CHECK(z_score(1, 0.9e-9) == 0 && z_score(-1, 0.9e-9) == 0);
	CHECK(z_score(1, 1.1e-9) == LINNET_Z_MAX && z_score(-1, 1.1e-9) == LINNET_Z_MAX);
}

static int plan_of(struct linnet_small *network, uint32_t inputs, uint32_t layers, uint32_t outputs, uint32_t hidden)
{
	struct linnet_float_shape shape[LINNET_LAYERS_MAX + 1];

	for (uint32_t k = 0; k <= LINNET_LAYERS_MAX; k++)
		shape[k] = (struct linnet_float_shape){ outputs, k + 1 < layers ? hidden : LINNET_SOFTMAX_OUTPUT };
	memset(network, DIRT, sizeof(*network));
	return linnet_small_plan(network, inputs, shape, layers);
}

/* Each layer and nothing else is set and read back. */
static void layers_of(struct linnet_small *network)
{
	uint32_t n = network->outputs, m = network->inputs, count = network->value_count;
	float *values = room(count * sizeof(float)), *momentum = room(count * sizeof(float));
	float weights[3 * 3], biases[3], found[3 * 3], other[3];

	CHECK(n == 3 && m == 3 && count == 12 * network->layer_count);
	memset(momentum, DIRT, count * sizeof(float));
	linnet_small_place(network, values, momentum);
	linnet_small_start(network, 5);
	for (uint32_t i = 0; i < count; i++)
		CHECK(momentum[i] == 0);
	memset(momentum, DIRT, count * sizeof(float));
	linnet_small_place(network, values, momentum);
	for (uint32_t i = 0; i < count; i++)
		CHECK(momentum[i] == 0);
	for (uint32_t k = 0; k < network->layer_count; k++) {
		for (uint32_t i = 0; i < 9; i++)
			weights[i] = (float)(100 * k + i + 1);
		for (uint32_t o = 0; o < 3; o++)
			biases[o] = (float)(100 * k + 50 + o);
		CHECK(linnet_small_set(network, k, weights, biases) == 0);
	}
	for (uint32_t k = 0; k < network->layer_count; k++) {
		CHECK(linnet_small_get(network, k, found, other) == 0);
		for (uint32_t i = 0; i < 9; i++)
			CHECK(found[i] == (float)(100 * k + i + 1));
		for (uint32_t o = 0; o < 3; o++)
			CHECK(other[o] == (float)(100 * k + 50 + o));
	}
	CHECK(linnet_small_get(network, network->layer_count, found, other) == LINNET_E_SHAPE);
	CHECK(linnet_small_set(network, network->layer_count, weights, biases) == LINNET_E_SHAPE);
	free(values);
	free(momentum);
}

static void networks(void)
{
	struct linnet_small network;

	CHECK(plan_of(&network, 0, 2, 4, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, LINNET_SMALL_SIZE_MAX + 1, 2, 4, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 0, 4, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, LINNET_LAYERS_MAX + 1, 4, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 2, 0, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 2, LINNET_SMALL_SIZE_MAX + 1, LINNET_RELU) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 2, 4, LINNET_SOFTMAX_OUTPUT + 1) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 2, 4, LINNET_SOFTMAX_OUTPUT) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 4, 3, 4, LINNET_SOFTMAX_OUTPUT) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 1, 1, LINNET_RELU) == 0 && network.value_count == 2 && network.train_floats == 3);
	CHECK(plan_of(&network, LINNET_SMALL_SIZE_MAX, LINNET_LAYERS_MAX, LINNET_SMALL_SIZE_MAX, LINNET_RELU) == 0);
	CHECK(network.value_count == 8 * 257 * 256 && network.forward_floats == 512 && network.train_floats == 10 * 256);
	CHECK(!network.values && !network.momentum);
	for (uint32_t layers = 1; layers <= LINNET_LAYERS_MAX; layers++) {
		CHECK(plan_of(&network, 3, layers, 3, LINNET_RELU) == 0);
		layers_of(&network);
	}
}

static int allows(uint32_t loss, uint32_t activation, uint32_t outputs, float rate, float momentum)
{
	const struct linnet_float_shape shape[] = { { outputs, activation } };
	const struct linnet_small_options options = { .loss = loss, .learning_rate = rate, .momentum = momentum };
	struct linnet_small network;
	float values[64], speed[64];

	CHECK(linnet_small_plan(&network, 3, shape, 1) == 0);
	linnet_small_place(&network, values, NULL);
	CHECK(linnet_small_check(&network, &options) < 0);
	linnet_small_place(&network, values, speed);
	return linnet_small_check(&network, &options);
}

static void options(void)
{
	struct linnet_small_options given;
	float below = 1 - 0x1p-24f;

	for (uint32_t activation = LINNET_LINEAR; activation <= LINNET_SOFTMAX_OUTPUT; activation++) {
		int soft = activation == LINNET_LINEAR || activation == LINNET_SOFTMAX_OUTPUT;

		CHECK(allows(LINNET_SOFTMAX, activation, 2, 0.1f, 0) == (soft ? 0 : LINNET_E_SHAPE));
		CHECK(allows(LINNET_SOFTMAX, activation, 1, 0.1f, 0) == LINNET_E_SHAPE);
		CHECK(allows(LINNET_BINARY, activation, 1, 0.1f, 0) == (activation == LINNET_SIGMOID ? 0 : LINNET_E_SHAPE));
		CHECK(allows(LINNET_SQUARE, activation, 1, 0.1f, 0) == 0);
		CHECK(allows(LINNET_HINGE, activation, 2, 0.1f, 0) == LINNET_E_SHAPE);
	}
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, 0, 0) == 0 && allows(LINNET_SQUARE, LINNET_RELU, 1, 1e6f, below) == 0);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, -1e-30f, 0) == LINNET_E_RANGE);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, 1.0001e6f, 0) == LINNET_E_RANGE);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, NAN, 0) == LINNET_E_RANGE);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, 0, -1e-30f) == LINNET_E_RANGE);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, 0, 1) == LINNET_E_RANGE);
	CHECK(allows(LINNET_SQUARE, LINNET_RELU, 1, 0, NAN) == LINNET_E_RANGE);
	linnet_small_options_of(&given, LINNET_BINARY, 250000, 500000);
	CHECK(given.loss == LINNET_BINARY && given.learning_rate == 0.25f && given.momentum == 0.5f);
}

/* The bias after one step from 0 along a gradient of 1, and whether the step was made at all. */
static float stepped(float rate, float input, int *refused)
{
	const struct linnet_float_shape shape[] = { { 1, LINNET_LINEAR } };
	const struct linnet_small_options options = { .loss = LINNET_SQUARE, .learning_rate = rate };
	const float target = -0.5f;
	struct linnet_small network;
	float values[2] = { 0 }, speed[2], scratch[3], loss;

	CHECK(linnet_small_plan(&network, 1, shape, 1) == 0);
	linnet_small_place(&network, values, speed);
	*refused = linnet_small_train(&network, &options, &input, &target, scratch, &loss) == LINNET_E_RANGE;
	return values[1];
}

/* Whether a row is learned whose inputs are 0 but for one. */
static int learns(uint32_t inputs, uint32_t at, float x)
{
	const struct linnet_float_shape shape[] = { { 1, LINNET_LINEAR } };
	const struct linnet_small_options options = { .loss = LINNET_SQUARE, .learning_rate = 1e-30f };
	const float target = -0.5f;
	struct linnet_small network;
	float values[10] = { 0 }, speed[10], scratch[3], loss, row[10] = { 0 };

	row[at] = x;
	row[inputs] = NAN; /* no input any more */
	CHECK(linnet_small_plan(&network, inputs, shape, 1) == 0);
	linnet_small_place(&network, values, speed);
	return linnet_small_train(&network, &options, row, &target, scratch, &loss) == 0;
}

/* A target after those of the outputs is no target. */
static void targets(void)
{
	const struct linnet_float_shape shape[] = { { 3, LINNET_LINEAR } };
	const struct linnet_small_options options = { .loss = LINNET_SOFTMAX, .learning_rate = 1 };
	const float target[4] = { 0, 1, 0, 1000 }, row[1] = { 0 };
	float values[6] = { 0 }, speed[6], scratch[9], loss;
	struct linnet_small network;

	CHECK(linnet_small_plan(&network, 1, shape, 1) == 0 && network.train_floats == 9);
	linnet_small_place(&network, values, speed);
	CHECK(linnet_small_train(&network, &options, row, target, scratch, &loss) == 0);
	CHECK(fabsf(values[3] + 1.0f / 3) < 1e-6f && fabsf(values[4] - 2.0f / 3) < 1e-6f && values[5] == values[3]);
}

static void steps(void)
{
	int refused;

	/* In each place of rows of every size around that of a vector. */
	for (uint32_t inputs = 1; inputs <= 9; inputs++) {
		for (uint32_t at = 0; at < inputs; at++) {
			CHECK(learns(inputs, at, 1e15f) && learns(inputs, at, -1e15f));
			CHECK(!learns(inputs, at, 1.000001e15f) && !learns(inputs, at, -1.000001e15f));
			CHECK(!learns(inputs, at, INFINITY) && !learns(inputs, at, NAN));
		}
	}

	CHECK(stepped(0.25f, 0, &refused) == -0.25f && !refused);
	/* Momentum below 1e-30 is 0. */
	CHECK(stepped(1e-30f, 0, &refused) == -1e-30f && stepped(0.99e-30f, 0, &refused) == 0);
	CHECK(stepped(1, 1e15f, &refused) == -1 && !refused);
	CHECK(stepped(1, 1.000001e15f, &refused) == 0 && refused);
	CHECK(stepped(1, -1.000001e15f, &refused) == 0 && refused);
}

/* The confidence in the only class of a network whose output is a ReLU of this number. */
static uint32_t confidence_of(float x)
{
	const struct linnet_float_shape shape[] = { { 1, LINNET_RELU } };
	struct linnet_small network;
	float values[2] = { 0, x }, scratch[2], row[1] = { 0 };
	uint32_t class, confidence_ppm;

	CHECK(linnet_small_plan(&network, 1, shape, 1) == 0);
	linnet_small_place(&network, values, NULL);
	CHECK(linnet_small_classify(&network, row, scratch, &class, &confidence_ppm) == 0 && class == 0);
	return confidence_ppm;
}

static void confidences(void)
{
	CHECK(confidence_of(-1) == 0 && confidence_of(0.25f) == 250000 && confidence_of(1) == 1000000);
	CHECK(confidence_of(1.5f) == 1000000 && confidence_of(1e30f) == 1000000);
}

/*
 * Finite numbers of which one hidden unit is infinity less infinity: no class. Layers of every size around that of a
 * vector, with each activation that a hidden layer may have; then the same unit in the last layer.
 */
static void overflows(void)
{
	const uint32_t hidden[] = { LINNET_LINEAR, LINNET_RELU, LINNET_SIGMOID };

	for (uint32_t n = 0; n < 9 * 9 * 3; n++) {
		uint32_t units = 1 + n % 9, at = n / 9 % 9 % units, activation = hidden[n / 81], class = 9, ppm = 9;
		const struct linnet_float_shape shape[] = { { units, activation }, { 3, LINNET_LINEAR } };
		float values[128] = { 0 }, scratch[32], row[2] = { 16, 16 };
		struct linnet_small network;

		CHECK(linnet_small_plan(&network, 2, shape, 2) == 0 && network.value_count <= 128);
		linnet_small_place(&network, values, NULL);
		CHECK(linnet_small_classify(&network, row, scratch, &class, &ppm) == 0 && class == 0);
		values[at] = 3e38f;
		values[units + at] = -3e38f;
		values[3 * units] = 1;
		class = ppm = 9;
		CHECK(linnet_small_classify(&network, row, scratch, &class, &ppm) == LINNET_E_RANGE);
		CHECK(class == 9 && ppm == 9);
		CHECK(linnet_small_plan(&network, 2, shape, 1) == 0);
		linnet_small_place(&network, values, NULL);
		CHECK(linnet_small_classify(&network, row, scratch, &class, &ppm) == LINNET_E_RANGE && class == 9);
	}
}

void check_limits(void)
{
	samplers();
	rings();
	normalisers();
	networks();
	options();
	steps();
	targets();
	confidences();
	overflows();
}
