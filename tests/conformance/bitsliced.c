/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks that bit-sliced trees have the scores of their trees, for random trees and features, and which trees are
 * refused. Trees with few thresholds share rows; trees with all different thresholds need every row.
 */
#include "drawn.h"
#include "linnet.h"

#define CASES 2000
#define READS 50

/* Trees pass at the ends of every range, and one number beyond them is refused, whichever it is. */
static int ranges_hold(void)
{
	static struct linnet_trees trees;
	int found = 1;

	memset(trees.feature, LINNET_INFLIGHT_FEATURES - 1, sizeof(trees.feature));
	memset(trees.threshold, LINNET_BUCKET_MAX, sizeof(trees.threshold));
	for (int schema = 0; schema < 5; schema++) {
		trees.schema = (uint16_t)schema;
		found &= (linnet_trees_check(&trees) == 0) == (schema == LINNET_SCHEMA_LINNET1 || schema == LINNET_SCHEMA_LINNET2);
	}
	trees.schema = LINNET_SCHEMA_LINNET2;
	for (int end = 0; end < 2; end++) {
		trees.base = end ? LINNET_TREE_BASE_MAX + 1 : -LINNET_TREE_BASE_MAX - 1;
		found &= linnet_trees_check(&trees) == LINNET_E_RANGE;
		trees.base += end ? -1 : 1;
		found &= linnet_trees_check(&trees) == 0;
	}
	for (int level = 0; level < LINNET_TREE_LEVELS; level++) {
		for (int tree = 0; tree < LINNET_TREES; tree++) {
			trees.feature[level][tree]++;
			found &= linnet_trees_check(&trees) == LINNET_E_RANGE;
			trees.feature[level][tree]--;
			trees.threshold[level][tree]++;
			found &= linnet_trees_check(&trees) == LINNET_E_RANGE;
			trees.threshold[level][tree]--;
		}
	}
	return found && linnet_trees_check(&trees) == 0;
}

int main(void)
{
	static struct linnet_trees trees;
	static struct linnet_bitsliced bitsliced, again;
	unsigned rows_most = 0;

	if (!ranges_hold()) {
		fprintf(stderr, "trees: a number out of its range passes, or one within is refused\n");
		return 1;
	}
	for (uint32_t n = 0; n < CASES; n++) {
		for (int level = 0; level < LINNET_TREE_LEVELS; level++) {
			for (int tree = 0; tree < LINNET_TREES; tree++) {
				/* In every third case all questions differ, which needs the largest number of rows. */
				uint32_t question = (uint32_t)(level * LINNET_TREES + tree);

				trees.feature[level][tree] = (uint8_t)(n % 3 ? below(LINNET_INFLIGHT_FEATURES) : question % 16);
				trees.threshold[level][tree] = (uint8_t)(n % 3 ? below(n % 3 == 1 ? 64 : 4) : question / 16);
			}
		}
		for (int tree = 0; tree < LINNET_TREES; tree++)
			for (int leaf = 0; leaf < LINNET_TREE_LEAVES; leaf++)
				trees.leaf[tree][leaf] = (int16_t)below(1 << 16);
		trees.base = (int32_t)below(LINNET_TREE_BASE_MAX) - LINNET_TREE_BASE_MAX / 2;
		trees.schema = (uint16_t)(1 + below(UINT16_MAX));
		trees.slow_score = (int16_t)below(1 << 16);
		linnet_bitsliced_init(&bitsliced, &trees);
		if (n < 9) {
			memset(&again, 0xa5, sizeof(again));
			linnet_bitsliced_init(&again, &trees);
		}
		if ((n < 9 && memcmp(&bitsliced, &again, sizeof(again))) || bitsliced.schema != trees.schema ||
		    bitsliced.slow_score != trees.slow_score) {
			fprintf(stderr, "bit-sliced trees: case %u has what was in memory, or not its schema\n", n);
			return 1;
		}
		for (int feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++)
			if (bitsliced.row[feature][LINNET_BUCKET_MAX] + 1u > rows_most)
				rows_most = bitsliced.row[feature][LINNET_BUCKET_MAX] + 1u;
		for (int read = 0; read < READS; read++) {
			uint8_t features[LINNET_INFLIGHT_FEATURES];

			for (int feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++)
				features[feature] = (uint8_t)below(LINNET_BUCKET_MAX + 1);
			if (linnet_bitsliced_score(&bitsliced, features) != linnet_trees_score(&trees, features)) {
				fprintf(stderr, "bit-sliced trees: case %u scores %d, its trees %d\n", n,
					linnet_bitsliced_score(&bitsliced, features), linnet_trees_score(&trees, features));
				return 1;
			}
		}
	}
	if (rows_most != LINNET_BITSLICED_ROWS) {
		fprintf(stderr, "bit-sliced trees: at most %u rows were used of %d\n", rows_most, LINNET_BITSLICED_ROWS);
		return 1;
	}
	printf("%d bit-sliced sets of trees score as their trees\n", CASES);
	return 0;
}
