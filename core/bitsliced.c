/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Scores trees with bit operations, where vectors may not be used. Scores equal those of linnet_trees_score.
 *
 * Walked one by one, 64 trees of three questions take 192 steps. But a question compares one of 16 features with a
 * threshold, so the answers of all trees to their questions about one feature depend on its value alone. They are
 * stored, one bit for each tree and level, for every value that changes an answer. 16 look-ups give all answers. The
 * answers of eight trees are then spread to the bytes of a word, which are the numbers of their leaves.
 */
#include "linnet.h"

#define BYTES 0x0101010101010101U
#define DIAGONAL 0x8040201008040201U

/* Values with the same answers to all questions about a feature share a row. The rows of a feature are adjacent. */
void linnet_bitsliced_init(struct linnet_bitsliced *bitsliced, const struct linnet_trees *trees)
{
	uint32_t row = 0;

	linnet_zero(bitsliced, sizeof(*bitsliced));
	for (uint32_t feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++) {
		for (uint32_t value = 0; value <= LINNET_BUCKET_MAX; value++) {
			uint64_t passed[LINNET_TREE_LEVELS] = { 0, 0, 0 };

			for (uint32_t level = 0; level < LINNET_TREE_LEVELS; level++)
				for (uint32_t tree = 0; tree < LINNET_TREES; tree++)
					if (trees->feature[level][tree] == feature && value > trees->threshold[level][tree])
						passed[level] |= (uint64_t)1 << tree;
			/* A larger value passes all questions that a smaller one does, so a row that differs is new. */
			if (value > 0 && (passed[0] != bitsliced->passed[row][0] || passed[1] != bitsliced->passed[row][1] ||
					  passed[2] != bitsliced->passed[row][2]))
				row++;
			for (uint32_t level = 0; level < LINNET_TREE_LEVELS; level++)
				bitsliced->passed[row][level] = passed[level];
			bitsliced->row[feature][value] = (uint8_t)row;
		}
		row++;
	}
	linnet_copy(bitsliced->leaf, trees->leaf, sizeof(bitsliced->leaf));
	bitsliced->base = trees->base;
}

/* Bit k of a byte becomes byte k of a word, 0 or 1. */
static uint64_t spread(uint64_t byte)
{
	return ((((byte * BYTES) & DIAGONAL) + 0x7f * BYTES) >> 7) & BYTES;
}

int32_t linnet_bitsliced_score(const struct linnet_bitsliced *bitsliced, const uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	uint64_t low = 0, middle = 0, high = 0;
	const int16_t *leaf = bitsliced->leaf[0];
	int32_t score = bitsliced->base;

	for (uint32_t feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++) {
		const uint64_t *passed = bitsliced->passed[bitsliced->row[feature][features[feature]]];

		low |= passed[0];
		middle |= passed[1];
		high |= passed[2];
	}
	for (uint32_t shift = 0; shift < LINNET_TREES; shift += 8, leaf += 8 * LINNET_TREE_LEAVES) {
		uint64_t leaves = spread(low >> shift & 0xff) | spread(middle >> shift & 0xff) << 1 |
				  spread(high >> shift & 0xff) << 2;

		score += leaf[leaves & 7];
		score += leaf[8 + (leaves >> 8 & 7)];
		score += leaf[16 + (leaves >> 16 & 7)];
		score += leaf[24 + (leaves >> 24 & 7)];
		score += leaf[32 + (leaves >> 32 & 7)];
		score += leaf[40 + (leaves >> 40 & 7)];
		score += leaf[48 + (leaves >> 48 & 7)];
		score += leaf[56 + (leaves >> 56)];
	}
	return score;
}
