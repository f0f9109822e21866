/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Trains small networks row by row: forward pass, gradient of the loss, backward pass through the layers.
 *
 * train.c trains large networks: it needs a gradient and two moments for each value, and an order of rows. Here a step
 * follows each row, so a gradient is used when it is computed, and never stored. Rows of outputs are processed in
 * vectors of four that may overlap, as in small.c.
 */
#include "float.h"
#include "small.h"

/* A smaller momentum is set to 0: it would decay into denormal numbers, whose additions are a hundred times slower. */
#define MOMENTUM_MIN 1e-30f
/* Larger gradients, and inputs of a layer, are refused: one more product could overflow a float. */
#define GRADIENT_MAX 1e15f

/* Masks of all lanes except the first k. */
static const lanes_mask all_but[LANES] = { { -1, -1, -1, -1 }, { 0, -1, -1, -1 }, { 0, 0, -1, -1 }, { 0, 0, 0, -1 } };

void linnet_small_options_of(struct linnet_small_options *options, uint32_t loss, uint32_t rate_ppm,
			     uint32_t momentum_ppm)
{
	options->loss = loss;
	options->learning_rate = (float)(int32_t)rate_ppm / 1000000;
	options->momentum = (float)(int32_t)momentum_ppm / 1000000;
}

int linnet_small_check(const struct linnet_small *network, const struct linnet_small_options *options)
{
	uint32_t last = network->layers[network->layer_count - 1].activation;

	if (options->loss == LINNET_SOFTMAX) {
		if ((last != LINNET_LINEAR && last != LINNET_SOFTMAX_OUTPUT) || network->outputs < 2)
			return LINNET_E_SHAPE;
	} else if (options->loss == LINNET_BINARY) {
		if (last != LINNET_SIGMOID)
			return LINNET_E_SHAPE;
	} else if (options->loss != LINNET_SQUARE) {
		return LINNET_E_SHAPE;
	}
	if (!network->momentum)
		return LINNET_E_MEMORY;
	if (!(options->learning_rate >= 0 && options->learning_rate <= 1e6f) ||
	    !(options->momentum >= 0 && options->momentum < 1))
		return LINNET_E_RANGE;
	return 0;
}

/* The loss of one row, and its gradient with respect to the sums of the last layer. `p` is the layer's output. */
static double loss_of(const struct linnet_small_options *options, uint32_t activation, uint32_t n, const float *p,
		      const float *y, float *delta, int want)
{
	double sum = 0;

	if (options->loss == LINNET_SOFTMAX) {
		float weight = 0;

		for (uint32_t o = 0; o < n; o++) {
			delta[o] = p[o];
			weight += y[o];
		}
		if (activation == LINNET_LINEAR)
			linnet_small_softmax(delta, n);
		for (uint32_t o = 0; o < n; o++) {
			if (want && y[o] != 0)
				sum -= y[o] * linnet_log(delta[o] > 1e-30f ? delta[o] : 1e-30f);
			delta[o] = weight * delta[o] - y[o];
		}
		return sum;
	}
	if (options->loss == LINNET_BINARY) {
		for (uint32_t o = 0; o < n; o++) {
			float no = 1 - p[o];

			if (want)
				sum -= y[o] * linnet_log(p[o] > 1e-30f ? p[o] : 1e-30f) +
				       (1 - y[o]) * linnet_log(no > 1e-30f ? no : 1e-30f);
			delta[o] = (p[o] - y[o]) / (float)n;
		}
		return sum / n;
	}
	for (uint32_t o = 0; o < n; o++) {
		float gap = p[o] - y[o], slope = 1;

		if (activation == LINNET_SIGMOID)
			slope = p[o] * (1 - p[o]);
		if (activation == LINNET_RELU)
			slope = p[o] > 0;
		sum += (double)gap * gap;
		delta[o] = 2 * gap * slope / (float)n;
	}
	if (activation == LINNET_SOFTMAX_OUTPUT) {
		/* Each output depends on every sum. */
		float inner = 0;

		for (uint32_t o = 0; o < n; o++)
			inner += delta[o] * p[o];
		for (uint32_t o = 0; o < n; o++)
			delta[o] = p[o] * (delta[o] - inner);
	}
	return sum / n;
}

/* A step of four values, whose gradient is d * x; `x` carries the rate. */
INLINE lanes step(lanes v, lanes d, float x, float momentum)
{
	lanes size;

	v = v * momentum - d * x;
	size = select(v < 0.0f, -v, v);
	return (lanes)((lanes_mask)v & (size >= MOMENTUM_MIN));
}

/* The layer that is updated. */
struct pass {
	uint32_t outputs;
	float momentum;
	const float *delta;
	lanes last; /* the last four deltas */
};

/* Updates the weights of one input, or the biases. */
INLINE void row(const struct pass *pass, float *value, float *speed, float x)
{
	uint32_t last = pass->outputs - LANES;
	lanes old = load(value + last), v = step(load(speed + last), pass->last, x, pass->momentum);

	/* The last four may overlap those before: they are read first and written last. */
	for (uint32_t at = 0; at < last; at += LANES) {
		lanes u = step(load(speed + at), load(pass->delta + at), x, pass->momentum);

		store(speed + at, u);
		store(value + at, load(value + at) + u);
	}
	store(speed + last, v);
	store(value + last, old + v);
}

/* Like row, for rows of one to three outputs. */
static void row_few(const struct pass *pass, float *value, float *speed, float x)
{
	for (uint32_t o = 0; o < pass->outputs; o++) {
		float v = step(spread(speed[o]), spread(pass->delta[o]), x, pass->momentum)[0];

		speed[o] = v;
		value[o] += v;
	}
}

/* Updates one layer. */
static void update(struct linnet_small *network, const struct linnet_small_layer *layer,
		   const struct linnet_small_options *options, const float *inputs, const float *delta)
{
	uint32_t n = layer->outputs, m = layer->inputs;
	float *value = network->values + layer->values, *speed = network->momentum + layer->values;
	struct pass pass = { .outputs = n, .momentum = options->momentum, .delta = delta };

	if (n < LANES) {
		for (uint32_t i = 0; i <= m; i++, value += n, speed += n)
			row_few(&pass, value, speed, (i < m ? inputs[i] : 1) * options->learning_rate);
		return;
	}
	pass.last = load(delta + n - LANES);
	for (uint32_t i = 0; i < m; i++, value += n, speed += n)
		row(&pass, value, speed, inputs[i] * options->learning_rate);
	row(&pass, value, speed, options->learning_rate);
}

/* The gradient with respect to a layer's inputs: the sum of weights times deltas. */
static void backward(const struct linnet_small *network, const struct linnet_small_layer *layer, const float *delta,
		     float *back)
{
	uint32_t n = layer->outputs, m = layer->inputs, last = n - LANES;
	const float *value = network->values + layer->values;
	lanes last_once;

	if (n < LANES) {
		for (uint32_t i = 0; i < m; i++, value += n) {
			float sum = 0;

			for (uint32_t o = 0; o < n; o++)
				sum += value[o] * delta[o];
			back[i] = sum;
		}
		return;
	}
	/* Without the lanes that belong to the vector before. */
	last_once = (lanes)((lanes_mask)load(delta + last) & all_but[(LANES - n % LANES) % LANES]);
	for (uint32_t i = 0; i < m; i++, value += n) {
		lanes sum = load(value + last) * last_once;

		for (uint32_t at = 0; at < last; at += LANES)
			sum += load(value + at) * load(delta + at);
		back[i] = across(sum);
	}
}

/* The gradient with respect to the sums of a layer, from that of its outputs. */
INLINE void slope(uint32_t activation, const float *out, uint32_t n, float *delta)
{
	if (activation == LINNET_RELU)
		for (uint32_t o = 0; o < n; o++)
			delta[o] = out[o] > 0 ? delta[o] : 0;
	if (activation == LINNET_SIGMOID)
		for (uint32_t o = 0; o < n; o++)
			delta[o] *= out[o] * (1 - out[o]);
}

/*
 * Whether all of x are within GRADIENT_MAX of 0, as linnet_float_within says, four at a time: without their signs,
 * floats are in the order of their bits, and infinities and NaN come last.
 */
static int all_within(const float *x, uint32_t n)
{
	const lanes_mask size = (lanes_mask){ 0x7fffffff, 0x7fffffff, 0x7fffffff, 0x7fffffff };
	const lanes_mask most = (lanes_mask)spread(GRADIENT_MAX);
	lanes_mask above;

	if (n < LANES)
		return linnet_float_within(x, n, GRADIENT_MAX);
	above = ((lanes_mask)load(x + n - LANES) & size) > most;
	for (uint32_t at = 0; at + LANES < n; at += LANES)
		above |= ((lanes_mask)load(x + at) & size) > most;
	return !(above[0] | above[1] | above[2] | above[3]);
}

/* Gradients with respect to the sums of a layer and of the one above it. */
struct deltas {
	const float *own;
	const float *above;
};

/*
 * Those of layer `k`, from that of the last layer, which lies where the outputs of the last layer were. `here` and
 * `there` have room for a layer each. On the way to layer 0 all layers are checked: 0 if a number is too large.
 */
INLINE int descend(const struct linnet_small *network, float *const *out, uint32_t k, float *here, float *there,
		   struct deltas *deltas)
{
	deltas->own = out[network->layer_count - 1];
	for (uint32_t j = network->layer_count - 1; j > k; j--) {
		const struct linnet_small_layer *below = &network->layers[j - 1];
		float *to = here;

		backward(network, &network->layers[j], deltas->own, to);
		slope(below->activation, out[j - 1], below->outputs, to);
		if (k == 0 && !(all_within(to, below->outputs) && all_within(out[j - 1], below->outputs)))
			return 0;
		deltas->above = deltas->own;
		deltas->own = to;
		here = there;
		there = to;
	}
	return 1;
}

int linnet_small_train(struct linnet_small *network, const struct linnet_small_options *options, const float *inputs,
		       const float *targets, float *scratch, float *loss)
{
	uint32_t last = network->layer_count - 1;
	float *out[LINNET_LAYERS_MAX], *here = scratch, *there;
	const float *in = inputs;
	struct deltas deltas;
	double sum;

	for (uint32_t k = 0; k <= last; k++) {
		out[k] = here;
		here += network->layers[k].outputs;
		linnet_small_layer_forward(&network->layers[k], network->values, in, out[k]);
		in = out[k];
	}
	there = here + network->forward_floats / 2;
	sum = loss_of(options, network->layers[last].activation, network->outputs, in, targets, here, loss != NULL);
	for (uint32_t o = 0; o < network->outputs; o++)
		out[last][o] = here[o];
	/* Everything is checked before the first update: a network is never changed in part. */
	if (!all_within(inputs, network->inputs) || !all_within(out[last], network->outputs) ||
	    !descend(network, out, 0, here, there, &deltas))
		return LINNET_E_RANGE;
	/*
	 * The scratch keeps the gradients of two layers. From the first layer up, those of the layers above can still be
	 * computed again, for their weights are unchanged. That is needed in networks of four layers and more.
	 */
	for (uint32_t k = 0; k <= last; k += 2) {
		if (k > 0)
			descend(network, out, k, here, there, &deltas);
		update(network, &network->layers[k], options, k > 0 ? out[k - 1] : inputs, deltas.own);
		if (k < last)
			update(network, &network->layers[k + 1], options, out[k], deltas.above);
	}
	if (loss)
		*loss = (float)sum;
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_small_options) == 12, "struct linnet_small_options");
