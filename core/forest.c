/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The prediction of forests of regression trees: spec/forest.md.
 *
 * A walk through one tree waits for memory at every step. Steps are therefore three levels long, from one cache line to
 * the next, and sixteen walks are made side by side: one row in sixteen trees, or sixteen rows in one tree. A step has
 * no branch; a walk that has reached its leaf repeats its last step. Thresholds and inputs are compared as integers
 * that have the order of the floats. The sum runs over the trees in their order, as scikit-learn adds them.
 */
#include "float.h"
#include "place.h"
#include "tree.h"

#define LANES LINNET_FOREST_ROWS

/* Inputs of a row as integers of the same order, then one below every threshold. */
static int keys_of(const float *row, uint32_t inputs, int32_t *keys)
{
	for (uint32_t i = 0; i < inputs; i++) {
		uint32_t bits = linnet_float_bits(row, i);

		if ((bits & 0x7f800000) == 0x7f800000)
			return LINNET_E_INPUT;
		keys[i] = linnet_float_key(bits);
	}
	keys[inputs] = INT32_MIN;
	return 0;
}

/* Takes three levels from cell `at`. Returns the next cell, or `at` where the walk ends in leaf `*value`. */
static inline uint32_t step(const struct linnet_forest_cell *cells, const int32_t *keys, uint32_t at, uint32_t *value)
{
	const struct linnet_forest_cell *cell = &cells[at];
	uint32_t exit = keys[cell->feature[0]] > cell->key[0], end, rank, leaf;

	exit = 2 * exit + (keys[cell->feature[1 + exit]] > cell->key[1 + exit]);
	exit = 2 * exit + (keys[cell->feature[3 + exit]] > cell->key[3 + exit]);
	end = cell->exits >> (4 * exit);
	rank = end & 7;
	*value = cell->value + rank;
	/* Without a branch, which would be predicted wrong once in each walk. */
	leaf = 0 - (end / LINNET_FOREST_LEAF & 1);
	return (at & leaf) | ((cell->cell + rank) & ~leaf);
}

/* The values of one row in trees from `tree` on, at most LANES. */
static void walk_trees(const struct linnet_forest *forest, const int32_t *keys, uint32_t tree, uint32_t count,
		       double *values)
{
	uint32_t at[LANES], value[LANES] = { 0 }, moved;

	for (uint32_t l = 0; l < LANES; l++)
		at[l] = forest->roots[tree + (l < count ? l : 0)];
	do {
		moved = 0;
		for (uint32_t l = 0; l < LANES; l++) {
			uint32_t next = step(forest->cells, keys, at[l], &value[l]);

			moved |= next ^ at[l];
			at[l] = next;
		}
	} while (moved);
	for (uint32_t l = 0; l < count; l++)
		values[l] = forest->values[value[l]];
}

static void predict_one(const struct linnet_forest *forest, const int32_t *keys, double *out)
{
	double values[LANES];

	for (uint32_t o = 0; o < forest->outputs; o++) {
		uint32_t first = forest->first[o], end = forest->first[o + 1];
		double sum = 0;

		for (uint32_t tree = first; tree < end; tree += LANES) {
			uint32_t count = end - tree < LANES ? end - tree : LANES;

			walk_trees(forest, keys, tree, count, values);
			for (uint32_t l = 0; l < count; l++)
				sum += values[l];
		}
		out[o] = sum / (double)(int32_t)(end - first);
	}
}

/* Adds the values of LANES rows in one tree. */
static void walk_rows(const struct linnet_forest *forest, const int32_t *keys, uint32_t tree, double *sums)
{
	uint32_t at[LANES], value[LANES] = { 0 }, stride = forest->inputs + 1, moved;

	for (uint32_t l = 0; l < LANES; l++)
		at[l] = forest->roots[tree];
	do {
		moved = 0;
		for (uint32_t l = 0; l < LANES; l++) {
			uint32_t next = step(forest->cells, keys + l * stride, at[l], &value[l]);

			moved |= next ^ at[l];
			at[l] = next;
		}
	} while (moved);
	for (uint32_t l = 0; l < LANES; l++)
		sums[l] += forest->values[value[l]];
}

static void predict_block(const struct linnet_forest *forest, const int32_t *keys, double *out)
{
	for (uint32_t o = 0; o < forest->outputs; o++) {
		double sums[LANES] = { 0 }, count = (double)(int32_t)(forest->first[o + 1] - forest->first[o]);

		for (uint32_t tree = forest->first[o]; tree < forest->first[o + 1]; tree++)
			walk_rows(forest, keys, tree, sums);
		for (uint32_t l = 0; l < LANES; l++)
			out[l * (size_t)forest->outputs + o] = sums[l] / count;
	}
}

int linnet_forest_predict(const struct linnet_forest *forest, const float *rows, uint32_t count, int32_t *scratch,
			  double *out)
{
	uint32_t block;

	for (uint32_t row = 0; row < count; row += block) {
		block = count - row < LANES ? 1 : LANES;
		for (uint32_t l = 0; l < block; l++) {
			int error = keys_of(rows + (size_t)(row + l) * forest->inputs, forest->inputs,
					    scratch + l * (forest->inputs + 1));

			if (error < 0)
				return error;
		}
		if (block == 1)
			predict_one(forest, scratch, out + (size_t)row * forest->outputs);
		else
			predict_block(forest, scratch, out + (size_t)row * forest->outputs);
	}
	return 0;
}
