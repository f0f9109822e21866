// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The network as one would write it down first: int64 weights by output, two loops, two outputs. What decisions are
 * compared with. PLAIN names the function, once per set of compiler flags.
 */
#include <stdint.h>

int PLAIN(const int64_t *first, const int64_t *first_biases, const int64_t *last, const int64_t *last_biases,
	  int64_t inputs, int64_t hidden, const int64_t *features);

int PLAIN(const int64_t *first, const int64_t *first_biases, const int64_t *last, const int64_t *last_biases,
	  int64_t inputs, int64_t hidden, const int64_t *features)
{
	int64_t middle[4096], out[2];

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
