// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The straightforward network that decisions are compared with: int64 weights by output, two loops for each layer.
 * PLAIN names the functions, once per set of compiler flags. Networks of two layers have their own function, because
 * gcc 12 makes the loops of the general one less than half as fast.
 */
#include <stdint.h>

#define NAME_(name, more) name##more
#define NAME(name, more) NAME_(name, more)
#define PLAIN_DEEP NAME(PLAIN, _deep)

struct plain_layer {
	const int64_t *weights;
	const int64_t *biases;
	int64_t inputs;
	int64_t outputs;
};

int PLAIN(const struct plain_layer *layers, int64_t count, const int64_t *features);
int PLAIN_DEEP(const struct plain_layer *layers, int64_t count, const int64_t *features);

int PLAIN(const struct plain_layer *layers, int64_t count, const int64_t *features)
{
	const int64_t *first = layers[0].weights, *first_biases = layers[0].biases;
	const int64_t *last = layers[1].weights, *last_biases = layers[1].biases;
	int64_t inputs = layers[0].inputs, hidden = layers[0].outputs;
	int64_t middle[4096], out[2];

	(void)count;
	for (int64_t j = 0; j < hidden; j++) {
		int64_t sum = 0;

		for (int64_t i = 0; i < inputs; i++)
			sum += features[i] * first[j * inputs + i];
		sum += first_biases[j];
		middle[j] = sum > 0 ? sum : 0;
	}
	for (int64_t o = 0; o < 2; o++) {
		int64_t sum = 0;

		for (int64_t j = 0; j < hidden; j++)
			sum += middle[j] * last[o * hidden + j];
		out[o] = sum + last_biases[o];
	}
	return out[1] > out[0];
}

int PLAIN_DEEP(const struct plain_layer *layers, int64_t count, const int64_t *features)
{
	int64_t rows[2][4096];
	const int64_t *in = features;

	for (int64_t k = 0; k < count; k++) {
		const int64_t *weights = layers[k].weights, *biases = layers[k].biases;
		int64_t inputs = layers[k].inputs, outputs = layers[k].outputs, last = k == count - 1;
		int64_t *out = rows[k & 1];

		for (int64_t j = 0; j < outputs; j++) {
			int64_t sum = 0;

			for (int64_t i = 0; i < inputs; i++)
				sum += in[i] * weights[j * inputs + i];
			sum += biases[j];
			out[j] = sum > 0 || last ? sum : 0;
		}
		in = out;
	}
	return in[1] > in[0];
}
