/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Tuning of knobs: a public header of the core with the same rules as linnet.h. A knob is tuned in four steps, each
 * usable alone: events pass through a ring, numbers are normalised, a network or a tree predicts a class, and the model
 * file gives the value of that class.
 *
 * Rings, samplers, trees and the reader of model files are integer code and need no FPU. The normaliser and the network
 * (normalise.c, small.c, online.c) compute in floats: a kernel calls them between kernel_fpu_begin and kernel_fpu_end.
 * Each call is short, and every build gives the same bits.
 */
#ifndef LINNET_TUNE_H
#define LINNET_TUNE_H

#include "linnet.h"
#include "train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- ring: records from one producer to one consumer, without locks (ring.c) ---- */

/*
 * A full ring refuses the newest record and counts it: accepted records are never overwritten, and the producer never
 * waits. Producer and consumer may run on two CPUs; calls of the same side must not overlap.
 *
 * What the producer writes, what the consumer writes, and what nobody writes are 64 bytes apart, so that a call of one
 * side takes no cache line from the other that it does not have to. Align the struct to 64 bytes: otherwise the
 * ring works as well, and may be slower.
 */
struct linnet_ring {
	uint64_t head;       /* records put; written by the producer */
	uint64_t tail_seen;  /* the value of `tail` that the producer last loaded */
	uint64_t lost;       /* records refused */
	uint64_t spare0[5];
	uint64_t tail;       /* records taken; written by the consumer */
	uint64_t head_seen;
	uint64_t spare1[6];
	uint64_t *words;     /* the caller's memory, capacity * record_words; from here on, nothing changes */
	uint32_t capacity;   /* records, a power of two */
	uint32_t record_words; /* of 8 bytes */
	uint64_t spare2[6];
};

/*
 * LINNET_E_SHAPE for a capacity that is not a power of two or above 2^24, or records of 0 or over 64 words; LINNET_E_MEMORY
 * for a `word_count` below capacity x record_words.
 */
int linnet_ring_init(struct linnet_ring *ring, uint32_t capacity, uint32_t record_words, uint64_t *words,
		     size_t word_count);

/* Called by the producer. Returns 1, or 0 if the ring is full and the record is lost. */
int linnet_ring_put(struct linnet_ring *ring, const uint64_t *record);

/* Called by the consumer. Returns 1, or 0 if the ring is empty. */
int linnet_ring_take(struct linnet_ring *ring, uint64_t *record);

/* Records lost so far, and records waiting now. Any thread may call them; the result may be out of date. */
uint64_t linnet_ring_lost(const struct linnet_ring *ring);
uint64_t linnet_ring_waiting(const struct linnet_ring *ring);

/* ---- sampler: keeps a stated share of events (ring.c) ---- */

#define LINNET_SAMPLE_ALL 1000000u

/* Keeps `share_ppm` of a million events, drawn by a seeded generator, so that it cannot follow a workload's period. */
struct linnet_sampler {
	uint64_t seen;
	uint64_t kept;
	uint64_t seed;
	uint32_t share_ppm; /* 0..LINNET_SAMPLE_ALL */
	uint32_t spare;
};

/* LINNET_E_RANGE for a share above LINNET_SAMPLE_ALL. */
int linnet_sampler_init(struct linnet_sampler *sampler, uint32_t share_ppm, uint64_t seed);

/* 1 to keep this event. */
int linnet_sampler_keep(struct linnet_sampler *sampler);

/* ---- normaliser: z-scores of a moving mean and standard deviation (normalise.c, floats) ---- */

#define LINNET_KNOB_INPUTS_MAX 16
#define LINNET_Z_MAX 16 /* z-scores are clipped to -16..16 */
#define LINNET_NORMALISER_ROWS_MAX (UINT64_C(1) << 62)

/* Moments of one feature. */
struct linnet_moments {
	double mean;     /* below 2^128 in size, as floats are */
	double variance; /* of the population, 0 or more and below 2^256 */
};

/*
 * Row n moves the mean by 1/n of its distance until n reaches `memory`, and by 1/memory from then on; the variance
 * likewise. Memory 0 never ends: then mean and variance are exactly those of all rows (Welford, Technometrics 1962).
 */
struct linnet_normaliser {
	uint64_t rows;     /* learned so far; the count stays at LINNET_NORMALISER_ROWS_MAX */
	uint64_t refused;  /* rows with a number that is not finite: not learned */
	uint32_t inputs;   /* 1..LINNET_KNOB_INPUTS_MAX */
	uint32_t memory;   /* rows, 0 for all */
	struct linnet_moments *moments; /* the caller's, one per input */
};

/* Starts without rows. LINNET_E_SHAPE for a number of inputs out of bounds. */
int linnet_normaliser_init(struct linnet_normaliser *normaliser, uint32_t inputs, uint32_t memory,
			   struct linnet_moments *moments);

/* Learns one row. A row with a NaN or an infinity is counted and changes nothing: LINNET_E_INPUT. */
int linnet_normaliser_learn(struct linnet_normaliser *normaliser, const float *row);

/*
 * z-scores of a row, which is not learned, so the call changes nothing. Always finite: a feature that has been constant
 * so far, or that is NaN here, is 0; an infinity is LINNET_Z_MAX with its sign.
 */
void linnet_normaliser_apply(const struct linnet_normaliser *normaliser, const float *row, float *z);

/* ---- small networks: inference (small.c), and training row by row (online.c); floats ---- */

#define LINNET_SMALL_SIZE_MAX 256 /* inputs or outputs of one layer */

struct linnet_small_layer {
	uint16_t inputs;
	uint16_t outputs;
	uint32_t activation; /* enum linnet_activation */
	uint32_t values;     /* offset: a row of outputs per input, then the row of biases */
};

/*
 * The layers of train.h without padding, gradients or order of rows: 5-15-5-4 has 776 bytes of values, and twice that
 * for training. Inputs are summed in ascending order in two chains, even and odd inputs, on every machine.
 */
struct linnet_small {
	uint32_t layer_count;
	uint32_t inputs;
	uint32_t outputs;
	uint32_t value_count;    /* floats in `values` */
	uint32_t forward_floats; /* scratch of linnet_small_forward and linnet_small_classify, in floats */
	uint32_t train_floats;   /* scratch of linnet_small_train */
	float *values;           /* the caller's memory */
	float *momentum;         /* as many floats, or NULL if the network is not trained */
	struct linnet_small_layer layers[LINNET_LAYERS_MAX];
};

/* Sets the shape, without the memory. LINNET_SOFTMAX_OUTPUT is allowed for the last layer only. LINNET_E_SHAPE. */
int linnet_small_plan(struct linnet_small *network, uint32_t inputs, const struct linnet_float_shape *layers,
		      uint32_t layer_count);

/* Sets the memory: value_count floats, and as many for momentum, or NULL. Values are kept, momentum becomes 0. */
void linnet_small_place(struct linnet_small *network, float *values, float *momentum);

/* Glorot uniform weights of this seed, zero biases. */
void linnet_small_start(struct linnet_small *network, uint64_t seed);

/* Copies one layer out of (into) a network; weights as outputs x inputs. LINNET_E_SHAPE if there is no such layer. */
int linnet_small_get(const struct linnet_small *network, uint32_t layer, float *weights, float *biases);
int linnet_small_set(struct linnet_small *network, uint32_t layer, const float *weights, const float *biases);

/* Outputs of the last layer, after its activation. */
void linnet_small_forward(const struct linnet_small *network, const float *inputs, float *scratch, float *outputs);

/*
 * The class of the largest output (the first among equals), and its confidence in millionths: the softmax of linear
 * outputs, otherwise the output itself. LINNET_E_RANGE if an output is not finite; a NaN of a layer reaches all outputs.
 */
int linnet_small_classify(const struct linnet_small *network, const float *inputs, float *scratch, uint32_t *class_,
			  uint32_t *confidence_ppm);

struct linnet_small_options {
	uint32_t loss; /* enum linnet_loss, without LINNET_HINGE; LINNET_SOFTMAX on linear or softmax outputs */
	float learning_rate;
	float momentum; /* share of the previous step that is added again; 0 for none */
};

/* Options from integers, for callers without floats: rate and momentum in millionths. */
void linnet_small_options_of(struct linnet_small_options *options, uint32_t loss, uint32_t rate_ppm,
			     uint32_t momentum_ppm);

/*
 * Checks that these options fit the network. LINNET_E_SHAPE, LINNET_E_MEMORY for a network that was placed without momentum,
 * or LINNET_E_RANGE for a rate or momentum out of range.
 */
int linnet_small_check(const struct linnet_small *network, const struct linnet_small_options *options);

/*
 * One step of gradient descent on one row, with options that passed the check: v = momentum v - rate gradient, then
 * value += v. `targets` holds one number per output. *loss is the row's loss before the step, and may be NULL. Returns
 * LINNET_E_RANGE and changes nothing if an input or a gradient of any layer is not finite, or beyond 1e15. So a step is
 * finite. Many large ones may still take a value out of range; linnet_small_classify and linnet_knob_store refuse it.
 */
int linnet_small_train(struct linnet_small *network, const struct linnet_small_options *options, const float *inputs,
		       const float *targets, float *scratch, float *loss);

/* ---- one decision tree (tree.c, no FPU), and its induction (cart.c, no FPU) ---- */

#define LINNET_TREE_LEAF 0xffffu   /* in `feature`: a leaf */
#define LINNET_TREE_DEPTH_MAX 64   /* left turns between root and leaf; in induction, all turns */
#define LINNET_TREE_NODES_MAX 4095
#define LINNET_TREE_CLASSES_MAX 256
#define LINNET_FAST_LEAVES_MAX 32
#define LINNET_FAST_VECTORS_MAX 16

/*
 * Nodes lie in pre-order: the left child follows its parent. A row goes left when its feature is at most the threshold.
 * A NaN goes left. Without an FPU, floats are compared by their bits.
 */
struct linnet_tree_node {
	uint32_t word;    /* bits of the threshold, a float; in a leaf, the share of its class in millionths */
	uint16_t feature; /* or LINNET_TREE_LEAF */
	uint16_t right;   /* right child; in a leaf, its class */
};

/*
 * 0, or LINNET_E_SHAPE when the nodes are no tree in pre-order, LINNET_E_RANGE for a number out of range. *at is the
 * node.
 */
int linnet_tree_check(const struct linnet_tree_node *nodes, uint32_t count, uint32_t inputs, uint32_t classes,
		      uint32_t *at);

/* The leaf of a row, found by walking down. For trees that passed the check. */
const struct linnet_tree_node *linnet_tree_leaf(const struct linnet_tree_node *nodes, const float *row);

/*
 * A small tree as a table that a processor with vectors evaluates without a branch. A question compares one feature
 * with four thresholds at once. Its answer selects the leaves that are still possible. The leaf of the row is the first
 * one that all questions leave possible.
 */
struct linnet_fast_tree {
	uint32_t vectors; /* questions */
	uint8_t feature[LINNET_FAST_VECTORS_MAX];
	uint32_t threshold[4 * LINNET_FAST_VECTORS_MAX]; /* bits; ascending per feature, padded with infinity */
	uint32_t possible[LINNET_FAST_VECTORS_MAX][16];  /* leaves, a bit for each */
	uint16_t node[LINNET_FAST_LEAVES_MAX];           /* the node of each leaf in the source tree */
};

/*
 * Converts a tree that passed the check for `inputs`. LINNET_E_SHAPE for more than LINNET_FAST_LEAVES_MAX leaves,
 * LINNET_KNOB_INPUTS_MAX inputs or LINNET_FAST_VECTORS_MAX questions: such a tree must be walked.
 */
int linnet_fast_tree_init(struct linnet_fast_tree *fast, const struct linnet_tree_node *nodes, uint32_t count,
			  uint32_t inputs);

/* The node number of the row's leaf, the same as that of linnet_tree_leaf where subnormal numbers are kept (port.h). */
uint32_t linnet_fast_tree_leaf(const struct linnet_fast_tree *fast, const float *row);

struct linnet_cart_options {
	uint32_t depth_max;  /* 1..LINNET_TREE_DEPTH_MAX */
	uint32_t leaf_rows;  /* minimum of rows in each leaf; 1 or more */
	uint32_t nodes_max;  /* 3..LINNET_TREE_NODES_MAX */
	uint32_t classes;    /* 2..LINNET_TREE_CLASSES_MAX */
};

#define LINNET_CART_ROWS_MAX (1u << 20)

/* Bytes of memory that induction on this many rows needs, aligned to 8. */
size_t linnet_cart_size(uint32_t rows);

/*
 * Classification tree by the Gini index (Breiman, Friedman, Olshen and Stone, 1984). Splits are compared exactly, as
 * fractions; of equal ones the lowest feature wins, then the lowest threshold, which lies midway between two values.
 * Where `nodes_max` leaves no room for all splits, those that lower the impurity most are made, weighted by rows.
 * `values` is rows x inputs.
 *
 * Begin fails with LINNET_E_SHAPE, LINNET_E_MEMORY, or LINNET_E_INPUT for a value that is not finite or a class out of
 * range. Grow splits one leaf and returns 1, or 0 when the tree has grown; a caller may stop before. End writes the nodes
 * of the tree so far and returns their number. Options, values and classes stay where and as they are meanwhile.
 */
int linnet_cart_begin(const struct linnet_cart_options *options, const float *values, const uint8_t *classes,
		      uint32_t rows, uint32_t inputs, void *memory, size_t memory_size);
int linnet_cart_grow(void *memory);
int linnet_cart_end(void *memory, struct linnet_tree_node *nodes);

/* ---- model file of a knob, kind 2 (knob.c, no FPU) ---- */

#define LINNET_KIND_KNOB 2
#define LINNET_SCHEMA_READAHEAD1 3
#define LINNET_SCHEMA_NFS1 4
#define LINNET_SCHEMA_PRIVATE 0x8000u /* first of the schemas that callers define */
#define LINNET_KNOB_LEVELS_MAX 32
#define LINNET_UNIT_NONE 0
#define LINNET_UNIT_BYTES 1
#define LINNET_UNIT_KIB 2

/* A file as read. The numbers of network and tree stay in the bytes that were read; linnet_knob_load_* copies them. */
struct linnet_knob {
	uint16_t schema;
	uint16_t inputs;      /* features: 1..LINNET_KNOB_INPUTS_MAX */
	uint16_t levels;      /* classes of the model, each with a value: 1..LINNET_KNOB_LEVELS_MAX */
	uint16_t unit;        /* of the values: LINNET_UNIT_* */
	uint32_t parts;       /* LINNET_PART_NETWORK, LINNET_PART_TREES (one tree here), or both */
	uint32_t layer_count;
	uint32_t node_count;
	uint32_t confidence_ppm; /* lowest confidence to act on, in millionths */
	uint32_t accuracy_ppm;   /* of the model on data that it was not fitted to; 0: unknown */
	uint32_t memory;         /* of the normaliser */
	uint64_t normaliser_rows;
	uint64_t rows;        /* of its training data */
	uint64_t seed;
	const uint8_t *moments;
	const uint8_t *network;
	const uint8_t *nodes;
	uint32_t values[LINNET_KNOB_LEVELS_MAX];
	struct linnet_float_shape layers[LINNET_LAYERS_MAX];
};

/* Reads a file of kind 2. Returns errors of the table in spec/model-file.md; *offset is written only then. */
int linnet_knob_read(const uint8_t *bytes, size_t size, struct linnet_knob *knob, size_t *offset);

/* Copies the normaliser of the file into the caller's `moments`: knob->inputs of them. */
void linnet_knob_load_normaliser(const struct linnet_knob *knob, struct linnet_normaliser *normaliser,
				 struct linnet_moments *moments);

/* Copies the network's numbers into a network that was planned from knob->inputs and knob->layers, and placed. */
void linnet_knob_load_network(const struct linnet_knob *knob, struct linnet_small *network);

/*
 * Writes what was learned back into the bytes of a file from which `knob` was read: moments, numbers of the network
 * (NULL: unchanged) and checksum. Shape, values and tree stay. LINNET_E_RANGE, and the bytes are unchanged, if the file
 * could not be read again: a number that is not finite, moments out of their range, or too many rows.
 */
int linnet_knob_store(uint8_t *bytes, size_t size, const struct linnet_knob *knob,
		      const struct linnet_normaliser *normaliser, const struct linnet_small *network);

/* Copies the tree's nodes: knob->node_count of them. */
void linnet_knob_load_tree(const struct linnet_knob *knob, struct linnet_tree_node *nodes);

#ifdef __cplusplus
}
#endif

#endif
