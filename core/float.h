/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by the float units. Not part of the public interface. */
#ifndef LINNET_FLOAT_H
#define LINNET_FLOAT_H

#include "train.h"

/*
 * Results are the same to the bit in every build, and NaN is found by comparisons. Flags that allow otherwise are refused;
 * -ffp-contract=fast cannot be seen here.
 */
#if defined(__FAST_MATH__) || __FINITE_MATH_ONLY__ || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
	defined(__NO_SIGNED_ZEROS__)
#error "linnet's float units need exact arithmetic: compile without -ffast-math, or with -fno-fast-math -ffp-contract=off last"
#endif

#define LINNET_FLOAT_MAX 0x1.fffffep127f /* the largest finite float */
#define LINNET_LANES 16 /* floats of a row are padded to this; sums across a row are kept in this many lanes */

/*
 * The hot loops, compiled once per instruction set (loops.c). Inputs are summed in ascending order, in one lane per
 * output, or in LINNET_LANES lanes that are then added in a fixed order. So the result does not depend on the vector
 * width of the machine. `used` lists the n inputs that are not zero; the others contribute nothing.
 */
struct linnet_float_loops {
	/* sums = biases + weights * inputs, then ReLU if the layer has it. */
	void (*forward)(const struct linnet_float_layer *layer, const float *values, const float *inputs,
			const uint32_t *used, uint32_t n, float *sums);
	/* Adds one row's gradients. `back`, when not NULL, gets the gradient of the inputs. */
	void (*backward)(const struct linnet_float_layer *layer, const float *values, float *gradients,
			 const float *inputs, const uint32_t *used, uint32_t n, const float *delta, float *back);
	/* One step; clears the gradients. */
	void (*adam)(float *values, float *gradients, float *moments1, float *moments2, size_t count, float rate,
		     float beta1, float beta2, float epsilon);
	void (*sgd)(float *values, float *gradients, float *moments, size_t count, float rate, float momentum);
};

extern const struct linnet_float_loops linnet_loops_portable;

/* Whether all of x are within `most` of 0: NaN and infinities are not. */
static inline int linnet_float_within(const float *x, size_t n, float most)
{
	int good = 1;

	for (size_t i = 0; i < n; i++)
		good &= x[i] >= -most && x[i] <= most;
	return good;
}

/* Indices of the inputs that are not zero. */
uint32_t linnet_float_used(const float *inputs, uint32_t count, uint32_t *used);

/* The next initial weight of a layer: uniform within sqrt(6 / (inputs + outputs)) of 0 (Glorot and Bengio, 2010). */
float linnet_float_glorot(uint64_t *state, uint32_t inputs, uint32_t outputs);

/* Own implementations, so that results do not depend on a library. Relative errors are below 1e-15. */
double linnet_exp(double x);
double linnet_log(double x); /* x > 0 and normal */
float linnet_sigmoid(float x);

/*
 * Returns the loss of one row. `delta` gets its gradient with respect to the sums of the last layer, times `share`.
 * `sums` are the values before a sigmoid. `target` holds one number per output.
 */
float linnet_loss(const struct linnet_train_options *options, uint32_t activation, uint32_t outputs,
		  const float *sums, const float *target, float share, float *delta);

#endif
