/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: dense layers on integers, and the decision of one read.
 */
#ifndef LINNET_NETWORK_H
#define LINNET_NETWORK_H

#include "port.h"

/* ---- network: dense layers on integers ---- */

#define LINNET_LAYERS_MAX 8   /* dense layers of a network */
#define LINNET_SIZE_MAX 4096  /* inputs or outputs of one layer */
#define LINNET_ALIGN 64       /* of memory and scratch, bytes */

/*
 * How a layer is stored and summed, the narrowest that is proven exact for every input in bounds. The widths of
 * successive layers never shrink.
 */
enum linnet_width {
	LINNET_I16 = 0,  /* int16 weights, int32 sums */
	LINNET_I64 = 1,  /* int64 weights, int64 sums */
	LINNET_I128 = 2, /* int64 weights, 128-bit sums */
};

/* The integers of one layer as they are given: little-endian two's complement, outputs x inputs, no padding. */
struct linnet_source {
	uint32_t inputs;        /* 1..LINNET_SIZE_MAX, equal to the outputs of the layer before */
	uint32_t outputs;       /* 1..LINNET_SIZE_MAX */
	uint32_t weight_bytes;  /* 2, 4 or 8 */
	const uint8_t *weights; /* weight of input i for output o at o * inputs + i */
	const uint8_t *biases;  /* 8 bytes each */
};

/* One layer, laid out for summing. */
struct linnet_layer {
	uint32_t inputs;
	uint32_t outputs;
	uint32_t stride;     /* outputs (by_input) or inputs (else) with padding, in numbers */
	uint8_t width;       /* enum linnet_width */
	uint8_t by_input;    /* I16 only: pairs of inputs interleaved per output; else one row per output */
	uint8_t narrow;      /* I16 only: no input exceeds 32767 */
	uint8_t spare;
	const void *weights; /* into the network's memory */
	const void *biases;  /* int32 (I16) or int64 */
};

/* Sums of an I16 layer for one instruction set; dense.c describes the arguments. */
struct linnet_dense {
	void (*pairs)(const struct linnet_layer *layer, const int16_t *inputs, uint16_t *used, int32_t *sums);
	void (*rows)(const struct linnet_layer *layer, const int16_t *inputs, int32_t *sums);
	uint32_t (*take)(const uint8_t *inputs, uint32_t count, int16_t *narrow);
	void (*pass)(const int32_t *sums, uint32_t count, int16_t *narrow);
};

/* A network that is ready to decide. Const after linnet_network_place: any number of threads may share it. */
struct linnet_network {
	uint32_t layer_count;
	uint32_t inputs;     /* of the first layer */
	uint32_t outputs;    /* of the last layer */
	uint32_t input_max;  /* each input is 0..input_max; at most 255 */
	uint32_t row_max;    /* longest padded row of numbers between layers */
	uint32_t width;      /* of the last layer, which is the widest */
	size_t memory_size;  /* bytes that linnet_network_place needs */
	size_t scratch_size; /* bytes that each decision needs */
	const struct linnet_dense *dense;
	struct linnet_layer layers[LINNET_LAYERS_MAX];
};

/* Bytes of work memory that linnet_network_plan needs for these layers; 0 when their shape is out of bounds. */
size_t linnet_network_work_size(const struct linnet_source *layers, uint32_t layer_count);

/*
 * Proves bounds for every neuron and chooses each layer's width. LINNET_E_SHAPE, LINNET_E_RANGE (a sum could
 * reach 2^126) or LINNET_E_MEMORY. `work` is aligned to LINNET_ALIGN.
 */
int linnet_network_plan(struct linnet_network *network, const struct linnet_source *layers, uint32_t layer_count,
			uint32_t input_max, void *work, size_t work_size);

/*
 * Lays the weights out in `memory` (aligned to LINNET_ALIGN), which must live as long as the network; the
 * sources may go. `layers` are those that were planned. LINNET_E_MEMORY.
 */
int linnet_network_place(struct linnet_network *network, const struct linnet_source *layers, void *memory,
			 size_t memory_size);

/*
 * The exact sums of the last layer. `inputs` holds network->inputs numbers, `scratch` network->scratch_size
 * bytes aligned to LINNET_ALIGN, `logits` network->outputs. LINNET_E_INPUT when an input exceeds input_max.
 */
int linnet_network_logits(const struct linnet_network *network, const uint8_t *inputs, void *scratch,
			  linnet_int128 *logits);

/*
 * logit 1 minus logit 0, cut to 64 bits: above 0 the read is expected to be slow. LINNET_E_SHAPE when the network
 * has not two outputs, LINNET_E_INPUT.
 */
int linnet_network_score(const struct linnet_network *network, const uint8_t *inputs, void *scratch, int64_t *score);

/*
 * The same in two steps for a caller that has the sums of the first layer, an I16 one: write them, by its stride, to
 * linnet_network_first_sums, then score what follows. LINNET_E_SHAPE when the network has not two outputs.
 */
int32_t *linnet_network_first_sums(const struct linnet_network *network, void *scratch);
int linnet_network_score_rest(const struct linnet_network *network, void *scratch, int64_t *score);

/* The loops that every build has. User-space builds add linnet_dense_avx2 and linnet_dense_avx512. */
extern const struct linnet_dense linnet_dense_portable;

#endif
