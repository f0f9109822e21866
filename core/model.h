/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Part of linnet.h: a model file as read (spec/model-file.md).
 */
#ifndef LINNET_MODEL_H
#define LINNET_MODEL_H

#include "network.h"
#include "trees.h"

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

#endif
