/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks the loops of dense layers one by one (core/dense.c), for every instruction set that is linked and that this
 * machine has: drawn layers of all small sizes, against sums that are computed plainly. Memory has any content, and is of
 * exactly the size that dense.c asks for.
 */
#include "drawn.h"

#define CHECK(condition) CHECK_IN(condition, "; size %u, loops %u\n", size, set)

#define SIZES 290 /* more than two blocks of eight of the longest vectors */
#define SIDE_MAX 40

#pragma weak linnet_dense_avx2
#pragma weak linnet_dense_avx512
extern const struct linnet_dense linnet_dense_avx2, linnet_dense_avx512;

static const struct linnet_dense *sets[3];
static uint32_t size, set, set_count;

static uint32_t padded(uint32_t n)
{
	return (n + 31) / 32 * 32;
}

/* ---- a layer that is drawn, in the two ways in which it is laid out ---- */

static int16_t weights[SIZES * SIDE_MAX], inputs[SIZES];
static int32_t biases[SIZES], sums[SIZES];

static void draw_layer(uint32_t input_count, uint32_t output_count)
{
	/* Products fill 32 bits in layers of one or two inputs; of more, the sums do. */
	int32_t input_most = (int32_t[]){ 1, 9, 32767 }[below(3)], zeros = (int32_t[]){ 0, 1, 6 }[below(3)];
	int32_t most = INT32_MAX / (int32_t)input_count / input_most;

	most = below(3) == 0 ? 1 : most < 32768 ? most : 32768;
	for (uint32_t i = 0; i < input_count; i++) {
		int32_t input = below(4) == 0 ? input_most : 1 + (int32_t)below((uint32_t)input_most);

		inputs[i] = (int16_t)(below(7) < (uint32_t)zeros ? 0 : input);
	}
	for (uint32_t o = 0; o < output_count; o++) {
		biases[o] = (int32_t)within(INT32_MAX - (int64_t)input_count * input_most * most);
		sums[o] = biases[o];
		for (uint32_t i = 0; i < input_count; i++) {
			int16_t weight = (int16_t)(below(8) == 0 ? -most : within(most < 32768 ? most : 32767));

			weights[o * input_count + i] = weight;
			sums[o] += weight * inputs[i];
		}
	}
}

static void check_pairs(uint32_t input_count, uint32_t output_count, int content)
{
	struct linnet_layer layer = { .inputs = input_count, .outputs = output_count, .stride = padded(output_count) };
	uint32_t pairs = (input_count + 1) / 2;
	size_t in_size = 2 * sizeof(int16_t) * pairs, weights_size = in_size * layer.stride;
	size_t used_size = sizeof(uint16_t) * pairs, sums_size = sizeof(int32_t) * layer.stride;
	int16_t *in = room(in_size, content), *w = room(weights_size, content);
	int32_t *b = room(sums_size, content);

	memset(in, 0, in_size);
	memset(w, 0, weights_size);
	memset(b, 0, sums_size);
	memcpy(in, inputs, sizeof(*in) * input_count);
	memcpy(b, biases, sizeof(*b) * output_count);
	for (uint32_t o = 0; o < output_count; o++)
		for (uint32_t i = 0; i < input_count; i++)
			w[2 * (i / 2 * layer.stride + o) + i % 2] = weights[o * input_count + i];
	layer.weights = w;
	layer.biases = b;
	for (set = 0; set < set_count; set++) {
		uint16_t *used = room(used_size, content);
		int32_t *out = room(sums_size, content);

		sets[set]->pairs(&layer, in, used, out);
		for (uint32_t o = 0; o < layer.stride; o++)
			CHECK(out[o] == (o < output_count ? sums[o] : 0));
		CHECK(untouched(used, used_size, used_size, content) && untouched(out, sums_size, sums_size, content));
		free(out);
		free(used);
	}
	free(b);
	free(w);
	free(in);
}

static void check_rows(uint32_t input_count, uint32_t output_count, int content)
{
	struct linnet_layer layer = { .inputs = input_count, .outputs = output_count, .stride = padded(input_count) };
	size_t in_size = sizeof(int16_t) * layer.stride, sums_size = sizeof(int32_t) * output_count;
	int16_t *in = room(in_size, content), *w = room(in_size * output_count, content);
	int32_t *b = room(sums_size, content);

	memset(in, 0, in_size);
	memset(w, 0, in_size * output_count);
	memcpy(in, inputs, sizeof(*in) * input_count);
	memcpy(b, biases, sums_size);
	for (uint32_t o = 0; o < output_count; o++)
		memcpy(w + o * layer.stride, weights + o * input_count, sizeof(*w) * input_count);
	layer.weights = w;
	layer.biases = b;
	for (set = 0; set < set_count; set++) {
		int32_t *out = room(sums_size, content);

		sets[set]->rows(&layer, in, out);
		CHECK(memcmp(out, sums, sums_size) == 0 && untouched(out, sums_size, sums_size, content));
		free(out);
	}
	free(b);
	free(w);
	free(in);
}

/* ---- rows of 16 bits, padded with zeros ---- */

static void check_narrow(const int16_t *narrow, const int16_t *expected, int content)
{
	size_t narrow_size = sizeof(*narrow) * padded(size);

	for (uint32_t i = 0; i < padded(size); i++)
		CHECK(narrow[i] == (i < size ? expected[i] : 0));
	CHECK(untouched(narrow, narrow_size, narrow_size, content));
}

static void check_take(int content)
{
	uint8_t *bytes = room(size, 0xff), largest = 0, most = (uint8_t[]){ 0, 1, 9, 255 }[below(4)];
	int16_t expected[SIZES];

	for (uint32_t i = 0; i < size; i++) {
		bytes[i] = (uint8_t)below(most + 1u);
		expected[i] = bytes[i];
		largest = bytes[i] > largest ? bytes[i] : largest;
	}
	for (set = 0; set < set_count; set++) {
		int16_t *narrow = room(sizeof(*narrow) * padded(size), content);

		CHECK(sets[set]->take(bytes, size, narrow) == largest);
		check_narrow(narrow, expected, content);
		free(narrow);
	}
	free(bytes);
}

static void check_pass(int content)
{
	int32_t *wide = room(sizeof(*wide) * size, 0x11);
	int16_t expected[SIZES];

	for (uint32_t i = 0; i < size; i++) {
		int64_t sum = within(below(3) == 0 ? 1 : INT32_MAX);

		wide[i] = (int32_t)(sum > INT16_MAX ? sum % (INT16_MAX + 1) : sum);
		expected[i] = (int16_t)(wide[i] > 0 ? wide[i] : 0);
	}
	for (set = 0; set < set_count; set++) {
		int16_t *narrow = room(sizeof(*narrow) * padded(size), content);

		sets[set]->pass(wide, size, narrow);
		check_narrow(narrow, expected, content);
		free(narrow);
	}
	free(wide);
}

int main(void)
{
	sets[set_count++] = &linnet_dense_portable;
	if (&linnet_dense_avx2 && has_avx2())
		sets[set_count++] = &linnet_dense_avx2;
	if (&linnet_dense_avx512 && has_avx512())
		sets[set_count++] = &linnet_dense_avx512;
	for (size = 1; size < SIZES; size++) {
		uint32_t side = 1 + below(SIDE_MAX);
		int content = (int[]){ 0x5a, 0xff, 0 }[size % 3];

		draw_layer(side, size);
		check_pairs(side, size, content);
		draw_layer(size, side);
		check_rows(size, side, content);
		check_take(content);
		check_pass(content);
	}
	printf("layers of up to %u inputs or outputs: the loops of %u instruction sets find their sums\n", SIZES - 1,
	       set_count);
	return 0;
}
