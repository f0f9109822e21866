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
	return get16(bytes + 8) == 1 ? LINNET_PART_NETWORK : get32(bytes + 76);
}

static int check_header(const uint8_t *bytes, size_t *offset)
{
	uint32_t parts = parts_of(bytes), layers = get32(bytes + 20);
	int network = (parts & LINNET_PART_NETWORK) != 0;

	if (get16(bytes + 10) != LINNET_KIND_ADMISSION)
		return refuse(offset, 10, LINNET_E_KIND);
	if (get16(bytes + 8) == 1 && get32(bytes + 76) != 0)
		return refuse(offset, 76, LINNET_E_FIELD);
	if (parts == 0 || (parts & ~(uint32_t)KNOWN_PARTS))
		return refuse(offset, 76, LINNET_E_FIELD);
	if ((parts & NEED_TREES) && !(parts & LINNET_PART_TREES))
		return refuse(offset, 76, LINNET_E_FIELD);
	if (get16(bytes + 12) != (network ? LINNET_SCHEMA_LINNOS31 : 0))
		return refuse(offset, 12, LINNET_E_SCHEMA);
	if (get16(bytes + 14) != (network ? 9 : 0))
		return refuse(offset, 14, LINNET_E_FIELD);
	if (network ? layers < 1 || layers > LINNET_LAYERS_MAX : layers != 0)
		return refuse(offset, 20, LINNET_E_FIELD);
	if (get32(bytes + 68) > MILLION)
		return refuse(offset, 68, LINNET_E_FIELD);
	if (get32(bytes + 72) > MILLION)
		return refuse(offset, 72, LINNET_E_FIELD);
	return 0;
}

/* One entry of the layer table with the offset of its numbers: weights start at *at, which advances past the biases. */
static struct linnet_source layer_at(const uint8_t *bytes, uint32_t number, size_t *at)
{
	const uint8_t *entry = bytes + HEADER_BYTES + LAYER_BYTES * (size_t)number;
	struct linnet_source layer = {
		.inputs = get32(entry),
		.outputs = get32(entry + 4),
		.weight_bytes = get32(entry + 8),
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
	uint32_t count = get32(bytes + 20), inputs = LINNET_DIGITS;

	for (uint32_t k = 0; k < count; k++) {
		size_t entry = HEADER_BYTES + LAYER_BYTES * (size_t)k;
		uint32_t outputs = get32(bytes + entry + 4);
		uint32_t weight_bytes = get32(bytes + entry + 8);
		size_t numbers;

		if (get32(bytes + entry) != inputs)
			return refuse(offset, entry, LINNET_E_SHAPE);
		if (outputs < 1 || outputs > LINNET_SIZE_MAX)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (k + 1 == count && outputs != 2)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (weight_bytes != 2 && weight_bytes != 4 && weight_bytes != 8)
			return refuse(offset, entry + 8, LINNET_E_FIELD);
		if (get32(bytes + entry + 12) != 0)
			return refuse(offset, entry + 12, LINNET_E_FIELD);
		if ((int64_t)get64(bytes + entry + 16) < 1)
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
	model->version = get16(bytes + 8);
	model->kind = get16(bytes + 10);
	model->schema = get16(bytes + 12);
	model->input_max = get16(bytes + 14);
	model->layer_count = get32(bytes + 20);
	model->parts = parts_of(bytes);
	model->inflection_ns = get64(bytes + 24);
	model->latency_ns_p95 = get64(bytes + 32);
	model->latency_ns_p99 = get64(bytes + 40);
	model->hedge_ns = get64(bytes + 48);
	model->queue_inflection = get32(bytes + 56);
	model->queue_median = get32(bytes + 60);
	model->queue_lower_quartile = get32(bytes + 64);
	model->inflection_percentile = get32(bytes + 68);
	model->false_submit = get32(bytes + 72);
	model->rows = get64(bytes + 80);
	model->seed = get64(bytes + 88);
	at = HEADER_BYTES + LAYER_BYTES * (size_t)model->layer_count;
	for (uint32_t k = 0; k < model->layer_count; k++) {
		model->layers[k] = layer_at(bytes, k, &at);
		model->scales[k] = (int64_t)get64(bytes + HEADER_BYTES + LAYER_BYTES * (size_t)k + 16);
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
	at = HEADER_BYTES + LAYER_BYTES * (size_t)get32(bytes + 20);
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
