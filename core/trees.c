/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A sum of small trees on features of one byte. All nodes of a level ask the same question, so a tree is three
 * independent comparisons and one look-up, without branches that could be mispredicted.
 *
 * The sixteen features fit one vector register. With an instruction that fetches sixteen bytes of a register by index
 * (SSSE3 and later), sixteen trees are evaluated at once. Compiled again with LINNET_TREES_SCORE defined, this file
 * gives the score for another instruction set, and nothing else.
 */
#include "blocks.h"

#ifndef LINNET_TREES_SCORE
#define LINNET_TREES_SCORE linnet_trees_score

int linnet_trees_check(const struct linnet_trees *trees)
{
	if (trees->base < -LINNET_TREE_BASE_MAX || trees->base > LINNET_TREE_BASE_MAX)
		return LINNET_E_RANGE;
	if (trees->schema != LINNET_SCHEMA_LINNET1 && trees->schema != LINNET_SCHEMA_LINNET2)
		return LINNET_E_RANGE;
	for (int level = 0; level < LINNET_TREE_LEVELS; level++)
		for (int tree = 0; tree < LINNET_TREES; tree++)
			if (trees->feature[level][tree] >= LINNET_INFLIGHT_FEATURES ||
			    trees->threshold[level][tree] > LINNET_BUCKET_MAX)
				return LINNET_E_RANGE;
	return 0;
}

/* Offsets in the block of a model file. */
#define FEATURES 8
#define THRESHOLDS (FEATURES + LINNET_TREE_LEVELS * LINNET_TREES)
#define LEAVES (THRESHOLDS + LINNET_TREE_LEVELS * LINNET_TREES)
_Static_assert(LEAVES + 2 * LINNET_TREES * LINNET_TREE_LEAVES == LINNET_TREES_BLOCK, "spec/model-file.md");

int linnet_trees_check_block(const uint8_t *file, size_t at, size_t *offset)
{
	int64_t base = (int32_t)get32(file + at + 4);

	if (get16(file + at) != LINNET_SCHEMA_LINNET1 && get16(file + at) != LINNET_SCHEMA_LINNET2)
		return refuse(offset, at, LINNET_E_SCHEMA);
	if (base < -LINNET_TREE_BASE_MAX || base > LINNET_TREE_BASE_MAX)
		return refuse(offset, at + 4, LINNET_E_FIELD);
	for (size_t i = at + FEATURES; i < at + THRESHOLDS; i++)
		if (file[i] >= LINNET_INFLIGHT_FEATURES)
			return refuse(offset, i, LINNET_E_FIELD);
	for (size_t i = at + THRESHOLDS; i < at + LEAVES; i++)
		if (file[i] > LINNET_BUCKET_MAX)
			return refuse(offset, i, LINNET_E_FIELD);
	return 0;
}

void linnet_trees_read_block(struct linnet_trees *trees, const uint8_t *block)
{
	const uint8_t *leaf = block + LEAVES;

	linnet_copy(trees->feature, block + FEATURES, sizeof(trees->feature));
	linnet_copy(trees->threshold, block + THRESHOLDS, sizeof(trees->threshold));
	for (int tree = 0; tree < LINNET_TREES; tree++)
		for (int k = 0; k < LINNET_TREE_LEAVES; k++, leaf += 2)
			trees->leaf[tree][k] = (int16_t)get16(leaf);
	trees->base = (int32_t)get32(block + 4);
	trees->schema = get16(block);
	trees->slow_score = (int16_t)get16(block + 2);
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_trees) == 1416, "struct linnet_trees");
#endif

#ifdef __SSSE3__

#define LANES 16
_Static_assert(LINNET_INFLIGHT_FEATURES == LANES && LINNET_TREES % LANES == 0, "one register holds the features");

typedef int8_t lanes __attribute__((vector_size(LANES)));
typedef int8_t lanes_anywhere __attribute__((vector_size(LANES), aligned(1), may_alias));

static inline lanes load(const uint8_t *bytes)
{
	return *(const lanes_anywhere *)bytes;
}

typedef char lanes_of_char __attribute__((vector_size(LANES)));

/*
 * own[index] in each lane. The instruction by its name, which GCC and Clang share; __builtin_shuffle is GCC's alone. It
 * gives 0 where the high bit of an index is set, and no index exceeds 15: linnet_trees_check.
 */
static inline lanes fetch(lanes own, lanes index)
{
	return (lanes)__builtin_ia32_pshufb128((lanes_of_char)own, (lanes_of_char)index);
}

int32_t LINNET_TREES_SCORE(const struct linnet_trees *trees, const uint8_t features[LINNET_INFLIGHT_FEATURES])
{
	lanes own = load(features);
	int32_t even = trees->base, odd = 0; /* two sums: one would be a chain of 64 additions */
	uint8_t leaf[LINNET_TREES];

	for (int tree = 0; tree < LINNET_TREES; tree += LANES) {
		lanes sum = { 0 };

		/* Signed comparisons suffice: no value exceeds 63. */
		for (int level = 0; level < LINNET_TREE_LEVELS; level++)
			sum |= (fetch(own, load(&trees->feature[level][tree])) >
				load(&trees->threshold[level][tree])) & (int8_t)(1 << level);
		*(lanes_anywhere *)&leaf[tree] = sum;
	}
	for (int tree = 0; tree < LINNET_TREES; tree += 2) {
		even += trees->leaf[tree][leaf[tree]];
		odd += trees->leaf[tree + 1][leaf[tree + 1]];
	}
	return even + odd;
}

#else

int32_t LINNET_TREES_SCORE(const struct linnet_trees *trees, const uint8_t features[LINNET_INFLIGHT_FEATURES])
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

#endif
