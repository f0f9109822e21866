// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The network as one would write it down first: int64 weights by output, two loops for each layer. What decisions are
 * compared with. PLAIN names the function, once per set of compiler flags.
 */
#include <stdint.h>

struct plain_layer {
	const int64_t *weights;
	const int64_t *biases;
	int64_t inputs;
	int64_t outputs;
};

int PLAIN(const struct plain_layer *layers, int64_t count, const int64_t *features);

int PLAIN(const struct plain_layer *layers, int64_t count, const int64_t *features)
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
