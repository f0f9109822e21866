/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the float units share. Not part of the public interface. */
#ifndef LINNET_FLOAT_H
#define LINNET_FLOAT_H

#include "train.h"

#define LINNET_LANES 16 /* floats of a row are padded to this; sums across a row are kept in this many lanes */

/*
 * The hot loops, compiled once per instruction set (loops.c). Sums run over inputs in ascending order, one lane per
 * output, or in LINNET_LANES lanes that are then added in a fixed order: the width of the machine's vectors never
 * shows in a result. `used` lists the n inputs that are not zero; the others would add nothing.
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

/* Indices of the inputs that are not zero. */
uint32_t linnet_float_used(const float *inputs, uint32_t count, uint32_t *used);

/* The next weight of a layer that starts: uniform within sqrt(6 / (inputs + outputs)) of 0 (Glorot and Bengio, 2010). */
float linnet_float_glorot(uint64_t *state, uint32_t inputs, uint32_t outputs);

/* Own functions, so that results do not depend on a library. Errors below 1e-15, relative. */
double linnet_exp(double x);
double linnet_log(double x); /* x > 0 and normal */
float linnet_sigmoid(float x);

/*
 * Loss of one row, and its gradient by the sums of the last layer, times `share`. `sums` are before a sigmoid.
 * `target` holds one number per output.
 */
float linnet_loss(const struct linnet_train_options *options, uint32_t activation, uint32_t outputs,
		  const float *sums, const float *target, float share, float *delta);

#endif
