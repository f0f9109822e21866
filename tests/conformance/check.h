/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the programs that check the core: what a failure prints, hashes of bits, and the instruction sets. */
#ifndef LINNET_CHECK_H
#define LINNET_CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program where the condition does not hold; after the place it prints what the other arguments say. */
#define CHECK_IN(condition, ...)                                                    \
	do {                                                                        \
		if (!(condition)) {                                                 \
			fprintf(stderr, "%s:%d: %s", __FILE__, __LINE__, #condition); \
			fprintf(stderr, __VA_ARGS__);                               \
			exit(1);                                                    \
		}                                                                   \
	} while (0)

#define HASH_START 0xcbf29ce484222325

/* FNV-1a over these bytes, from HASH_START or the hash of what came before. */
static inline uint64_t hash_of(const void *bytes, size_t size, uint64_t hash)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ p[i]) * 0x100000001b3;
	return hash;
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
