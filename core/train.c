/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Training: mini-batches in a seeded order, forward and backward one row at a time, one step of the optimiser per
 * batch. Rows whose loss is zero (with the hinge loss, most rows of a trained network) skip the backward pass. One
 * thread.
 *
 * Memory of a run, each part aligned: gradients, two moments, the rows of activations (the input and each layer's
 * output), two rows of deltas, the target, the list of used inputs of each wide layer, the order of the rows.
 */
#include "float.h"

#define AHEAD 8 /* rows prefetched before they are needed: a shuffled row is rarely in the cache */

static size_t round_up(size_t n)
{
	return (n + LINNET_ALIGN - 1) & ~(size_t)(LINNET_ALIGN - 1);
}

/* Floats in `rows`: activations of every layer, two deltas, the target; then as many lists of used inputs. */
static size_t row_floats(const struct linnet_float_network *network)
{
	size_t layers = network->layer_count;

	return (layers + 1 + 3 + layers) * network->row_max;
}

size_t linnet_trainer_size(const struct linnet_float_network *network, uint32_t row_count)
{
	return 3 * round_up(sizeof(float) * network->value_count) + round_up(sizeof(float) * row_floats(network)) +
	       round_up(sizeof(uint32_t) * (size_t)row_count);
}

/* A finite number of 0 or more. NaN is none, nor a share. */
static int is_size(float x)
{
	return x >= 0 && x <= LINNET_FLOAT_MAX;
}

static int is_share(float x)
{
	return x >= 0 && x < 1;
}

static int check_numbers(const struct linnet_train_options *options)
{
	if (!is_size(options->learning_rate) || !is_size(options->false_submit_weight))
		return LINNET_E_RANGE;
	if (options->optimiser == LINNET_SGD)
		return is_share(options->momentum) ? 0 : LINNET_E_RANGE;
	if (!is_share(options->beta1) || !is_share(options->beta2) || !is_size(options->epsilon) || options->epsilon == 0)
		return LINNET_E_RANGE;
	return 0;
}

static int check_options(const struct linnet_train_options *options, const struct linnet_float_network *network)
{
	uint32_t last = network->layers[network->layer_count - 1].activation;

	if (options->batch < 1 || options->loss > LINNET_SQUARE || options->optimiser > LINNET_SGD)
		return LINNET_E_SHAPE;
	if ((options->loss == LINNET_HINGE || options->loss == LINNET_SOFTMAX) &&
	    (last != LINNET_LINEAR || network->outputs < 2))
		return LINNET_E_SHAPE;
	if (options->loss == LINNET_BINARY && last != LINNET_SIGMOID)
		return LINNET_E_SHAPE;
	if (options->false_submit_weight != 1 && network->outputs != 2 &&
	    !(network->outputs == 1 && options->loss == LINNET_BINARY))
		return LINNET_E_SHAPE;
	return check_numbers(options);
}

int linnet_trainer_init(struct linnet_trainer *trainer, struct linnet_float_network *network,
			const struct linnet_train_options *options, uint32_t row_count, void *memory,
			size_t memory_size)
{
	size_t values = round_up(sizeof(float) * network->value_count);
	uint8_t *at = memory;
	int error = check_options(options, network);

	if (error < 0)
		return error;
	if (row_count < 1)
		return LINNET_E_SHAPE;
	if (((uintptr_t)memory & (LINNET_ALIGN - 1)) != 0 || memory_size < linnet_trainer_size(network, row_count))
		return LINNET_E_MEMORY;
	linnet_zero(trainer, sizeof(*trainer));
	linnet_copy(&trainer->options, options, sizeof(*options));
	trainer->network = network;
	trainer->row_count = row_count;
	trainer->power1 = 1;
	trainer->power2 = 1;
	trainer->gradients = (float *)(void *)at;
	trainer->moments1 = (float *)(void *)(at + values);
	trainer->moments2 = (float *)(void *)(at + 2 * values);
	trainer->rows = (float *)(void *)(at + 3 * values);
	trainer->order = (uint32_t *)(void *)(at + 3 * values + round_up(sizeof(float) * row_floats(network)));
	linnet_zero(memory, 3 * values + sizeof(float) * row_floats(network));
	for (uint32_t r = 0; r < row_count; r++)
		trainer->order[r] = r;
	return 0;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* Fisher-Yates shuffle, by the random numbers of this seed and epoch. */
static void shuffle(struct linnet_trainer *trainer)
{
	uint64_t start = mix(trainer->options.seed + 0x9e3779b97f4a7c15 * ((uint64_t)trainer->epoch + 1));

	for (uint32_t r = trainer->row_count - 1; r > 0; r--) {
		uint64_t chance = mix(start + 0x9e3779b97f4a7c15 * r);
		uint32_t other = (uint32_t)((linnet_uint128)chance * ((uint64_t)r + 1) >> 64);
		uint32_t keep = trainer->order[r];

		trainer->order[r] = trainer->order[other];
		trainer->order[other] = keep;
	}
}

/* Views into trainer->rows. */
struct view {
	float *activations; /* layer k's input at k * row_max */
	float *delta;
	float *back;
	float *target;
	uint32_t *used;     /* layer k's list at k * row_max */
	uint32_t n[LINNET_LAYERS_MAX];
};

static void load(const struct linnet_trainer *trainer, const struct linnet_rows *rows, uint32_t r, struct view *view)
{
	const struct linnet_float_network *network = trainer->network;
	uint32_t inputs = network->inputs, outputs = network->outputs;
	float *x = view->activations;

	if (rows->digits) {
		const uint8_t *from = rows->digits + (size_t)r * inputs;

		for (uint32_t i = 0; i < inputs; i++)
			x[i] = (float)from[i];
	} else {
		const float *from = rows->values + (size_t)r * inputs;

		for (uint32_t i = 0; i < inputs; i++)
			x[i] = from[i];
	}
	for (uint32_t o = 0; o < outputs; o++) {
		if (rows->targets)
			view->target[o] = rows->targets[(size_t)r * outputs + o];
		else
			view->target[o] = outputs == 1 ? (float)rows->classes[r] : (float)(rows->classes[r] == o);
	}
}

static void forward(const struct linnet_float_network *network, struct view *view)
{
	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_float_layer *layer = &network->layers[k];
		float *in = view->activations + (size_t)k * network->row_max, *out = in + network->row_max;
		uint32_t *used = view->used + (size_t)k * network->row_max;

		view->n[k] = layer->wide ? linnet_float_used(in, layer->inputs, used) : 0;
		network->loops->forward(layer, network->values, in, used, view->n[k], out);
		if (layer->activation == LINNET_SIGMOID && k + 1 < network->layer_count)
			for (uint32_t o = 0; o < layer->outputs; o++)
				out[o] = linnet_sigmoid(out[o]);
	}
}

/* Turns the gradient of a layer's outputs into that of its sums. The padding of `activations` is 0. */
static void through(const struct linnet_float_layer *layer, const float *activations, float *delta)
{
	uint32_t n = layer->outputs;

	if (layer->activation == LINNET_RELU)
		for (uint32_t o = 0; o < n; o++)
			delta[o] = activations[o] > 0 ? delta[o] : 0;
	if (layer->activation == LINNET_SIGMOID)
		for (uint32_t o = 0; o < n; o++)
			delta[o] *= activations[o] * (1 - activations[o]);
}

static void backward(struct linnet_trainer *trainer, struct view *view)
{
	const struct linnet_float_network *network = trainer->network;

	for (uint32_t k = network->layer_count - 1;; k--) {
		const struct linnet_float_layer *layer = &network->layers[k];
		float *in = view->activations + (size_t)k * network->row_max, *swap;

		network->loops->backward(layer, network->values, trainer->gradients, in,
					 view->used + (size_t)k * network->row_max, view->n[k], view->delta,
					 k > 0 ? view->back : NULL);
		if (k == 0)
			return;
		through(&network->layers[k - 1], in, view->back);
		/* A wide layer reads the padding of its delta; the layer above left it alone or wrote zeros. */
		for (uint32_t o = layer->inputs; o % LINNET_LANES != 0; o++)
			view->back[o] = 0;
		swap = view->delta;
		view->delta = view->back;
		view->back = swap;
	}
}

static void step(struct linnet_trainer *trainer)
{
	const struct linnet_train_options *o = &trainer->options;
	struct linnet_float_network *network = trainer->network;

	if (o->optimiser == LINNET_SGD) {
		network->loops->sgd(network->values, trainer->gradients, trainer->moments1, network->value_count,
				    o->learning_rate, o->momentum);
		return;
	}
	/* Kingma and Ba, "Adam", end of section 2: the corrections of both moments are folded into the rate. */
	trainer->power1 *= o->beta1;
	trainer->power2 *= o->beta2;
	network->loops->adam(network->values, trainer->gradients, trainer->moments1, trainer->moments2,
			     network->value_count,
			     (float)(o->learning_rate * __builtin_sqrt(1 - trainer->power2) / (1 - trainer->power1)),
			     o->beta1, o->beta2, o->epsilon);
}

/* Whether every number of the rows is finite, and every class one of the network's. */
static int can_be_learned(const struct linnet_float_network *network, const struct linnet_rows *rows)
{
	uint32_t last = network->outputs == 1 ? 1 : network->outputs - 1;

	if (rows->values && !linnet_float_within(rows->values, (size_t)rows->count * network->inputs, LINNET_FLOAT_MAX))
		return 0;
	if (rows->targets)
		return linnet_float_within(rows->targets, (size_t)rows->count * network->outputs, LINNET_FLOAT_MAX);
	for (uint32_t r = 0; r < rows->count; r++)
		if (rows->classes[r] > last)
			return 0;
	return 1;
}

/*
 * Whether the network and the second moments are finite. The square of a gradient above 1.8e19 is not: Adam divides by the
 * moment, so that the weight would never move again. The first moments are, where the second ones are.
 */
static int is_finite(const struct linnet_trainer *trainer)
{
	size_t n = trainer->network->value_count;

	return linnet_float_within(trainer->network->values, n, LINNET_FLOAT_MAX) &&
	       linnet_float_within(trainer->moments2, n, LINNET_FLOAT_MAX);
}

int linnet_trainer_epoch(struct linnet_trainer *trainer, const struct linnet_rows *rows, double *loss)
{
	const struct linnet_float_network *network = trainer->network;
	const struct linnet_float_layer *last = &network->layers[network->layer_count - 1];
	size_t n = network->row_max, layers = network->layer_count;
	struct view view = { .activations = trainer->rows };
	double sum = 0;

	if (rows->count != trainer->row_count || !rows->digits == !rows->values || !rows->classes == !rows->targets)
		return LINNET_E_SHAPE;
	if (!can_be_learned(network, rows))
		return LINNET_E_INPUT;
	view.delta = view.activations + (layers + 1) * n;
	view.back = view.delta + n;
	view.target = view.back + n;
	view.used = (uint32_t *)(void *)(view.target + n);
	shuffle(trainer);
	for (uint32_t at = 0, end; at < rows->count; at = end) {
		end = rows->count - at < trainer->options.batch ? rows->count : at + trainer->options.batch;
		for (uint32_t r = at; r < end; r++) {
			uint32_t row = trainer->order[r];
			float part;

			if (rows->digits && r + AHEAD < rows->count)
				__builtin_prefetch(rows->digits +
						   (size_t)trainer->order[r + AHEAD] * network->inputs);
			load(trainer, rows, row, &view);
			forward(network, &view);
			for (uint32_t o = last->outputs; o % LINNET_LANES != 0; o++)
				view.delta[o] = 0;
			part = linnet_loss(&trainer->options, last->activation, network->outputs,
					   view.activations + layers * n, view.target, 1 / (float)(end - at),
					   view.delta);
			sum += part;
			if (part != 0)
				backward(trainer, &view);
		}
		step(trainer);
	}
	trainer->epoch++;
	*loss = is_finite(trainer) ? sum / rows->count : (double)__builtin_inff();
	return 0;
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_float_layer) == 32, "struct linnet_float_layer");
_Static_assert(sizeof(struct linnet_float_network) == 48 + 32 * LINNET_LAYERS_MAX, "struct linnet_float_network");
_Static_assert(sizeof(struct linnet_rows) == 40, "struct linnet_rows");
_Static_assert(sizeof(struct linnet_train_options) == 48, "struct linnet_train_options");
_Static_assert(sizeof(struct linnet_trainer) == 120, "struct linnet_trainer");
