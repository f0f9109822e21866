/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* For programs that check the loops of every instruction set: drawn numbers, and memory of exactly a given size. */
#ifndef DRAWN_H
#define DRAWN_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define GUARD 128 /* bytes behind memory that nothing may change */

static inline uint32_t below(uint32_t n)
{
	static uint64_t state = 88172645463325252U;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 20) % n;
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

/* Whether this machine has the instructions of these builds, as crates/core/build.rs has them. */
static inline int has_avx2(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx2");
#else
	return 0;
#endif
}

static inline int has_avx512(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("avx512vnni");
#else
	return 0;
#endif
}

#endif
