/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Functions of four floats at once, for small.c. Not part of the public interface. The compiler lowers four floats to
 * the vectors of the machine. Only additions, multiplications, divisions and comparisons are used, so all builds agree.
 */
#ifndef LINNET_LANES_H
#define LINNET_LANES_H

#include "port.h"

#define LANES 4

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_mask __attribute__((vector_size(4 * LANES)));
typedef float lanes_anywhere __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE lanes load(const float *from)
{
	return *(const lanes_anywhere *)from;
}

INLINE void store(float *to, lanes x)
{
	*(lanes_anywhere *)to = x;
}

INLINE lanes spread(float x)
{
	return (lanes){ x, x, x, x };
}

/* `x` where the mask is set, else `y`. */
INLINE lanes select(lanes_mask mask, lanes x, lanes y)
{
	return (lanes)((mask & (lanes_mask)x) | (~mask & (lanes_mask)y));
}

/* Lanes 0 and 2, 1 and 3, then both. */
INLINE float across(lanes x)
{
	return (x[0] + x[2]) + (x[1] + x[3]);
}

/*
 * e^x with a relative error of at most 2e-7, for -80..80; outside, the value at the bound. e^x = 2^n e^r with |r| at
 * most ln(2)/2, for which eight terms of the series suffice. n is rounded by adding a number so large that the sum has
 * no fraction. NaN gives NaN.
 */
INLINE lanes lanes_exp(lanes x)
{
	const float round = 12582912; /* 3 * 2^22 */
	lanes n, r, r2, low, high, sum;
	lanes_mask power;

	x = select(x < -80.0f, spread(-80), x);
	x = select(x > 80.0f, spread(80), x);
	n = x * 1.44269504f + round;
	power = (lanes_mask)n << 23; /* the low bits of n's mantissa are the integer */
	n -= round;
	r = x - n * 0.693359375f; /* few bits, so the product is exact */
	r -= n * -2.12194440e-4f; /* the rest of ln(2) */
	r2 = r * r;
	low = (1.0f + r) + r2 * (0.5f + r * (1.0f / 6));
	high = (1.0f / 24 + r * (1.0f / 120)) + r2 * (1.0f / 720 + r * (1.0f / 5040));
	sum = low + r2 * r2 * high;
	return (lanes)((lanes_mask)sum + power);
}

INLINE lanes lanes_sigmoid(lanes x)
{
	return 1.0f / (1.0f + lanes_exp(-x));
}

#endif
