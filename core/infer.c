/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Runs a network that network.c has proven and laid out. Exact: each width holds every partial sum.
 *
 * Numbers between layers are kept in scratch: a row of 16-bit inputs for the fast loops, a list of used pairs, and two
 * rows of sums that alternate. They start as int32 and are widened once, at the first layer that is wider.
 */
#include "incremental.h"

struct rows {
	int16_t *narrow; /* inputs of an I16 layer with narrow inputs, zero-padded to row_max */
	uint16_t *used;
	void *in;        /* inputs of any other layer, in the current type of the sums */
	void *out;
};

static struct rows rows_of(const struct linnet_network *network, void *scratch)
{
	size_t n = network->row_max;
	struct rows rows;

	rows.narrow = scratch;
	rows.used = (uint16_t *)scratch + n;
	rows.in = (uint16_t *)scratch + 2 * n;
	rows.out = (uint8_t *)rows.in + (network->scratch_size - 2 * sizeof(int16_t) * n) / 2;
	return rows;
}

/* I16 layer whose inputs need 32 bits. */
static void sum_i32(const struct linnet_layer *layer, const int32_t *in, int32_t *out)
{
	const int16_t *weights = layer->weights;
	const int32_t *biases = layer->biases;

	if (layer->by_input) {
		for (uint32_t o = 0; o < layer->stride; o++)
			out[o] = biases[o];
		for (uint32_t i = 0; i < layer->inputs; i++) {
			const int16_t *w = weights + 2 * (size_t)(i / 2) * layer->stride + (i & 1);

			if (in[i] == 0)
				continue;
			for (uint32_t o = 0; o < layer->stride; o++)
				out[o] += w[2 * o] * in[i];
		}
		return;
	}
	for (uint32_t o = 0; o < layer->outputs; o++, weights += layer->stride) {
		int32_t sum = biases[o];

		for (uint32_t i = 0; i < layer->inputs; i++)
			sum += weights[i] * in[i];
		out[o] = sum;
	}
}

static void sum_i64(const struct linnet_layer *layer, const int64_t *in, int64_t *out)
{
	const int64_t *weights = layer->weights, *biases = layer->biases;

	for (uint32_t o = 0; o < layer->outputs; o++, weights += layer->stride) {
		int64_t sum = biases[o];

		for (uint32_t i = 0; i < layer->inputs; i++)
			sum += weights[i] * in[i];
		out[o] = sum;
	}
}

static void sum_i128(const struct linnet_layer *layer, const linnet_int128 *in, linnet_int128 *out)
{
	const int64_t *weights = layer->weights, *biases = layer->biases;

	for (uint32_t o = 0; o < layer->outputs; o++, weights += layer->stride) {
		linnet_int128 sum = biases[o];

		for (uint32_t i = 0; i < layer->inputs; i++)
			sum += weights[i] * in[i];
		out[o] = sum;
	}
}

/* Widens a row in place, from the last number to the first, since the wider numbers overlap the narrower ones. */
static void widen(void *row, uint32_t n, uint8_t from, uint8_t to)
{
	for (uint32_t i = n; i-- > 0;) {
		int64_t x = from == LINNET_I16 ? ((const int32_t *)row)[i] : ((const int64_t *)row)[i];

		if (to == LINNET_I64)
			((int64_t *)row)[i] = x;
		else
			((linnet_int128 *)row)[i] = x;
		__asm__ volatile("" : : : "memory"); /* the two types alias here */
	}
}

static void relu(void *row, uint32_t n, uint8_t width)
{
	if (width == LINNET_I16) {
		int32_t *x = row;

		for (uint32_t i = 0; i < n; i++)
			x[i] = x[i] > 0 ? x[i] : 0;
	} else if (width == LINNET_I64) {
		int64_t *x = row;

		for (uint32_t i = 0; i < n; i++)
			x[i] = x[i] > 0 ? x[i] : 0;
	} else {
		linnet_int128 *x = row;

		for (uint32_t i = 0; i < n; i++)
			x[i] = x[i] > 0 ? x[i] : 0;
	}
}

/* Writes the sums of the last layer to rows->out, in its width. Before layer `first` the numbers are int32. */
static void run_from(const struct linnet_network *network, uint32_t first, struct rows *rows)
{
	uint8_t width = LINNET_I16;

	for (uint32_t k = first; k < network->layer_count; k++) {
		const struct linnet_layer *layer = &network->layers[k];
		void *swap = rows->in;

		if (k > 0 && layer->width == LINNET_I16 && layer->narrow)
			network->dense->pass(rows->in, layer->inputs, rows->narrow);
		else if (k > 0)
			relu(rows->in, layer->inputs, width);
		if (layer->width != width)
			widen(rows->in, layer->inputs, width, layer->width);
		width = layer->width;
		if (width == LINNET_I16 && layer->narrow) {
			if (layer->by_input)
				network->dense->pairs(layer, rows->narrow, rows->used, rows->out);
			else
				network->dense->rows(layer, rows->narrow, rows->out);
		} else if (width == LINNET_I16) {
			sum_i32(layer, rows->in, rows->out);
		} else if (width == LINNET_I64) {
			sum_i64(layer, rows->in, rows->out);
		} else {
			sum_i128(layer, rows->in, rows->out);
		}
		rows->in = rows->out;
		rows->out = swap;
	}
	rows->out = rows->in;
}

static int run(const struct linnet_network *network, const uint8_t *inputs, struct rows *rows)
{
	/* The inputs of the first layer are bytes, so always narrow; a wide layer takes them from the other row. */
	if (network->dense->take(inputs, network->inputs, rows->narrow) > network->input_max)
		return LINNET_E_INPUT;
	if (network->layers[0].width != LINNET_I16)
		for (uint32_t i = 0; i < network->inputs; i++)
			((int32_t *)rows->in)[i] = inputs[i];
	run_from(network, 0, rows);
	return 0;
}

static linnet_int128 sum_at(const struct linnet_network *network, const struct rows *rows, uint32_t o)
{
	if (network->width == LINNET_I16)
		return ((const int32_t *)rows->out)[o];
	if (network->width == LINNET_I64)
		return ((const int64_t *)rows->out)[o];
	return ((const linnet_int128 *)rows->out)[o];
}

int linnet_network_logits(const struct linnet_network *network, const uint8_t *inputs, void *scratch,
			  linnet_int128 *logits)
{
	struct rows rows = rows_of(network, scratch);
	int error = run(network, inputs, &rows);

	if (error < 0)
		return error;
	for (uint32_t o = 0; o < network->outputs; o++)
		logits[o] = sum_at(network, &rows, o);
	return 0;
}

static int64_t gap_of(const struct linnet_network *network, const struct rows *rows)
{
	linnet_int128 gap = sum_at(network, rows, 1) - sum_at(network, rows, 0);

	if (gap > INT64_MAX)
		return INT64_MAX;
	if (gap < INT64_MIN)
		return INT64_MIN;
	return (int64_t)gap;
}

int linnet_network_score(const struct linnet_network *network, const uint8_t *inputs, void *scratch, int64_t *score)
{
	struct rows rows = rows_of(network, scratch);
	int error;

	if (network->outputs != 2)
		return LINNET_E_SHAPE;
	error = run(network, inputs, &rows);
	if (error < 0)
		return error;
	*score = gap_of(network, &rows);
	return 0;
}

int32_t *linnet_network_first_sums(const struct linnet_network *network, void *scratch)
{
	return rows_of(network, scratch).in;
}

int linnet_network_score_rest(const struct linnet_network *network, void *scratch, int64_t *score)
{
	struct rows rows = rows_of(network, scratch);

	if (network->outputs != 2)
		return LINNET_E_SHAPE;
	run_from(network, 1, &rows);
	*score = gap_of(network, &rows);
	return 0;
}
