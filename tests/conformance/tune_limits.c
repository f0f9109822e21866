// SPDX-License-Identifier: MIT OR Apache-2.0
/* The ends of every range that the library of knobs states: accepted there, refused one step further; see tune.c. */
#include "tune.h"

/* Every sort of memory that is given is filled with this before a function has to set it up. */
#define DIRT 0x5a

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

/* A pre-order tree of `left` splits whose right children are leaves. */
static uint32_t leaning(struct linnet_tree_node *nodes, uint32_t left)
{
	for (uint32_t i = 0; i < left; i++)
		nodes[i] = (struct linnet_tree_node){ i, 0, (uint16_t)(2 * left - i) };
	for (uint32_t i = left; i <= 2 * left; i++)
		nodes[i] = (struct linnet_tree_node){ 0, LINNET_TREE_LEAF, 0 };
	return 2 * left + 1;
}

static void trees(void)
{
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX + 2];
	static struct {
		struct linnet_fast_tree fast;
		uint16_t after[2];
	} table;
	const float row[LINNET_KNOB_INPUTS_MAX] = { 0 };
	uint32_t at = 9, count = leaning(nodes, LINNET_TREE_DEPTH_MAX);

	CHECK(linnet_tree_check(nodes, count, 1, 1, &at) == 0 && at == count - 1);
	count = leaning(nodes, LINNET_TREE_DEPTH_MAX + 1);
	CHECK(linnet_tree_check(nodes, count, 1, 1, &at) == LINNET_E_SHAPE && at == LINNET_TREE_DEPTH_MAX);
	/* A split at every second node, and its left child a leaf: no depth at all, and as many nodes as there may be. */
	for (uint32_t i = 0; i < LINNET_TREE_NODES_MAX + 2; i++)
		nodes[i] = i % 2 ? (struct linnet_tree_node){ 1000000, LINNET_TREE_LEAF, 254 } :
				   (struct linnet_tree_node){ 0, 5, (uint16_t)(i + 2) };
	nodes[LINNET_TREE_NODES_MAX - 1] = nodes[1];
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, LINNET_TREE_LEAF - 1, 255, &at) == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, LINNET_TREE_LEAF, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 255, &at) == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 5, 255, &at) == LINNET_E_RANGE && at == 0);
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 254, &at) == LINNET_E_RANGE && at == 1);
	nodes[1].word++;
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX, 6, 255, &at) == LINNET_E_RANGE && at == 1);
	nodes[1].word--;
	nodes[LINNET_TREE_NODES_MAX - 1] = (struct linnet_tree_node){ 0, 5, LINNET_TREE_NODES_MAX + 1 };
	nodes[LINNET_TREE_NODES_MAX + 1] = nodes[1];
	CHECK(linnet_tree_check(nodes, LINNET_TREE_NODES_MAX + 2, 6, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(nodes, 0, 6, 255, &at) == LINNET_E_SHAPE && at == 0);
	CHECK(linnet_tree_check(&nodes[1], 1, 6, 255, &at) == 0 && at == 0);

	/* As many leaves as a table has, and one more. */
	for (uint32_t leaves = LINNET_FAST_LEAVES_MAX; leaves <= LINNET_FAST_LEAVES_MAX + 1; leaves++) {
		count = leaning(nodes, leaves - 1);
		nodes[count] = nodes[count - 1];
		memset(&table, DIRT, sizeof(table));
		CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) ==
		      (leaves > LINNET_FAST_LEAVES_MAX ? LINNET_E_SHAPE : 0));
		if (leaves == LINNET_FAST_LEAVES_MAX)
			CHECK(nodes + linnet_fast_tree_leaf(&table.fast, row) == linnet_tree_leaf(nodes, row));
		CHECK(table.after[0] == 0x5a5a && table.after[1] == 0x5a5a);
	}
	CHECK(linnet_fast_tree_init(&table.fast, nodes, 3, LINNET_KNOB_INPUTS_MAX + 1) == LINNET_E_SHAPE);
	/* As many questions as a table has: one for each feature. One more is refused. */
	count = leaning(nodes, 5 + LINNET_KNOB_INPUTS_MAX - 1);
	for (uint32_t i = 0; i < LINNET_KNOB_INPUTS_MAX; i++)
		nodes[i].feature = (uint16_t)i;
	nodes[16].feature = nodes[17].feature = nodes[18].feature = 3;
	nodes[19].feature = 4;
	CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) == 0);
	CHECK(table.fast.vectors == LINNET_FAST_VECTORS_MAX);
	CHECK(nodes + linnet_fast_tree_leaf(&table.fast, row) == linnet_tree_leaf(nodes, row));
	nodes[19].feature = 3;
	CHECK(linnet_fast_tree_init(&table.fast, nodes, count, LINNET_KNOB_INPUTS_MAX) == LINNET_E_SHAPE);
}

static const struct linnet_cart_options least = { .depth_max = 1, .leaf_rows = 1, .nodes_max = 3, .classes = 2 };

static int fits(struct linnet_cart_options options, uint32_t rows, uint32_t inputs, uint8_t second)
{
	const float values[2] = { 0, 1 };
	const uint8_t classes[2] = { 0, second };
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	void *memory = room(linnet_cart_size(2));
	int count;

	memset(memory, DIRT, linnet_cart_size(2));
	count = linnet_cart_fit(&options, values, classes, rows, inputs, memory, linnet_cart_size(2), nodes);
	free(memory);
	return count;
}

/* What is fitted to rows of these values, with options that let everything be split. */
static int fit(const float *values, const uint8_t *classes, uint32_t rows, uint32_t inputs, uint32_t kinds,
	       struct linnet_tree_node *nodes)
{
	const struct linnet_cart_options all = { LINNET_TREE_DEPTH_MAX, 1, LINNET_TREE_NODES_MAX, kinds };
	void *memory = room(linnet_cart_size(rows));
	int count;

	memset(memory, DIRT, linnet_cart_size(rows));
	count = linnet_cart_fit(&all, values, classes, rows, inputs, memory, linnet_cart_size(rows), nodes);
	free(memory);
	return count;
}

static void fitted(void)
{
	static struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	static uint8_t classes[LINNET_CART_ROWS_MAX];
	static float values[LINNET_CART_ROWS_MAX];
	const uint8_t outer[4] = { 0, 1, 1, 0 };
	uint32_t rows = 0, at;
	float threshold;

	CHECK(fit(values, classes, LINNET_CART_ROWS_MAX, 1, 2, nodes) == 1 && nodes[0].word == 1000000);
	/* Of equal splits the lowest feature wins, then the lowest threshold. */
	for (uint32_t r = 0; r < 4; r++)
		values[2 * r] = values[2 * r + 1] = (float)r;
	values[8] = NAN; /* of no row */
	CHECK(fit(values, outer, 4, 2, 2, nodes) == 5 && nodes[0].feature == 0);
	memcpy(&threshold, &nodes[0].word, 4);
	CHECK(threshold == 0.5f);
	/* Halfway between a number and its opposite is 0. */
	for (uint32_t r = 0; r < 20; r++) {
		values[0] = ldexpf(1.75f, -(int)r * 7);
		values[1] = -values[0];
		CHECK(fit(values, outer, 2, 1, 2, nodes) == 3 && nodes[0].word == 0);
	}
	/* A number that is not finite, and a class too large, in each place. */
	for (uint32_t i = 0; i < 8; i++) {
		for (uint32_t k = 0; k < 8; k++)
			values[k] = k == i ? i % 2 ? NAN : -INFINITY : (float)k;
		CHECK(fit(values, outer, 4, 2, 2, nodes) == LINNET_E_INPUT);
	}
	for (uint32_t r = 0; r < 3; r++) {
		for (uint32_t k = 0; k < 3; k++) {
			values[k] = (float)k;
			classes[k] = k == r ? 2 : 1;
		}
		CHECK(fit(values, classes, 3, 1, 2, nodes) == LINNET_E_INPUT);
		CHECK(fit(values, classes, 3, 1, 3, nodes) > 1);
	}
	/* Groups that grow, each of a class of its own: the last one is split off first, down to the greatest depth. */
	for (uint32_t group = 0; group <= LINNET_TREE_DEPTH_MAX; group++) {
		for (uint32_t r = 0; r <= group; r++, rows++) {
			values[rows] = (float)group;
			classes[rows] = (uint8_t)group;
		}
	}
	CHECK(fit(values, classes, rows, 1, LINNET_TREE_DEPTH_MAX + 1, nodes) == 2 * LINNET_TREE_DEPTH_MAX + 1);
	CHECK(linnet_tree_check(nodes, 2 * LINNET_TREE_DEPTH_MAX + 1, 1, LINNET_TREE_DEPTH_MAX + 1, &at) == 0);
	for (uint32_t r = 0; r < rows; r++)
		CHECK(linnet_tree_leaf(nodes, values + r)->right == classes[r]);
}

static void inductions(void)
{
	static struct linnet_tree_node nodes[3];
	const float values[2] = { 0, 1 };
	const uint8_t classes[2] = { 0, 1 };
	uint8_t *memory = room(linnet_cart_size(2) + 1);
	size_t size = linnet_cart_size(2);

	CHECK(fits(least, 2, 1, 1) == 3 && fits(least, 1, 1, 1) == 1 && fits(least, 2, 1, 0) == 1);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX, 2, LINNET_TREE_NODES_MAX, 256 }, 2, 1, 255) == 1);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX, 1, LINNET_TREE_NODES_MAX, 256 }, 2, 1, 255) == 3);
	CHECK(fits((struct linnet_cart_options){ 0, 1, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ LINNET_TREE_DEPTH_MAX + 1, 1, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 0, 3, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 2, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, LINNET_TREE_NODES_MAX + 1, 2 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 3, 1 }, 2, 1, 0) == LINNET_E_SHAPE);
	CHECK(fits((struct linnet_cart_options){ 1, 1, 3, 257 }, 2, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 0, 1, 1) == LINNET_E_SHAPE && fits(least, LINNET_CART_ROWS_MAX + 1, 1, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 2, 0, 1) == LINNET_E_SHAPE && fits(least, 2, LINNET_TREE_LEAF, 1) == LINNET_E_SHAPE);
	CHECK(fits(least, 2, 1, 2) == LINNET_E_INPUT);
	CHECK(linnet_cart_fit(&least, values, classes, 2, 1, memory, size - 1, nodes) == LINNET_E_MEMORY);
	CHECK(linnet_cart_fit(&least, values, classes, 2, 1, memory + 1, size, nodes) == LINNET_E_MEMORY);
	CHECK(linnet_cart_fit(&least, values, classes, 2, 1, memory, size, nodes) == 3);
	free(memory);
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
	trees();
	inductions();
	fitted();
}
