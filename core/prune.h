/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by the loops of prune.c and of prune_vectors.c. Not part of the public interface. */
#ifndef LINNET_PRUNE_H
#define LINNET_PRUNE_H

#include "incremental.h"

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

#endif
