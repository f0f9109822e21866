/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Reader of model files of kind 3, forests of regression trees: spec/forest.md. The input is not trusted: the checks
 * come in the order of the table there, and a byte is read only after an earlier check has shown that it exists. Floats
 * are copied and checked as bits. Loading turns levels of nodes into cells of three levels (place.h).
 */
#include "envelope.h"
#include "place.h"
#include "tree.h"

#define HEADER_BYTES 64
#define RESERVED 48 /* from here to the end of the header */
#define OUTPUT_BYTES (LINNET_FOREST_NAME + 8)
#define FILE_LEAF 0xff
#define LEVELS 3 /* of a cell */

typedef uint64_t bits64 __attribute__((may_alias));

static int check_header(const uint8_t *bytes, size_t *offset)
{
	uint32_t schema = get16(bytes + 12), inputs = get16(bytes + 14);
	uint32_t outputs = get32(bytes + 20), trees = get32(bytes + 24);

	if (get16(bytes + 10) != LINNET_KIND_FOREST || get16(bytes + 8) < 2)
		return refuse(offset, 10, LINNET_E_KIND);
	if (schema != LINNET_SCHEMA_PLACE1 && schema < 0x8000)
		return refuse(offset, 12, LINNET_E_SCHEMA);
	if (inputs < 1 || inputs > LINNET_FOREST_INPUTS_MAX)
		return refuse(offset, 14, LINNET_E_FIELD);
	if (outputs < 1 || outputs > LINNET_FOREST_OUTPUTS_MAX)
		return refuse(offset, 20, LINNET_E_FIELD);
	if (trees < outputs || trees > LINNET_FOREST_TREES_MAX)
		return refuse(offset, 24, LINNET_E_FIELD);
	for (size_t at = RESERVED; at < HEADER_BYTES; at++)
		if (bytes[at] != 0)
			return refuse(offset, at, LINNET_E_FIELD);
	return 0;
}

/* Letters, digits, `_` and `-`, then zeros; at least one character. */
static int name_is_sound(const uint8_t *name)
{
	int ended = 0;

	for (uint32_t i = 0; i < LINNET_FOREST_NAME; i++) {
		uint8_t c = name[i];
		int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
			     c == '-';

		if (ended ? c != 0 : !letter && (c != 0 || i == 0))
			return 0;
		ended = c == 0;
	}
	return 1;
}

/* Finds the parts of the file, and checks that their sizes add up to its size. */
static int check_shape(const uint8_t *bytes, size_t size, struct linnet_forest_file *file, size_t *offset)
{
	size_t at = HEADER_BYTES, end = size - 4;
	uint64_t nodes = 0, trees = 0;

	if ((end - at) / OUTPUT_BYTES < file->outputs)
		return refuse(offset, 16, LINNET_E_SHAPE);
	file->names = bytes + at;
	for (uint32_t o = 0; o < file->outputs; o++, at += OUTPUT_BYTES) {
		uint64_t own = get32(bytes + at + LINNET_FOREST_NAME);

		if (!name_is_sound(bytes + at))
			return refuse(offset, at, LINNET_E_FIELD);
		if (own < 1 || own > file->tree_count)
			return refuse(offset, at + LINNET_FOREST_NAME, LINNET_E_FIELD);
		if (get32(bytes + at + LINNET_FOREST_NAME + 4) != 0)
			return refuse(offset, at + LINNET_FOREST_NAME + 4, LINNET_E_FIELD);
		trees += own;
	}
	if (trees != file->tree_count)
		return refuse(offset, 24, LINNET_E_SHAPE);
	if ((end - at) / 4 < trees)
		return refuse(offset, 16, LINNET_E_SHAPE);
	file->tree_nodes = bytes + at;
	for (uint64_t t = 0; t < trees; t++, at += 4) {
		uint32_t own = get32(bytes + at);

		if (own % 2 == 0 || own > LINNET_FOREST_NODES_MAX)
			return refuse(offset, at, LINNET_E_FIELD);
		nodes += own;
	}
	/* A tree has one leaf more than splits. No file has 4 GiB, so the number of nodes fits 32 bits. */
	if (nodes + 4 * ((nodes - trees) / 2) + 8 * ((nodes + trees) / 2) != end - at)
		return refuse(offset, 16, LINNET_E_SHAPE);
	file->node_count = (uint32_t)nodes;
	file->value_count = (uint32_t)((nodes + trees) / 2);
	file->features = bytes + at;
	file->thresholds = file->features + nodes;
	file->values = file->thresholds + 4 * ((nodes - trees) / 2);
	return 0;
}

/* Checks the nodes of one tree, which are in the order of their distance from the root. */
static int check_tree(const uint8_t *features, uint32_t count, uint32_t inputs, uint32_t *at)
{
	uint32_t splits = 0;

	for (*at = 0; *at < count; ++*at) {
		/* The splits so far have 2 * splits children; the root is nobody's child. */
		if (*at > 2 * splits)
			return LINNET_E_SHAPE;
		if (features[*at] == FILE_LEAF)
			continue;
		if (features[*at] >= inputs)
			return LINNET_E_FIELD;
		splits++;
	}
	--*at;
	return 2 * splits + 1 == count ? 0 : LINNET_E_SHAPE;
}

static int check_trees(const uint8_t *bytes, const struct linnet_forest_file *file, size_t *offset)
{
	const uint8_t *features = file->features;

	for (uint32_t t = 0; t < file->tree_count; t++) {
		uint32_t count = get32(file->tree_nodes + 4 * (size_t)t), at;
		int error = check_tree(features, count, file->inputs, &at);

		if (error < 0)
			return refuse(offset, (size_t)(features - bytes) + at, error);
		features += count;
	}
	return 0;
}

static int check_floats(const uint8_t *bytes, const struct linnet_forest_file *file, size_t *offset)
{
	const uint64_t exponent = (uint64_t)0x7ff << 52;

	for (const uint8_t *p = file->thresholds; p < file->values; p += 4)
		if ((get32(p) & 0x7f800000) == 0x7f800000)
			return refuse(offset, (size_t)(p - bytes), LINNET_E_FIELD);
	for (uint32_t i = 0; i < file->value_count; i++)
		if ((get64(file->values + 8 * (size_t)i) & exponent) == exponent)
			return refuse(offset, (size_t)(file->values - bytes) + 8 * (size_t)i, LINNET_E_FIELD);
	return 0;
}

/* A place among the nodes of a tree, with the splits and leaves before it. */
struct cursor {
	uint32_t node;
	uint32_t splits;
	uint32_t leaves;
};

/* The start of the next level: the nodes of this one have as many children as there are nodes in the next. */
static struct cursor next_level(const uint8_t *features, struct cursor at, uint32_t end)
{
	for (; at.node < end; at.node++) {
		at.splits += features[at.node] != FILE_LEAF;
		at.leaves += features[at.node] == FILE_LEAF;
	}
	return at;
}

/* Cells begin at the splits of every third level; a tree without splits has one cell. */
static uint32_t count_cells(const struct linnet_forest_file *file)
{
	const uint8_t *features = file->features;
	uint32_t cells = 0;

	for (uint32_t t = 0; t < file->tree_count; t++) {
		uint32_t count = get32(file->tree_nodes + 4 * (size_t)t), end = 1;
		struct cursor at = { 0, 0, 0 };

		cells += count == 1;
		for (uint32_t level = 0; at.node < count; level++) {
			struct cursor next = next_level(features, at, end);

			cells += level % LEVELS == 0 ? next.splits - at.splits : 0;
			at = next;
			end = 2 * at.splits + 1;
		}
		features += count;
	}
	return cells;
}

int linnet_forest_read(const uint8_t *bytes, size_t size, struct linnet_forest_file *file, size_t *offset)
{
	struct linnet_forest_file found;
	int error = linnet_model_envelope(bytes, size, offset);

	if (error == 0)
		error = check_header(bytes, offset);
	if (error < 0)
		return error;
	found.schema = get16(bytes + 12);
	found.inputs = get16(bytes + 14);
	found.outputs = get32(bytes + 20);
	found.tree_count = get32(bytes + 24);
	found.rows = get64(bytes + 32);
	found.seed = get64(bytes + 40);
	/* The word at 28 repeats the number of nodes, so that tools can show it. */
	error = check_shape(bytes, size, &found, offset);
	if (error == 0 && get32(bytes + 28) != found.node_count)
		error = refuse(offset, 28, LINNET_E_FIELD);
	if (error == 0)
		error = check_trees(bytes, &found, offset);
	if (error == 0)
		error = check_floats(bytes, &found, offset);
	if (error < 0)
		return error;
	found.cell_count = count_cells(&found);
	linnet_copy(file, &found, sizeof(found));
	return 0;
}

/* Where a tree is copied from and to. */
struct loading {
	const uint8_t *features;
	const uint8_t *thresholds;
	const uint8_t *leaves;
	struct linnet_forest_cell *cells;
	bits64 *values;
	uint32_t cell;   /* cells that have a number; those above give it */
	uint32_t value;  /* values copied */
	uint32_t inputs;
};

/* Takes the next node of its level into split `n` of a cell. A leaf ends the walk at the first of its exits. */
static int take_split(const struct loading *from, struct linnet_forest_cell *cell, uint32_t n, struct cursor *at)
{
	if (from->features[at->node] == FILE_LEAF)
		return 0;
	cell->feature[n] = from->features[at->node++];
	cell->key[n] = linnet_float_key(get32(from->thresholds + 4 * (size_t)at->splits++));
	return 1;
}

static void take_leaf(struct loading *to, struct linnet_forest_cell *cell, uint32_t exit, struct cursor *at)
{
	cell->exits |= (LINNET_FOREST_LEAF | (to->value - cell->value)) << (4 * exit);
	to->values[to->value++] = get64(to->leaves + 8 * (size_t)at->leaves++);
	at->node++;
}

/* Fills the cell below a split, which is the next node of level 0. `level` has the next nodes of four levels. */
static void load_cell(struct loading *to, struct linnet_forest_cell *cell, struct cursor level[LEVELS + 1])
{
	linnet_zero(cell, sizeof(*cell));
	for (uint32_t n = 0; n < 7; n++)
		cell->feature[n] = (uint8_t)to->inputs;
	cell->cell = to->cell;
	cell->value = to->value;
	if (!take_split(to, cell, 0, &level[0])) {
		take_leaf(to, cell, 0, &level[0]); /* a tree of one leaf */
		return;
	}
	for (uint32_t a = 0; a < 2; a++) {
		if (!take_split(to, cell, 1 + a, &level[1])) {
			take_leaf(to, cell, 4 * a, &level[1]);
			continue;
		}
		for (uint32_t b = 0; b < 2; b++) {
			if (!take_split(to, cell, 3 + 2 * a + b, &level[2])) {
				take_leaf(to, cell, 4 * a + 2 * b, &level[2]);
				continue;
			}
			for (uint32_t c = 0; c < 2; c++) {
				uint32_t exit = 4 * a + 2 * b + c;

				if (to->features[level[3].node] == FILE_LEAF) {
					take_leaf(to, cell, exit, &level[3]);
				} else {
					/* Its cell is filled when its level is; here only its number is given. */
					cell->exits |= (to->cell++ - cell->cell) << (4 * exit);
					level[3].node++;
				}
			}
		}
	}
}

/* Copies one tree, three levels at a time. */
static void load_tree(struct loading *to, uint32_t count)
{
	struct cursor start = { 0, 0, 0 };
	uint32_t cell = to->cell++, end = 1;

	while (start.node < count) {
		struct cursor level[LEVELS + 1], first;

		level[0] = start;
		for (uint32_t l = 0; l < LEVELS; l++) {
			level[l + 1] = next_level(to->features, level[l], end);
			end = 2 * level[l + 1].splits + 1;
		}
		first = level[1];
		start = level[LEVELS];
		while (level[0].node < first.node) {
			/* The leaves of this level belong to the cells above. */
			if (to->features[level[0].node] == FILE_LEAF && count > 1)
				level[0].node++;
			else
				load_cell(to, &to->cells[cell++], level);
		}
	}
}

void linnet_forest_load(const struct linnet_forest_file *file, uint32_t *roots, struct linnet_forest_cell *cells,
			double *values, struct linnet_forest *forest)
{
	struct loading to = { .features = file->features,
			      .thresholds = file->thresholds,
			      .leaves = file->values,
			      .cells = cells,
			      .values = (bits64 *)(void *)values,
			      .inputs = file->inputs };

	linnet_zero(forest, sizeof(*forest));
	forest->inputs = file->inputs;
	forest->outputs = file->outputs;
	forest->roots = roots;
	forest->cells = cells;
	forest->values = values;
	for (uint32_t o = 0; o < file->outputs; o++)
		forest->first[o + 1] =
			forest->first[o] + get32(file->names + OUTPUT_BYTES * (size_t)o + LINNET_FOREST_NAME);
	for (uint32_t t = 0; t < file->tree_count; t++) {
		uint32_t count = get32(file->tree_nodes + 4 * (size_t)t);

		roots[t] = to.cell;
		load_tree(&to, count);
		to.features += count;
		to.thresholds += 4 * (size_t)(count / 2);
		to.leaves += 8 * (size_t)(count / 2 + 1);
	}
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_forest_cell) == 64, "struct linnet_forest_cell");
_Static_assert(sizeof(struct linnet_forest_file) == 80, "struct linnet_forest_file");
_Static_assert(sizeof(struct linnet_forest) == 32 + 4 * (LINNET_FOREST_OUTPUTS_MAX + 1) + 4, "struct linnet_forest");
