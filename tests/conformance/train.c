// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Trains small networks with every loss and prints the bits of the results. core/Makefile compares them with
 * outputs/train.txt: no bit may differ, and under the sanitizers no build may access memory outside its buffers. Every
 * buffer has exactly the size that the core asks for. Other checks of training are in train_limits.c, train_loops.c,
 * train_losses.c and train_runs.c.
 */
#include "training.h"

#define ROWS 300
#define INPUTS 31

static void must(int error, const char *what)
{
	if (error < 0) {
		fprintf(stderr, "%s: error %d\n", what, error);
		exit(1);
	}
}

static void train(const struct linnet_float_shape *shape, uint32_t layers, uint32_t loss, uint32_t optimiser)
{
	struct linnet_train_options options = {
		.loss = loss, .optimiser = optimiser, .batch = 64, .learning_rate = 0.003f, .momentum = 0.9f,
		.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-7f, .false_submit_weight = loss == LINNET_SQUARE ? 1 : 5,
		.seed = 7,
	};
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	uint8_t *digits = malloc(ROWS * INPUTS), *classes = malloc(ROWS);
	struct linnet_rows rows = { .count = ROWS, .digits = digits, .classes = classes };
	uint64_t state = 1, hash = HASH_START;
	float row[INPUTS], *logits, *weights, biases[256];
	void *values, *memory, *scratch;
	int64_t integer;
	size_t size;
	double mean = 0, first = 0;

	for (size_t i = 0; i < ROWS * INPUTS; i++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		digits[i] = state >> 63 ? 0 : (uint8_t)(state >> 40) % 10;
	}
	for (size_t r = 0; r < ROWS; r++)
		classes[r] = digits[r * INPUTS + 3] > 5;

	must(linnet_float_plan(&network, INPUTS, shape, layers), "plan");
	values = room(sizeof(float) * network.value_count);
	must(linnet_float_place(&network, values, network.value_count, 3), "place");
	size = linnet_trainer_size(&network, ROWS);
	memory = room(size);
	if (linnet_trainer_init(&trainer, &network, &options, ROWS, memory, size - 1) != LINNET_E_MEMORY)
		exit(1);
	must(linnet_trainer_init(&trainer, &network, &options, ROWS, memory, size), "init");
	for (int epoch = 0; epoch < 5; epoch++) {
		must(linnet_trainer_epoch(&trainer, &rows, &mean), "epoch");
		hash = hash_of(&mean, sizeof(mean), hash);
		if (epoch == 0)
			first = mean;
	}
	if (!(mean < 0.9 * first)) {
		fprintf(stderr, "loss %u only goes from %g to %g\n", loss, first, mean);
		exit(1);
	}
	scratch = room(network.scratch_size);
	logits = malloc(sizeof(float) * network.outputs);
	for (size_t r = 0; r < ROWS; r++) {
		for (size_t i = 0; i < INPUTS; i++)
			row[i] = digits[r * INPUTS + i];
		linnet_float_logits(&network, row, scratch, logits);
		hash = hash_of(logits, sizeof(float) * network.outputs, hash);
	}
	weights = malloc(sizeof(float) * shape[0].outputs * INPUTS);
	must(linnet_float_get(&network, 0, weights, biases), "get");
	for (size_t i = 0; i < (size_t)shape[0].outputs * INPUTS; i++) {
		must(linnet_quantise(&weights[i], 1, 1000, &integer), "quantise");
		hash = hash_of(&integer, sizeof(integer), hash);
	}
	printf("loss %u optimiser %u layers %u: %016llx, mean %.9g\n", loss, optimiser, layers,
	       (unsigned long long)hash, mean);
	free(digits);
	free(classes);
	free(values);
	free(memory);
	free(scratch);
	free(logits);
	free(weights);
}

int main(void)
{
	const struct linnet_float_shape hinge[] = { { 256, LINNET_RELU }, { 2, LINNET_LINEAR } };
	const struct linnet_float_shape softmax[] = { { 20, LINNET_RELU }, { 5, LINNET_RELU }, { 2, LINNET_LINEAR } };
	const struct linnet_float_shape binary[] = { { 128, LINNET_RELU }, { 16, LINNET_RELU }, { 1, LINNET_SIGMOID } };
	const struct linnet_float_shape square[] = { { 33, LINNET_SIGMOID }, { 17, LINNET_LINEAR } };

	train(hinge, 2, LINNET_HINGE, LINNET_ADAM);
	train(softmax, 3, LINNET_SOFTMAX, LINNET_SGD);
	train(binary, 3, LINNET_BINARY, LINNET_ADAM);
	train(square, 2, LINNET_SQUARE, LINNET_SGD);
	check_limits();
	check_loops();
	check_losses();
	train_all();
	return 0;
}
