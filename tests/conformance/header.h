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
	for (uint32_t k = model->layer_count; k < LINNET_LAYERS_MAX; k++)
		check(!model->layers[k].outputs && !model->scales[k], "a layer behind the last");
}

/*
 * A file read into memory of any content gives the same model. Its header must not be all zeros, or this says little.
 */
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

/* A copy of the file with this byte, or these four, and the checksum made right: what the reader says, and where. */
static int with(const uint8_t *bytes, size_t size, size_t at, uint32_t value, size_t width, size_t *offset)
{
	static struct linnet_model model;
	uint8_t *copy = malloc(size);
	uint32_t crc;
	int error;

	memcpy(copy, bytes, size);
	for (size_t i = 0; i < width; i++)
		copy[at + i] = (uint8_t)(value >> 8 * i);
	crc = linnet_crc32c(copy, size - 4);
	for (size_t i = 0; i < 4; i++)
		copy[size - 4 + i] = (uint8_t)(crc >> 8 * i);
	error = linnet_model_read(copy, size, &model, offset);
	free(copy);
	return error;
}

#define LATENCIES 2628 /* bytes of the block, which is the last one */
#define EDGES 61       /* of the bins of the feature */
#define NS 68          /* quantiles: five for each of eight bins of the feature, for each bin of scores */
#define ROW (8 * 5 * 4)

/* One field of a good file is wrong: the error has its offset. */
static void one_field(const uint8_t *bytes, size_t size)
{
	size_t offset = 0, block = size - 4 - LATENCIES;

	if (little(bytes + 20, 4))
		check(with(bytes, size, 96 + 12, 1, 1, &offset) == LINNET_E_FIELD && offset == 96 + 12, "reserved word of a layer");
	if (!(bytes[76] & LINNET_PART_LATENCIES))
		return;
	check(with(bytes, size, block + EDGES, LINNET_BUCKET_MAX + 1, 1, &offset) == LINNET_E_FIELD && offset == block + EDGES,
	      "first edge of a feature's bins");
	/*
	 * A bin of higher scores may be as fast as the one below it, and not faster. Only the least quantile is
	 * lowered.
	 */
	for (size_t row = 1; row < 16; row++) {
		size_t at = block + NS + ROW * row;
		uint32_t below = (uint32_t)little(bytes + at - ROW, 4);

		check(with(bytes, size, at, below, 4, &offset) == 0, "a bin as fast as the one below it");
		check(with(bytes, size, at, below - 1, 4, &offset) == LINNET_E_FIELD && offset == at, "a bin faster than the one below it");
	}
}

/* The table of spec/decision.md. */
static void settings_begin(void)
{
	struct linnet_settings settings;

	linnet_settings_init(&settings);
	check(settings.on == 1 && settings.policy == LINNET_BEST, "on, by linnet-best");
	check(settings.age_ns == 10000000 && settings.errors_max == 3, "age and errors");
	check(settings.out_ns == 10000000 && settings.out_ns_max == 1000000000, "10 ms to 1 s out of service");
	check(settings.probe_ages == 100 && settings.revoke_ages == 5 && settings.revokes_in_row_max == 1024, "ages and revokes");
	check(settings.revokes.per_million == 1000000 && settings.revokes.burst == 1024, "a revoke for each read");
	check(settings.hedges.per_million == 20000 && settings.hedges.burst == 256, "a hedge for fifty reads");
	settings.revokes = settings.hedges = (struct linnet_rate){ 8000000, 1000000000 };
	settings.age_ns = settings.out_ns = settings.errors_max = settings.revokes_in_row_max = 1;
	settings.out_ns_max = (uint64_t)1 << 62;
	check(linnet_settings_check(&settings) == 0, "settings at the ends of their ranges");
	settings.out_ns_max = 1;
	check(linnet_settings_check(&settings) == 0, "always the same time out of service");
}

/* Each setting that must not be zero, or not beyond another. */
static void settings_refused(void)
{
	for (int i = 0; i < 11; i++) {
		struct linnet_settings settings;

		linnet_settings_init(&settings);
		check(linnet_settings_check(&settings) == 0, "settings as they begin");
		switch (i) {
		case 0: settings.policy = LINNET_POLICIES; break;
		case 1: settings.age_ns = 0; break;
		case 2: settings.out_ns = 0; break;
		case 3: settings.errors_max = 0; break;
		case 4: settings.revokes_in_row_max = 0; break;
		case 5: settings.out_ns_max = settings.out_ns - 1; break;
		case 6: settings.out_ns_max = ((uint64_t)1 << 62) + 1; break;
		case 7: settings.revokes.per_million = 8 * LINNET_BUDGET_UNIT + 1; break;
		case 8: settings.revokes.burst = 1000000001; break;
		case 9: settings.hedges.burst = 1000000001; break;
		case 10: settings.on = 2; break;
		}
		check(linnet_settings_check(&settings) == LINNET_E_FIELD, "a setting beyond its range");
	}
}

#endif
