// SPDX-License-Identifier: MIT OR Apache-2.0
/* Checks the library of knobs: golden model files and their decisions, and refused files; spec/vectors/knobs. */
#include "tune.h"

#define LINE 4096

static uint8_t bytes[1 << 16];
static size_t size;

static const struct {
	const char *name;
	int error;
} errors[] = {
	{ "truncated", LINNET_E_TRUNCATED }, { "magic", LINNET_E_MAGIC }, { "version", LINNET_E_VERSION },
	{ "length", LINNET_E_LENGTH },       { "checksum", LINNET_E_CHECKSUM }, { "kind", LINNET_E_KIND },
	{ "schema", LINNET_E_SCHEMA },       { "field", LINNET_E_FIELD },       { "shape", LINNET_E_SHAPE },
};

/* One model of a file, with all memory that its decisions need. */
static struct {
	struct linnet_knob knob;
	struct linnet_moments moments[LINNET_KNOB_INPUTS_MAX];
	struct linnet_normaliser normaliser;
	struct linnet_small network;
	struct linnet_tree_node nodes[LINNET_TREE_NODES_MAX];
	struct linnet_fast_tree fast;
	float values[1 << 14], scratch[1 << 10];
	int loaded, has_fast;
} model;

static void load(void)
{
	size_t offset;

	/* Read from memory of exactly its size, and from an odd address. */
	uint8_t *copy = room(size + 1);

	memcpy(copy + 1, bytes, size);
	CHECK(linnet_knob_read(copy + 1, size, &model.knob, &offset) == 0);
	linnet_knob_load_normaliser(&model.knob, &model.normaliser, model.moments);
	if (model.knob.parts & LINNET_PART_NETWORK) {
		CHECK(linnet_small_plan(&model.network, model.knob.inputs, model.knob.layers, model.knob.layer_count) == 0);
		CHECK(model.network.value_count <= sizeof(model.values) / sizeof(*model.values));
		linnet_small_place(&model.network, model.values, NULL);
		linnet_knob_load_network(&model.knob, &model.network);
	}
	if (model.knob.parts & LINNET_PART_TREES) {
		linnet_knob_load_tree(&model.knob, model.nodes);
		model.has_fast = linnet_fast_tree_init(&model.fast, model.nodes, model.knob.node_count,
						       model.knob.inputs) == 0;
	}
	model.loaded = 1;
	free(copy);
}

static float take_float(char **at)
{
	uint32_t word = (uint32_t)strtoul(*at, at, 16);
	float x;

	memcpy(&x, &word, 4);
	return x;
}

static void same_bits(const float *x, uint32_t n, char **at)
{
	for (uint32_t i = 0; i < n; i++) {
		float want = take_float(at);

		CHECK(memcmp(&x[i], &want, 4) == 0);
	}
}

static void vector(char *line)
{
	int network = strncmp(line, "network ", 8) == 0;
	char *at = line + (network ? 8 : 5);
	float row[LINNET_KNOB_INPUTS_MAX], z[LINNET_KNOB_INPUTS_MAX], out[LINNET_KNOB_LEVELS_MAX];
	uint32_t class_, share;

	if (!model.loaded)
		load();
	for (uint32_t i = 0; i < model.knob.inputs; i++)
		row[i] = take_float(&at);
	at = strchr(at, '=') + 1;
	linnet_normaliser_apply(&model.normaliser, row, z);
	same_bits(z, model.knob.inputs, &at);
	if (network) {
		linnet_small_forward(&model.network, z, model.scratch, out);
		at = strchr(at, '=') + 1;
		same_bits(out, model.knob.levels, &at);
		CHECK(linnet_small_classify(&model.network, z, model.scratch, &class_, &share) == 0);
		at = strchr(at, '/') + 1;
	} else {
		const struct linnet_tree_node *leaf = linnet_tree_leaf(model.nodes, row);

		if (model.has_fast)
			CHECK(model.nodes + linnet_fast_tree_leaf(&model.fast, row) == leaf);
		class_ = leaf->right;
		share = leaf->word;
		at = strchr(at, '=') + 1;
	}
	CHECK(strtoul(at, &at, 16) == class_);
	CHECK(strtoul(at, &at, 16) == share);
	CHECK(strtoul(at, &at, 16) == model.knob.values[class_]);
}

static void hex(const char *line)
{
	for (; line[0] != '\n' && line[0] != 0; line += 2) {
		char digits[3] = { line[0], line[1], 0 };

		CHECK(size < sizeof(bytes));
		bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
	}
}

/* Checks one file of spec/vectors/knobs. Returns its number of cases. */
int check_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[LINE], name[32] = "";
	unsigned long where = 0;
	int cases = 0;

	CHECK(file);
	size = 0;
	memset(&model, 0, sizeof(model));
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			continue;
		if (strncmp(line, "error ", 6) == 0) {
			CHECK(sscanf(line, "error %31s %lx", name, &where) == 2);
		} else if (strncmp(line, "network ", 8) == 0 || strncmp(line, "tree ", 5) == 0) {
			vector(line);
			cases++;
		} else {
			hex(line);
		}
	}
	fclose(file);
	if (name[0]) {
		uint8_t *copy = room(size);
		size_t offset = 0;
		int error, expected = 0;

		memcpy(copy, bytes, size);
		for (size_t e = 0; e < sizeof(errors) / sizeof(*errors); e++)
			expected = strcmp(errors[e].name, name) == 0 ? errors[e].error : expected;
		error = linnet_knob_read(copy, size, &model.knob, &offset);
		if (error != expected || offset != where) {
			fprintf(stderr, "%s: error %d at %zx\n", path, error, offset);
			exit(1);
		}
		free(copy);
		return 1;
	}
	CHECK(cases > 0);
	/* No model of one kind is accepted as another kind, and every truncated file is refused. */
	for (size_t cut = 0; cut < size; cut++) {
		static struct linnet_model other;
		uint8_t *copy = room(cut);
		size_t offset;

		memcpy(copy, bytes, cut);
		CHECK(linnet_knob_read(copy, cut, &model.knob, &offset) < 0);
		free(copy);
		if (cut == 0)
			CHECK(linnet_model_read(bytes, size, &other, &offset) == LINNET_E_KIND && offset == 10);
	}
	return cases;
}
