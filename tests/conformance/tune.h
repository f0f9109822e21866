// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the files that check the library of knobs. */
#ifndef LINNET_CHECK_TUNE_H
#define LINNET_CHECK_TUNE_H

#include <math.h>
#include <string.h>

#include "check.h"
#include <tune.h> /* of core */

#define CHECK(condition) CHECK_IN(condition, "\n")

/* Every sort of memory that is given is filled with this before a function has to set it up. */
#define DIRT 0x5a

static inline uint32_t draw(void)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

/* A number in -1..1, in steps that floats represent exactly. */
static inline float unit(void)
{
	return (float)(draw() >> 8) / (float)(1 << 22) - 1;
}

static inline void *room(size_t size)
{
	void *memory = malloc(size ? size : 1);

	CHECK(memory);
	return memory;
}

/* Grows a tree to its end: the number of its nodes, or an error. */
static inline int cart_fit(const struct linnet_cart_options *options, const float *values, const uint8_t *classes, uint32_t rows,
			   uint32_t inputs, void *memory, size_t memory_size, struct linnet_tree_node *nodes)
{
	int error = linnet_cart_begin(options, values, classes, rows, inputs, memory, memory_size);

	if (error < 0)
		return error;
	while (linnet_cart_grow(memory))
		;
	return linnet_cart_end(memory, nodes);
}

void check_trees(void);
void check_growth(void);
void check_limits(void);
void check_exponentials(void);

#endif
