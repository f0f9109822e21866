/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks networks and their tables, for drawn ones, with a model that takes one number at a time: the width of each
 * layer, the bytes that are asked for, every number that is placed there, and the sums, also of a device whose reads
 * complete. Memory has any content before, and what is too small or not aligned is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "incremental.h"
#include "chains.h"
#include "devices.h"

#define CASES 400

static unsigned reached[4], packed_16, packed_21;

/* ---- the network ---- */

/* Where its numbers are to be: each block begins at a multiple of LINNET_ALIGN, and what is not a number is zero. */
static size_t place(const struct chain *chain, const struct linnet_network *network, const uint8_t *memory,
		    uint8_t *image)
{
	size_t at = 0;

	for (uint32_t k = 0; k < chain->count; k++) {
		const struct linnet_layer *layer = &network->layers[k];
		uint32_t inputs = chain->sizes[k], outputs = chain->sizes[k + 1];
		int is_i16 = chain->width[k] == LINNET_I16, by_input = is_i16 && outputs >= 16;
		size_t stride = by_input ? up_to(outputs, 32) : is_i16 ? up_to(inputs, 32) : inputs;
		size_t biases;

		check(layer->inputs == inputs && layer->outputs == outputs, "size of a layer");
		check(layer->width == chain->width[k] && layer->by_input == by_input, "width of a layer");
		check(layer->narrow == chain->narrow[k], "whether the inputs of a layer fit 16 bits");
		check(layer->stride == stride, "stride of a layer");
		check(!memory || layer->weights == memory + at, "place of weights");
		for (uint32_t o = 0; o < outputs && image; o++)
			for (uint32_t i = 0; i < inputs; i++) {
				int64_t w = chain->weights[k][o][i];
				int16_t w16 = (int16_t)w;
				size_t n = by_input ? 2 * (i / 2 * stride + o) + i % 2 : o * stride + i;

				if (is_i16)
					memcpy(image + at + 2 * n, &w16, 2);
				else
					memcpy(image + at + 8 * n, &w, 8);
			}
		at += up_to(is_i16 ? 2 * stride * (by_input ? inputs + inputs % 2 : outputs) : 8 * stride * outputs,
			    LINNET_ALIGN);
		check(!memory || layer->biases == memory + at, "place of biases");
		biases = by_input ? stride : outputs;
		for (uint32_t o = 0; o < outputs && image; o++) {
			int32_t b32 = (int32_t)chain->biases[k][o];

			if (is_i16)
				memcpy(image + at + 4 * o, &b32, 4);
			else
				memcpy(image + at + 8 * o, &chain->biases[k][o], 8);
		}
		at += up_to((is_i16 ? 4 : 8) * biases, LINNET_ALIGN);
	}
	return at;
}

/* The score of what a caller has summed up in the first layer. */
static void scores_the_rest(const struct chain *chain, const struct linnet_network *network, const uint8_t *inputs,
			    void *scratch, int64_t expected)
{
	int32_t *first = linnet_network_first_sums(network, scratch);
	linnet_int128 out[SIZE];
	int64_t score = 77;

	if (chain->width[0] != LINNET_I16)
		return;
	sums(chain, 1, inputs, out);
	for (uint32_t o = 0; o < chain->sizes[1]; o++)
		first[o] = (int32_t)out[o];
	if (network->outputs == 2)
		check(linnet_network_score_rest(network, scratch, &score) == 0 && score == expected, "score of the rest");
	else
		check(linnet_network_score_rest(network, scratch, &score) == LINNET_E_SHAPE && score == 77, "score of many");
}

static void decides(const struct chain *chain, const struct linnet_network *network)
{
	linnet_int128 expected[SIZE], found[SIZE];
	uint8_t *scratch = memory_of(network->scratch_size + 16), *inputs = malloc(chain->sizes[0]);

	for (int read = 0; read < 4; read++) {
		int64_t score = 77;

		for (uint32_t i = 0; i < chain->sizes[0]; i++)
			inputs[i] = (uint8_t)(read && below(read) == 0 ? below(chain->input_max + 1) : chain->input_max);
		sums(chain, chain->count, inputs, expected);
		check(linnet_network_logits(network, inputs, scratch, found) == 0, "logits are refused");
		check(memcmp(found, expected, sizeof(*found) * network->outputs) == 0, "logits");
		if (network->outputs != 2)
			check(linnet_network_score(network, inputs, scratch, &score) == LINNET_E_SHAPE && score == 77,
			      "a score without two outputs");
		else
			check(linnet_network_score(network, inputs, scratch, &score) == 0 && score == score_of(expected),
			      "score");
		scores_the_rest(chain, network, inputs, scratch, score);
		if (chain->input_max == UINT8_MAX)
			continue;
		inputs[below(chain->sizes[0])] = (uint8_t)(chain->input_max + 1);
		score = 77;
		check(linnet_network_logits(network, inputs, scratch, found) == LINNET_E_INPUT, "logits of a large input");
		check(memcmp(found, expected, sizeof(*found) * network->outputs) == 0, "logits of no input");
		check(linnet_network_score(network, inputs, scratch, &score) < 0 && score == 77, "score of a large input");
	}
	for (int i = 0; i < 16; i++)
		check(scratch[network->scratch_size + (size_t)i] == 0xa5, "a byte behind is written");
	free(inputs);
	free(scratch);
}

static void *network_of(const struct chain *chain, struct linnet_network *network)
{
	static const uint8_t sum_bytes[] = { 4, 8, 16 };
	const struct linnet_source *sources = chain->sources;
	struct linnet_network before;
	uint32_t count = chain->count;
	size_t row = 0, size;
	uint8_t *work, *memory, *image;

	for (uint32_t k = 0; k <= count; k++)
		if (up_to(chain->sizes[k], 32) > row)
			row = up_to(chain->sizes[k], 32);
	size = linnet_network_work_size(sources, count);
	check(size == 2 * 16 * row, "size of the work memory");
	work = memory_of(size + 1);
	memset(network, 0xa5, sizeof(*network));
	before = *network;
	check(linnet_network_plan(network, sources, count, chain->input_max, work, size - 1) == LINNET_E_MEMORY,
	      "little work memory");
	check(linnet_network_plan(network, sources, count, chain->input_max, work + 1, size) == LINNET_E_MEMORY,
	      "odd work memory");
	check(linnet_network_plan(network, sources, count, 0, work, size) == LINNET_E_SHAPE, "inputs of 0");
	check(linnet_network_plan(network, sources, count, 256, work, size) == LINNET_E_SHAPE, "inputs of 256");
	check(memcmp(network, &before, sizeof(before)) == 0, "what is refused is written");
	check(linnet_network_plan(network, sources, count, chain->input_max, work, size) == 0, "a network is refused");
	free(work);
	check(network->layer_count == count && network->inputs == chain->sizes[0], "inputs");
	check(network->outputs == chain->sizes[count] && network->input_max == chain->input_max, "outputs");
	check(network->row_max == row && network->width == chain->width[count - 1], "width");
	check(network->scratch_size == row * (2 + 2 + 2 * (size_t)sum_bytes[network->width]), "size of scratch");
	size = network->memory_size;
	check(size == place(chain, network, NULL, NULL), "size of the memory");
	memory = memory_of(size + 1);
	image = memory_of(size);
	check(linnet_network_place(network, sources, memory, size - 1) == LINNET_E_MEMORY, "little memory");
	check(linnet_network_place(network, sources, memory + 1, size) == LINNET_E_MEMORY, "odd memory");
	memset(image, 0xa5, size);
	check(memcmp(memory, image, size) == 0, "what is refused is written");
	check(linnet_network_place(network, sources, memory, size) == 0, "memory is refused");
	memset(image, 0, size);
	place(chain, network, memory, image);
	check(memcmp(memory, image, size) == 0, "a number is not at its place");
	check(memory[size] == 0xa5, "a byte behind is written");
	free(image);
	return memory;
}

/* ---- what is computed before a read arrives ---- */

/* How much of a network, by spec: `*bits` is the room of an output in a word. */
static uint32_t precomputed(const struct chain *chain, int packs, uint32_t *bits)
{
	linnet_int128 nines[LINNET_DIGITS], up, down, reach = 0;

	*bits = 0;
	if (chain->count == 1 || chain->width[0] != LINNET_I16 || chain->sizes[1] < 16)
		return LINNET_PRECOMPUTE_PLAIN;
	if (chain->count > 2 || score_reach(chain) >= BIT(62))
		return LINNET_PRECOMPUTE_FIRST;
	for (uint32_t i = 0; i < LINNET_DIGITS; i++)
		nines[i] = 9;
	for (uint32_t o = 0; o < chain->sizes[1]; o++) {
		int64_t gap = chain->weights[1][1][o] - chain->weights[1][0][o];

		if (gap != (int32_t)gap)
			return LINNET_PRECOMPUTE_FIRST;
		ends(chain, 0, o, nines, &up, &down);
		up += chain->biases[0][o];
		down += chain->biases[0][o];
		reach = up > reach ? up : reach;
		reach = -down > reach ? -down : reach;
	}
	/* With 1 less than nothing in the row of `top`. */
	if (packs)
		*bits = reach + 1 < BIT(15) ? 16 : reach + 1 < BIT(20) ? 21 : 0;
	return LINNET_PRECOMPUTE_PRUNED;
}

static void tables_place(const struct chain *chain, const struct linnet_tables *tables, const uint8_t *memory)
{
	int32_t *image = memory_of(tables->memory_size), *near = image;
	int32_t *top = near + tables->lanes, *gap = top + tables->lanes;
	uint64_t *packed = (uint64_t *)(void *)(gap + tables->lanes + 16);
	uint32_t bits = tables->pack_bits;

	memset(image, 0, tables->memory_size);
	for (uint32_t o = 0; o < chain->sizes[1]; o++) {
		int64_t tens = chain->weights[0][o][13], units = chain->weights[0][o][14];

		near[o] = (int32_t)((uint32_t)units << 16 | (uint16_t)tens);
		top[o] = (int32_t)(9 * ((tens > 0 ? tens : 0) + (units > 0 ? units : 0)));
		gap[o] = (int32_t)(chain->weights[1][1][o] - chain->weights[1][0][o]);
	}
	for (uint32_t o = 0; bits && o < tables->words * (64 / bits); o++) {
		int real = o < chain->sizes[1];
		uint64_t *word = packed + o / (64 / bits), unit = (uint64_t)1 << o % (64 / bits) * bits;

		/* An output is a signed number. In the row of biases, half of its room is added to it. */
		*word += unit * ((uint64_t)(real ? chain->biases[0][o] : 0) + ((uint64_t)1 << (bits - 1)));
		for (uint32_t i = 0; i < LINNET_DIGITS && real; i++)
			word[(1 + i) * (size_t)tables->words] += unit * (uint64_t)chain->weights[0][o][i];
		word[(1 + LINNET_DIGITS) * (size_t)tables->words] += unit * (uint64_t)((int64_t)(real ? top[o] : 0) - 1);
	}
	check(memcmp(memory, image, tables->memory_size) == 0, "a number of the tables is not at its place");
	check(tables->near == (const void *)memory && tables->top == tables->near + tables->lanes &&
	      tables->gap == tables->top + tables->lanes, "places of the tables");
	check(tables->gap_bias == chain->biases[1][1] - chain->biases[1][0], "difference of the biases");
	check(tables->packed == (bits ? (const void *)(memory + ((uint8_t *)packed - (uint8_t *)image)) : NULL), "packed");
	free(image);
}

static void tables_of(const struct chain *chain, const struct linnet_network *network)
{
	struct linnet_prune loops = linnet_prune_portable;
	struct linnet_tables tables, before;
	uint32_t bits, kind, lanes, words;
	size_t size = 128;
	uint8_t *memory;

	if (below(4) == 0)
		loops.pack = NULL;
	memset(&tables, 0xa5, sizeof(tables));
	before = tables;
	if (network->inputs != LINNET_DIGITS || network->outputs != 2 || network->input_max < 9) {
		check(linnet_tables_plan(&tables, network, &loops) == LINNET_E_SHAPE, "tables of another network");
		check(memcmp(&tables, &before, sizeof(tables)) == 0, "what is refused is written");
		return;
	}
	check(linnet_tables_plan(&tables, network, &loops) == 0, "tables are refused");
	kind = precomputed(chain, loops.pack != NULL, &bits);
	lanes = kind >= LINNET_PRECOMPUTE_FIRST ? network->layers[0].stride : 0;
	words = bits ? (uint32_t)up_to(chain->sizes[1], 64 / bits) / (64 / bits) : 0;
	check(tables.network == network && tables.loops == &loops, "network of the tables");
	check(tables.precompute == kind && tables.lanes == lanes, "how much is precomputed");
	check(tables.pack_bits == bits && tables.words == words, "outputs in a word");
	check(tables.scratch_size == (kind == LINNET_PRECOMPUTE_PRUNED ? 0 : network->scratch_size), "scratch of a decision");
	check(!tables.packed && !tables.near && !tables.top && !tables.gap, "tables before they are placed");
	if (kind >= LINNET_PRECOMPUTE_FIRST)
		size += 4 * lanes;
	if (kind == LINNET_PRECOMPUTE_PRUNED)
		size += 3 * 4 * (lanes + 16);
	size = sizeof(struct linnet_incremental) + 2 * up_to(size, LINNET_ALIGN);
	check(tables.incremental_size == size, "size of a device");
	size = kind == LINNET_PRECOMPUTE_PRUNED ? 4 * (3 * lanes + 16) + 8 * (2 + LINNET_DIGITS) * words : 0;
	check(tables.memory_size == size, "size of the tables");
	memory = memory_of(size + 1);
	before = tables;
	if (size) {
		check(linnet_tables_place(&tables, memory, size - 1) == LINNET_E_MEMORY, "little memory for tables");
		check(linnet_tables_place(&tables, memory + 1, size) == LINNET_E_MEMORY, "odd memory for tables");
		check(memory[0] == 0xa5 && memcmp(&tables, &before, sizeof(tables)) == 0, "what is refused is written");
	}
	check(linnet_tables_place(&tables, memory, size) == 0, "memory for tables is refused");
	check(memory[size] == 0xa5, "a byte behind is written");
	if (size)
		tables_place(chain, &tables, memory);
	follows(chain, &tables);
	if (kind == LINNET_PRECOMPUTE_PRUNED && below(4) == 0)
		foreseen(tables);
	free(memory);
	reached[kind]++;
	packed_16 += bits == 16;
	packed_21 += bits == 21;
}

/* ---- shapes that are refused, in each layer ---- */

static int planned(const struct linnet_source *sources, uint32_t count)
{
	static uint8_t work[32 * LINNET_SIZE_MAX] __attribute__((aligned(LINNET_ALIGN)));
	struct linnet_network network;
	int error = linnet_network_plan(&network, sources, count, 9, work, sizeof(work));

	check((linnet_network_work_size(sources, count) == 0) == (error == LINNET_E_SHAPE), "work memory of a refused shape");
	return error;
}

static void shapes(void)
{
	static const uint8_t zeros[8 * LINNET_SIZE_MAX];
	static const uint32_t bad[] = { 0, LINNET_SIZE_MAX + 1, UINT32_MAX }, good[] = { 1, 2, LINNET_SIZE_MAX };
	struct linnet_source sources[LINNET_LAYERS_MAX + 1];

	for (uint32_t k = 0; k <= LINNET_LAYERS_MAX; k++)
		sources[k] = (struct linnet_source){ 1, 1, 2, zeros, zeros };
	check(planned(sources, 0) == LINNET_E_SHAPE, "no layers");
	check(planned(sources, LINNET_LAYERS_MAX + 1) == LINNET_E_SHAPE, "too many layers");
	for (uint32_t count = 1; count <= LINNET_LAYERS_MAX; count++) {
		struct linnet_source *last = &sources[count - 1];

		check(planned(sources, count) == 0, "a shape is refused");
		for (uint32_t i = 0; i < 3; i++) {
			sources[0].inputs = bad[i];
			check(planned(sources, count) == LINNET_E_SHAPE, "inputs out of range");
			sources[0].inputs = good[i];
			check(planned(sources, count) == 0, "inputs at an end of their range");
			sources[0].inputs = 1;
			last->outputs = bad[i];
			check(planned(sources, count) == LINNET_E_SHAPE, "outputs out of range");
			last->outputs = good[i];
			check(planned(sources, count) == 0, "outputs at an end of their range");
			last->outputs = 1;
		}
		for (uint32_t k = 0; k < count; k++) {
			for (uint32_t bytes = 0; bytes < 10; bytes++) {
				sources[k].weight_bytes = bytes;
				check(planned(sources, count) == (bytes == 2 || bytes == 4 || bytes == 8 ? 0 : LINNET_E_SHAPE),
				      "bytes of a weight");
			}
			sources[k].weight_bytes = 2;
			if (k) {
				sources[k].inputs = 2;
				check(planned(sources, count) == LINNET_E_SHAPE, "inputs that are not the outputs before");
				sources[k].inputs = 1;
			}
		}
	}
}

int main(void)
{
	static struct chain chain;

	shapes();
	no_network();
	for (; number_of_case < CASES; number_of_case++) {
		struct linnet_network network;
		void *memory;

		draw_chain(&chain);
		memory = network_of(&chain, &network);
		decides(&chain, &network);
		tables_of(&chain, &network);
		free(memory);
	}
	printf("%d networks are as proven: %u plain, %u by their first layer, %u pruned; %u and %u with packed sums\n", CASES,
	       reached[1], reached[2], reached[3], packed_16, packed_21);
	return 0;
}
