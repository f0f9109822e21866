// SPDX-License-Identifier: MIT OR Apache-2.0
/* Which leaf of a tree is split next, where a limit on nodes leaves out some splits; see tune.c. */
#include "tune.h"

/* Rows of each class among those with this leaf, and the sum of their squares by the rows. */
static double purity(const uint32_t *leaf_of, uint32_t leaf, const uint8_t *classes, uint32_t rows)
{
	double counts[3] = { 0 }, n = 0, sum = 0;

	for (uint32_t r = 0; r < rows; r++) {
		counts[classes[r]] += leaf_of[r] == leaf;
		n += leaf_of[r] == leaf;
	}
	for (int c = 0; c < 3; c++)
		sum += counts[c] * counts[c];
	return sum / n;
}

/* What the best split of the rows of a leaf gains: that of a tree of one split, fitted to these rows alone. */
static double gain_of(const uint32_t *leaf_of, uint32_t leaf, const float *values, const uint8_t *classes,
		      uint32_t rows)
{
	const struct linnet_cart_options one = { .depth_max = 1, .leaf_rows = 1, .nodes_max = 3, .classes = 3 };
	float *own = room(rows * 2 * sizeof(float));
	uint8_t *kinds = room(rows);
	uint32_t *side = room(rows * sizeof(*side)), n = 0;
	void *memory = room(linnet_cart_size(rows));
	struct linnet_tree_node nodes[3];
	double gain = 0;

	for (uint32_t r = 0; r < rows; r++) {
		if (leaf_of[r] != leaf)
			continue;
		memcpy(own + 2 * n, values + 2 * r, 2 * sizeof(float));
		kinds[n++] = classes[r];
	}
	if (cart_fit(&one, own, kinds, n, 2, memory, linnet_cart_size(rows), nodes) == 3) {
		for (uint32_t r = 0; r < n; r++)
			side[r] = (uint32_t)(linnet_tree_leaf(nodes, own + 2 * r) - nodes);
		gain = purity(side, 1, kinds, n) + purity(side, 2, kinds, n) - purity(leaf_of, leaf, classes, rows);
	}
	free(own);
	free(kinds);
	free(side);
	free(memory);
	return gain;
}

/* With two nodes more, the leaf whose split gains most is split, and no other. */
static void grows_best_first(void)
{
	enum { ROWS = 300, LEAVES = 60 };
	struct linnet_cart_options options = { LINNET_TREE_DEPTH_MAX, 1, 1, 3 };
	const struct linnet_cart_options most = { LINNET_TREE_DEPTH_MAX, 1, 2 * LEAVES - 1, 3 };
	static struct linnet_tree_node nodes[2 * LEAVES + 1], steps[2 * LEAVES + 1];
	static uint32_t before[ROWS], after[ROWS];
	static float values[2 * ROWS];
	static uint8_t classes[ROWS];
	void *memory = room(linnet_cart_size(ROWS)), *growing = room(linnet_cart_size(ROWS));

	for (uint32_t r = 0; r < ROWS; r++) {
		values[2 * r] = unit();
		values[2 * r + 1] = unit();
		classes[r] = (uint8_t)(draw() % 3);
	}
	CHECK(linnet_cart_begin(&most, values, classes, ROWS, 2, growing, linnet_cart_size(ROWS) - 1) == LINNET_E_MEMORY);
	CHECK(linnet_cart_begin(&most, values, classes, ROWS, 2, growing, linnet_cart_size(ROWS)) == 0);
	CHECK(linnet_cart_end(growing, steps) == 1 && steps[0].feature == LINNET_TREE_LEAF);
	for (options.nodes_max = 3; options.nodes_max < 2 * LEAVES; options.nodes_max += 2) {
		double highest = -1, gained = -1;
		uint32_t split = 0;

		CHECK(cart_fit(&options, values, classes, ROWS, 2, memory, linnet_cart_size(ROWS), nodes) ==
		      (int)options.nodes_max);
		/* Stopped after as many steps, a larger tree is the same. */
		CHECK(linnet_cart_grow(growing) == 1 && linnet_cart_end(growing, steps) == (int)options.nodes_max);
		CHECK(memcmp(steps, nodes, options.nodes_max * sizeof(*nodes)) == 0);
		for (uint32_t r = 0; r < ROWS; r++)
			after[r] = (uint32_t)(linnet_tree_leaf(nodes, values + 2 * r) - nodes);
		for (uint32_t leaf = 0; leaf + 2 < options.nodes_max; leaf++) {
			uint32_t first = UINT32_MAX, parts = 0;
			double gain;

			for (uint32_t r = 0; r < ROWS; r++) {
				if (before[r] != leaf)
					continue;
				parts |= first != UINT32_MAX && after[r] != first;
				first = first == UINT32_MAX ? after[r] : first;
			}
			if (first == UINT32_MAX) /* no leaf */
				continue;
			gain = gain_of(before, leaf, values, classes, ROWS);
			highest = fmax(highest, gain);
			gained = parts ? gain : gained;
			split += parts;
		}
		CHECK(split == 1 && fabs(gained - highest) < 1e-9);
		memcpy(before, after, sizeof(before));
	}
	CHECK(linnet_cart_grow(growing) == 0);
	free(growing);
	free(memory);
}

/*
 * A tree of two splits: the second one is where it gains more, on whichever side. Rows of each class where the first
 * feature is 0 and where it is 1, times `scale`; the second feature is 1 for the odd classes.
 */
static void splits_where_it_gains(const uint32_t *counts, uint32_t scale, int right)
{
	const struct linnet_cart_options two = { .depth_max = 2, .leaf_rows = 1, .nodes_max = 5, .classes = 4 };
	float *values = room(40 * scale * sizeof(float));
	uint8_t *classes = room(20 * scale);
	void *memory = room(linnet_cart_size(20 * scale));
	struct linnet_tree_node nodes[5];
	uint32_t rows = 0;

	for (uint8_t c = 0; c < 4; c++) {
		for (uint32_t r = 0; r < counts[c] * scale; r++, rows++) {
			values[2 * rows] = c / 2;
			values[2 * rows + 1] = c % 2;
			classes[rows] = c;
		}
	}
	CHECK(cart_fit(&two, values, classes, rows, 2, memory, linnet_cart_size(rows), nodes) == 5);
	CHECK(nodes[0].feature == 0 && nodes[0].right == (right ? 2 : 4));
	CHECK(nodes[right ? 2 : 1].feature == 1);
	free(values);
	free(classes);
	free(memory);
}

void check_growth(void)
{
	const uint32_t counts[][4] = { { 9, 1, 5, 5 }, { 5, 5, 9, 1 }, { 5, 5, 5, 5 }, { 4, 6, 5, 5 }, { 5, 5, 4, 6 } };
	const int right[] = { 1, 0, 0, 1, 0 };

	grows_best_first();
	for (int k = 0; k < 5; k++)
		splits_where_it_gains(counts[k], 1, right[k]);
	/* Of many rows, gains exceed 64 bits as fractions. */
	for (int k = 3; k < 5; k++)
		splits_where_it_gains(counts[k], 20000, right[k]);
}
