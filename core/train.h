/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Training, in float32: a public header of the core with the same rules as linnet.h. For user space, and for kernels
 * that may use the FPU.
 */
#ifndef LINNET_TRAIN_H
#define LINNET_TRAIN_H

#include "linnet.h"

#ifdef __cplusplus
extern "C" {
#endif

enum linnet_activation {
	LINNET_LINEAR = 0,
	LINNET_RELU = 1,    /* 0 for what is 0 or less; NaN stays NaN */
	LINNET_SIGMOID = 2,
	LINNET_SOFTMAX_OUTPUT = 3, /* softmax of all outputs; only in tune.h, and only behind the last layer */
};

enum linnet_loss {
	LINNET_HINGE = 0,   /* categorical hinge, as Keras defines it */
	LINNET_SOFTMAX = 1, /* softmax and cross-entropy, on linear outputs */
	LINNET_BINARY = 2,  /* binary cross-entropy, on sigmoid outputs; mean over outputs */
	LINNET_SQUARE = 3,  /* squared difference; mean over outputs */
};

enum linnet_optimiser {
	LINNET_ADAM = 0,
	LINNET_SGD = 1,
};

/* One dense layer to be trained. */
struct linnet_float_shape {
	uint32_t outputs;    /* 1..LINNET_SIZE_MAX */
	uint32_t activation; /* enum linnet_activation */
};

/* The position of one layer in the parameters. Offsets count floats. */
struct linnet_float_layer {
	uint32_t inputs;
	uint32_t outputs;
	uint32_t stride;    /* outputs (wide) or inputs (else), padded to 16 */
	uint8_t wide;       /* a row of outputs per input; otherwise a row of inputs per output */
	uint8_t activation;
	uint16_t spare;
	size_t weights;
	size_t biases;
};

struct linnet_float_loops;

/* A network of floats. Padding in `values` is zero and stays so. */
struct linnet_float_network {
	uint32_t layer_count;
	uint32_t inputs;
	uint32_t outputs;
	uint32_t row_max;    /* longest padded row between layers, in floats */
	size_t value_count;  /* floats in `values` */
	size_t scratch_size; /* bytes for linnet_float_logits, aligned to LINNET_ALIGN */
	float *values;       /* the caller's memory, aligned to LINNET_ALIGN */
	const struct linnet_float_loops *loops;
	struct linnet_float_layer layers[LINNET_LAYERS_MAX];
};

/* Sets the shape of `network`, without its `values`. LINNET_E_SHAPE. */
int linnet_float_plan(struct linnet_float_network *network, uint32_t inputs, const struct linnet_float_shape *layers,
		      uint32_t layer_count);

/*
 * Sets the memory of the network (value_count floats) and its start: Glorot uniform weights of the seed, zero biases.
 */
int linnet_float_place(struct linnet_float_network *network, float *values, size_t value_count, uint64_t seed);

/* Copies one layer out of (into) a network; weights as outputs x inputs. LINNET_E_SHAPE if there is no such layer. */
int linnet_float_get(const struct linnet_float_network *network, uint32_t layer, float *weights, float *biases);
int linnet_float_set(struct linnet_float_network *network, uint32_t layer, const float *weights, const float *biases);

/*
 * The last layer's sums, before a sigmoid. `inputs` and `logits` have the lengths of the network's inputs and outputs.
 */
void linnet_float_logits(const struct linnet_float_network *network, const float *inputs, void *scratch,
			 float *logits);

/* Training data. Exactly one of digits and values, and one of classes and targets, is not NULL. */
struct linnet_rows {
	uint32_t count;
	const uint8_t *digits;  /* count x inputs small integers */
	const float *values;    /* count x inputs, finite */
	const uint8_t *classes; /* count; below `outputs`, or 0..1 if there is one output */
	const float *targets;   /* count x outputs, finite */
};

struct linnet_train_options {
	uint32_t loss;       /* enum linnet_loss */
	uint32_t optimiser;  /* enum linnet_optimiser */
	uint32_t batch;      /* rows per step, at least 1 */
	float learning_rate; /* finite, 0 or more */
	float momentum;      /* SGD; 0 for none, below 1 */
	float beta1;         /* Adam; 0 or more, below 1 */
	float beta2;         /* likewise */
	float epsilon;       /* Adam; finite, above 0 */
	/*
	 * Weight of a row that is slow and whose outputs say fast; other rows weigh 1 (LinnOS, section 4.4). Finite, 0 or
	 * more; other than 1 only for two classes: two outputs, or one with LINNET_BINARY.
	 */
	float false_submit_weight;
	uint32_t spare;
	uint64_t seed;       /* of the order of rows */
};

/* A training run. Its memory holds gradients, moments and the order of rows. */
struct linnet_trainer {
	struct linnet_train_options options;
	struct linnet_float_network *network;
	uint32_t row_count;
	uint32_t epoch;  /* epochs done */
	double power1;   /* beta1 and beta2 to the power of the steps done */
	double power2;
	float *gradients;
	float *moments1;
	float *moments2;
	float *rows;     /* activations and deltas of one row */
	uint32_t *order;
};

/* Bytes of memory that a run over row_count rows needs. */
size_t linnet_trainer_size(const struct linnet_float_network *network, uint32_t row_count);

/*
 * Starts a run that changes `network`. LINNET_E_SHAPE if options or losses do not fit, LINNET_E_RANGE for a number of the
 * options out of its range, LINNET_E_MEMORY.
 */
int linnet_trainer_init(struct linnet_trainer *trainer, struct linnet_float_network *network,
			const struct linnet_train_options *options, uint32_t row_count, void *memory,
			size_t memory_size);

/*
 * One pass over all rows, in an order drawn from the seed and the number of the epoch. *loss is the mean of the rows'
 * losses, each before its own step. It is not finite where training has diverged: where a row's loss is not (the square of a
 * target of 1.9e19), or a weight of the network, or a moment (Adam's, of a gradient of that size). The same input gives the
 * same bits for all vector widths. LINNET_E_SHAPE if the rows are not as many as the run has; LINNET_E_INPUT for a value or
 * target that is not finite or a class out of range: a NaN in one row would become one in every weight.
 */
int linnet_trainer_epoch(struct linnet_trainer *trainer, const struct linnet_rows *rows, double *loss);

/*
 * Rounds numbers to integers: each times `scale`, halves away from zero. LINNET_E_RANGE when a product is not within 9.2e18
 * of 0, a little less than 2^63.
 */
int linnet_quantise(const float *values, size_t count, double scale, int64_t *integers);

#ifdef __cplusplus
}
#endif

#endif
