// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the files that check training. */
#ifndef LINNET_CHECK_TRAINING_H
#define LINNET_CHECK_TRAINING_H

#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <string.h>

#include "check.h"
#include "float.h" /* of core */

#define CHECK(condition) CHECK_IN(condition, "\n")

/* Bytes behind each room that nobody may write. Where sanitizers watch, nobody may read there either. */
#ifdef __SANITIZE_ADDRESS__
#define GUARD 0
#else
#define GUARD 128
#endif
/* Every room begins as this; floats of it are not numbers. */
#define DIRT 0xff

static inline uint32_t below(uint32_t n)
{
	static uint64_t state = 1;

	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((state >> 32) * n >> 32);
}

/* A number in -1..1, in steps that floats represent exactly. */
static inline float unit(void)
{
	return (float)below((1 << 24) + 1) / (float)(1 << 23) - 1;
}

static inline int is_dirt(const void *bytes, size_t size)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < size; i++)
		if (p[i] != DIRT)
			return 0;
	return 1;
}

static inline void *room(size_t size)
{
	void *memory = NULL;

	CHECK(posix_memalign(&memory, LINNET_ALIGN, size + GUARD + !size) == 0);
	memset(memory, DIRT, size + GUARD);
	return memory;
}

/* Frees a room, and checks that nothing was written behind it. */
static inline void leave(void *memory, size_t size)
{
	CHECK(is_dirt((const char *)memory + size, GUARD));
	free(memory);
}

/* The loops of each instruction set that is linked and that this machine has; returns their number. */
uint32_t loops_here(const struct linnet_float_loops *sets[3]);

void check_limits(void);
void check_loops(void);
void check_losses(void);
void train_all(void);

#endif
