/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Placement: forests of regression trees that predict what tenants do to each other. A public header of the core with
 * the same rules as linnet.h. The contract is spec/forest.md.
 *
 * The reader (forest_file.c) is integer code. Prediction (forest.c) adds 64-bit floats. Every build gives the same
 * bits, which are those of scikit-learn's RandomForestRegressor.predict.
 */
#ifndef LINNET_PLACE_H
#define LINNET_PLACE_H

#include "linnet.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LINNET_KIND_FOREST 3
#define LINNET_SCHEMA_PLACE1 5 /* a tenant's profile, then the aggregate of its neighbours: spec/profile.md */
#define LINNET_FOREST_INPUTS_MAX 254
#define LINNET_FOREST_OUTPUTS_MAX 64
#define LINNET_FOREST_TREES_MAX 65536u         /* of all outputs together */
#define LINNET_FOREST_NODES_MAX ((1u << 24) - 1) /* of one tree */
#define LINNET_FOREST_NAME 40                  /* bytes of an output's name, padded with zeros */
#define LINNET_FOREST_LEAF 8u                   /* bit 3 of an exit of a cell */
#define LINNET_FOREST_ROWS 16                  /* rows that are evaluated together */

/*
 * Up to seven splits of a tree: a split, its two children and its four grandchildren, in one cache line. A walk passes
 * one line for three levels of the tree. Where the tree ends early, the missing splits ask for feature `inputs`, which
 * stands for a number below every threshold.
 */
struct linnet_forest_cell {
	int32_t key[7];     /* thresholds as integers of the same order; the children of split n are 2n + 1 and 2n + 2 */
	uint32_t exits;     /* four bits for each of the eight ends: 8 for a leaf, and its number among those of its kind */
	uint8_t feature[8]; /* of each split */
	uint32_t cell;      /* the first cell that follows */
	uint32_t value;     /* of the first leaf */
	uint32_t spare[4];
};

/* A file as read. Its numbers stay in the bytes that were read; linnet_forest_load copies them. */
struct linnet_forest_file {
	uint16_t schema;
	uint16_t inputs;       /* 1..LINNET_FOREST_INPUTS_MAX */
	uint32_t outputs;      /* 1..LINNET_FOREST_OUTPUTS_MAX */
	uint32_t tree_count;   /* of all outputs */
	uint32_t node_count;   /* of all trees */
	uint32_t value_count;  /* leaves of all trees */
	uint32_t cell_count;   /* cells that all trees need */
	uint64_t rows;         /* of its training data */
	uint64_t seed;
	const uint8_t *names;      /* 48 bytes per output: its name, its trees, 0 */
	const uint8_t *tree_nodes; /* u32 per tree */
	const uint8_t *features;   /* u8 per node, FF of a leaf */
	const uint8_t *thresholds; /* f32 per split */
	const uint8_t *values;     /* f64 per leaf */
};

/* Reads a file of kind 3. Errors and their offsets: spec/forest.md. The output is untouched when a file is refused. */
int linnet_forest_read(const uint8_t *bytes, size_t size, struct linnet_forest_file *file, size_t *offset);

/* Forests that are ready to predict, one for each output. Const once loaded: any number of threads may share them. */
struct linnet_forest {
	uint32_t inputs;
	uint32_t outputs;
	const uint32_t *roots; /* the first cell of each tree */
	const struct linnet_forest_cell *cells;
	const double *values;
	uint32_t first[LINNET_FOREST_OUTPUTS_MAX + 1]; /* tree of each output; then the number of all trees */
};

/*
 * Copies a file that was read into the caller's memory: tree_count roots, cell_count cells (aligned to LINNET_ALIGN),
 * value_count values. The bytes of the file may then be freed.
 */
void linnet_forest_load(const struct linnet_forest_file *file, uint32_t *roots, struct linnet_forest_cell *cells,
			double *values, struct linnet_forest *forest);

/* int32 of scratch that a prediction needs. */
static inline uint32_t linnet_forest_scratch(const struct linnet_forest *forest)
{
	return LINNET_FOREST_ROWS * (forest->inputs + 1);
}

/*
 * Predicts all outputs of `count` rows of `inputs` numbers; `out` is count x outputs. LINNET_E_INPUT if a number is NaN
 * or infinite, which leaves `out` undefined.
 */
int linnet_forest_predict(const struct linnet_forest *forest, const float *rows, uint32_t count, int32_t *scratch,
			  double *out);

#ifdef __cplusplus
}
#endif

#endif
