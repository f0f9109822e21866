/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Scores trees with bit operations, where vectors may not be used. Scores equal those of linnet_trees_score.
 *
 * Walked one by one, 64 trees of three questions take 192 steps. But a question compares one of 16 features with a
 * threshold, so the answers of all trees to their questions about one feature depend on its value alone. They are
 * stored, one bit for each tree and level, for every value that changes an answer. 16 look-ups give all answers.
 *
 * Each byte of the answers belongs to two trees, three bits each. It is the index into a table of the sums of their
 * leaves, so 32 further look-ups give the score.
 */
#include "linnet.h"

#define WORD_TREES (LINNET_TREES / LINNET_BITSLICED_WORDS)
_Static_assert(WORD_TREES == 16 && LINNET_TREE_LEVELS == 3, "a byte has the answers of two trees");

/* The bits of one feature value: a row of words. */
static void answer(uint64_t passed[LINNET_BITSLICED_WORDS], const struct linnet_trees *trees, uint32_t feature, uint32_t value)
{
	for (uint32_t word = 0; word < LINNET_BITSLICED_WORDS; word++)
		passed[word] = 0;
	for (uint32_t level = 0; level < LINNET_TREE_LEVELS; level++) {
		for (uint32_t tree = 0; tree < LINNET_TREES; tree++) {
			uint32_t bit = 8 * (tree % WORD_TREES / 2) + LINNET_TREE_LEVELS * (tree % 2) + level;

			if (trees->feature[level][tree] == feature && value > trees->threshold[level][tree])
				passed[tree / WORD_TREES] |= (uint64_t)1 << bit;
		}
	}
}

/* Values with the same answers to all questions about a feature share a row. The rows of a feature are adjacent. */
void linnet_bitsliced_init(struct linnet_bitsliced *bitsliced, const struct linnet_trees *trees)
{
	uint32_t row = 0;

	linnet_zero(bitsliced, sizeof(*bitsliced));
	for (uint32_t feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++) {
		for (uint32_t value = 0; value <= LINNET_BUCKET_MAX; value++) {
			uint64_t passed[LINNET_BITSLICED_WORDS], differs = 0;

			answer(passed, trees, feature, value);
			/* A larger value passes all questions that a smaller one does, so a row that differs is new. */
			for (uint32_t word = 0; word < LINNET_BITSLICED_WORDS; word++)
				differs |= passed[word] ^ bitsliced->passed[row][word];
			if (value > 0 && differs)
				row++;
			for (uint32_t word = 0; word < LINNET_BITSLICED_WORDS; word++)
				bitsliced->passed[row][word] = passed[word];
			bitsliced->row[feature][value] = (uint8_t)row;
		}
		row++;
	}
	for (uint32_t pair = 0; pair < LINNET_TREES / 2; pair++)
		for (uint32_t leaves = 0; leaves < LINNET_PAIR_LEAVES; leaves++)
			bitsliced->leaf[pair][leaves] = trees->leaf[2 * pair][leaves % LINNET_TREE_LEAVES] +
							trees->leaf[2 * pair + 1][leaves / LINNET_TREE_LEAVES];
	bitsliced->base = trees->base;
	bitsliced->schema = trees->schema;
	bitsliced->slow_score = trees->slow_score;
}

int32_t linnet_bitsliced_score(const struct linnet_bitsliced *bitsliced, const uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	uint64_t passed[LINNET_BITSLICED_WORDS] = { 0 };
	const int32_t (*leaf)[LINNET_PAIR_LEAVES] = bitsliced->leaf;
	int32_t score = bitsliced->base;

	for (uint32_t feature = 0; feature < LINNET_INFLIGHT_FEATURES; feature++) {
		const uint64_t *own = bitsliced->passed[bitsliced->row[feature][features[feature]]];

		passed[0] |= own[0];
		passed[1] |= own[1];
		passed[2] |= own[2];
		passed[3] |= own[3];
	}
	for (uint32_t word = 0; word < LINNET_BITSLICED_WORDS; word++, leaf += WORD_TREES / 2) {
		uint64_t leaves = passed[word];

		score += leaf[0][leaves & 0xff];
		score += leaf[1][leaves >> 8 & 0xff];
		score += leaf[2][leaves >> 16 & 0xff];
		score += leaf[3][leaves >> 24 & 0xff];
		score += leaf[4][leaves >> 32 & 0xff];
		score += leaf[5][leaves >> 40 & 0xff];
		score += leaf[6][leaves >> 48 & 0xff];
		score += leaf[7][leaves >> 56];
	}
	return score;
}
