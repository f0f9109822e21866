// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks the library of knobs: results with one right value, such as gradients against finite differences of a slow
 * network in doubles, the normaliser against sums, and errors. Prints a hash of every resulting float: core/Makefile
 * compares it between builds, where no bit may differ. Every buffer has exactly the size that the core asks for, so
 * that the sanitizers find an access beyond it. Trees, induction and rings are in tune_trees.c, the order in which a tree
 * grows in tune_growth.c, the ends of ranges in tune_limits.c; model files and runs that a kernel repeats in knob_files.c
 * and knob_runs.c.
 */
#include "tune.h"
#include "knobs.h"

/* ---- the same network in doubles, computed one number at a time ---- */

struct slow {
	uint32_t inputs, layers;
	const struct linnet_float_shape *shape;
	double value[8192]; /* per layer: weights by output, biases */
};

static void slow_forward(const struct slow *slow, const float *row, double *out)
{
	double in[512], sum[512];
	const double *value = slow->value;
	uint32_t m = slow->inputs;

	for (uint32_t i = 0; i < m; i++)
		in[i] = row[i];
	for (uint32_t k = 0; k < slow->layers; k++) {
		uint32_t n = slow->shape[k].outputs;
		double total = 0;

		for (uint32_t o = 0; o < n; o++) {
			sum[o] = value[m * n + o];
			for (uint32_t i = 0; i < m; i++)
				sum[o] += value[o * m + i] * in[i];
			if (slow->shape[k].activation == LINNET_SIGMOID)
				sum[o] = 1 / (1 + exp(-sum[o]));
			if (slow->shape[k].activation == LINNET_RELU && sum[o] < 0)
				sum[o] = 0;
			total += exp(sum[o]);
		}
		for (uint32_t o = 0; o < n; o++)
			in[o] = slow->shape[k].activation == LINNET_SOFTMAX_OUTPUT ? exp(sum[o]) / total : sum[o];
		value += (m + 1) * n;
		m = n;
	}
	memcpy(out, in, m * sizeof(*out));
}

static double slow_loss(const struct slow *slow, uint32_t loss, const float *row, const float *target)
{
	uint32_t n = slow->shape[slow->layers - 1].outputs;
	double out[512], sum = 0, total = 0;

	slow_forward(slow, row, out);
	for (uint32_t o = 0; o < n; o++)
		total += exp(out[o]);
	for (uint32_t o = 0; o < n; o++) {
		double p = out[o], y = target[o];

		if (loss == LINNET_SOFTMAX) {
			if (slow->shape[slow->layers - 1].activation == LINNET_LINEAR)
				p = exp(p) / total;
			sum -= y * log(p);
		} else if (loss == LINNET_BINARY) {
			sum -= (y * log(p) + (1 - y) * log(1 - p)) / n;
		} else {
			sum += (p - y) * (p - y) / n;
		}
	}
	return sum;
}

static void slow_copy(struct slow *slow, const struct linnet_small *network)
{
	double *to = slow->value;

	for (uint32_t k = 0; k < network->layer_count; k++) {
		uint32_t m = network->layers[k].inputs, n = network->layers[k].outputs;
		float *weights = room(m * n * sizeof(float)), *biases = room(n * sizeof(float));

		CHECK(linnet_small_get(network, k, weights, biases) == 0);
		for (uint32_t i = 0; i < m * n; i++)
			*to++ = weights[i];
		for (uint32_t o = 0; o < n; o++)
			*to++ = biases[o];
		free(weights);
		free(biases);
	}
}

/* After the first step, the momentum is minus the gradient times the rate. */
static double gradient_of(const struct linnet_small *network, uint32_t layer, uint32_t o, uint32_t i)
{
	const struct linnet_small_layer *l = &network->layers[layer];

	return -network->momentum[l->values + i * l->outputs + o];
}

static void gradients(uint32_t inputs, const struct linnet_float_shape *shape, uint32_t layers, uint32_t loss)
{
	struct linnet_small_options options = { .loss = loss, .learning_rate = 1, .momentum = 0.5f };
	struct linnet_small network;
	static struct slow slow;
	float row[512], target[512], *values, *momentum, *scratch, *outputs, seen = 0;
	double out[512], worst = 0, *at = slow.value;
	uint64_t hash = HASH_START;
	uint32_t n = shape[layers - 1].outputs;

	CHECK(linnet_small_plan(&network, inputs, shape, layers) == 0);
	values = room(network.value_count * sizeof(float));
	momentum = room(network.value_count * sizeof(float));
	scratch = room(network.train_floats * sizeof(float));
	outputs = room(n * sizeof(float));
	linnet_small_place(&network, values, momentum);
	linnet_small_start(&network, 9);
	/* Biases other than 0. */
	for (uint32_t k = 0; k < layers; k++)
		for (uint32_t o = 0; o < shape[k].outputs; o++)
			values[network.layers[k].values + network.layers[k].inputs * shape[k].outputs + o] = unit() / 2;
	CHECK(linnet_small_check(&network, &options) == 0);
	slow.inputs = inputs;
	slow.layers = layers;
	slow.shape = shape;
	slow_copy(&slow, &network);
	for (uint32_t i = 0; i < inputs; i++)
		row[i] = 2 * unit();
	for (uint32_t o = 0; o < n; o++)
		target[o] = loss == LINNET_SOFTMAX ? o == n / 2 : loss == LINNET_BINARY ? (float)(o % 2) : unit();

	linnet_small_forward(&network, row, scratch, outputs);
	slow_forward(&slow, row, out);
	for (uint32_t o = 0; o < n; o++)
		CHECK(fabs(outputs[o] - out[o]) < 3e-6 * (1 + fabs(out[o])));
	hash = hash_of(outputs, n * sizeof(float), hash);

	CHECK(linnet_small_train(&network, &options, row, target, scratch, &seen) == 0);
	CHECK(fabs(seen - slow_loss(&slow, loss, row, target)) < 1e-5 * (1 + seen));
	for (uint32_t k = 0; k < layers; k++) {
		uint32_t m = network.layers[k].inputs, l = network.layers[k].outputs;

		for (uint32_t w = 0; w < (m + 1) * l; w++, at++) {
			double keep = *at, up, down, expected, found;

			*at = keep + 1e-5;
			up = slow_loss(&slow, loss, row, target);
			*at = keep - 1e-5;
			down = slow_loss(&slow, loss, row, target);
			*at = keep;
			expected = (up - down) / 2e-5;
			found = w < m * l ? gradient_of(&network, k, w / m, w % m) : gradient_of(&network, k, w - m * l, m);
			if (fabs(found - expected) > 2e-5 * (1 + fabs(expected))) {
				fprintf(stderr, "loss %u layer %u number %u: gradient %g, differences say %g\n", loss,
					k, w, found, expected);
				exit(1);
			}
			worst = fmax(worst, fabs(expected));
		}
	}
	/* The softmax of one output is 1 whatever it is. */
	CHECK(worst > 1e-3 || (n == 1 && shape[layers - 1].activation == LINNET_SOFTMAX_OUTPUT));
	linnet_small_start(&network, 9);
	options.learning_rate = 0.02f;
	for (int step = 0; step < 300; step++) {
		for (uint32_t i = 0; i < inputs; i++)
			row[i] = unit();
		for (uint32_t o = 0; o < n; o++)
			target[o] = loss == LINNET_SOFTMAX ? (row[0] > 0 ? o == 0 : o == 1) : row[0] > 0;
		CHECK(linnet_small_train(&network, &options, row, target, scratch, &seen) == 0);
		hash = hash_of(&seen, sizeof(seen), hash);
	}
	hash = hash_of(values, network.value_count * sizeof(float), hash);
	printf("network %u-%u layers %u loss %u: %016llx\n", inputs, n, layers, loss, (unsigned long long)hash);

	/* Inputs that are not finite are refused. */
	slow_copy(&slow, &network);
	row[inputs - 1] = NAN;
	CHECK(linnet_small_train(&network, &options, row, target, scratch, &seen) == LINNET_E_RANGE);
	row[inputs - 1] = 0;
	target[0] = INFINITY;
	CHECK(linnet_small_train(&network, &options, row, target, scratch, &seen) == LINNET_E_RANGE);
	for (uint32_t v = 0; v < network.value_count; v++)
		CHECK(isfinite(values[v]) && isfinite(momentum[v]));
	free(values);
	free(momentum);
	free(scratch);
	free(outputs);
}

/*
 * A row is refused as a whole if the gradient leaves its range at layer `at` (from 1), or an input of it does. A unit
 * below that layer has the output 0, or its outputs go nowhere, so that the loss of the row does not show it.
 */
static void refusals(uint32_t layers, uint32_t at, int input)
{
	struct linnet_small_options options = { .loss = LINNET_SQUARE, .learning_rate = 0.1f, .momentum = 0.5f };
	struct linnet_float_shape shape[LINNET_LAYERS_MAX];
	struct linnet_small network;
	float row[3] = { 0.5f, -0.25f, 1 }, target[5] = { 0 }, *values, *keep, *scratch, *below, *above;
	size_t size;

	for (uint32_t k = 0; k < layers; k++)
		shape[k] = (struct linnet_float_shape){ .outputs = 3 + k % 3, .activation = LINNET_LINEAR };
	CHECK(linnet_small_plan(&network, 3, shape, layers) == 0);
	size = 2 * network.value_count * sizeof(float);
	values = room(size);
	keep = room(size);
	scratch = room(network.train_floats * sizeof(float));
	linnet_small_place(&network, values, values + network.value_count);
	linnet_small_start(&network, 9);
	CHECK(linnet_small_train(&network, &options, row, target, scratch, NULL) == 0);

	below = values + network.layers[at - 1].values;
	for (uint32_t i = 0; i <= network.layers[at - 1].inputs; i++)
		below[i * shape[at - 1].outputs] = 0;
	above = values + network.layers[at].values;
	for (uint32_t o = 0; o < shape[at].outputs; o++)
		above[o] = input ? 0 : o ? 1 : 1e30f;
	if (input)
		below[network.layers[at - 1].inputs * shape[at - 1].outputs] = 2e15f;
	memcpy(keep, values, size);
	CHECK(linnet_small_train(&network, &options, row, target, scratch, NULL) == LINNET_E_RANGE);
	CHECK(memcmp(keep, values, size) == 0);
	free(values);
	free(keep);
	free(scratch);
}

static void networks(void)
{
	const uint32_t activations[] = { LINNET_LINEAR, LINNET_RELU, LINNET_SIGMOID };
	const struct linnet_float_shape wrong[] = { { 4, LINNET_SOFTMAX_OUTPUT }, { 4, LINNET_LINEAR } };
	struct linnet_small_options options = { .loss = LINNET_SOFTMAX, .learning_rate = NAN };
	struct linnet_small network;
	float values[20], momentum[20], scratch[20], row[4] = { 0 };
	uint32_t class_, confidence;

	for (size_t a = 0; a < 3; a++) {
		for (uint32_t n = 1; n <= 25; n += n < 9 ? 1 : 4) {
			struct linnet_float_shape shape[3] = { { 15, activations[a] }, { 5, activations[a] }, { n, 0 } };

			for (uint32_t last = LINNET_LINEAR; last <= LINNET_SOFTMAX_OUTPUT; last++) {
				shape[2].activation = last;
				/*
				 * At 0 the slope of ReLU is not defined, and differences may cross 0, so a linear layer
				 * is used instead.
				 */
				if (last != LINNET_RELU)
					gradients(5, shape, 3, LINNET_SQUARE);
				if (last == LINNET_SIGMOID)
					gradients(6, shape, 3, LINNET_BINARY);
				if (n > 1 && (last == LINNET_LINEAR || last == LINNET_SOFTMAX_OUTPUT))
					gradients(4, shape, 3, LINNET_SOFTMAX);
			}
		}
	}
	/* Networks of more than three layers compute gradients again. */
	for (uint32_t layers = 1; layers <= LINNET_LAYERS_MAX; layers++) {
		struct linnet_float_shape shape[LINNET_LAYERS_MAX];

		for (uint32_t k = 0; k < layers; k++)
			shape[k] = (struct linnet_float_shape){ .outputs = 3 + k * 5 % 7, .activation = LINNET_SIGMOID };
		shape[layers - 1].activation = LINNET_LINEAR;
		gradients(4, shape, layers, LINNET_SQUARE);
		for (uint32_t at = 1; at < layers; at++) {
			refusals(layers, at, 0);
			refusals(layers, at, 1);
		}
	}
	CHECK(linnet_small_plan(&network, 4, wrong, 2) == LINNET_E_SHAPE);
	CHECK(linnet_small_plan(&network, 0, wrong, 1) == LINNET_E_SHAPE);
	CHECK(linnet_small_plan(&network, LINNET_SMALL_SIZE_MAX + 1, wrong, 1) == LINNET_E_SHAPE);
	CHECK(linnet_small_plan(&network, 4, wrong + 1, 1) == 0);
	linnet_small_place(&network, values, NULL);
	linnet_small_start(&network, 1);
	CHECK(linnet_small_check(&network, &options) == LINNET_E_MEMORY);
	linnet_small_place(&network, values, momentum);
	CHECK(linnet_small_check(&network, &options) == LINNET_E_RANGE);
	options.learning_rate = 1;
	options.loss = LINNET_BINARY;
	CHECK(linnet_small_check(&network, &options) == LINNET_E_SHAPE);
	options.loss = LINNET_HINGE;
	CHECK(linnet_small_check(&network, &options) == LINNET_E_SHAPE);
	for (int v = 0; v < 20; v++)
		values[v] = v == 18 ? 2 : 0; /* the third bias */
	CHECK(linnet_small_classify(&network, row, scratch, &class_, &confidence) == 0);
	CHECK(class_ == 2 && confidence == 711235); /* e^2 / (e^2 + 3) */
	values[16] = NAN;
	CHECK(linnet_small_classify(&network, row, scratch, &class_, &confidence) == LINNET_E_RANGE);
}

/* ---- normaliser ---- */

static void normalisers(void)
{
	const uint64_t counts[] = { LINNET_NORMALISER_ROWS_MAX - 1, UINT64_MAX / 2, UINT64_MAX - 1, UINT64_MAX };
	struct linnet_moments moments[3];
	struct linnet_normaliser normaliser;
	float row[3], z[3];
	double sum = 0, squares = 0;
	uint64_t hash = HASH_START;

	CHECK(linnet_normaliser_init(&normaliser, 0, 0, moments) == LINNET_E_SHAPE);
	CHECK(linnet_normaliser_init(&normaliser, 3, 0, moments) == 0);
	row[0] = row[1] = row[2] = 7;
	linnet_normaliser_apply(&normaliser, row, z);
	CHECK(z[0] == 0 && z[1] == 0 && z[2] == 0);
	for (int r = 1; r <= 1000; r++) {
		double x = row[0] = 1000 + 50 * unit();

		row[1] = 0.1f;
		row[2] = r == 500 ? NAN : 3e38f * unit();
		CHECK(linnet_normaliser_learn(&normaliser, row) == (r == 500 ? LINNET_E_INPUT : 0));
		if (r != 500) {
			sum += x;
			squares += x * x;
		}
		linnet_normaliser_apply(&normaliser, row, z);
		linnet_normaliser_apply(&normaliser, row, z);
		CHECK(z[1] == 0 && isfinite(z[0]) && isfinite(z[2]));
		hash = hash_of(z, sizeof(z), hash);
	}
	CHECK(normaliser.rows == 999 && normaliser.refused == 1);
	CHECK(fabs(moments[0].mean - sum / 999) < 1e-9 * sum / 999);
	CHECK(fabs(moments[0].variance - (squares / 999 - sum / 999 * sum / 999)) < 1e-6);
	CHECK(moments[1].variance == 0);
	row[0] = INFINITY;
	row[1] = NAN;
	row[2] = -INFINITY;
	linnet_normaliser_apply(&normaliser, row, z);
	CHECK(z[0] == LINNET_Z_MAX && z[1] == 0 && z[2] == -LINNET_Z_MAX);
	/* A count at its end stays there, and each row weighs almost nothing. A larger one comes from no file. */
	for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
		CHECK(linnet_normaliser_init(&normaliser, 1, 0, moments) == 0);
		normaliser.rows = counts[c];
		moments[0] = (struct linnet_moments){ .mean = 10, .variance = 4 };
		row[0] = 12;
		for (int r = 0; r < 3; r++) {
			CHECK(linnet_normaliser_learn(&normaliser, row) == 0);
			CHECK(normaliser.rows == LINNET_NORMALISER_ROWS_MAX);
		}
		CHECK(fabs(moments[0].mean - 10) < 1e-15 && fabs(moments[0].variance - 4) < 1e-15);
		linnet_normaliser_apply(&normaliser, row, z);
		CHECK(z[0] == 1);
	}
	/* With a memory of 100 rows, an old level is forgotten after a few hundred rows. */
	CHECK(linnet_normaliser_init(&normaliser, 1, 100, moments) == 0);
	for (int r = 0; r < 2000; r++) {
		row[0] = (r < 1000 ? 1 : 5) + unit() / 10;
		CHECK(linnet_normaliser_learn(&normaliser, row) == 0);
	}
	CHECK(fabs(moments[0].mean - 5) < 0.05 && moments[0].variance < 0.05);
	printf("normaliser: %016llx\n", (unsigned long long)hash);
}

int main(int argc, char **argv)
{
	unsigned checks, all = 0;

	networks();
	normalisers();
	check_trees();
	check_growth();
	check_limits();
	check_exponentials();
	for (int i = 1; i < argc; i++) {
		CHECK(knob_file(argv[i], &checks) == 0 && checks > 0);
		all += checks;
	}
	printf("files: %u checks\n", all);
	CHECK(knob_runs() == 0);
	return 0;
}
