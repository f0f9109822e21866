/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by inference and training of small networks. Not part of the public interface. */
#ifndef LINNET_SMALL_H
#define LINNET_SMALL_H

#include "lanes.h"
#include "tune.h"

/* One layer; `outputs` and `inputs` must not be the same memory. */
void linnet_small_layer_forward(const struct linnet_small_layer *layer, const float *values, const float *inputs,
				float *outputs);

/* e^(x - largest), divided by the sum of all, in place. */
void linnet_small_softmax(float *x, uint32_t n);

#endif
