/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reader of model files, spec/model-file.md. The input is not trusted: the checks come in the order of the table
 * in that file, and no byte is read that an earlier check has not shown to exist. Layers point into the input.
 */
#include "linnet.h"

#define HEADER_BYTES 96
#define LAYER_BYTES 24
#define LEAST_BYTES (HEADER_BYTES + LAYER_BYTES + 4)
#define SHORT_BYTES 24 /* magic to layer_count */
#define MILLION 1000000

static const uint8_t magic[8] = { 0x89, 0x4c, 0x4e, 0x54, 0x0d, 0x0a, 0x1a, 0x0a };

static uint64_t get(const uint8_t *p, uint32_t width)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < width; i++)
		bits |= (uint64_t)p[i] << (8 * i);
	return bits;
}

uint32_t linnet_crc32c(const uint8_t *bytes, size_t size)
{
	/* Remainders of the sixteen values of four bits: a byte takes two steps. */
	static const uint32_t step[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		crc = crc >> 4 ^ step[crc & 15];
		crc = crc >> 4 ^ step[crc & 15];
	}
	return ~crc;
}

static int refuse(size_t *offset, size_t at, int error)
{
	*offset = at;
	return error;
}

/* Everything about the file as a whole: is it one of ours, is it all there, is it undamaged. */
static int check_envelope(const uint8_t *bytes, size_t size, size_t *offset)
{
	size_t whole;

	for (size_t i = 0; i < sizeof(magic) && size >= sizeof(magic); i++)
		if (bytes[i] != magic[i])
			return refuse(offset, i, LINNET_E_MAGIC);
	if (size < SHORT_BYTES)
		return refuse(offset, size, LINNET_E_TRUNCATED);
	if (get(bytes + 8, 2) != LINNET_MODEL_VERSION)
		return refuse(offset, 8, LINNET_E_VERSION);
	whole = get(bytes + 16, 4);
	if (size < whole)
		return refuse(offset, size, LINNET_E_TRUNCATED);
	if (size > whole || whole < LEAST_BYTES)
		return refuse(offset, 16, LINNET_E_LENGTH);
	if (get(bytes + size - 4, 4) != linnet_crc32c(bytes, size - 4))
		return refuse(offset, size - 4, LINNET_E_CHECKSUM);
	return 0;
}

static int read_header(const uint8_t *bytes, struct linnet_model *model, size_t *offset)
{
	model->version = (uint16_t)get(bytes + 8, 2);
	model->kind = (uint16_t)get(bytes + 10, 2);
	model->schema = (uint16_t)get(bytes + 12, 2);
	model->input_max = (uint16_t)get(bytes + 14, 2);
	model->layer_count = (uint32_t)get(bytes + 20, 4);
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

	if (model->kind != LINNET_KIND_ADMISSION)
		return refuse(offset, 10, LINNET_E_KIND);
	if (model->schema != LINNET_SCHEMA_LINNOS31)
		return refuse(offset, 12, LINNET_E_SCHEMA);
	if (model->input_max != 9)
		return refuse(offset, 14, LINNET_E_FIELD);
	if (model->layer_count < 1 || model->layer_count > LINNET_LAYERS_MAX)
		return refuse(offset, 20, LINNET_E_FIELD);
	if (model->inflection_percentile > MILLION)
		return refuse(offset, 68, LINNET_E_FIELD);
	if (model->false_submit > MILLION)
		return refuse(offset, 72, LINNET_E_FIELD);
	if (get(bytes + 76, 4) != 0)
		return refuse(offset, 76, LINNET_E_FIELD);
	return 0;
}

/* The layer table and, from it, where each layer's numbers lie. The table is known to be present. */
static int read_layers(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset)
{
	size_t at = HEADER_BYTES + LAYER_BYTES * (size_t)model->layer_count;

	for (uint32_t k = 0; k < model->layer_count; k++) {
		size_t entry = HEADER_BYTES + LAYER_BYTES * (size_t)k;
		struct linnet_source *layer = &model->layers[k];
		size_t weights, biases;

		layer->inputs = (uint32_t)get(bytes + entry, 4);
		layer->outputs = (uint32_t)get(bytes + entry + 4, 4);
		layer->weight_bytes = (uint32_t)get(bytes + entry + 8, 4);
		model->scales[k] = (int64_t)get(bytes + entry + 16, 8);
		if (layer->inputs != (k == 0 ? LINNET_DIGITS : model->layers[k - 1].outputs))
			return refuse(offset, entry, LINNET_E_SHAPE);
		if (layer->outputs < 1 || layer->outputs > LINNET_SIZE_MAX)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (k + 1 == model->layer_count && layer->outputs != 2)
			return refuse(offset, entry + 4, LINNET_E_SHAPE);
		if (layer->weight_bytes != 2 && layer->weight_bytes != 4 && layer->weight_bytes != 8)
			return refuse(offset, entry + 8, LINNET_E_FIELD);
		if (get(bytes + entry + 12, 4) != 0)
			return refuse(offset, entry + 12, LINNET_E_FIELD);
		if (model->scales[k] < 1)
			return refuse(offset, entry + 16, LINNET_E_FIELD);

		/* At most 2^27 + 2^15 per layer: no overflow in size_t. */
		weights = (size_t)layer->inputs * layer->outputs * layer->weight_bytes;
		biases = 8 * (size_t)layer->outputs;
		if (weights + biases > size - 4 - at)
			return refuse(offset, 16, LINNET_E_SHAPE);
		layer->weights = bytes + at;
		layer->biases = bytes + at + weights;
		at += weights + biases;
	}
	if (at != size - 4)
		return refuse(offset, 16, LINNET_E_SHAPE);
	return 0;
}

int linnet_model_read(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset)
{
	struct linnet_model read;
	int error = check_envelope(bytes, size, offset);

	if (error < 0)
		return error;
	linnet_zero(&read, sizeof(read));
	error = read_header(bytes, &read, offset);
	if (error < 0)
		return error;
	if (HEADER_BYTES + LAYER_BYTES * (size_t)read.layer_count > size - 4)
		return refuse(offset, 16, LINNET_E_SHAPE);
	error = read_layers(bytes, size, &read, offset);
	if (error < 0)
		return error;
	linnet_copy(model, &read, sizeof(read));
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_model) == 80 + (32 + 8) * LINNET_LAYERS_MAX, "struct linnet_model");
