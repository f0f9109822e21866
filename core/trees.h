/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: boosted trees on the features of linnet-1, and the latencies that their scores foretell.
 */
#ifndef LINNET_TREES_H
#define LINNET_TREES_H

#include "feature.h"

/* ---- trees on these features ---- */

#define LINNET_TREES 64
#define LINNET_TREE_LEVELS 3
#define LINNET_TREE_LEAVES 8
#define LINNET_TREE_ONE 1024 /* a score of 1.0 */
#define LINNET_TREE_BASE_MAX (1 << 30)

/*
 * Level k of tree t adds 2^k to the number of the leaf when features[feature[k][t]] > threshold[k][t]. The score is
 * the base and one leaf of each tree. It cannot overflow: 64 leaves of 16 bits and a base below 2^30.
 */
struct linnet_trees {
	uint8_t feature[LINNET_TREE_LEVELS][LINNET_TREES];   /* 0..15 */
	uint8_t threshold[LINNET_TREE_LEVELS][LINNET_TREES]; /* 0..63 */
	int16_t leaf[LINNET_TREES][LINNET_TREE_LEAVES];
	int32_t base; /* within LINNET_TREE_BASE_MAX of 0 */
};

/* 0, or LINNET_E_RANGE when a number is out of its range. Trees that pass can be asked without further checks. */
int linnet_trees_check(const struct linnet_trees *trees);

/* Score of a read: the logarithm of the odds that it will be slow, times LINNET_TREE_ONE. */
int32_t linnet_trees_score(const struct linnet_trees *trees, const uint8_t features[LINNET_WATCH_FEATURES]);

/* ---- the same trees for processors, or kernels, that may not use vectors (grove.c) ---- */

#define LINNET_GROVE_ROWS (LINNET_TREE_LEVELS * LINNET_TREES + LINNET_WATCH_FEATURES)

/* 7,048 bytes. Const once planted. */
struct linnet_grove {
	uint8_t row[LINNET_WATCH_FEATURES][LINNET_BUCKET_MAX + 1]; /* of `passed`, for each value of a feature */
	uint64_t passed[LINNET_GROVE_ROWS][LINNET_TREE_LEVELS];    /* a bit for each tree whose question is passed */
	int16_t leaf[LINNET_TREES][LINNET_TREE_LEAVES];
	int32_t base;
};

/* Lays out trees that pass linnet_trees_check. */
void linnet_grove_plant(struct linnet_grove *grove, const struct linnet_trees *trees);

/* As linnet_trees_score, for features of 0..63. */
int32_t linnet_grove_score(const struct linnet_grove *grove, const uint8_t features[LINNET_WATCH_FEATURES]);

/* ---- latencies that a score foretells ---- */

#define LINNET_LATENCIES 5 /* quantiles: p50, p90, p95, p99, p99.9 */
#define LINNET_SCORE_BINS 16
#define LINNET_FEATURE_BINS 8

/*
 * Latency quantiles of reads in bins of their score and of one feature. A value is in the bin whose number is that of
 * the edges below it. In a bin the quantiles do not descend, nor does any from one bin of scores to the next.
 */
struct linnet_latencies {
	int32_t score_edge[LINNET_SCORE_BINS - 1];     /* none below the one before */
	uint8_t feature;                               /* 0..15 */
	uint8_t feature_edge[LINNET_FEATURE_BINS - 1]; /* 0..63, none below the one before */
	uint32_t ns[LINNET_SCORE_BINS][LINNET_FEATURE_BINS][LINNET_LATENCIES]; /* UINT32_MAX: that or more */
};

/* 0, or LINNET_E_RANGE when a number is out of its range or order. */
int linnet_latencies_check(const struct linnet_latencies *latencies);

/* The LINNET_LATENCIES quantiles of a read's latency; `score` is what the trees say of these features. */
const uint32_t *linnet_latencies_predict(const struct linnet_latencies *latencies, int32_t score,
					 const uint8_t features[LINNET_WATCH_FEATURES]);

#endif
