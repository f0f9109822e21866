/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Models and their files: networks of integers, incremental networks (mostly computed before a read arrives), trees,
 * and latencies that trees predict. The contract is spec/model-file.md.
 */
#ifndef LINNET_MODEL_H
#define LINNET_MODEL_H

#include "feature.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- network: dense layers on integers ---- */

#define LINNET_LAYERS_MAX 8   /* dense layers of a network */
#define LINNET_SIZE_MAX 4096  /* inputs or outputs of one layer */
#define LINNET_ALIGN 64       /* of memory and scratch, bytes */

/*
 * How a layer is stored and summed: the narrowest width that is proven exact for every input within its bounds. Widths
 * never shrink from layer to layer.
 */
enum linnet_width {
	LINNET_I16 = 0,  /* int16 weights, int32 sums */
	LINNET_I64 = 1,  /* int64 weights, int64 sums */
	LINNET_I128 = 2, /* int64 weights, 128-bit sums */
};

/* The integers of one layer as the caller has them: little-endian two's complement, outputs x inputs, no padding. */
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
	uint8_t by_input;    /* I16 only: pairs of inputs interleaved per output; otherwise one row per output */
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
 * Lays the weights out in `memory` (aligned to LINNET_ALIGN), which must live as long as the network; the sources may
 * then be freed. `layers` are those that were planned. LINNET_E_MEMORY.
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
 * logit 1 minus logit 0, clipped to 64 bits: above 0 the read is predicted slow. LINNET_E_SHAPE if the network does not
 * have two outputs, LINNET_E_INPUT.
 */
int linnet_network_score(const struct linnet_network *network, const uint8_t *inputs, void *scratch, int64_t *score);

/* The loops that every build has. User-space builds add linnet_dense_avx2 and linnet_dense_avx512. */
extern const struct linnet_dense linnet_dense_portable;

/*
 * ---- incremental networks: tracker and network; most work is done when reads complete (incremental.c,
 * incremental_tables.c, prune.c) ----
 */

/* How much of a network is computed ahead of the submit path. */
enum linnet_precompute {
	LINNET_PRECOMPUTE_NONE = 0,  /* no network: a tracker only */
	LINNET_PRECOMPUTE_PLAIN = 1, /* nothing: the whole network runs on submit */
	LINNET_PRECOMPUTE_FIRST = 2, /* the first layer's sums of the history */
	LINNET_PRECOMPUTE_PRUNED = 3, /* also which of its outputs can still have either sign; two layers only */
};

struct linnet_prune;

/* Shared by all incremental networks of one network. Const after linnet_tables_place. */
struct linnet_tables {
	const struct linnet_network *network; /* NULL for LINNET_PRECOMPUTE_NONE */
	const struct linnet_prune *loops;
	const int32_t *near;  /* per output of the first layer: its weights for digits 13 (low half) and 14 (high) */
	const int32_t *top;   /* the largest sum that those digits can add */
	const int32_t *gap;   /* logit 1's weight for the output, minus logit 0's */
	int64_t gap_bias;
	uint32_t lanes;       /* outputs of the first layer, padded; 0 if it is not kept */
	uint32_t precompute;  /* enum linnet_precompute */
	/*
	 * For loops without vectors, several outputs per 64-bit word: a row of `words` for the biases, one for each of
	 * the 31 digits, and one for `top` less 1. NULL if the loops have vectors or the sums do not fit.
	 */
	const uint64_t *packed;
	uint32_t words;
	uint32_t pack_bits;      /* of an output in a word: 16 or 21; 0 for none */
	size_t memory_size;      /* bytes that linnet_tables_place needs */
	size_t incremental_size; /* bytes of each incremental network */
	size_t scratch_size;     /* bytes that each decision needs, 0 if none */
};

/* The loops that every build has. User-space builds add linnet_prune_avx2 and linnet_prune_avx512. */
extern const struct linnet_prune linnet_prune_portable;

/*
 * Computes the sizes of the tables of a network, which may be NULL, for these loops. LINNET_E_SHAPE unless it maps 31
 * digits to two outputs.
 */
int linnet_tables_plan(struct linnet_tables *tables, const struct linnet_network *network,
		       const struct linnet_prune *loops);

/* Fills the tables in `memory` (aligned to LINNET_ALIGN), which must live as long as they do. LINNET_E_MEMORY. */
int linnet_tables_place(struct linnet_tables *tables, void *memory, size_t memory_size);

/*
 * One device: tables->incremental_size bytes aligned to LINNET_ALIGN, used by the incremental network alone.
 *
 * Any number of CPUs may call arrive, withdraw, snapshot, decide and score at once. The caller ensures that of adopt,
 * note_read and noted one runs at a time, and that process runs once at a time; process may run concurrently with all
 * other functions. catch_up is noted and process.
 *
 * So decide and score may load numbers that process is storing: they compute with them, find out, and start again. To
 * ThreadSanitizer these are data races; the functions that load them are marked for it (LINNET_MAY_TEAR).
 */
struct linnet_incremental;

/* Starts with the history and the pending pages of `tracker`, or idle if it is NULL. LINNET_E_MEMORY. */
int linnet_incremental_init(struct linnet_incremental *net, size_t size, const struct linnet_tables *tables,
			    const struct linnet_tracker *tracker);

/* Continues from the history and the pending pages of `tracker`. It is behind then. */
void linnet_incremental_adopt(struct linnet_incremental *net, const struct linnet_tracker *tracker);

/* An I/O arrives: returns its snapshot, like linnet_tracker_arrive. */
uint32_t linnet_incremental_arrive(struct linnet_incremental *net, uint32_t size_bytes);

/* A write completes, or any I/O leaves without completing: its pages are subtracted. */
void linnet_incremental_withdraw(struct linnet_incremental *net, uint32_t size_bytes);

/*
 * A read completes and is noted. It enters the history when the incremental network catches up. Until then decide,
 * score and history_len use the older history. The `snapshot` of process and catch_up is the one expected for the next
 * read to be decided.
 */
void linnet_incremental_note_read(struct linnet_incremental *net, uint32_t size_bytes, uint64_t latency_ns, uint32_t snapshot);
int linnet_incremental_behind(const struct linnet_incremental *net);
/* A copy of the history with all noted reads, which process takes. */
struct linnet_noted {
	struct linnet_tracker history;
	uint64_t count;
};
void linnet_incremental_noted(const struct linnet_incremental *net, struct linnet_noted *noted);
void linnet_incremental_process(struct linnet_incremental *net, const struct linnet_noted *noted, uint32_t snapshot);
void linnet_incremental_catch_up(struct linnet_incremental *net, uint32_t snapshot);

/* The snapshot that a read of this size would get if it arrived now. */
uint32_t linnet_incremental_snapshot(const struct linnet_incremental *net, uint32_t size_bytes);

/* Current number of pages outstanding, and of completed reads in the history (0..4). */
uint32_t linnet_incremental_pending_pages(const struct linnet_incremental *net);
uint32_t linnet_incremental_history_len(const struct linnet_incremental *net);

/* The state as a tracker. The history may be older than the pending pages, which are current. */
void linnet_incremental_tracker(const struct linnet_incremental *net, struct linnet_tracker *tracker);

/* The score that linnet_network_score gives these features. LINNET_E_SHAPE without a network. */
int linnet_incremental_score(const struct linnet_incremental *net, uint32_t snapshot, void *scratch, int64_t *score);

/*
 * 1 to revoke, 0 to submit: whether that score is above zero. Cached until the next read completes. LINNET_E_SHAPE without
 * a network.
 */
int linnet_incremental_decide(struct linnet_incremental *net, uint32_t snapshot, void *scratch);

/* ---- trees on the features of linnet-1 or linnet-2 (trees.c) ---- */

#define LINNET_TREES 64
#define LINNET_TREE_LEVELS 3
#define LINNET_TREE_LEAVES 8
#define LINNET_TREE_ONE 1024 /* a score of 1.0 */
#define LINNET_TREE_BASE_MAX (1 << 30)

/*
 * Level k of tree t adds 2^k to the number of the leaf when features[feature[k][t]] > threshold[k][t]. The score is
 * the base and one leaf of each tree. It cannot overflow: 64 leaves of 16 bits and a base below 2^30.
 */
struct linnet_trees {
	uint8_t feature[LINNET_TREE_LEVELS][LINNET_TREES];   /* 0..15 */
	uint8_t threshold[LINNET_TREE_LEVELS][LINNET_TREES]; /* 0..63 */
	int16_t leaf[LINNET_TREES][LINNET_TREE_LEAVES];
	int32_t base; /* within LINNET_TREE_BASE_MAX of 0 */
	uint16_t schema;    /* of the features: LINNET_SCHEMA_LINNET1 or 2 */
	int16_t slow_score; /* a read with a higher score is slow: it may be revoked */
};

/* 0, or LINNET_E_RANGE if a number is out of its range. Trees that pass can be scored without further checks. */
int linnet_trees_check(const struct linnet_trees *trees);

/* Score of a read: the logarithm of its odds of being slow, times LINNET_TREE_ONE. */
int32_t linnet_trees_score(const struct linnet_trees *trees, const uint8_t features[LINNET_INFLIGHT_FEATURES]);

/* ---- the same trees for processors, or kernels, that may not use vectors (bitsliced.c) ---- */

#define LINNET_BITSLICED_ROWS (LINNET_TREE_LEVELS * LINNET_TREES + LINNET_INFLIGHT_FEATURES)
#define LINNET_BITSLICED_WORDS 4
#define LINNET_PAIR_LEAVES (LINNET_TREE_LEAVES * LINNET_TREE_LEAVES)

/* 15,880 bytes. Const once initialised. */
struct linnet_bitsliced {
	uint64_t passed[LINNET_BITSLICED_ROWS][LINNET_BITSLICED_WORDS]; /* a byte for two trees: bits of passed questions */
	uint8_t row[LINNET_INFLIGHT_FEATURES][LINNET_BUCKET_MAX + 1];   /* of `passed`, for each value of a feature */
	int32_t leaf[LINNET_TREES / 2][LINNET_PAIR_LEAVES];             /* sums of a leaf of each of two trees */
	int32_t base;
	uint16_t schema;
	int16_t slow_score;
};

/* Lays out trees that have passed linnet_trees_check. */
void linnet_bitsliced_init(struct linnet_bitsliced *bitsliced, const struct linnet_trees *trees);

/* Like linnet_trees_score, for features of 0..63. */
int32_t linnet_bitsliced_score(const struct linnet_bitsliced *bitsliced, const uint8_t features[LINNET_INFLIGHT_FEATURES]);

/* ---- latencies that a score predicts ---- */

#define LINNET_LATENCIES 5 /* quantiles: p50, p90, p95, p99, p99.9 */
#define LINNET_SCORE_BINS 16
#define LINNET_FEATURE_BINS 8

/*
 * Latency quantiles of reads, in bins of their score and of one feature. The bin of a value is the number of edges
 * below it. Quantiles ascend within a bin, and each ascends from one bin of scores to the next (equal values are
 * allowed).
 */
struct linnet_latencies {
	int32_t score_edge[LINNET_SCORE_BINS - 1];     /* each at least the one before */
	uint8_t feature;                               /* 0..15 */
	uint8_t feature_edge[LINNET_FEATURE_BINS - 1]; /* 0..63, each at least the one before */
	uint32_t ns[LINNET_SCORE_BINS][LINNET_FEATURE_BINS][LINNET_LATENCIES]; /* UINT32_MAX: that or more */
};

/* 0, or LINNET_E_RANGE if a number is out of its range or order. */
int linnet_latencies_check(const struct linnet_latencies *latencies);

/* The LINNET_LATENCIES quantiles of a read's latency; `score` is the trees' score of these features. */
const uint32_t *linnet_latencies_predict(const struct linnet_latencies *latencies, int32_t score,
					 const uint8_t features[LINNET_INFLIGHT_FEATURES]);

/* ---- model files (model.c) ---- */

#define LINNET_MODEL_VERSION 2 /* and 1, which holds a network only */
#define LINNET_KIND_ADMISSION 1
#define LINNET_SCHEMA_LINNOS31 1 /* of a network's inputs */

/*
 * The parts of a file behind the network, in the order of the file: PART(NAME, name, bit of `parts`, bytes). Each has a
 * struct linnet_name, a field of that name in struct linnet_model, and a unit, which also reads the part's block in a
 * file (blocks.h). All that treats parts alike is expanded from this list.
 *
 * A prediction requires trees: linnet_name_predict gives its last argument, the count, of uint32 numbers for a read
 * with this score of the trees and these features. To add a prediction, add a line.
 */
#define LINNET_PREDICTIONS(PART) \
	PART(LATENCIES, latencies, 4, 2628, LINNET_LATENCIES)
#define LINNET_PARTS(PART) \
	PART(TREES, trees, 2, 1416, 1) \
	LINNET_PREDICTIONS(PART)

/* Bits of `parts`. */
enum linnet_part {
	LINNET_PART_NETWORK = 1,
#define LINNET_PART_BIT(NAME, name, bit, bytes, count) LINNET_PART_##NAME = bit,
	LINNET_PARTS(LINNET_PART_BIT)
#undef LINNET_PART_BIT
};

/* A model file as read. The layers point into the bytes that were read. Over 4 KB: too large for some stacks. */
struct linnet_model {
	uint16_t version;
	uint16_t kind;
	uint16_t schema;      /* of the network's inputs; 0 without a network */
	uint16_t input_max;   /* 0 without a network */
	uint32_t layer_count; /* 0 without a network */
	uint32_t queue_inflection;     /* I/Os in flight at arrival: their value at the inflection percentile */
	uint32_t queue_median;
	uint32_t queue_lower_quartile;
	uint32_t inflection_percentile; /* 0.0001 of a percentile, 0..1000000 */
	uint32_t false_submit;         /* millionths of all reads, 0..1000000 */
	uint32_t parts;                /* LINNET_PART_*; at least a network or trees */
	uint32_t spare;
	uint64_t inflection_ns;
	uint64_t latency_ns_p95;
	uint64_t latency_ns_p99;
	uint64_t hedge_ns;
	uint64_t rows;
	uint64_t seed;
	struct linnet_source layers[LINNET_LAYERS_MAX];
	int64_t scales[LINNET_LAYERS_MAX];
	/* Checked; zeros where the file has no such part. */
	struct linnet_trees trees;
	struct linnet_latencies latencies;
};

/*
 * Reads a model file of `size` bytes. Returns any error of the table in spec/model-file.md, with the offset of the byte
 * in *offset, which is written only on error. The network is proven later, by linnet_network_plan.
 */
int linnet_model_read(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset);

/* CRC-32C of these bytes. */
uint32_t linnet_crc32c(const uint8_t *bytes, size_t size);

#ifdef __cplusplus
}
#endif

#endif
