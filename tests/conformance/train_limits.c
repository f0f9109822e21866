// SPDX-License-Identifier: MIT OR Apache-2.0
/* The ends of every range that train.h states: accepted there, refused one step further with nothing touched. */
#include "training.h"

static int plan_of(struct linnet_float_network *network, uint32_t inputs, uint32_t layers, uint32_t outputs,
		   uint32_t activation)
{
	struct linnet_float_shape shape[LINNET_LAYERS_MAX + 1];
	int error;

	for (uint32_t k = 0; k <= LINNET_LAYERS_MAX; k++)
		shape[k] = (struct linnet_float_shape){ outputs, activation };
	memset(network, DIRT, sizeof(*network));
	error = linnet_float_plan(network, inputs, shape, layers);
	CHECK(error == 0 || is_dirt(network, sizeof(*network)));
	return error;
}

static void shapes(void)
{
	const uint32_t most = LINNET_SIZE_MAX;
	struct linnet_float_network network;

	CHECK(plan_of(&network, 1, 1, 1, LINNET_LINEAR) == 0);
	CHECK(plan_of(&network, most, LINNET_LAYERS_MAX, most, LINNET_SIGMOID) == 0);
	CHECK(network.value_count == (size_t)LINNET_LAYERS_MAX * most * (most + 1));
	CHECK(plan_of(&network, 0, 1, 1, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, most + 1, 1, 1, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 0, 1, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, LINNET_LAYERS_MAX + 1, 1, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 1, 0, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 1, most + 1, LINNET_LINEAR) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 1, 1, LINNET_SOFTMAX_OUTPUT) == LINNET_E_SHAPE);
	CHECK(plan_of(&network, 1, 2, 1, LINNET_SIGMOID + 1) == LINNET_E_SHAPE);
}

static size_t padded(size_t n)
{
	return (n + 15) / 16 * 16;
}

/* Where the weight of output o and input i is among the values. */
static size_t weight_at(const struct linnet_float_layer *layer, uint32_t o, uint32_t i)
{
	return layer->weights + (layer->wide ? (size_t)i * layer->stride + o : (size_t)o * layer->stride + i);
}

/* Parts follow each other and are padded; each layer and nothing else is set and read back. */
static void layout_of(struct linnet_float_network *network, const struct linnet_float_shape *shape)
{
	float *values, *weights[LINNET_LAYERS_MAX], *biases[LINNET_LAYERS_MAX];
	size_t at = 0, row = padded(network->inputs), used = 0, bytes;

	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];
		uint32_t inputs = k == 0 ? network->inputs : shape[k - 1].outputs, outputs = shape[k].outputs;

		CHECK(layer->inputs == inputs && layer->outputs == outputs && layer->activation == shape[k].activation);
		CHECK(layer->wide == (outputs >= 16) && layer->stride == padded(layer->wide ? outputs : inputs));
		CHECK(layer->weights == at && layer->spare == 0);
		at += (size_t)layer->stride * (layer->wide ? inputs : outputs);
		CHECK(layer->biases == at);
		at += padded(outputs);
		row = padded(outputs) > row ? padded(outputs) : row;
	}
	CHECK(network->value_count == at && network->row_max == row && !network->values);
	CHECK(network->scratch_size == 3 * sizeof(float) * row);
	CHECK(network->outputs == shape[network->layer_count - 1].outputs);

	bytes = sizeof(float) * at;
	values = room(bytes + LINNET_ALIGN);
	for (uint32_t n = 1; n < LINNET_ALIGN; n *= 2)
		CHECK(linnet_float_place(network, (void *)((char *)values + n), at, 5) == LINNET_E_MEMORY);
	CHECK(linnet_float_place(network, values, at - 1, 5) == LINNET_E_MEMORY);
	CHECK(!network->values && is_dirt(values, bytes));
	CHECK(linnet_float_place(network, values, at, 5) == 0 && network->values == values);
	CHECK(is_dirt(values + at, LINNET_ALIGN));
	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];
		uint32_t n = layer->inputs, m = layer->outputs;
		float limit = sqrtf(6.0f / (float)(n + m));

		weights[k] = room(sizeof(float) * n * m);
		biases[k] = room(sizeof(float) * m);
		CHECK(linnet_float_get(network, k, weights[k], biases[k]) == 0);
		for (uint32_t j = 0; j < n * m; j++)
			CHECK(fabsf(weights[k][j]) <= limit && weights[k][j] == values[weight_at(layer, j / n, j % n)]);
		for (uint32_t o = 0; o < m; o++)
			CHECK(biases[k][o] == 0);
		for (uint32_t j = 0; j < n * m; j++)
			weights[k][j] = (float)(k + 1) + 2 * unit();
		for (uint32_t o = 0; o < m; o++)
			biases[k][o] = 2 + unit();
		CHECK(linnet_float_set(network, k, weights[k], biases[k]) == 0);
		used += (size_t)n * m + m;
	}
	for (uint32_t k = 0; k < network->layer_count; k++) {
		size_t n = network->layers[k].inputs, m = network->layers[k].outputs;
		float *found = room(sizeof(float) * n * m), *other = room(sizeof(float) * m);

		CHECK(linnet_float_get(network, network->layer_count, found, other) == LINNET_E_SHAPE);
		CHECK(linnet_float_set(network, network->layer_count, weights[k], biases[k]) == LINNET_E_SHAPE);
		CHECK(linnet_float_get(network, UINT32_MAX, found, other) == LINNET_E_SHAPE);
		CHECK(linnet_float_set(network, UINT32_MAX, weights[k], biases[k]) == LINNET_E_SHAPE);
		CHECK(is_dirt(found, sizeof(float) * n * m) && is_dirt(other, sizeof(float) * m));
		CHECK(linnet_float_get(network, k, found, other) == 0);
		CHECK(memcmp(found, weights[k], sizeof(float) * n * m) == 0);
		CHECK(memcmp(other, biases[k], sizeof(float) * m) == 0);
		leave(found, sizeof(float) * n * m);
		leave(other, sizeof(float) * m);
		leave(weights[k], sizeof(float) * n * m);
		leave(biases[k], sizeof(float) * m);
	}
	/* All else is padding. No weight that was set is 0, but for one in millions. */
	for (size_t j = 0; j < at; j++)
		used -= values[j] != 0;
	CHECK(used == 0);
	leave(values, bytes + LINNET_ALIGN);
}

static void layouts(void)
{
	static const uint32_t sizes[] = { 1, 2, 15, 16, 17, 31, 33, 64 };
	struct linnet_float_network network;
	struct linnet_float_shape shape[LINNET_LAYERS_MAX];

	for (uint32_t draw = 0; draw < 32; draw++) {
		for (uint32_t k = 0; k < LINNET_LAYERS_MAX; k++)
			shape[k] = (struct linnet_float_shape){ sizes[below(8)], below(3) };
		memset(&network, DIRT, sizeof(network));
		CHECK(linnet_float_plan(&network, sizes[draw % 8], shape, 1 + draw % LINNET_LAYERS_MAX) == 0);
		CHECK(network.inputs == sizes[draw % 8] && network.layer_count == 1 + draw % LINNET_LAYERS_MAX);
		layout_of(&network, shape);
	}
}

static const struct linnet_train_options good = {
	.loss = LINNET_SQUARE, .optimiser = LINNET_SGD, .batch = 1, .learning_rate = 0.5f, .momentum = 0.25f,
	.beta1 = 0.125f, .beta2 = 0.75f, .epsilon = 1, .false_submit_weight = 1, .seed = 9,
};

/* Two inputs; room for its values. */
static void network_of(struct linnet_float_network *network, uint32_t outputs, uint32_t activation, float *values)
{
	CHECK(plan_of(network, 2, 1, outputs, activation) == 0);
	CHECK(linnet_float_place(network, values, network->value_count, 1) == 0);
}

static void options(void)
{
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	float *values = room(sizeof(float) * 64);

	for (uint32_t n = 0; n < 5 * 3 * 3 * 3 * 2 * 2; n++) {
		uint32_t loss = n % 5, activation = n / 5 % 3, outputs = 1 + n / 15 % 3, optimiser = n / 45 % 3;
		struct linnet_train_options options = good;
		int fits = loss == LINNET_SQUARE, error;
		size_t size;
		void *memory;

		options.loss = loss;
		options.optimiser = optimiser;
		options.batch = n / 135 % 2;
		options.false_submit_weight = n / 270 ? 5 : 1;
		if (loss == LINNET_HINGE || loss == LINNET_SOFTMAX)
			fits = activation == LINNET_LINEAR && outputs > 1;
		if (loss == LINNET_BINARY)
			fits = activation == LINNET_SIGMOID;
		if (options.false_submit_weight != 1 && outputs != 2)
			fits = fits && outputs == 1 && loss == LINNET_BINARY;
		fits = fits && optimiser <= LINNET_SGD && options.batch > 0;
		network_of(&network, outputs, activation, values);
		size = linnet_trainer_size(&network, 3);
		memory = room(size);
		memset(&trainer, DIRT, sizeof(trainer));
		error = linnet_trainer_init(&trainer, &network, &options, 3, memory, size);
		CHECK(error == (fits ? 0 : LINNET_E_SHAPE));
		CHECK(fits || (is_dirt(&trainer, sizeof(trainer)) && is_dirt(memory, size)));
		leave(memory, size);
	}
	leave(values, sizeof(float) * 64);
}

/* One number of the options; those of the other optimiser are not looked at. */
static void ranges(void)
{
	static const float most = 0x1.fffffep127f, below_one = 0x1.fffffep-1f, tiny = 0x1p-149f;
	static const struct {
		size_t at;
		uint32_t optimiser; /* that has it; 2: both */
		float least, largest;
	} numbers[] = {
		{ offsetof(struct linnet_train_options, learning_rate), 2, 0, most },
		{ offsetof(struct linnet_train_options, false_submit_weight), 2, 0, most },
		{ offsetof(struct linnet_train_options, momentum), LINNET_SGD, 0, below_one },
		{ offsetof(struct linnet_train_options, beta1), LINNET_ADAM, 0, below_one },
		{ offsetof(struct linnet_train_options, beta2), LINNET_ADAM, 0, below_one },
		{ offsetof(struct linnet_train_options, epsilon), LINNET_ADAM, tiny, most },
	};
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	float *values = room(sizeof(float) * 64);
	size_t size;
	void *memory;

	network_of(&network, 2, LINNET_LINEAR, values);
	size = linnet_trainer_size(&network, 3);
	for (uint32_t n = 0; n < 6 * 7 * 2; n++) {
		const float tried[] = { numbers[n % 6].least, numbers[n % 6].largest, nextafterf(numbers[n % 6].least, -1),
					nextafterf(numbers[n % 6].largest, INFINITY), NAN, -1, INFINITY };
		struct linnet_train_options options = good;
		int fits = n / 6 % 7 < 2, error;

		options.optimiser = n / 42 ? LINNET_SGD : LINNET_ADAM;
		memcpy((char *)&options + numbers[n % 6].at, &tried[n / 6 % 7], sizeof(float));
		fits = fits || (numbers[n % 6].optimiser != 2 && numbers[n % 6].optimiser != options.optimiser);
		memory = room(size);
		memset(&trainer, DIRT, sizeof(trainer));
		error = linnet_trainer_init(&trainer, &network, &options, 3, memory, size);
		CHECK(error == (fits ? 0 : LINNET_E_RANGE));
		CHECK(fits || (is_dirt(&trainer, sizeof(trainer)) && is_dirt(memory, size)));
		leave(memory, size);
	}
	leave(values, sizeof(float) * 64);
}

/* Gradients and two moments; the rows of activations, deltas, target and used inputs; the order; each part aligned. */
static size_t size_of(const struct linnet_float_network *network, size_t rows)
{
	size_t row = (1 + network->layer_count) + 2 + 1 + network->layer_count;

	return 4 * (3 * network->value_count + row * network->row_max + padded(rows));
}

static void memories(void)
{
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	float *values = room(sizeof(float) * 64);

	for (uint32_t rows = 1; rows <= 33; rows++) {
		size_t size;
		uint8_t *memory;

		CHECK(plan_of(&network, 1 + below(40), 1 + rows % LINNET_LAYERS_MAX, 1 + below(40), LINNET_RELU) == 0);
		CHECK(linnet_trainer_size(&network, rows) == size_of(&network, rows));
		CHECK(linnet_trainer_size(&network, UINT32_MAX) == size_of(&network, UINT32_MAX));
		network_of(&network, 2, LINNET_LINEAR, values);
		size = linnet_trainer_size(&network, rows);
		memory = room(size + LINNET_ALIGN);
		memset(&trainer, DIRT, sizeof(trainer));
		CHECK(linnet_trainer_init(&trainer, &network, &good, rows, memory, size - 1) == LINNET_E_MEMORY);
		for (uint32_t n = 1; n < LINNET_ALIGN; n *= 2)
			CHECK(linnet_trainer_init(&trainer, &network, &good, rows, memory + n, size) < 0);
		CHECK(linnet_trainer_init(&trainer, &network, &good, 0, memory, size) == LINNET_E_SHAPE);
		CHECK(is_dirt(&trainer, sizeof(trainer)) && is_dirt(memory, size));
		CHECK(linnet_trainer_init(&trainer, &network, &good, rows, memory, size) == 0);
		CHECK(memcmp(&trainer.options, &good, sizeof(good)) == 0 && trainer.network == &network);
		CHECK(trainer.row_count == rows && trainer.epoch == 0 && trainer.power1 == 1 && trainer.power2 == 1);
		for (uint32_t r = 0; r < rows; r++)
			CHECK(trainer.order[r] == r);
		CHECK(is_dirt(memory + size, LINNET_ALIGN));
		leave(memory, size + LINNET_ALIGN);
	}
	leave(values, sizeof(float) * 64);
}

static void epochs(void)
{
	struct linnet_float_network network;
	struct linnet_trainer trainer;
	const uint8_t digits[] = { 1, 2, 3, 4, 5, 6 }, classes[] = { 0, 1, 0 };
	const float inputs[] = { 1, 2, 3, 4, 5, 6 }, targets[] = { 1, 0, 0, 1, 1, 0 };
	float *values = room(sizeof(float) * 64), before[64];
	void *memory;
	double loss;
	size_t size;

	network_of(&network, 2, LINNET_LINEAR, values);
	memcpy(before, values, sizeof(before));
	size = linnet_trainer_size(&network, 3);
	memory = room(size);
	CHECK(linnet_trainer_init(&trainer, &network, &good, 3, memory, size) == 0);
	memset(&loss, DIRT, sizeof(loss));
	for (uint32_t n = 0; n < 16 * 3; n++) {
		struct linnet_rows rows = {
			.count = 2 + n / 16, .digits = n & 1 ? digits : NULL, .values = n & 2 ? inputs : NULL,
			.classes = n & 4 ? classes : NULL, .targets = n & 8 ? targets : NULL,
		};

		/* One of both, and three rows: the others are refused. */
		if ((n & 3) % 3 && (n & 12) % 12 && rows.count == 3)
			continue;
		CHECK(linnet_trainer_epoch(&trainer, &rows, &loss) == LINNET_E_SHAPE && is_dirt(&loss, sizeof(loss)));
		CHECK(trainer.epoch == 0 && memcmp(before, values, sizeof(before)) == 0);
		for (uint32_t r = 0; r < 3; r++)
			CHECK(trainer.order[r] == r);
	}
	for (uint32_t n = 0; n < 6 * 3 + 1; n++) {
		float wrong[6], wanted[6];
		uint8_t kinds[] = { 0, 1, 0 };
		struct linnet_rows rows = { .count = 3, .values = wrong, .targets = wanted };

		/* Each value and each target, then a class of the last row. */
		memcpy(wrong, inputs, sizeof(wrong));
		memcpy(wanted, targets, sizeof(wanted));
		if (n < 18) {
			(n % 2 ? wrong : wanted)[n / 3] = n % 3 == 0 ? NAN : n % 3 == 1 ? INFINITY : -INFINITY;
		} else {
			kinds[2] = 2;
			rows.classes = kinds;
			rows.targets = NULL;
		}
		CHECK(linnet_trainer_epoch(&trainer, &rows, &loss) == LINNET_E_INPUT && is_dirt(&loss, sizeof(loss)));
		CHECK(trainer.epoch == 0 && memcmp(before, values, sizeof(before)) == 0);
		for (uint32_t r = 0; r < 3; r++)
			CHECK(trainer.order[r] == r);
	}
	leave(memory, size);
	leave(values, sizeof(float) * 64);
}

static int64_t rounded(float value, double scale)
{
	int64_t integer;

	CHECK(linnet_quantise(&value, 1, scale, &integer) == 0);
	return integer;
}

static void integers(void)
{
	const float bad[] = { INFINITY, -INFINITY, NAN, 1, -1 };
	int64_t found[3];

	for (int64_t n = -5000; n <= 5000; n++) {
		CHECK(rounded((float)n, 1) == n && rounded((float)n, 0x1p30) == n * (1 << 30));
		CHECK(rounded((float)n, 0.25) == (n < 0 ? n - 2 : n + 2) / 4);
		CHECK(rounded((float)n, 0.001) == (n < 0 ? n - 500 : n + 500) / 1000);
	}
	CHECK(rounded(1, 0x1p-1 - 0x1p-54) == 0 && rounded(-1, 0x1p-1 - 0x1p-54) == 0);
	/* Odd numbers above 2^52 have no half above them. */
	for (int64_t n = (INT64_C(1) << 52) - 3; n <= (INT64_C(1) << 52) + 3; n++)
		CHECK(rounded(1, (double)n) == n && rounded(-1, (double)n) == -n);
	CHECK(rounded(1, 0x1p52 - 0.5) == INT64_C(1) << 52 && rounded(-1, 0x1p52 - 0.5) == -(INT64_C(1) << 52));
	CHECK(rounded(1, nextafter(9.2e18, 0)) == (int64_t)nextafter(9.2e18, 0));
	CHECK(rounded(-1, nextafter(9.2e18, 0)) == -(int64_t)nextafter(9.2e18, 0));
	CHECK(linnet_quantise(bad, 0, 1, found) == 0);
	for (uint32_t i = 0; i < 15; i++) {
		float values[] = { 0, 0.5f, 0 };

		values[i % 3] = bad[i / 3];
		memset(found, DIRT, sizeof(found));
		CHECK(linnet_quantise(values, 3, 9.2e18, found) == LINNET_E_RANGE && is_dirt(found, sizeof(found)));
		if (i % 3 == 2)
			CHECK(linnet_quantise(values, 2, 3, found) == 0 && found[1] == 2 && found[2] == -1);
	}
}

void check_limits(void)
{
	shapes();
	layouts();
	options();
	ranges();
	memories();
	epochs();
	integers();
}
