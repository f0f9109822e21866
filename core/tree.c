/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * One decision tree of a knob: its check, the walk from root to leaf, and the table that evaluates all questions at
 * once. (trees.c has the sum of small trees of an admission model.) Without an FPU, floats are compared by their bits.
 */
#include "tree.h"

#define LANES 4 /* thresholds per question */

static int is_leaf(const struct linnet_tree_node *node)
{
	return node->feature == LINNET_TREE_LEAF;
}

int linnet_tree_walk(struct linnet_tree_walk *walk, const struct linnet_tree_node *node, uint32_t i)
{
	if (!is_leaf(node)) {
		if (node->feature >= walk->inputs || (node->word & 0x7f800000) == 0x7f800000)
			return LINNET_E_RANGE;
		if (walk->depth == LINNET_TREE_DEPTH_MAX || i + 1 == walk->count)
			return LINNET_E_SHAPE;
		walk->right[walk->depth++] = node->right;
		return 0;
	}
	if (node->right >= walk->classes || node->word > 1000000)
		return LINNET_E_RANGE;
	/* A left subtree ends here, and the right one follows; or the whole tree ends. */
	if (walk->depth == 0)
		return i + 1 == walk->count ? 0 : LINNET_E_SHAPE;
	if (walk->right[--walk->depth] != i + 1 || i + 1 == walk->count)
		return LINNET_E_SHAPE;
	return 0;
}

int linnet_tree_check(const struct linnet_tree_node *nodes, uint32_t count, uint32_t inputs, uint32_t classes,
		      uint32_t *at)
{
	struct linnet_tree_walk walk;

	linnet_tree_start(&walk, count, inputs, classes);
	*at = 0;
	if (count < 1 || count > LINNET_TREE_NODES_MAX || inputs >= LINNET_TREE_LEAF)
		return LINNET_E_SHAPE;
	for (uint32_t i = 0; i < count; i++) {
		int error = linnet_tree_walk(&walk, &nodes[i], i);

		*at = i;
		if (error < 0)
			return error;
	}
	return 0;
}

const struct linnet_tree_node *linnet_tree_leaf(const struct linnet_tree_node *nodes, const float *row)
{
	const struct linnet_tree_node *node = nodes;

	while (!is_leaf(node)) {
		int right = linnet_float_key(linnet_float_bits(row, node->feature)) > linnet_float_key(node->word);

		node = right ? nodes + node->right : node + 1;
	}
	return node;
}

/* The leaves below a split's left child, which are excluded if a row goes right. */
static uint32_t left_leaves(const uint8_t *leaves_before, uint32_t split, uint32_t right)
{
	uint32_t from = leaves_before[split], count = leaves_before[right] - from;

	return ((1u << count) - 1) << from; /* count is below 32: the right child has a leaf, too */
}

/* One feature's thresholds in ascending order, and the leaves that each excludes if it is exceeded. */
static uint32_t gather(const struct linnet_tree_node *nodes, uint32_t count, const uint8_t *leaves_before,
		       uint32_t feature, uint32_t *threshold, uint32_t *excludes)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < count; i++) {
		int32_t key = linnet_float_key(nodes[i].word);
		uint32_t at = n;

		if (nodes[i].feature != feature)
			continue;
		for (; at > 0 && linnet_float_key(threshold[at - 1]) > key; at--) {
			threshold[at] = threshold[at - 1];
			excludes[at] = excludes[at - 1];
		}
		threshold[at] = nodes[i].word;
		excludes[at] = left_leaves(leaves_before, i, nodes[i].right);
		n++;
	}
	return n;
}

int linnet_fast_tree_init(struct linnet_fast_tree *fast, const struct linnet_tree_node *nodes, uint32_t count,
			  uint32_t inputs)
{
	uint32_t threshold[LINNET_FAST_LEAVES_MAX], excludes[LINNET_FAST_LEAVES_MAX], leaves = 0, vectors = 0;
	uint8_t leaves_before[2 * LINNET_FAST_LEAVES_MAX], splits[LINNET_KNOB_INPUTS_MAX] = { 0 };

	/* A tree has twice as many nodes as leaves, less one. */
	if (count > 2 * LINNET_FAST_LEAVES_MAX - 1 || inputs > LINNET_KNOB_INPUTS_MAX)
		return LINNET_E_SHAPE;
	for (uint32_t i = 0; i < count; i++) {
		if (!is_leaf(&nodes[i]))
			vectors += splits[nodes[i].feature]++ % LANES == 0;
	}
	if (vectors > LINNET_FAST_VECTORS_MAX)
		return LINNET_E_SHAPE;
	linnet_zero(fast, sizeof(*fast));
	for (uint32_t i = 0; i < count; i++) {
		leaves_before[i] = (uint8_t)leaves;
		if (is_leaf(&nodes[i]))
			fast->node[leaves++] = (uint16_t)i;
	}
	for (uint32_t f = 0; f < LINNET_KNOB_INPUTS_MAX; f++) {
		uint32_t n = gather(nodes, count, leaves_before, f, threshold, excludes), set = UINT32_MAX;

		for (uint32_t k = 0; k < n; fast->vectors++) {
			uint32_t v = fast->vectors, passed = 0;

			/* Thresholds ascend, so of the sixteen answers to a question only 0, 1, 3, 7 and 15 occur. */
			fast->feature[v] = (uint8_t)f;
			fast->possible[v][0] = UINT32_MAX;
			for (uint32_t l = 0; l < LANES; l++, k++) {
				fast->threshold[v * LANES + l] = k < n ? threshold[k] : 0x7f800000; /* infinity */
				set &= ~(k < n ? excludes[k] : 0);
				passed |= 1u << l;
				fast->possible[v][passed] = set;
			}
		}
	}
	return 0;
}

#if defined(__SSE2__)
typedef float four __attribute__((vector_size(16)));
typedef float four_anywhere __attribute__((vector_size(16), aligned(4), may_alias));

static inline uint32_t passed_of(const uint32_t *threshold, const float *row, uint32_t feature)
{
	float x = row[feature];

	return (uint32_t)__builtin_ia32_movmskps((four)((four){ x, x, x, x } > *(const four_anywhere *)threshold));
}
#else /* correct, but slower than the walk: a kernel without its FPU walks */
static inline uint32_t passed_of(const uint32_t *threshold, const float *row, uint32_t feature)
{
	int32_t x = linnet_float_key(linnet_float_bits(row, feature));
	uint32_t passed = 0;

	for (uint32_t l = 0; l < LANES; l++)
		passed |= (uint32_t)(x > linnet_float_key(threshold[l])) << l;
	return passed;
}
#endif

uint32_t linnet_fast_tree_leaf(const struct linnet_fast_tree *fast, const float *row)
{
	uint32_t left = UINT32_MAX;

	for (uint32_t v = 0; v < fast->vectors; v++)
		left &= fast->possible[v][passed_of(fast->threshold + LANES * v, row, fast->feature[v])];
	return fast->node[__builtin_ctz(left)];
}

/* Bindings in other languages mirror these. */
_Static_assert(sizeof(struct linnet_tree_node) == 8, "struct linnet_tree_node");
_Static_assert(sizeof(struct linnet_fast_tree) == 4 + 16 + 256 + 1024 + 64, "struct linnet_fast_tree");
