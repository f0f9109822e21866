/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A sum of small trees on features of one byte. All nodes of a level ask the same question, so a tree is three
 * comparisons that do not wait for each other and one look-up, and there is nothing to predict wrongly.
 */
#include "linnet.h"

int linnet_trees_check(const struct linnet_trees *trees)
{
	if (trees->base < -LINNET_TREE_BASE_MAX || trees->base > LINNET_TREE_BASE_MAX)
		return LINNET_E_RANGE;
	for (int level = 0; level < LINNET_TREE_LEVELS; level++)
		for (int tree = 0; tree < LINNET_TREES; tree++)
			if (trees->feature[level][tree] >= LINNET_WATCH_FEATURES ||
			    trees->threshold[level][tree] > LINNET_BUCKET_MAX)
				return LINNET_E_RANGE;
	return 0;
}

int32_t linnet_trees_score(const struct linnet_trees *trees, const uint8_t features[LINNET_WATCH_FEATURES])
{
	int32_t score = trees->base;

	for (int tree = 0; tree < LINNET_TREES; tree++) {
		uint32_t leaf = features[trees->feature[0][tree]] > trees->threshold[0][tree];

		leaf |= (uint32_t)(features[trees->feature[1][tree]] > trees->threshold[1][tree]) << 1;
		leaf |= (uint32_t)(features[trees->feature[2][tree]] > trees->threshold[2][tree]) << 2;
		score += trees->leaf[tree][leaf];
	}
	return score;
}
