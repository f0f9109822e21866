/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reader of model files, spec/model-file.md. The input is not trusted: the checks come in the order of the table in
 * that file, and a byte is read only after an earlier check has shown that it exists. Layers point into the input; the
 * parts behind them are copied out of it, by their own units.
 */
#include "blocks.h"

#define HEADER_BYTES 96
#define LAYER_BYTES 24
#define MILLION 1000000

/* Bits of all parts that a file may hold, and of those that require trees. */
#define OR_BIT(NAME, name, bit, bytes, count) | bit
#define KNOWN_PARTS (LINNET_PART_NETWORK LINNET_PARTS(OR_BIT))
#define NEED_TREES (0 LINNET_PREDICTIONS(OR_BIT))

/* The parts that the file holds. The envelope has been checked. */
static uint32_t parts_of(const uint8_t *bytes)
{
	return get(bytes + 8, 2) == 1 ? LINNET_PART_NETWORK : (uint32_t)get(bytes + 76, 4);
}

static int check_header(const uint8_t *bytes, size_t *offset)
{
	uint32_t parts = parts_of(bytes), layers = (uint32_t)get(bytes + 20, 4);
	int network = (parts & LINNET_PART_NETWORK) != 0;

	if (get(bytes + 10, 2) != LINNET_KIND_ADMISSION)
		return refuse(offset, 10, LINNET_E_KIND);
	if (get(bytes + 8, 2) == 1 && get(bytes + 76, 4) != 0)
		return refuse(offset, 76, LINNET_E_FIELD);
	if (parts == 0 || (parts & ~(uint32_t)KNOWN_PARTS))
		return refuse(offset, 76, LINNET_E_FIELD);
	if ((parts & NEED_TREES) && !(parts & LINNET_PART_TREES))
		return refuse(offset, 76, LINNET_E_FIELD);
	if (get(bytes + 12, 2) != (network ? LINNET_SCHEMA_LINNOS31 : 0))
		return refuse(offset, 12, LINNET_E_SCHEMA);
	if (get(bytes + 14, 2) != (network ? 9 : 0))
		return refuse(offset, 14, LINNET_E_FIELD);
	if (network ? layers < 1 || layers > LINNET_LAYERS_MAX : layers != 0)
		return refuse(offset, 20, LINNET_E_FIELD);
	if (get(bytes + 68, 4) > MILLION)
		return refuse(offset, 68, LINNET_E_FIELD);
	if (get(bytes + 72, 4) > MILLION)
		return refuse(offset, 72, LINNET_E_FIELD);
	return 0;
}

/* One entry of the layer table with the offset of its numbers: weights start at *at, which advances past the biases. */
static struct linnet_source layer_at(const uint8_t *bytes, uint32_t number, size_t *at)
{
	const uint8_t *entry = bytes + HEADER_BYTES + LAYER_BYTES * (size_t)number;
	struct linnet_source layer = {
		.inputs = (uint32_t)get(entry, 4),
		.outputs = (uint32_t)get(entry + 4, 4),
		.weight_bytes = (uint32_t)get(entry + 8, 4),
	};

	layer.weights = bytes + *at;
	*at += (size_t)layer.inputs * layer.outputs * layer.weight_bytes;
	layer.biases = bytes + *at;
	*at += 8 * (size_t)layer.outputs;
	return layer;
}

/* Checks the layer table, which is present, and that its numbers end by `end`. *at becomes their end. */
static int check_layers(const uint8_t *bytes, size_t end, size_t *at, size_t *offset)
{
	uint32_t count = (uint32_t)get(bytes + 20, 4), inputs = LINNET_DIGITS;

	for (uint32_t k = 0; k < count; k++) {
		size_t entry = HEADER_BYTES + LAYER_BYTES * (size_t)k;
		uint32_t outputs = (uint32_t)get(bytes + entry + 4, 4);
		uint32_t weight_bytes = (uint32_t)get(bytes + entry + 8, 4);
		size_t numbers;

		if (get(bytes + entry, 4) != inputs)
			return refuse(offset, entry, LINNET_E_SHAPE);
		if (outputs < 1 || outputs > LINNET_SIZE_MAX)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (k + 1 == count && outputs != 2)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (weight_bytes != 2 && weight_bytes != 4 && weight_bytes != 8)
			return refuse(offset, entry + 8, LINNET_E_FIELD);
		if (get(bytes + entry + 12, 4) != 0)
			return refuse(offset, entry + 12, LINNET_E_FIELD);
		if ((int64_t)get(bytes + entry + 16, 8) < 1)
			return refuse(offset, entry + 16, LINNET_E_FIELD);

		/* At most 2^27 + 2^15 per layer: no overflow in size_t. */
		numbers = (size_t)inputs * outputs * weight_bytes + 8 * (size_t)outputs;
		if (numbers > end - *at)
			return refuse(offset, 16, LINNET_E_SHAPE);
		*at += numbers;
		inputs = outputs;
	}
	return 0;
}

/* Bytes of the blocks behind the network. */
static size_t blocks_size(uint32_t parts)
{
	size_t size = 0;

#define ADD(NAME, name, bit, bytes, count) size += parts & LINNET_PART_##NAME ? bytes : 0;
	LINNET_PARTS(ADD)
#undef ADD
	return size;
}

/* Checks the blocks, which are present from `at`. */
static int check_blocks(const uint8_t *file, uint32_t parts, size_t at, size_t *offset)
{
	int error;

#define CHECK(NAME, name, bit, bytes, count)                               \
	if (parts & LINNET_PART_##NAME) {                                  \
		error = linnet_##name##_check_block(file, at, offset);     \
		if (error < 0)                                             \
			return error;                                      \
		at += bytes;                                               \
	}
	LINNET_PARTS(CHECK)
#undef CHECK
	return 0;
}

static void read_blocks(struct linnet_model *model, const uint8_t *block)
{
#define READ(NAME, name, bit, bytes, count)                                \
	if (model->parts & LINNET_PART_##NAME) {                           \
		linnet_##name##_read_block(&model->name, block);           \
		block += bytes;                                            \
	}
	LINNET_PARTS(READ)
#undef READ
}

/* Everything has been checked, so nothing here fails. `blocks_at` is the offset of the data after the network. */
static void fill(struct linnet_model *model, const uint8_t *bytes, size_t blocks_at)
{
	size_t at;

	linnet_zero(model, sizeof(*model));
	model->version = (uint16_t)get(bytes + 8, 2);
	model->kind = (uint16_t)get(bytes + 10, 2);
	model->schema = (uint16_t)get(bytes + 12, 2);
	model->input_max = (uint16_t)get(bytes + 14, 2);
	model->layer_count = (uint32_t)get(bytes + 20, 4);
	model->parts = parts_of(bytes);
	model->inflection_ns = get(bytes + 24, 8);
	model->latency_ns_p95 = get(bytes + 32, 8);
	model->latency_ns_p99 = get(bytes + 40, 8);
	model->hedge_ns = get(bytes + 48, 8);
	model->queue_inflection = (uint32_t)get(bytes + 56, 4);
	model->queue_median = (uint32_t)get(bytes + 60, 4);
	model->queue_lower_quartile = (uint32_t)get(bytes + 64, 4);
	model->inflection_percentile = (uint32_t)get(bytes + 68, 4);
	model->false_submit = (uint32_t)get(bytes + 72, 4);
	model->rows = get(bytes + 80, 8);
	model->seed = get(bytes + 88, 8);
	at = HEADER_BYTES + LAYER_BYTES * (size_t)model->layer_count;
	for (uint32_t k = 0; k < model->layer_count; k++) {
		model->layers[k] = layer_at(bytes, k, &at);
		model->scales[k] = (int64_t)get(bytes + HEADER_BYTES + LAYER_BYTES * (size_t)k + 16, 8);
	}
	read_blocks(model, bytes + blocks_at);
}

/* Checks first and fills afterwards: an error leaves the model unchanged, without a second one on the stack. */
int linnet_model_read(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset)
{
	int error = linnet_model_envelope(bytes, size, offset);
	size_t end, at;
	uint32_t parts;

	if (error < 0)
		return error;
	error = check_header(bytes, offset);
	if (error < 0)
		return error;
	parts = parts_of(bytes);
	end = size - 4;
	at = HEADER_BYTES + LAYER_BYTES * (size_t)get(bytes + 20, 4);
	if (at > end)
		return refuse(offset, 16, LINNET_E_SHAPE);
	error = check_layers(bytes, end, &at, offset);
	if (error < 0)
		return error;
	if (end - at != blocks_size(parts))
		return refuse(offset, 16, LINNET_E_SHAPE);
	error = check_blocks(bytes, parts, at, offset);
	if (error < 0)
		return error;
	fill(model, bytes, at);
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(offsetof(struct linnet_model, trees) == 88 + (32 + 8) * LINNET_LAYERS_MAX, "struct linnet_model");
