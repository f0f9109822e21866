/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reader of model files, spec/model-file.md. The input is not trusted: the checks come in the order of the table in
 * that file, and a byte is read only after an earlier check has shown that it exists. Layers point into the input;
 * trees are copied out of it.
 */
#include "envelope.h"
#include "linnet.h"

#define HEADER_BYTES 96
#define LAYER_BYTES 24
#define TREE_FEATURES 8 /* offsets in the block of trees */
#define TREE_THRESHOLDS (TREE_FEATURES + LINNET_TREE_LEVELS * LINNET_TREES)
#define TREE_LEAVES (TREE_THRESHOLDS + LINNET_TREE_LEVELS * LINNET_TREES)
#define TREES_BYTES (TREE_LEAVES + LINNET_TREES * LINNET_TREE_LEAVES * 2)
#define LATENCY_FEATURE (4 * (LINNET_SCORE_BINS - 1)) /* offsets in the block of latencies */
#define LATENCY_NS (LATENCY_FEATURE + LINNET_FEATURE_BINS)
#define LATENCY_ROW (4 * LINNET_FEATURE_BINS * LINNET_LATENCIES) /* bytes of one bin of scores */
#define LATENCIES_BYTES (LATENCY_NS + LINNET_SCORE_BINS * LATENCY_ROW)
#define MILLION 1000000

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
	if (parts == 0 || parts > (LINNET_PART_NETWORK | LINNET_PART_TREES | LINNET_PART_LATENCIES))
		return refuse(offset, 76, LINNET_E_FIELD);
	if ((parts & LINNET_PART_LATENCIES) && !(parts & LINNET_PART_TREES))
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

/* Checks the block of trees, which is present at `at`. Trees that pass also pass linnet_trees_check. */
static int check_trees(const uint8_t *bytes, size_t at, size_t *offset)
{
	int64_t base = (int32_t)get(bytes + at + 4, 4);

	if (get(bytes + at, 2) != LINNET_SCHEMA_LINNET1 && get(bytes + at, 2) != LINNET_SCHEMA_LINNET2)
		return refuse(offset, at, LINNET_E_SCHEMA);
	if (get(bytes + at + 2, 2) != 0)
		return refuse(offset, at + 2, LINNET_E_FIELD);
	if (base < -LINNET_TREE_BASE_MAX || base > LINNET_TREE_BASE_MAX)
		return refuse(offset, at + 4, LINNET_E_FIELD);
	for (size_t i = at + TREE_FEATURES; i < at + TREE_THRESHOLDS; i++)
		if (bytes[i] >= LINNET_INFLIGHT_FEATURES)
			return refuse(offset, i, LINNET_E_FIELD);
	for (size_t i = at + TREE_THRESHOLDS; i < at + TREE_LEAVES; i++)
		if (bytes[i] > LINNET_BUCKET_MAX)
			return refuse(offset, i, LINNET_E_FIELD);
	return 0;
}

/* Checks the block of latencies, which is present at `at`. Latencies that pass also pass linnet_latencies_check. */
static int check_latencies(const uint8_t *bytes, size_t at, size_t *offset)
{
	for (size_t i = 4; i < LATENCY_FEATURE; i += 4)
		if ((int32_t)get(bytes + at + i, 4) < (int32_t)get(bytes + at + i - 4, 4))
			return refuse(offset, at + i, LINNET_E_FIELD);
	if (bytes[at + LATENCY_FEATURE] >= LINNET_INFLIGHT_FEATURES)
		return refuse(offset, at + LATENCY_FEATURE, LINNET_E_FIELD);
	for (size_t i = LATENCY_FEATURE + 1; i < LATENCY_NS; i++)
		if (bytes[at + i] > LINNET_BUCKET_MAX ||
		    (i > LATENCY_FEATURE + 1 && bytes[at + i] < bytes[at + i - 1]))
			return refuse(offset, at + i, LINNET_E_FIELD);
	for (size_t i = 0; i < LATENCIES_BYTES - LATENCY_NS; i += 4) {
		const uint8_t *own = bytes + at + LATENCY_NS + i;

		if ((i / 4 % LINNET_LATENCIES > 0 && get(own, 4) < get(own - 4, 4)) ||
		    (i >= LATENCY_ROW && get(own, 4) < get(own - LATENCY_ROW, 4)))
			return refuse(offset, at + LATENCY_NS + i, LINNET_E_FIELD);
	}
	return 0;
}

static void fill_latencies(struct linnet_latencies *latencies, const uint8_t *block)
{
	const uint8_t *ns = block + LATENCY_NS;

	for (int i = 0; i < LINNET_SCORE_BINS - 1; i++)
		latencies->score_edge[i] = (int32_t)get(block + 4 * i, 4);
	latencies->feature = block[LATENCY_FEATURE];
	linnet_copy(latencies->feature_edge, block + LATENCY_FEATURE + 1, sizeof(latencies->feature_edge));
	for (int s = 0; s < LINNET_SCORE_BINS; s++)
		for (int f = 0; f < LINNET_FEATURE_BINS; f++)
			for (int k = 0; k < LINNET_LATENCIES; k++, ns += 4)
				latencies->ns[s][f][k] = (uint32_t)get(ns, 4);
}

static void fill_trees(struct linnet_trees *trees, const uint8_t *block)
{
	const uint8_t *leaf = block + TREE_LEAVES;

	linnet_copy(trees->feature, block + TREE_FEATURES, sizeof(trees->feature));
	linnet_copy(trees->threshold, block + TREE_THRESHOLDS, sizeof(trees->threshold));
	for (int tree = 0; tree < LINNET_TREES; tree++)
		for (int k = 0; k < LINNET_TREE_LEAVES; k++, leaf += 2)
			trees->leaf[tree][k] = (int16_t)get(leaf, 2);
	trees->base = (int32_t)get(block + 4, 4);
	trees->schema = (uint32_t)get(block, 2);
}

/* Everything has been checked, so nothing here fails. `trees_at` is the offset of the data after the network. */
static void fill(struct linnet_model *model, const uint8_t *bytes, size_t trees_at)
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
	if (model->parts & LINNET_PART_TREES)
		fill_trees(&model->trees, bytes + trees_at);
	if (model->parts & LINNET_PART_LATENCIES)
		fill_latencies(&model->latencies, bytes + trees_at + TREES_BYTES);
}

/* Checks first and fills afterwards: an error leaves the model unchanged, without a second one on the stack. */
int linnet_model_read(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset)
{
	int error = linnet_model_envelope(bytes, size, offset);
	size_t end, at, behind;
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
	behind = parts & LINNET_PART_TREES ? TREES_BYTES : 0;
	behind += parts & LINNET_PART_LATENCIES ? LATENCIES_BYTES : 0;
	if (end - at != behind)
		return refuse(offset, 16, LINNET_E_SHAPE);
	if (parts & LINNET_PART_TREES) {
		error = check_trees(bytes, at, offset);
		if (error < 0)
			return error;
	}
	if (parts & LINNET_PART_LATENCIES) {
		error = check_latencies(bytes, at + TREES_BYTES, offset);
		if (error < 0)
			return error;
	}
	fill(model, bytes, at);
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_trees) == 1416, "struct linnet_trees");
_Static_assert(sizeof(struct linnet_model) == 88 + (32 + 8) * LINNET_LAYERS_MAX + 1416 + 2628 + 4,
	       "struct linnet_model");
