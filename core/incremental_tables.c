/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The tables that all incremental networks of one network share: how much of the network can be computed before a read
 * arrives (incremental.c), and its weights in the order in which the loops of prune.c read them. Pruning needs proof
 * that no part of a score leaves 62 bits; packed sums, that several outputs fit one word.
 */
#include "incremental.h"

#define PROOF ((linnet_uint128)1 << 62) /* bound of scores and of all their parts */

static size_t round_up(size_t n)
{
	return (n + LINNET_ALIGN - 1) & ~(size_t)(LINNET_ALIGN - 1);
}

static int64_t weight(const struct linnet_layer *layer, uint32_t o, uint32_t i)
{
	size_t at = (size_t)o * layer->stride + i;

	if (layer->by_input)
		at = 2 * ((size_t)(i / 2) * layer->stride + o) + (i & 1);
	return layer->width == LINNET_I16 ? ((const int16_t *)layer->weights)[at]
					  : ((const int64_t *)layer->weights)[at];
}

static int64_t bias(const struct linnet_layer *layer, uint32_t o)
{
	return layer->width == LINNET_I16 ? ((const int32_t *)layer->biases)[o]
					  : ((const int64_t *)layer->biases)[o];
}

/* The largest output of this neuron of the first layer. */
static int64_t most(const struct linnet_layer *layer, uint32_t o)
{
	int64_t sum = bias(layer, o);

	for (uint32_t i = 0; i < layer->inputs; i++)
		if (weight(layer, o, i) > 0)
			sum += 9 * weight(layer, o, i);
	return sum > 0 ? sum : 0;
}

/* Whether gaps fit 32 bits and every part of a score stays below PROOF. */
static int can_prune(const struct linnet_network *network)
{
	const struct linnet_layer *first = &network->layers[0], *last = &network->layers[1];
	linnet_int128 gap = (linnet_int128)bias(last, 1) - bias(last, 0);
	linnet_uint128 reach = (linnet_uint128)(gap < 0 ? -gap : gap);

	for (uint32_t o = 0; o < first->outputs; o++) {
		gap = (linnet_int128)weight(last, 1, o) - weight(last, 0, o);
		if (gap < INT32_MIN || gap > INT32_MAX)
			return 0;
		reach += (linnet_uint128)(gap < 0 ? -gap : gap) * (linnet_uint128)most(first, o);
	}
	return reach < PROOF;
}

/* The largest magnitude of any sum of the first layer. */
static int64_t reach_of(const struct linnet_layer *layer)
{
	int64_t reach = 0;

	for (uint32_t o = 0; o < layer->outputs; o++) {
		int64_t up = bias(layer, o), down = up;

		for (uint32_t i = 0; i < layer->inputs; i++) {
			int64_t w = 9 * weight(layer, o, i);

			up += w > 0 ? w : 0;
			down += w < 0 ? w : 0;
		}
		reach = up > reach ? up : reach;
		reach = -down > reach ? -down : reach;
	}
	return reach;
}

/* The largest number of outputs per word that leaves each enough bits, with `top` less 1 added. */
static void plan_packed(struct linnet_tables *plan)
{
	const struct linnet_layer *first = &plan->network->layers[0];
	int64_t reach = reach_of(first) + 1;

	if (reach < 1 << 15)
		plan->pack_bits = 16;
	else if (reach < 1 << 20)
		plan->pack_bits = 21;
	else
		return;
	plan->words = (first->outputs + 64 / plan->pack_bits - 1) / (64 / plan->pack_bits);
	plan->memory_size += sizeof(uint64_t) * LINNET_PACK_ROWS * (size_t)plan->words;
}

int linnet_tables_plan(struct linnet_tables *tables, const struct linnet_network *network,
		       const struct linnet_prune *loops)
{
	struct linnet_tables plan;
	size_t pre = sizeof(struct linnet_precomputed);

	if (network && (network->inputs != LINNET_DIGITS || network->outputs != 2 || network->input_max < 9))
		return LINNET_E_SHAPE;
	linnet_zero(&plan, sizeof(plan));
	plan.network = network;
	plan.loops = loops;
	if (network) {
		plan.precompute = LINNET_PRECOMPUTE_PLAIN;
		plan.scratch_size = network->scratch_size;
		if (network->layer_count > 1 && network->layers[0].by_input)
			plan.precompute = LINNET_PRECOMPUTE_FIRST;
		if (plan.precompute == LINNET_PRECOMPUTE_FIRST && network->layer_count == 2 && can_prune(network))
			plan.precompute = LINNET_PRECOMPUTE_PRUNED;
	}
	if (plan.precompute >= LINNET_PRECOMPUTE_FIRST) {
		plan.lanes = network->layers[0].stride;
		pre += sizeof(int32_t) * (size_t)plan.lanes;
	}
	if (plan.precompute == LINNET_PRECOMPUTE_PRUNED) {
		plan.scratch_size = 0;
		/* Gaps, too, are read in whole words. */
		plan.memory_size = sizeof(int32_t) * (3 * (size_t)plan.lanes + LINNET_REST_PAD);
		if (loops->pack)
			plan_packed(&plan);
		pre += 3 * sizeof(int32_t) * ((size_t)plan.lanes + LINNET_REST_PAD);
	}
	plan.incremental_size = sizeof(struct linnet_incremental) + 2 * round_up(pre);
	linnet_copy(tables, &plan, sizeof(plan));
	return 0;
}

/* Outputs are packed into a word from the lowest bits. Each is a signed number: the word is their sum, modulo 2^64. */
static void place_packed(struct linnet_tables *tables, uint64_t *packed)
{
	const struct linnet_layer *first = &tables->network->layers[0];
	uint32_t each = 64 / tables->pack_bits;

	for (uint32_t o = 0; o < each * tables->words; o++) {
		uint64_t *at = packed + o / each;
		uint32_t shift = o % each * tables->pack_bits;
		int real = o < first->outputs;

		/* The offset is half of an output's range, so that no output borrows from the next. */
		*at += ((uint64_t)(real ? bias(first, o) : 0) + (UINT64_C(1) << (tables->pack_bits - 1))) << shift;
		for (uint32_t i = 0; i < LINNET_DIGITS; i++)
			at[(size_t)(1 + i) * tables->words] += (uint64_t)(real ? weight(first, o, i) : 0) << shift;
		at[(size_t)LINNET_PACK_TOP * tables->words] += (uint64_t)((real ? tables->top[o] : 0) - 1) << shift;
	}
	tables->packed = packed;
}

int linnet_tables_place(struct linnet_tables *tables, void *memory, size_t memory_size)
{
	int32_t *near = memory, *top = near + tables->lanes, *gap = top + tables->lanes;
	const struct linnet_layer *first, *last;

	if (tables->precompute != LINNET_PRECOMPUTE_PRUNED)
		return 0;
	if (!linnet_is_aligned(memory) || memory_size < tables->memory_size)
		return LINNET_E_MEMORY;
	linnet_zero(memory, tables->memory_size);
	first = &tables->network->layers[0];
	last = &tables->network->layers[1];
	for (uint32_t o = 0; o < first->outputs; o++) {
		int32_t tens = (int32_t)weight(first, o, LINNET_NOW_AT + 1);
		int32_t units = (int32_t)weight(first, o, LINNET_NOW_AT + 2);

		near[o] = (int32_t)((uint32_t)(tens & 0xffff) | (uint32_t)units << 16);
		top[o] = 9 * ((tens > 0 ? tens : 0) + (units > 0 ? units : 0));
		gap[o] = (int32_t)(weight(last, 1, o) - weight(last, 0, o));
	}
	tables->gap_bias = bias(last, 1) - bias(last, 0);
	tables->near = near;
	tables->top = top;
	tables->gap = gap;
	if (tables->pack_bits)
		place_packed(tables, (uint64_t *)(void *)(gap + tables->lanes + LINNET_REST_PAD));
	return 0;
}

/* Bindings in other languages mirror this. */
_Static_assert(sizeof(struct linnet_tables) == 96, "struct linnet_tables");
