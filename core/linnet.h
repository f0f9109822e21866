/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The public header of the core: deciding. train.h is for training. The contracts are in spec/: features.md, decision.md,
 * model-file.md.
 *
 * Functions that can fail return 0 or a negative LINNET_E_*, and leave every output untouched when they fail.
 * Nothing here allocates, locks, logs or keeps state of its own: the caller brings memory and serialises access
 * to each object that is not const.
 */
#ifndef LINNET_H
#define LINNET_H

#include "port.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ---- */

enum linnet_error {
	LINNET_E_SHAPE = -1,    /* layer count, layer size or the link between two layers is out of bounds */
	LINNET_E_RANGE = -2,    /* the network's sums could leave 127 bits, or a number its range */
	LINNET_E_MEMORY = -3,   /* the caller's memory is too small or not aligned */
	LINNET_E_INPUT = -4,    /* an input exceeds the bound that the network was proven for */
	LINNET_E_TRUNCATED = -5, /* model file: ends early */
	LINNET_E_MAGIC = -6,    /* model file: is something else */
	LINNET_E_VERSION = -7,  /* model file: unknown version */
	LINNET_E_LENGTH = -8,   /* model file: its size field is wrong */
	LINNET_E_CHECKSUM = -9, /* model file: damaged */
	LINNET_E_KIND = -10,    /* model file: unknown kind */
	LINNET_E_SCHEMA = -11,  /* model file: unknown features */
	LINNET_E_FIELD = -12,   /* model file: a number out of range */
};

/* ---- features: schema linnos-31 (spec/features.md) ---- */

#define LINNET_DIGITS 31        /* features of one read */
#define LINNET_HISTORY 4        /* completed reads remembered */
#define LINNET_PAGE_BYTES 4096  /* unit of pending work */
#define LINNET_PAGES_MAX 999    /* cap of a page count in the digits */
#define LINNET_LATENCY_US_MAX 9999 /* cap of a latency in the digits */

/*
 * What one device is doing: work outstanding and the last four reads that completed. The history is kept as the
 * digits that it contributes, so a read costs one copy and three divisions. Starts as all zeros.
 */
struct linnet_tracker {
	uint32_t pending_pages;        /* 4 KiB pages outstanding, reads and writes; saturates */
	uint32_t history_len;          /* completed reads in the history, 0..4 */
	uint8_t digits[LINNET_DIGITS]; /* history part filled in, digits 12..14 zero; each 0..9 */
	uint8_t spare;                 /* zero */
};

/* Pages that an I/O of this size counts for. */
static inline uint32_t linnet_pages(uint32_t size_bytes)
{
	return size_bytes / LINNET_PAGE_BYTES + (size_bytes % LINNET_PAGE_BYTES != 0);
}

/* An idle device without history. */
void linnet_tracker_init(struct linnet_tracker *tracker);

/* An I/O arrives: returns its snapshot, the pages outstanding including its own. Keep it until the I/O ends. */
uint32_t linnet_tracker_arrive(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A write completes. */
void linnet_tracker_complete_write(struct linnet_tracker *tracker, uint32_t size_bytes);

/* A read completes: enters the history with the snapshot that its arrival returned. */
void linnet_tracker_complete_read(struct linnet_tracker *tracker, uint32_t size_bytes, uint64_t latency_ns,
				  uint32_t snapshot);

/* An I/O leaves without completing (revoked, failed, cancelled): its pages go, the history stays. */
void linnet_tracker_withdraw(struct linnet_tracker *tracker, uint32_t size_bytes);

/* The features of an I/O whose arrival returned `snapshot`. */
void linnet_tracker_digits(const struct linnet_tracker *tracker, uint32_t snapshot, uint8_t digits[LINNET_DIGITS]);

/* ---- features: schema linnet-1 (spec/features-linnet.md) ---- */

#define LINNET_WATCH_FEATURES 16 /* features of one read */
#define LINNET_BUCKET_MAX 63     /* each is 0..63 */
#define LINNET_WATCH_READS 8     /* completed reads whose times are remembered; a power of two */
#define LINNET_WATCH_LATENCIES 4 /* and whose latencies are; a power of two */
#define LINNET_SEEN_ARRIVAL 1    /* bits of `seen`: a read has arrived */
#define LINNET_SEEN_SLOW 2       /* a slow read has completed */

/* One I/O under way, in an array of the caller's. Its place there names it from arrival to its end. */
struct linnet_watched {
	uint64_t arrived_ns;
	uint64_t pages_ahead; /* 4 KiB pages under way when it arrived, its own included */
	uint32_t pages;       /* its own */
	uint32_t is_read;     /* 0 or 1 */
	uint32_t older;       /* neighbours in the list of reads under way */
	uint32_t newer;
};

/* What one device is doing. Times are the caller's clock, in nanoseconds, that never runs backwards. */
struct linnet_watch {
	uint64_t inflection_ns; /* a read above is slow */
	uint64_t pages;         /* under way, reads and writes */
	uint64_t read_pages;
	uint64_t arrived_sum_ns; /* of the reads under way; wraps */
	uint64_t read_arrived_ns; /* when the last read arrived */
	uint64_t read_end_bytes;  /* and where it ends */
	uint64_t completed;       /* reads */
	uint64_t done_ns[LINNET_WATCH_READS]; /* when the last ones completed, a ring */
	uint64_t latency_ns[LINNET_WATCH_LATENCIES]; /* of the last ones, a ring */
	uint64_t fast_ns; /* moving average of read latency, times 4: a new read weighs 1/4 */
	uint64_t slow_ns; /* times 32: a new read weighs 1/32 */
	uint64_t page_ns; /* moving average of latency over pages_ahead in 1/16 ns, times 16: a new I/O weighs 1/16 */
	uint64_t written_pages; /* that have arrived */
	uint64_t slow_done_ns;  /* when a slow read last completed */
	uint64_t slow_written_pages; /* written_pages at that time */
	uint32_t reads;  /* under way */
	uint32_t writes;
	uint32_t oldest_read; /* ends of the list; UINT32_MAX when it is empty */
	uint32_t newest_read;
	uint32_t seen;
	uint32_t spare;
};

/* Four steps to the octave: 0 1 2 3 4 5 6 7 8 10 12 14 16 20 ... begin buckets 0, 1, 2, ...; the last is 63. */
uint8_t linnet_bucket(uint64_t value);

/* An idle device without history. */
void linnet_watch_init(struct linnet_watch *watch, uint64_t inflection_ns);

/* An I/O is handed to the device. ios[io] must be free; it belongs to the watch until the I/O ends. */
void linnet_watch_arrive(struct linnet_watch *watch, struct linnet_watched *ios, uint32_t io, uint64_t now_ns,
			 int is_read, uint64_t offset_bytes, uint32_t size_bytes);

/* It completes; ios[io] is free. */
void linnet_watch_complete(struct linnet_watch *watch, struct linnet_watched *ios, uint32_t io, uint64_t now_ns);

/* It leaves without completing (revoked, failed, cancelled); ios[io] is free, the history stays. */
void linnet_watch_withdraw(struct linnet_watch *watch, struct linnet_watched *ios, uint32_t io);

/* The features of a read that would be handed to the device now. Changes nothing. */
void linnet_watch_describe(const struct linnet_watch *watch, const struct linnet_watched *ios, uint64_t now_ns,
			   uint64_t offset_bytes, uint32_t size_bytes, uint8_t features[LINNET_WATCH_FEATURES]);

/* ---- trees on these features ---- */

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
};

/* 0, or LINNET_E_RANGE when a number is out of its range. Trees that pass can be asked without further checks. */
int linnet_trees_check(const struct linnet_trees *trees);

/* Score of a read: the logarithm of the odds that it will be slow, times LINNET_TREE_ONE. */
int32_t linnet_trees_score(const struct linnet_trees *trees, const uint8_t features[LINNET_WATCH_FEATURES]);

/* ---- the same trees for processors, or kernels, that may not use vectors (grove.c) ---- */

#define LINNET_GROVE_ROWS (LINNET_TREE_LEVELS * LINNET_TREES + LINNET_WATCH_FEATURES)

/* 7,048 bytes. Const once planted. */
struct linnet_grove {
	uint8_t row[LINNET_WATCH_FEATURES][LINNET_BUCKET_MAX + 1]; /* of `passed`, for each value of a feature */
	uint64_t passed[LINNET_GROVE_ROWS][LINNET_TREE_LEVELS];    /* a bit for each tree whose question is passed */
	int16_t leaf[LINNET_TREES][LINNET_TREE_LEAVES];
	int32_t base;
};

/* Lays out trees that pass linnet_trees_check. */
void linnet_grove_plant(struct linnet_grove *grove, const struct linnet_trees *trees);

/* As linnet_trees_score, for features of 0..63. */
int32_t linnet_grove_score(const struct linnet_grove *grove, const uint8_t features[LINNET_WATCH_FEATURES]);

/* ---- features: schema heimdall-11, for comparison (spec/features-heimdall.md) ---- */

#define LINNET_HEIMDALL_FEATURES 11 /* of one read */
#define LINNET_HEIMDALL_INPUTS 22   /* as the network takes them: two bytes each, the high one first */
#define LINNET_HEIMDALL_HISTORY 3   /* completed reads remembered */

/* What one device is doing. Starts as all zeros; the newest read comes first. */
struct linnet_heimdall {
	uint32_t under_way; /* I/Os, reads and writes; saturates */
	uint32_t queue[LINNET_HEIMDALL_HISTORY];      /* I/Os under way when it arrived, itself included */
	uint32_t latency_ns[LINNET_HEIMDALL_HISTORY]; /* at most 2^32 - 1 */
	uint32_t throughput[LINNET_HEIMDALL_HISTORY]; /* bytes per millisecond */
};

/* Bounds of each feature over the training rows, and what makes 0..65535 of the range between. */
struct linnet_heimdall_scale {
	uint32_t least[LINNET_HEIMDALL_FEATURES];
	uint32_t most[LINNET_HEIMDALL_FEATURES];
	uint64_t factor[LINNET_HEIMDALL_FEATURES];
};

/* An idle device without history. */
void linnet_heimdall_init(struct linnet_heimdall *tracker);

/* An I/O arrives: returns its snapshot, the I/Os under way including itself. */
uint32_t linnet_heimdall_arrive(struct linnet_heimdall *tracker);

/* A write completes, or any I/O leaves without completing. */
void linnet_heimdall_leave(struct linnet_heimdall *tracker);

/* A read completes: enters the history with the snapshot that its arrival returned. */
void linnet_heimdall_complete_read(struct linnet_heimdall *tracker, uint32_t size_bytes, uint64_t latency_ns,
				   uint32_t snapshot);

/* Bytes per millisecond; at most 2^32 - 1. */
uint32_t linnet_heimdall_throughput(uint32_t size_bytes, uint64_t latency_ns);

/* The features of a read whose arrival returned `snapshot`. */
void linnet_heimdall_features(const struct linnet_heimdall *tracker, uint32_t snapshot, uint32_t size_bytes,
			      uint32_t features[LINNET_HEIMDALL_FEATURES]);

/* LINNET_E_RANGE when a least is above its most. */
int linnet_heimdall_scale_set(struct linnet_heimdall_scale *scale, const uint32_t least[LINNET_HEIMDALL_FEATURES],
			      const uint32_t most[LINNET_HEIMDALL_FEATURES]);

/* What the network takes, 0..255 each. */
void linnet_heimdall_inputs(const struct linnet_heimdall_scale *scale,
			    const uint32_t features[LINNET_HEIMDALL_FEATURES],
			    uint8_t inputs[LINNET_HEIMDALL_INPUTS]);

/* ---- replica: what is known of one device that serves the same data as others (replica.c) ---- */

#define LINNET_UNTRACKED UINT32_MAX  /* the place of an I/O that the watch had no room for */
#define LINNET_ERRORS_MAX 3          /* errors in a row that take a replica out of service */
#define LINNET_OUT_NS 10000000       /* how long at first: 10 ms */
#define LINNET_OUT_NS_MAX 1000000000 /* and at most, after it has doubled with each probe that failed */
#define LINNET_AGE_NS 10000000       /* age at which what is known of a replica has expired: 10 ms */

/* Events change it one at a time. Whoever describes beside them looks afterwards whether one came between. */
struct linnet_replica {
	struct linnet_watch watch;
	struct linnet_watched *ios; /* the caller's memory, a fixed number of places */
	uint64_t events;       /* arrivals and ends so far */
	uint64_t latest_ns;    /* time of the last one */
	uint64_t ewma_ns;      /* moving average of read latency; 0 before the first read */
	uint64_t learnt_ns;    /* when a read last completed or a probe was last sent */
	uint64_t out_until_ns; /* out of service until then */
	uint64_t backoff_ns;   /* how long the next absence lasts; 0 for LINNET_OUT_NS */
	uint32_t free;         /* first free place of `ios`, linked by `newer` */
	uint32_t in_flight;
	uint32_t errors_in_row;
	uint32_t probing;      /* a probe is under way */
};

/* One I/O under way at a replica, from its arrival to its end. */
struct linnet_flight {
	uint64_t arrived_ns;
	uint64_t event;   /* number of its arrival, from 1 */
	uint32_t place;   /* in `ios`, or LINNET_UNTRACKED */
	uint8_t is_read;
	uint8_t probe;    /* sent to learn how the replica is now */
	uint16_t spare;
};

/* An idle replica without history, with so many places for I/Os under way. */
void linnet_replica_init(struct linnet_replica *replica, uint64_t inflection_ns, struct linnet_watched *ios,
			 uint32_t places);

/* An I/O is handed to it. Fills `flight`. */
void linnet_replica_arrive(struct linnet_replica *replica, struct linnet_flight *flight, uint64_t now_ns, int is_read,
			   int probe, uint64_t offset_bytes, uint32_t size_bytes);

/* It completes; returns its latency. Or it ends with an error of the replica, or leaves without having been tried. */
uint64_t linnet_replica_complete(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_fail(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);
void linnet_replica_withdraw(struct linnet_replica *replica, const struct linnet_flight *flight, uint64_t now_ns);

/* Its errors are forgotten. */
void linnet_replica_pardon(struct linnet_replica *replica);

/* Whether errors keep it out of service at this time. */
int linnet_replica_is_out(const struct linnet_replica *replica, uint64_t now_ns);

/* ---- choice: which replica a read goes to (choose.c) ---- */

#define LINNET_REPLICAS_MAX 8
#define LINNET_NO_REPLICA UINT32_MAX

enum linnet_policy {
	LINNET_BASELINE = 0,
	LINNET_SHORTEST_QUEUE = 1,
	LINNET_EWMA_INFLIGHT = 2,
	LINNET_LINNOS = 3,
	LINNET_BEST = 4,
};

/* What a choice needs to know of one replica. */
struct linnet_candidate {
	uint64_t ewma_ns;
	uint64_t learnt_ns;
	int32_t score;     /* of its trees, for this read; 0 without */
	uint32_t in_flight;
	uint8_t eligible;  /* 0 or 1, as all below: it may be chosen */
	uint8_t known;     /* a model speaks for it */
	uint8_t slow;      /* its network calls the read slow */
	uint8_t probing;
	uint32_t spare;
};

struct linnet_choice {
	uint32_t replica; /* LINNET_NO_REPLICA when none is eligible */
	uint8_t probe;    /* the policy would rather not, but wants to learn how the replica is now */
	uint8_t judged;   /* a model was asked, and expects the read to be fast */
};

/* What a read that arrives now is to be told of this replica. `trees` may be NULL. Leaves `slow` 0. */
void linnet_replica_describe(const struct linnet_replica *replica, const struct linnet_trees *trees, uint64_t now_ns,
			     uint64_t offset_bytes, uint32_t size_bytes, struct linnet_candidate *candidate);

/* The features alone, for who scores them otherwise. */
void linnet_replica_features(const struct linnet_replica *replica, uint64_t now_ns, uint64_t offset_bytes,
			     uint32_t size_bytes, uint8_t features[LINNET_WATCH_FEATURES]);

/* What a read would wait by the averages: EWMA latency x (in flight + 1); saturates. */
uint64_t linnet_expected_ns(uint64_t ewma_ns, uint32_t in_flight);

/*
 * What linnet-best prefers the least of: the logarithm of that wait times the odds of a slow read (`score`, in units of
 * 1 / LINNET_TREE_ONE; odds below e^-2 count as that), in the same units. A difference between good odds tells little, and
 * would send all reads of a burst to one replica. Of equals, the lesser wait.
 */
int64_t linnet_preference(int32_t score, uint64_t expected_ns);

/*
 * Whether a read that the replica's trees (or else its network) call slow may be turned away: 0 when what is known of it has expired
 * and the read should go there as a probe, or when no model speaks.
 */
int linnet_may_revoke(const struct linnet_candidate *replica, int by_trees, uint64_t now_ns, uint64_t age_ns);

/* The choice among these replicas, 0 being the primary. What is known of one expires after age_ns. */
struct linnet_choice linnet_choose(uint32_t policy, const struct linnet_candidate *replicas, uint32_t count,
				   uint64_t now_ns, uint64_t age_ns);

/* ---- latencies that a score foretells ---- */

#define LINNET_LATENCIES 5 /* quantiles: p50, p90, p95, p99, p99.9 */
#define LINNET_SCORE_BINS 16
#define LINNET_FEATURE_BINS 8

/*
 * Latency quantiles of reads in bins of their score and of one feature. A value is in the bin whose number is that of
 * the edges below it. In a bin the quantiles do not descend, nor does any from one bin of scores to the next.
 */
struct linnet_latencies {
	int32_t score_edge[LINNET_SCORE_BINS - 1];     /* none below the one before */
	uint8_t feature;                               /* 0..15 */
	uint8_t feature_edge[LINNET_FEATURE_BINS - 1]; /* 0..63, none below the one before */
	uint32_t ns[LINNET_SCORE_BINS][LINNET_FEATURE_BINS][LINNET_LATENCIES]; /* UINT32_MAX: that or more */
};

/* 0, or LINNET_E_RANGE when a number is out of its range or order. */
int linnet_latencies_check(const struct linnet_latencies *latencies);

/* The LINNET_LATENCIES quantiles of a read's latency; `score` is what the trees say of these features. */
const uint32_t *linnet_latencies_predict(const struct linnet_latencies *latencies, int32_t score,
					 const uint8_t features[LINNET_WATCH_FEATURES]);

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

/* ---- model file (spec/model-file.md) ---- */

#define LINNET_MODEL_VERSION 2 /* and 1, which holds a network only */
#define LINNET_KIND_ADMISSION 1
#define LINNET_SCHEMA_LINNOS31 1 /* of a network's inputs */
#define LINNET_SCHEMA_LINNET1 2  /* of the features that trees ask for */
#define LINNET_PART_NETWORK 1u   /* bits of `parts` */
#define LINNET_PART_TREES 2u
#define LINNET_PART_LATENCIES 4u /* of the trees' scores: never without trees */

/* A model file as read. The layers point into the bytes that were read. Over 4 KB: too large for some stacks. */
struct linnet_model {
	uint16_t version;
	uint16_t kind;
	uint16_t schema;      /* of the network's inputs; 0 without a network */
	uint16_t input_max;   /* 0 without a network */
	uint32_t layer_count; /* 0 without a network */
	uint32_t queue_inflection;     /* I/Os in flight at arrival, at the inflection percentile */
	uint32_t queue_median;
	uint32_t queue_lower_quartile;
	uint32_t inflection_percentile; /* 0.0001 of a percentile, 0..1000000 */
	uint32_t false_submit;         /* millionths of all reads, 0..1000000 */
	uint32_t parts;                /* LINNET_PART_*; a network or trees at least */
	uint32_t watch_schema;         /* of the trees; 0 without trees */
	uint64_t inflection_ns;
	uint64_t latency_ns_p95;
	uint64_t latency_ns_p99;
	uint64_t hedge_ns;
	uint64_t rows;
	uint64_t seed;
	struct linnet_source layers[LINNET_LAYERS_MAX];
	int64_t scales[LINNET_LAYERS_MAX];
	struct linnet_trees trees; /* checked; zeros without trees */
	struct linnet_latencies latencies; /* so, too */
};

/*
 * Reads a model file of `size` bytes. Any refusal of the table in spec/model-file.md, with the byte in *offset,
 * which is written only then. The network is proven later, by linnet_network_plan.
 */
int linnet_model_read(const uint8_t *bytes, size_t size, struct linnet_model *model, size_t *offset);

/* CRC-32C of these bytes. */
uint32_t linnet_crc32c(const uint8_t *bytes, size_t size);

/* ---- decision (spec/decision.md) ---- */

enum linnet_verdict {
	LINNET_SUBMIT = 0,
	LINNET_REVOKE = 1,
	LINNET_FORCED_SUBMIT = 2, /* submitted without a choice; counted apart */
};

/*
 * Decides one read; never fails. `network` may be NULL (no model). `others` counts the replicas besides this one
 * that could still serve the read, `budget` the revokes that may still be spent now. `scratch` as for
 * linnet_network_score.
 */
int linnet_decide(const struct linnet_network *network, const uint8_t *features, void *scratch,
		  uint32_t others, uint32_t budget);

/* ---- judge: a tracker and a network together, most of the work done when reads complete (judge.c) ---- */

/* How far ahead of the submit path a network can be worked out. */
enum linnet_way {
	LINNET_WAY_NONE = 0,  /* no network: a tracker only */
	LINNET_WAY_PLAIN = 1, /* not at all: the whole network runs on submit */
	LINNET_WAY_FIRST = 2, /* the first layer's sums of the history */
	LINNET_WAY_SIFTED = 3, /* and which of its outputs can still be on either side of zero; two layers only */
};

struct linnet_sift;

/* What the judges of one network share. Const after linnet_tables_place. */
struct linnet_tables {
	const struct linnet_network *network; /* NULL for LINNET_WAY_NONE */
	const struct linnet_sift *loops;
	const int32_t *near;  /* per output of the first layer: its weights for digits 13 (low half) and 14 (high) */
	const int32_t *top;   /* the most that those digits can add */
	const int32_t *gap;   /* logit 1's weight for the output, minus logit 0's */
	int64_t gap_bias;
	uint32_t lanes;       /* outputs of the first layer, padded; 0 when it is not kept */
	uint32_t way;         /* enum linnet_way */
	/*
	 * For loops without vectors, several outputs to a 64-bit word: a row of `words` for the biases, one for each of
	 * the 31 digits, and one for `top` less 1. NULL where the loops have vectors or the sums no room.
	 */
	const uint64_t *packed;
	uint32_t words;
	uint32_t pack_bits;   /* of an output in a word: 16 or 21; 0 for none */
	size_t memory_size;   /* bytes that linnet_tables_place needs */
	size_t judge_size;    /* bytes of each judge */
	size_t scratch_size;  /* bytes that each decision needs, 0 if none */
};

/* The loops that every build has. User-space builds add linnet_sift_avx2 and linnet_sift_avx512. */
extern const struct linnet_sift linnet_sift_portable;

/*
 * Sizes the tables of a network, which may be NULL, for these loops. LINNET_E_SHAPE unless it leads 31 digits to two
 * outputs.
 */
int linnet_tables_plan(struct linnet_tables *tables, const struct linnet_network *network,
		       const struct linnet_sift *loops);

/* Fills the tables in `memory` (aligned to LINNET_ALIGN), which lives as long as they do. LINNET_E_MEMORY. */
int linnet_tables_place(struct linnet_tables *tables, void *memory, size_t memory_size);

/*
 * One device. tables->judge_size bytes aligned to LINNET_ALIGN, all of them the judge's.
 *
 * Any number of CPUs may call arrive, withdraw, complete_write, decide, decide_many, score, verdict and digits at
 * once. The caller makes sure that no two complete_read run at once on one judge; they may run beside all others.
 */
struct linnet_judge;

/* Begins with the history and the pending pages of `tracker`, or idle when that is NULL. LINNET_E_MEMORY. */
int linnet_judge_init(struct linnet_judge *judge, size_t size, const struct linnet_tables *tables,
		      const struct linnet_tracker *tracker);

/* As linnet_tracker_*. */
uint32_t linnet_judge_arrive(struct linnet_judge *judge, uint32_t size_bytes);
void linnet_judge_withdraw(struct linnet_judge *judge, uint32_t size_bytes);
void linnet_judge_complete_write(struct linnet_judge *judge, uint32_t size_bytes);
void linnet_judge_complete_read(struct linnet_judge *judge, uint32_t size_bytes, uint64_t latency_ns,
				uint32_t snapshot);

/* Pages outstanding, and completed reads in the history (0..4), now. */
uint32_t linnet_judge_pending_pages(const struct linnet_judge *judge);
uint32_t linnet_judge_history_len(const struct linnet_judge *judge);

/* The state as a tracker. The history is one that existed; the pending pages are those of now. */
void linnet_judge_tracker(const struct linnet_judge *judge, struct linnet_tracker *tracker);

/* The score that linnet_network_score gives these features. LINNET_E_SHAPE without a network. */
int linnet_judge_score(const struct linnet_judge *judge, uint32_t snapshot, void *scratch, int64_t *score);

/* 1 to revoke, 0 to submit: whether that score is above zero. Remembered until the next read completes. */
int linnet_judge_decide(struct linnet_judge *judge, uint32_t snapshot, void *scratch);

/*
 * `count` I/Os that arrived together, each by its own snapshot and all by one history: 1 or 0 for each into
 * `revokes`. Untouched on an error.
 */
int linnet_judge_decide_many(struct linnet_judge *judge, const uint32_t *snapshots, uint32_t count, void *scratch,
			     uint8_t *revokes);

/* As linnet_decide. */
int linnet_judge_verdict(struct linnet_judge *judge, uint32_t snapshot, void *scratch, uint32_t others,
			 uint32_t budget);

#ifdef __cplusplus
}
#endif

#endif
