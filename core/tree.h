/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Floats as integers of the same order, and the check of nodes one by one. Not part of the public interface. */
#ifndef LINNET_TREE_H
#define LINNET_TREE_H

#include "tune.h"

typedef uint32_t linnet_bits __attribute__((may_alias));

/* The bits of row[i], without the FPU. */
static inline uint32_t linnet_float_bits(const float *row, uint32_t i)
{
	return ((const linnet_bits *)(const void *)row)[i];
}

/*
 * Converts sign and magnitude to two's complement: integers then have the order of the floats, and both zeros are 0.
 * NaN is below everything.
 */
static inline int32_t linnet_float_key(uint32_t bits)
{
	int32_t sign = (int32_t)bits >> 31, magnitude = (int32_t)(bits & 0x7fffffff);

	if (magnitude > 0x7f800000)
		return INT32_MIN;
	return (magnitude ^ sign) - sign;
}

static inline uint32_t linnet_key_bits(int32_t key)
{
	return key < 0 ? 0x80000000u | (uint32_t)-key : (uint32_t)key;
}

/* State of a check: right children that have not been reached, innermost last. */
struct linnet_tree_walk {
	uint32_t count;
	uint32_t inputs;
	uint32_t classes;
	uint32_t depth;
	uint32_t right[LINNET_TREE_DEPTH_MAX];
};

/* Starts a check. Not by an initialiser, from which Clang makes a call of memset, whatever its flags. */
static inline void linnet_tree_start(struct linnet_tree_walk *walk, uint32_t count, uint32_t inputs, uint32_t classes)
{
	walk->count = count;
	walk->inputs = inputs;
	walk->classes = classes;
	walk->depth = 0;
}

/* Checks the next node, i, of a tree in pre-order. Errors as in linnet_tree_check. */
int linnet_tree_walk(struct linnet_tree_walk *walk, const struct linnet_tree_node *node, uint32_t i);

#endif
