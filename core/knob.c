/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reader of model files of kind 2, the models of knobs: spec/model-file.md. The input is not trusted: the checks come
 * in the order of the table there, and a byte is read only after an earlier check has shown that it exists. Floats are
 * copied and checked as bits, so a kernel can read a file without its FPU.
 */
#include "envelope.h"
#include "tree.h"

#define HEADER_BYTES 96
#define RESERVED 72 /* from here to the end of the header */
#define MOMENTS_BYTES 16
#define LAYER_BYTES 8
#define NODE_BYTES 8
#define MILLION 1000000

typedef uint64_t bits64 __attribute__((may_alias));

/* Offsets of the parts. */
struct places {
	size_t moments;
	size_t layers;
	size_t network;
	size_t nodes;
	size_t end;
};

static int check_header(const uint8_t *bytes, size_t *offset)
{
	uint32_t parts = get32(bytes + 24), layers = get32(bytes + 20);
	uint32_t schema = get16(bytes + 12), inputs = get16(bytes + 14);
	uint32_t levels = get16(bytes + 28), nodes = get32(bytes + 60);

	if (get16(bytes + 10) != LINNET_KIND_KNOB || get16(bytes + 8) < 2)
		return refuse(offset, 10, LINNET_E_KIND);
	if (parts == 0 || parts > (LINNET_PART_NETWORK | LINNET_PART_TREES))
		return refuse(offset, 24, LINNET_E_FIELD);
	if (schema != LINNET_SCHEMA_READAHEAD1 && schema != LINNET_SCHEMA_NFS1 && schema < LINNET_SCHEMA_PRIVATE)
		return refuse(offset, 12, LINNET_E_SCHEMA);
	if (inputs < 1 || inputs > LINNET_KNOB_INPUTS_MAX)
		return refuse(offset, 14, LINNET_E_FIELD);
	if (parts & LINNET_PART_NETWORK ? layers < 1 || layers > LINNET_LAYERS_MAX : layers != 0)
		return refuse(offset, 20, LINNET_E_FIELD);
	if (levels < 1 || levels > LINNET_KNOB_LEVELS_MAX)
		return refuse(offset, 28, LINNET_E_FIELD);
	if (get16(bytes + 30) > LINNET_UNIT_KIB)
		return refuse(offset, 30, LINNET_E_FIELD);
	if (get64(bytes + 48) > LINNET_NORMALISER_ROWS_MAX)
		return refuse(offset, 48, LINNET_E_FIELD);
	if (parts & LINNET_PART_TREES ? nodes < 1 || nodes > LINNET_TREE_NODES_MAX : nodes != 0)
		return refuse(offset, 60, LINNET_E_FIELD);
	for (size_t at = 64; at < RESERVED; at += 4)
		if (get32(bytes + at) > MILLION)
			return refuse(offset, at, LINNET_E_FIELD);
	for (size_t at = RESERVED; at < HEADER_BYTES; at++)
		if (bytes[at] != 0)
			return refuse(offset, at, LINNET_E_FIELD);
	return 0;
}

/* Checks the layer table, and that the parts together have the size of the file. */
static int check_shape(const uint8_t *bytes, size_t size, struct places *places, size_t *offset)
{
	uint32_t layers = get32(bytes + 20), inputs = get16(bytes + 14);
	uint32_t levels = get16(bytes + 28);

	places->moments = HEADER_BYTES + 4 * (size_t)levels;
	places->layers = places->moments + MOMENTS_BYTES * (size_t)inputs;
	places->network = places->layers + LAYER_BYTES * (size_t)layers;
	places->nodes = places->network;
	places->end = size - 4;
	if (places->network > places->end)
		return refuse(offset, 16, LINNET_E_SHAPE);
	for (uint32_t k = 0; k < layers; k++) {
		size_t at = places->layers + LAYER_BYTES * (size_t)k;
		uint32_t outputs = get32(bytes + at), activation = get32(bytes + at + 4);

		if (outputs < 1 || outputs > LINNET_SMALL_SIZE_MAX || (k + 1 == layers && outputs != levels))
			return refuse(offset, at, LINNET_E_SHAPE);
		if (activation > LINNET_SOFTMAX_OUTPUT || (activation == LINNET_SOFTMAX_OUTPUT && k + 1 < layers))
			return refuse(offset, at + 4, LINNET_E_FIELD);
		places->nodes += 4 * (size_t)(inputs + 1) * outputs;
		inputs = outputs;
	}
	if (places->nodes + NODE_BYTES * (size_t)get32(bytes + 60) != places->end)
		return refuse(offset, 16, LINNET_E_SHAPE);
	return 0;
}

static struct linnet_tree_node node_at(const uint8_t *p)
{
	return (struct linnet_tree_node){ .word = get32(p), .feature = get16(p + 4), .right = get16(p + 6) };
}

/* Whether a file may contain a number of these bits: neither NaN nor infinity. */
static int is_finite32(uint32_t bits)
{
	return (bits & 0x7f800000) != 0x7f800000;
}

/* Below 2^power in size, and no NaN. */
static int is_below(uint64_t bits, uint32_t power)
{
	return (bits >> 52 & 0x7ff) < 1023 + power;
}

/* As of floats, which are below 2^128: then what is learned from more of them stays finite. */
static int is_mean(uint64_t bits)
{
	return is_below(bits, 128);
}

static int is_variance(uint64_t bits)
{
	return is_below(bits, 256) && !(bits >> 63);
}

/* Rejects numbers that a file may not contain: NaN, infinity, and moments that no floats have. */
static int check_numbers(const uint8_t *bytes, const struct places *places, size_t *offset)
{
	for (size_t at = places->moments; at < places->layers; at += 8) {
		uint64_t bits = get64(bytes + at);
		int variance = (at - places->moments) % MOMENTS_BYTES != 0;

		if (variance ? !is_variance(bits) : !is_mean(bits))
			return refuse(offset, at, LINNET_E_FIELD);
	}
	for (size_t at = places->network; at < places->nodes; at += 4)
		if (!is_finite32(get32(bytes + at)))
			return refuse(offset, at, LINNET_E_FIELD);
	return 0;
}

static int check_tree(const uint8_t *bytes, const struct places *places, size_t *offset)
{
	struct linnet_tree_walk walk;

	linnet_tree_start(&walk, get32(bytes + 60), get16(bytes + 14), get16(bytes + 28));
	for (uint32_t i = 0; i < walk.count; i++) {
		size_t at = places->nodes + NODE_BYTES * (size_t)i;
		struct linnet_tree_node node = node_at(bytes + at);
		int error = linnet_tree_walk(&walk, &node, i);

		if (error < 0)
			return refuse(offset, at, error == LINNET_E_RANGE ? LINNET_E_FIELD : error);
	}
	return 0;
}

int linnet_knob_read(const uint8_t *bytes, size_t size, struct linnet_knob *knob, size_t *offset)
{
	struct places places = { .moments = 0 };
	int error = linnet_model_envelope(bytes, size, offset);

	if (error == 0)
		error = check_header(bytes, offset);
	if (error == 0)
		error = check_shape(bytes, size, &places, offset);
	if (error == 0)
		error = check_numbers(bytes, &places, offset);
	if (error == 0)
		error = check_tree(bytes, &places, offset);
	if (error < 0)
		return error;
	linnet_zero(knob, sizeof(*knob));
	knob->schema = get16(bytes + 12);
	knob->inputs = get16(bytes + 14);
	knob->layer_count = get32(bytes + 20);
	knob->parts = get32(bytes + 24);
	knob->levels = get16(bytes + 28);
	knob->unit = get16(bytes + 30);
	knob->rows = get64(bytes + 32);
	knob->seed = get64(bytes + 40);
	knob->normaliser_rows = get64(bytes + 48);
	knob->memory = get32(bytes + 56);
	knob->node_count = get32(bytes + 60);
	knob->confidence_ppm = get32(bytes + 64);
	knob->accuracy_ppm = get32(bytes + 68);
	knob->moments = bytes + places.moments;
	knob->network = bytes + places.network;
	knob->nodes = bytes + places.nodes;
	for (uint32_t k = 0; k < knob->levels; k++)
		knob->values[k] = get32(bytes + HEADER_BYTES + 4 * (size_t)k);
	for (uint32_t k = 0; k < knob->layer_count; k++) {
		const uint8_t *entry = bytes + places.layers + LAYER_BYTES * (size_t)k;

		knob->layers[k].outputs = get32(entry);
		knob->layers[k].activation = get32(entry + 4);
	}
	return 0;
}

void linnet_knob_load_normaliser(const struct linnet_knob *knob, struct linnet_normaliser *normaliser,
				 struct linnet_moments *moments)
{
	linnet_zero(normaliser, sizeof(*normaliser));
	normaliser->rows = knob->normaliser_rows;
	normaliser->inputs = knob->inputs;
	normaliser->memory = knob->memory;
	normaliser->moments = moments;
	for (uint32_t i = 0; i < knob->inputs; i++) {
		const uint8_t *from = knob->moments + MOMENTS_BYTES * (size_t)i;

		*(bits64 *)(void *)&moments[i].mean = get64(from);
		*(bits64 *)(void *)&moments[i].variance = get64(from + 8);
	}
}

void linnet_knob_load_network(const struct linnet_knob *knob, struct linnet_small *network)
{
	const uint8_t *from = knob->network;

	for (uint32_t k = 0; k < network->layer_count; k++) {
		const struct linnet_small_layer *layer = &network->layers[k];
		linnet_bits *values = (linnet_bits *)(void *)(network->values + layer->values);

		/* The file stores weights by output; memory has a row of outputs per input, then the biases. */
		for (uint32_t o = 0; o < layer->outputs; o++)
			for (uint32_t i = 0; i < layer->inputs; i++, from += 4)
				values[i * layer->outputs + o] = get32(from);
		for (uint32_t o = 0; o < layer->outputs; o++, from += 4)
			values[(uint32_t)layer->inputs * layer->outputs + o] = get32(from);
	}
}

static void put(uint8_t *p, uint64_t bits, uint32_t width)
{
	for (uint32_t i = 0; i < width; i++)
		p[i] = (uint8_t)(bits >> (8 * i));
}

/* Whether a file may contain these numbers. */
static int is_storable(const struct linnet_knob *knob, const struct linnet_normaliser *normaliser,
		       const struct linnet_small *network)
{
	const linnet_bits *values = network ? (const linnet_bits *)(const void *)network->values : NULL;

	if (normaliser->rows > LINNET_NORMALISER_ROWS_MAX)
		return 0;
	for (uint32_t i = 0; i < knob->inputs; i++)
		if (!is_mean(*(const bits64 *)(const void *)&normaliser->moments[i].mean) ||
		    !is_variance(*(const bits64 *)(const void *)&normaliser->moments[i].variance))
			return 0;
	for (uint32_t v = 0; network && v < network->value_count; v++)
		if (!is_finite32(values[v]))
			return 0;
	return 1;
}

int linnet_knob_store(uint8_t *bytes, size_t size, const struct linnet_knob *knob,
		      const struct linnet_normaliser *normaliser, const struct linnet_small *network)
{
	uint8_t *to = bytes + (knob->moments - bytes);

	if (!is_storable(knob, normaliser, network))
		return LINNET_E_RANGE;
	put(bytes + 48, normaliser->rows, 8);
	for (uint32_t i = 0; i < knob->inputs; i++, to += MOMENTS_BYTES) {
		put(to, *(const bits64 *)(const void *)&normaliser->moments[i].mean, 8);
		put(to + 8, *(const bits64 *)(const void *)&normaliser->moments[i].variance, 8);
	}
	to = bytes + (knob->network - bytes);
	for (uint32_t k = 0; network && k < network->layer_count; k++) {
		const struct linnet_small_layer *layer = &network->layers[k];
		const linnet_bits *values = (const linnet_bits *)(const void *)(network->values + layer->values);

		for (uint32_t o = 0; o < layer->outputs; o++)
			for (uint32_t i = 0; i < layer->inputs; i++, to += 4)
				put(to, values[i * layer->outputs + o], 4);
		for (uint32_t o = 0; o < layer->outputs; o++, to += 4)
			put(to, values[(uint32_t)layer->inputs * layer->outputs + o], 4);
	}
	put(bytes + size - 4, linnet_crc32c(bytes, size - 4), 4);
	return 0;
}

void linnet_knob_load_tree(const struct linnet_knob *knob, struct linnet_tree_node *nodes)
{
	for (uint32_t i = 0; i < knob->node_count; i++)
		nodes[i] = node_at(knob->nodes + NODE_BYTES * (size_t)i);
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_knob) == 80 + 4 * LINNET_KNOB_LEVELS_MAX + 8 * LINNET_LAYERS_MAX,
	       "struct linnet_knob");
