// SPDX-License-Identifier: MIT OR Apache-2.0
/* Golden model files of knobs and their decisions, and refused files; see knobs.h. */
#include "knobs.h"
#include "refusals.h"

#define LINE 4096

static const char *checked_path;
static unsigned checked, failed;

static void check(int holds, const char *what)
{
	checked++;
	if (holds)
		return;
	failed++;
	fprintf(stderr, "%s: %s\n", checked_path, what);
}
#define CHECK(condition) check(condition, #condition)

static uint8_t bytes[1 << 16];
static size_t size;

/* One model of a file, with all memory that its decisions need. */
static struct {
	struct linnet_knob knob;
	struct linnet_moments moments[LINNET_KNOB_INPUTS_MAX + 1];
	struct linnet_normaliser normaliser;
	struct linnet_small network;
	struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	struct linnet_fast_tree fast;
	uint32_t values[1 << 14], scratch[1 << 10];
	int loaded, has_fast;
} model;

static void *room(size_t n)
{
	void *memory = malloc(n ? n : 1);

	if (!memory) {
		perror("knobs");
		exit(1);
	}
	return memory;
}

/* What no reader would take is not written: `number` has these bits for a while. */
static void refuse_store(uint8_t *copy, const struct linnet_knob *knob, void *number, const void *bits,
			 size_t width)
{
	struct linnet_small *network = knob->parts & LINNET_PART_NETWORK ? &model.network : NULL;
	uint8_t keep[8];

	memcpy(keep, number, width);
	memcpy(number, bits, width);
	CHECK(linnet_knob_store(copy, size, knob, &model.normaliser, network) == LINNET_E_RANGE);
	CHECK(memcmp(copy, bytes, size) == 0);
	memcpy(number, keep, width);
}

static void refuse_stores(uint8_t *copy, const struct linnet_knob *knob)
{
	struct linnet_moments *last = &model.moments[knob->inputs - 1];

	refuse_store(copy, knob, &model.normaliser.rows, &(uint64_t){ LINNET_NORMALISER_ROWS_MAX + 1 }, 8);
	refuse_store(copy, knob, &last->mean, &(uint64_t){ 0x7ff0000000000000 }, 8);
	refuse_store(copy, knob, &last->mean, &(uint64_t){ 0xfff8000000000000 }, 8);
	refuse_store(copy, knob, &last->mean, &(uint64_t){ 0xc7f0000000000000 }, 8); /* -2^128 */
	refuse_store(copy, knob, &last->variance, &(uint64_t){ 0x7ff0000000000000 }, 8);
	refuse_store(copy, knob, &last->variance, &(uint64_t){ 0x4ff0000000000000 }, 8); /* 2^256 */
	refuse_store(copy, knob, &last->variance, &(uint64_t){ 0xbff0000000000000 }, 8);
	if (knob->parts & LINNET_PART_NETWORK) {
		refuse_store(copy, knob, &model.values[0], &(uint32_t){ 0x7f800000 }, 4);
		refuse_store(copy, knob, &model.values[model.network.value_count - 1], &(uint32_t){ 0xffc00000 }, 4);
	}
}

/* Writing back what was read, into a copy whose numbers were erased, gives the file again, and no byte after it. */
static void check_store(void)
{
	uint8_t *copy = room(size + 1);
	struct linnet_knob knob;
	size_t offset, i, differ = 0;
	struct linnet_small *network;

	memcpy(copy, bytes, size);
	copy[size] = 0x5a;
	CHECK(linnet_knob_read(copy, size, &knob, &offset) == 0);
	network = knob.parts & LINNET_PART_NETWORK ? &model.network : NULL;
	refuse_stores(copy, &knob);
	memset(copy + (knob.moments - copy), 0x11, 16 * (size_t)knob.inputs);
	memset(copy + (knob.network - copy), 0x11, (size_t)(knob.nodes - knob.network));
	/* Numbers that belong to nothing may be anything. */
	memset(&model.moments[knob.inputs], 0xff, sizeof(*model.moments));
	memset(&model.values[network ? network->value_count : 0], 0xff, 4);
	CHECK(linnet_knob_store(copy, size, &knob, &model.normaliser, network) == 0);
	for (i = 0; i < size; i++)
		differ += copy[i] != bytes[i];
	CHECK(differ == 0 && copy[size] == 0x5a);
	model.normaliser.rows = LINNET_NORMALISER_ROWS_MAX;
	CHECK(linnet_knob_store(copy, size, &knob, &model.normaliser, network) == 0);
	CHECK(linnet_knob_read(copy, size, &knob, &offset) == 0 && knob.normaliser_rows == LINNET_NORMALISER_ROWS_MAX);
	model.normaliser.rows = model.knob.normaliser_rows;
	free(copy);
}

static void load(void)
{
	size_t offset;
	/* Read from memory of exactly its size, and from an odd address. */
	uint8_t *copy = room(size + 1);

	memcpy(copy + 1, bytes, size);
	memset(&model.knob, 0x5a, sizeof(model.knob));
	CHECK(linnet_knob_read(copy + 1, size, &model.knob, &offset) == 0);
	for (uint32_t k = model.knob.levels; k < LINNET_KNOB_LEVELS_MAX; k++)
		CHECK(model.knob.values[k] == 0);
	for (uint32_t k = model.knob.layer_count; k < LINNET_LAYERS_MAX; k++)
		CHECK(model.knob.layers[k].outputs == 0 && model.knob.layers[k].activation == 0);
	memset(&model.normaliser, 0x5a, sizeof(model.normaliser));
	linnet_knob_load_normaliser(&model.knob, &model.normaliser, model.moments);
	CHECK(model.normaliser.refused == 0 && model.normaliser.memory == model.knob.memory);
	if (model.knob.parts & LINNET_PART_NETWORK) {
		CHECK(linnet_small_plan(&model.network, model.knob.inputs, model.knob.layers, model.knob.layer_count) == 0);
		CHECK(model.network.value_count <= sizeof(model.values) / sizeof(*model.values));
		linnet_small_place(&model.network, (float *)model.values, NULL);
		/* What lies after the network is no layer of it. */
		memset(model.nodes, 0x5a, sizeof(model.nodes));
		linnet_knob_load_network(&model.knob, &model.network);
	}
	if (model.knob.parts & LINNET_PART_TREES) {
		linnet_knob_load_tree(&model.knob, model.nodes);
		model.has_fast = linnet_fast_tree_init(&model.fast, model.nodes, model.knob.node_count,
						       model.knob.inputs) == 0;
	}
	model.loaded = 1;
	free(copy);
	check_store();
}

/* The next number in hex, after anything else. */
static uint32_t take(const char **at)
{
	const char *digits = "0123456789abcdef", *digit;
	uint32_t number = 0;

	while (**at == ' ' || **at == '=' || **at == '/')
		(*at)++;
	for (; **at && (digit = strchr(digits, **at)); (*at)++)
		number = number << 4 | (uint32_t)(digit - digits);
	return number;
}

static void same_bits(const uint32_t *x, uint32_t n, const char **at)
{
	for (uint32_t i = 0; i < n; i++)
		CHECK(x[i] == take(at));
}

static void vector(const char *line)
{
	int network = strncmp(line, "network ", 8) == 0, error = 0;
	const char *at = line + (network ? 8 : 5);
	uint32_t row[LINNET_KNOB_INPUTS_MAX], z[LINNET_KNOB_INPUTS_MAX], out[LINNET_KNOB_LEVELS_MAX];
	uint32_t class_ = 0, share = 0;

	if (!model.loaded)
		load();
	for (uint32_t i = 0; i < model.knob.inputs; i++)
		row[i] = take(&at);
	FLOATS(linnet_normaliser_apply(&model.normaliser, (float *)row, (float *)z));
	same_bits(z, model.knob.inputs, &at);
	if (network) {
		FLOATS(linnet_small_forward(&model.network, (float *)z, (float *)model.scratch, (float *)out));
		same_bits(out, model.knob.levels, &at);
		FLOATS(error = linnet_small_classify(&model.network, (float *)z, (float *)model.scratch, &class_, &share));
		CHECK(error == 0);
	} else {
		const struct linnet_tree_node *leaf = linnet_tree_leaf(model.nodes, (float *)row);

		if (model.has_fast)
			CHECK(model.nodes + linnet_fast_tree_leaf(&model.fast, (float *)row) == leaf);
		class_ = leaf->right;
		share = leaf->word;
	}
	CHECK(take(&at) == class_);
	CHECK(take(&at) == share);
	CHECK(class_ < model.knob.levels && take(&at) == model.knob.values[class_]);
}

static void hex(const char *line)
{
	for (; line[0] != '\n' && line[0] != 0 && size < sizeof(bytes); line += 2) {
		char pair[3] = { line[0], line[1], 0 };
		const char *at = pair;

		bytes[size++] = (uint8_t)take(&at);
	}
}

static void refused(const char *name, uint32_t where)
{
	uint8_t *copy = room(size);
	size_t offset = 0;
	int error, expected = refusal(name);

	memcpy(copy, bytes, size);
	error = linnet_knob_read(copy, size, &model.knob, &offset);
	CHECK(error == expected && expected < 0);
	CHECK(offset == where);
	free(copy);
}

/* No model of one kind is accepted as another kind, and every truncated file is refused. */
static void cuts(void)
{
	static struct linnet_model other;
	size_t offset;

	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *copy = room(cut);

		memcpy(copy, bytes, cut);
		CHECK(linnet_knob_read(copy, cut, &model.knob, &offset) < 0);
		free(copy);
	}
	CHECK(linnet_model_read(bytes, size, &other, &offset) == LINNET_E_KIND && offset == 10);
}

unsigned knob_file(const char *path, unsigned *checks)
{
	static char line[LINE], name[32];
	FILE *file = fopen(path, "r");
	uint32_t where = 0;
	int cases = 0;

	checked_path = path;
	checked = failed = 0;
	size = 0;
	name[0] = 0;
	memset(&model, 0, sizeof(model));
	check(file != NULL, "cannot be read");
	while (file && fgets(line, sizeof(line), file)) {
		const char *at = line + 6;
		size_t n = 0;

		if (line[0] == '#')
			continue;
		if (strncmp(line, "error ", 6) == 0) {
			while (at[n] && at[n] != ' ' && n + 1 < sizeof(name))
				n++;
			memcpy(name, at, n);
			name[n] = 0;
			at += n;
			where = take(&at);
		} else if (strncmp(line, "network ", 8) == 0 || strncmp(line, "tree ", 5) == 0) {
			vector(line);
			cases++;
		} else {
			hex(line);
		}
	}
	if (file)
		fclose(file);
	if (name[0]) {
		refused(name, where);
	} else {
		CHECK(cases > 0);
		cuts();
	}
	*checks = checked;
	return failed;
}
