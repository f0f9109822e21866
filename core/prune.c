/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Loops of ReLU pruning. incremental.h says what each does, incremental.c why. This file is compiled once per
 * instruction set: LINNET_PRUNE names the table. All versions give the same integers; prune_vectors.h has the loops for
 * processors with AVX2 or AVX-512, prune_scalar.h those for all others and for the kernel.
 *
 * Sums of the first layer are int32, proven to fit. Products with gaps are taken in 64 bits; incremental.c proves that
 * a score and each of its parts stay below 2^62.
 */
#include "incremental.h"

#ifndef LINNET_PRUNE
#define LINNET_PRUNE linnet_prune_portable
#endif

#define INLINE static inline __attribute__((always_inline))

/* Weights of digits 12 and 13 of each output, as pairs; those of 14 and 15 follow a stride later. */
INLINE const int16_t *now_weights(const struct linnet_layer *first)
{
	return (const int16_t *)first->weights + 2 * (size_t)(LINNET_NOW_AT / 2) * first->stride;
}

/* Score of the positive outputs. */
INLINE int64_t settled(const struct linnet_precomputed *pre, const uint8_t *now)
{
	return (int64_t)((uint64_t)pre->base + (uint64_t)pre->tens * now[1] + (uint64_t)pre->units * now[2]);
}

#if defined(__AVX512BW__) || defined(__AVX2__)
#include "prune_vectors.h"
#else
#include "prune_scalar.h"
#endif

const struct linnet_prune LINNET_PRUNE = { PACK, prune, near, far, add, bounds };
