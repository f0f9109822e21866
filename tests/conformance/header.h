/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: what a reader gives is what the bytes of a file say, and nothing else; spec/model-file.md. */
#ifndef LINNET_HEADER_H
#define LINNET_HEADER_H

static uint64_t little(const uint8_t *bytes, size_t size)
{
	uint64_t n = 0;

	while (size--)
		n = n << 8 | bytes[size];
	return n;
}

/* Each field of the header and of the layers against its row of the tables. */
static void header(const uint8_t *bytes, const struct linnet_model *model)
{
	const struct { uint64_t value; size_t offset, size; } fields[] = {
		{ model->version, 8, 2 }, { model->kind, 10, 2 }, { model->schema, 12, 2 }, { model->input_max, 14, 2 },
		{ model->layer_count, 20, 4 }, { model->inflection_ns, 24, 8 }, { model->latency_ns_p95, 32, 8 },
		{ model->latency_ns_p99, 40, 8 }, { model->hedge_ns, 48, 8 }, { model->queue_inflection, 56, 4 },
		{ model->queue_median, 60, 4 }, { model->queue_lower_quartile, 64, 4 },
		{ model->inflection_percentile, 68, 4 }, { model->false_submit, 72, 4 }, { model->rows, 80, 8 },
		{ model->seed, 88, 8 },
	};

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		check(fields[i].value == little(bytes + fields[i].offset, fields[i].size), "field of the header");
	for (uint32_t k = 0; k < model->layer_count; k++) {
		const uint8_t *layer = bytes + 96 + 24 * (size_t)k;

		check(model->layers[k].inputs == little(layer, 4) && model->layers[k].outputs == little(layer + 4, 4) &&
		      model->layers[k].weight_bytes == little(layer + 8, 4), "field of a layer");
		check((uint64_t)model->scales[k] == little(layer + 16, 8), "scale of a layer");
	}
}

/* A file read into memory of any content gives the same model. Its header must not be all zeros, or this says little. */
static void read_again(const uint8_t *bytes, size_t size)
{
	static struct linnet_model clean, used;
	size_t offset;

	memset(&clean, 0, sizeof(clean));
	memset(&used, 0xa5, sizeof(used));
	check(linnet_model_read(bytes, size, &clean, &offset) == 0 && linnet_model_read(bytes, size, &used, &offset) == 0,
	      "model refused");
	check(memcmp(&clean, &used, sizeof(clean)) == 0, "what was in memory is in the model");
	header(bytes, &clean);
}

/*
 * A hidden unit that is exactly 1 counts, and one that is -1 does not, in sums of every width: the other unit of the layer
 * is large enough to need it, and has no weight behind.
 */
static void smallest_activation(void)
{
	static const int64_t large[] = { 1, (int64_t)1 << 40, (int64_t)1 << 62 };

	for (size_t w = 0; w < sizeof(large) / sizeof(*large); w++) {
		for (int64_t sign = -1; sign <= 1; sign += 2) {
			const int64_t weights[2][2] = { { sign, large[w] }, { 3, 0 } }, biases[2][2] = { { 0, 0 }, { 5, 0 } };
			uint8_t bytes[4][16], input = 1;
			struct linnet_source layers[2] = {
				{ .inputs = 1, .outputs = 2, .weight_bytes = 8, .weights = bytes[0], .biases = bytes[1] },
				{ .inputs = 2, .outputs = 1, .weight_bytes = 8, .weights = bytes[2], .biases = bytes[3] },
			};
			struct ready ready = { .memory = NULL };

			for (int i = 0; i < 4; i++)
				for (int n = 0; n < 16; n++)
					bytes[i][n] = (uint8_t)((uint64_t)(i % 2 ? biases : weights)[i / 2][n / 8] >> 8 * (n % 8));
			if (get_ready(&ready, layers, 2, 9) < 0) {
				fail("network refused");
				continue;
			}
			check(linnet_network_logits(&ready.network, &input, ready.scratch, ready.logits) == 0, "logits refused");
			check(ready.logits[0] == (sign > 0 ? 8 : 5), "a hidden unit of 1");
			dismiss(&ready);
		}
	}
}

#endif
