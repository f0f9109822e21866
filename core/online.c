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
/* Larger gradients are refused: one more product could overflow a float. */
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
	lanes last;        /* the last four deltas */
	lanes last_once;   /* without the lanes that belong to the vector before */
};

/* Updates the weights of one input, or the biases. Returns the sum of weights times deltas before the update. */
INLINE float row(const struct pass *pass, float *value, float *speed, float x)
{
	uint32_t last = pass->outputs - LANES;
	lanes old = load(value + last), v = step(load(speed + last), pass->last, x, pass->momentum);
	lanes sum = old * pass->last_once;

	/* The last four may overlap those before: they are read first and written last. */
	for (uint32_t at = 0; at < last; at += LANES) {
		lanes d = load(pass->delta + at), w = load(value + at);
		lanes u = step(load(speed + at), d, x, pass->momentum);

		sum += w * d;
		store(speed + at, u);
		store(value + at, w + u);
	}
	store(speed + last, v);
	store(value + last, old + v);
	return across(sum);
}

/* Like row, for rows of one to three outputs. */
static float row_few(const struct pass *pass, float *value, float *speed, float x)
{
	float sum = 0;

	for (uint32_t o = 0; o < pass->outputs; o++) {
		float d = pass->delta[o], v = step(spread(speed[o]), spread(d), x, pass->momentum)[0];

		sum += value[o] * d;
		speed[o] = v;
		value[o] += v;
	}
	return sum;
}

/* Updates one layer. Unless `back` is NULL, fills it with the gradient with respect to the layer's inputs. */
static void backward(struct linnet_small *network, const struct linnet_small_layer *layer,
		     const struct linnet_small_options *options, const float *inputs, const float *delta, float *back)
{
	uint32_t n = layer->outputs, m = layer->inputs;
	float *value = network->values + layer->values, *speed = network->momentum + layer->values;
	struct pass pass = { .outputs = n, .momentum = options->momentum, .delta = delta };

	if (n < LANES) {
		for (uint32_t i = 0; i <= m; i++, value += n, speed += n) {
			float x = i < m ? inputs[i] : 1, sum = row_few(&pass, value, speed, x * options->learning_rate);

			if (back && i < m)
				back[i] = sum;
		}
		return;
	}
	pass.last = load(delta + n - LANES);
	pass.last_once = (lanes)((lanes_mask)pass.last & all_but[(LANES - n % LANES) % LANES]);
	for (uint32_t i = 0; i < m; i++, value += n, speed += n) {
		float sum = row(&pass, value, speed, inputs[i] * options->learning_rate);

		if (back)
			back[i] = sum;
	}
	row(&pass, value, speed, options->learning_rate);
}

int linnet_small_train(struct linnet_small *network, const struct linnet_small_options *options, const float *inputs,
		       const float *targets, float *scratch, float *loss)
{
	uint32_t count = network->layer_count, last = network->layers[count - 1].activation;
	float *out[LINNET_LAYERS_MAX], *at = scratch, *delta, *back, *swap;
	const float *in = inputs;
	double sum;

	for (uint32_t k = 0; k < count; k++) {
		out[k] = at;
		at += network->layers[k].outputs;
		linnet_small_layer_forward(&network->layers[k], network->values, in, out[k]);
		in = out[k];
	}
	delta = at;
	back = at + network->forward_floats / 2;
	sum = loss_of(options, last, network->outputs, in, targets, delta, loss != NULL);
	if (!linnet_small_within(delta, network->outputs, GRADIENT_MAX) || !linnet_small_within(inputs, network->inputs, GRADIENT_MAX))
		return LINNET_E_RANGE;
	for (uint32_t k = count; k-- > 0;) {
		const struct linnet_small_layer *below = k > 0 ? &network->layers[k - 1] : NULL;

		backward(network, &network->layers[k], options, k > 0 ? out[k - 1] : inputs, delta,
			 below ? back : NULL);
		if (!below)
			break;
		if (below->activation == LINNET_RELU)
			for (uint32_t o = 0; o < below->outputs; o++)
				back[o] = out[k - 1][o] > 0 ? back[o] : 0;
		if (below->activation == LINNET_SIGMOID)
			for (uint32_t o = 0; o < below->outputs; o++)
				back[o] *= out[k - 1][o] * (1 - out[k - 1][o]);
		swap = delta;
		delta = back;
		back = swap;
	}
	if (loss)
		*loss = (float)sum;
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_small_options) == 12, "struct linnet_small_options");
