// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Short runs of training with every loss, activation of the last layer and optimiser that go together: sizes around
 * vectors, batches that do not divide the rows, equal rows, one row. Every instruction set must compute the same bits,
 * and digits and classes the same as floats and targets that say the same; these bits are printed.
 */
#include "training.h"

#define ROWS_MAX 40
#define EPOCHS 2

struct run {
	struct linnet_train_options options;
	struct linnet_float_shape shape[LINNET_LAYERS_MAX];
	uint32_t inputs, layers, outputs, rows;
	int integers; /* digits and classes, which are also given as floats */
	uint64_t seed;
};

/* What is trained on, in both forms. */
static uint8_t *digits, *classes;
static float *values, *targets;

static void draw_rows(const struct run *run)
{
	int equal = below(6) == 0, two = run->outputs == 1;

	digits = room(run->rows * run->inputs);
	classes = room(run->rows);
	values = room(sizeof(float) * run->rows * run->inputs);
	targets = room(sizeof(float) * run->rows * run->outputs);

	for (uint32_t j = 0; j < run->rows * run->inputs; j++) {
		digits[j] = below(3) ? (uint8_t)below(10) : 0;
		if (equal && j >= run->inputs)
			digits[j] = digits[j - run->inputs];
		values[j] = run->integers ? digits[j] : below(3) ? unit() : 0;
	}
	for (uint32_t r = 0; r < run->rows; r++) {
		classes[r] = (uint8_t)(equal && r ? classes[0] : below(two ? 2 : run->outputs));
		for (uint32_t o = 0; o < run->outputs; o++)
			targets[r * run->outputs + o] = two ? classes[r] : classes[r] == o;
		for (uint32_t o = 0; !run->integers && o < run->outputs; o++)
			targets[r * run->outputs + o] = (float)below(9) / 8;
	}
}

static void leave_rows(const struct run *run)
{
	leave(digits, run->rows * run->inputs);
	leave(classes, run->rows);
	leave(values, sizeof(float) * run->rows * run->inputs);
	leave(targets, sizeof(float) * run->rows * run->outputs);
}

static struct run draw_run(uint32_t loss, uint32_t activation, uint32_t optimiser, uint32_t variant)
{
	static const uint32_t sizes[] = { 1, 3, 15, 16, 17, 31, 32, 33, 130 }, batches[] = { 1, 3, 7, 16, UINT32_MAX };
	struct run run = { .inputs = 1 + below(35), .integers = variant % 2 == 0 };

	run.layers = variant == 4 ? LINNET_LAYERS_MAX : 1 + variant % 3;
	run.rows = variant == 0 ? 1 : variant == 2 ? 16 : 2 + below(ROWS_MAX - 1);
	for (uint32_t k = 0; k < run.layers; k++) {
		run.shape[k].outputs = sizes[below(9)];
		run.shape[k].activation = below(3);
	}
	run.outputs = variant % 4 == 3 ? 17 + below(3) : variant % 4 == 1 ? 2 : 1 + below(3);
	if (loss <= LINNET_SOFTMAX && run.outputs == 1)
		run.outputs = 2;
	run.shape[run.layers - 1] = (struct linnet_float_shape){ run.outputs, activation };
	run.seed = variant == 2 ? UINT64_MAX : below(1000);
	run.options = (struct linnet_train_options){
		.loss = loss, .optimiser = optimiser, .batch = batches[below(5)], .learning_rate = 0.01f,
		.momentum = variant % 2 ? 0.5f : 0, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-7f,
		.false_submit_weight = 1, .seed = variant == 3 ? UINT64_MAX : variant,
	};
	if (run.outputs == 2 || (run.outputs == 1 && loss == LINNET_BINARY))
		run.options.false_submit_weight = below(2) ? 5 : 0.5f;
	return run;
}

/* The mean of the losses before any step, from the logits of each row. */
static double mean_loss(const struct run *run, const struct linnet_float_network *network)
{
	size_t bytes = sizeof(float) * run->inputs;
	float *scratch = room(network->scratch_size), *logits = room(sizeof(float) * run->outputs), delta[20];
	float *row = room(bytes);
	double sum = 0;

	for (uint32_t r = 0; r < run->rows; r++) {
		memcpy(row, values + r * run->inputs, bytes);
		linnet_float_logits(network, row, scratch, logits);
		sum += linnet_loss(&run->options, run->shape[run->layers - 1].activation, run->outputs, logits,
				   targets + r * run->outputs, 1, delta);
	}
	leave(row, bytes);
	leave(scratch, network->scratch_size);
	leave(logits, sizeof(float) * run->outputs);
	return sum / run->rows;
}

/* All that is not a weight or a bias is 0: no training changes it. */
static void check_padding(const struct linnet_float_network *network)
{
	size_t inside = 0, outside = 0;

	for (size_t j = 0; j < network->value_count; j++)
		outside += network->values[j] != 0;
	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];
		size_t n = layer->inputs, m = layer->outputs;
		float *weights = room(sizeof(float) * n * m), *biases = room(sizeof(float) * m);

		CHECK(linnet_float_get(network, k, weights, biases) == 0);
		for (size_t j = 0; j < n * m; j++)
			inside += weights[j] != 0;
		for (size_t o = 0; o < m; o++)
			inside += biases[o] != 0;
		leave(weights, sizeof(float) * n * m);
		leave(biases, sizeof(float) * m);
	}
	CHECK(inside == outside);
}

static uint64_t train(const struct run *run, const struct linnet_float_loops *loops, int floats, uint64_t hash)
{
	struct linnet_rows rows = { .count = run->rows };
	struct linnet_train_options options = run->options;
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	size_t bytes, size;
	void *memory;
	double mean, first;
	float *place;

	CHECK(linnet_float_plan(&network, run->inputs, run->shape, run->layers) == 0);
	network.loops = loops;
	bytes = sizeof(float) * network.value_count;
	place = room(bytes);
	CHECK(linnet_float_place(&network, place, network.value_count, run->seed) == 0);
	size = linnet_trainer_size(&network, run->rows);
	memory = room(size);
	CHECK(linnet_trainer_init(&trainer, &network, &options, run->rows, memory, size) == 0);
	/* The run keeps its own. */
	memset(&options, DIRT, sizeof(options));
	rows.digits = floats ? NULL : digits;
	rows.values = floats ? values : NULL;
	rows.classes = floats ? NULL : classes;
	rows.targets = floats ? targets : NULL;
	first = mean_loss(run, &network);
	for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
		uint8_t seen[ROWS_MAX] = { 0 };

		CHECK(linnet_trainer_epoch(&trainer, &rows, &mean) == 0 && trainer.epoch == epoch + 1);
		/* All rows come before the first step if they are one batch. */
		if (epoch == 0 && run->options.batch >= run->rows)
			CHECK(fabs(mean - first) <= 1e-12 * (1 + first));
		for (uint32_t r = 0; r < run->rows; r++) {
			CHECK(trainer.order[r] < run->rows && !seen[trainer.order[r]]);
			seen[trainer.order[r]] = 1;
		}
		hash = hash_of(&mean, sizeof(mean), hash);
		hash = hash_of(trainer.order, sizeof(uint32_t) * run->rows, hash);
	}
	check_padding(&network);
	hash = hash_of(place, bytes, hash);
	leave(memory, size);
	leave(place, bytes);
	return hash;
}

void train_all(void)
{
	/* The losses with the activations of the last layer that each allows. */
	static const uint32_t last[][2] = {
		{ LINNET_HINGE, LINNET_LINEAR },  { LINNET_SOFTMAX, LINNET_LINEAR }, { LINNET_BINARY, LINNET_SIGMOID },
		{ LINNET_SQUARE, LINNET_LINEAR }, { LINNET_SQUARE, LINNET_RELU },    { LINNET_SQUARE, LINNET_SIGMOID },
	};
	const struct linnet_float_loops *sets[3];
	uint32_t count = loops_here(sets);

	for (uint32_t n = 0; n < 6 * 2; n++) {
		uint32_t loss = last[n / 2][0], activation = last[n / 2][1], optimiser = n % 2;
		uint64_t hash = HASH_START;

		for (uint32_t variant = 0; variant < 8; variant++) {
			struct run run = draw_run(loss, activation, optimiser, variant);
			uint64_t found;

			draw_rows(&run);
			found = train(&run, sets[0], !run.integers, hash);
			CHECK(!run.integers || train(&run, sets[0], 1, hash) == found);
			for (uint32_t set = 1; set < count; set++)
				CHECK(train(&run, sets[set], !run.integers, hash) == found);
			leave_rows(&run);
			hash = found;
		}
		printf("runs of loss %u, activation %u, optimiser %u: %016llx\n", loss, activation, optimiser,
		       (unsigned long long)hash);
	}
}
