/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For programs whose inputs are drawn: numbers, and memory of exactly a given size. */
#ifndef DRAWN_H
#define DRAWN_H

#include <string.h>

#include "check.h"
#include "model.h"

#define GUARD 128 /* bytes behind memory that nothing may change */

static inline uint64_t draw(void)
{
	static uint64_t state = 88172645463325252U;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static inline uint32_t below(uint32_t n)
{
	return (uint32_t)(draw() >> 20) % n;
}

/* -most..most, and its ends more often. */
static inline int64_t within(int64_t most)
{
	if (below(8) == 0)
		return below(2) ? most : -most;
	return (int64_t)((uint64_t)below(1 << 30) * (uint64_t)(2 * most + 1) >> 30) - most;
}

static inline void *room(size_t size, int content)
{
	char *memory = aligned_alloc(LINNET_ALIGN, (size + GUARD + LINNET_ALIGN - 1) / LINNET_ALIGN * LINNET_ALIGN);

	if (!memory)
		abort();
	memset(memory, content, size + GUARD);
	return memory;
}

/* Whether the bytes from `at` to the end, and the guard behind it, are as they were. */
static inline int untouched(const void *memory, size_t at, size_t size, int content)
{
	const unsigned char *bytes = memory;

	for (; at < size + GUARD; at++)
		if (bytes[at] != (unsigned char)content)
			return 0;
	return 1;
}

#endif
