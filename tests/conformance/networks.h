/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: checks networks, and incremental networks of the same weights. */
#ifndef LINNET_NETWORKS_H
#define LINNET_NETWORKS_H

#include "incremental.h"

/* A loaded network with its memory, and the tables of its incremental network, made for the first features. */
struct ready {
	struct linnet_network network;
	void *memory, *scratch;
	linnet_int128 *logits;
	struct linnet_tables tables;
	void *tables_memory, *tables_scratch;
	uint32_t tried; /* features it was tried with */
};

/* Of a network with many vectors, the later ones are tried with fewer pending counts; these differ from vector to vector. */
#define TRIED_CLOSELY 50

static int get_ready(struct ready *ready, const struct linnet_source *layers, uint32_t count, uint32_t input_max)
{
	size_t size = linnet_network_work_size(layers, count);
	void *work = aligned(size);
	int error = linnet_network_plan(&ready->network, layers, count, input_max, work, size);

	free(work);
	if (error < 0)
		return error;
	ready->memory = aligned(ready->network.memory_size);
	ready->scratch = aligned(ready->network.scratch_size);
	ready->logits = aligned(sizeof(linnet_int128) * ready->network.outputs);
	return linnet_network_place(&ready->network, layers, ready->memory, ready->network.memory_size);
}

static void dismiss(struct ready *ready)
{
	free(ready->memory);
	free(ready->scratch);
	free(ready->logits);
	free(ready->tables_memory);
	free(ready->tables_scratch);
	memset(ready, 0, sizeof(*ready));
}

static uint32_t join(const uint8_t *digits, int count)
{
	uint32_t n = 0;

	for (int i = 0; i < count; i++)
		n = 10 * n + digits[i];
	return n;
}

/* Readers may still use the newest precomputed history while a completion is taken in: that writes the other alone. */
static void readers_keep_their_history(struct linnet_incremental *net, const struct linnet_tables *tables, uint32_t now)
{
	size_t size = (tables->incremental_size - sizeof(*net)) / 2;
	uint8_t *before = aligned(size);

	for (uint64_t k = 0; k < 2; k++) {
		const uint8_t *newest = (const uint8_t *)(net + 1) + (net->version & 1) * size;

		memcpy(before, newest, size);
		linnet_incremental_note_read(net, 0, 5000 * k, 10);
		linnet_incremental_catch_up(net, now);
		check(memcmp(before, newest, size) == 0, "a completion changed the history that readers use");
	}
	free(before);
}

static void tabulate(struct ready *ready)
{
	struct linnet_tables *tables = &ready->tables;

	check(linnet_tables_plan(tables, &ready->network, &linnet_prune_portable) == 0, "tables refused");
	ready->tables_memory = aligned(tables->memory_size + 1);
	ready->tables_scratch = aligned(tables->scratch_size + 1);
	check(linnet_tables_place(tables, ready->tables_memory, tables->memory_size) == 0, "tables refused");
}

/* Checks the incremental network with these digits: its score and decision, and those at larger pending counts. */
static void incremental(struct ready *ready, const uint8_t *inputs)
{
	const struct linnet_network *network = &ready->network;
	const struct linnet_tables *tables = &ready->tables;
	struct linnet_incremental *net, *heir;
	struct linnet_tracker tracker, given;
	uint8_t digits[LINNET_DIGITS];
	uint32_t now = join(inputs + 12, 3);
	void *scratch;
	int64_t score, expected;
	uint32_t step = ready->tried++ < TRIED_CLOSELY ? 7 : 61;

	if (network->inputs != LINNET_DIGITS || network->outputs != 2 || network->input_max != 9)
		return;
	if (!ready->tables_memory)
		tabulate(ready);
	scratch = ready->tables_scratch;
	net = aligned(tables->incremental_size);
	heir = aligned(tables->incremental_size);
	/* Memory has any content. */
	memset(net, 0xa5, tables->incremental_size);
	memset(heir, 0xa5, tables->incremental_size);
	check(linnet_incremental_init(net, tables->incremental_size - 1, tables, NULL) == LINNET_E_MEMORY, "small memory passed");
	check(linnet_incremental_init((void *)((char *)net + 1), tables->incremental_size, tables, NULL) == LINNET_E_MEMORY,
	      "memory at an odd address passed");
	check(linnet_incremental_init(net, tables->incremental_size, tables, NULL) == 0, "incremental network refused");
	for (int i = 0; i < LINNET_HISTORY; i++)
		linnet_incremental_note_read(net, 0, 1000 * (uint64_t)join(inputs + 15 + 4 * i, 4), join(inputs + 3 * i, 3));
	linnet_incremental_catch_up(net, now);
	/* Who takes the network's place gets its history. */
	linnet_incremental_tracker(net, &tracker);
	linnet_tracker_digits(&tracker, now, digits);
	check(memcmp(digits, inputs, sizeof(digits)) == 0, "history handed on");
	tracker.pending_pages = now;
	check(linnet_incremental_init(heir, tables->incremental_size, tables, &tracker) == 0, "incremental network refused");
	check(!linnet_incremental_behind(heir), "a new network is behind");
	linnet_incremental_tracker(heir, &given);
	check(memcmp(&given, &tracker, sizeof(given)) == 0, "history taken over");
	check(linnet_network_score(network, inputs, ready->scratch, &expected) == 0, "score refused");
	check(linnet_incremental_score(heir, now, scratch, &score) == 0 && score == expected, "score of who took over");
	check(linnet_incremental_decide(heir, now, scratch) == (expected > 0), "decision of who took over");
	/* Every change of the history is one to process, in whichever order they come. */
	linnet_incremental_adopt(heir, &tracker);
	check(linnet_incremental_behind(heir), "a history was handed on, and nothing is to process");
	linnet_incremental_note_read(heir, 0, 1000, 1);
	check(linnet_incremental_behind(heir), "a read was noted, and nothing is to process");
	linnet_incremental_catch_up(heir, now);
	check(!linnet_incremental_behind(heir), "all was processed, and more is to process");
	linnet_incremental_note_read(heir, 0, 1000, 1);
	check(linnet_incremental_behind(heir), "one read was noted, and nothing is to process");
	memcpy(digits, inputs, sizeof(digits));
	for (uint32_t pages = now; pages <= LINNET_PAGES_MAX; pages += step) {
		digits[12] = (uint8_t)(pages / 100);
		digits[13] = (uint8_t)(pages / 10 % 10);
		digits[14] = (uint8_t)(pages % 10);
		check(linnet_network_score(network, digits, ready->scratch, &expected) == 0, "score refused");
		check(linnet_incremental_score(net, pages, scratch, &score) == 0 && score == expected, "incremental network's score");
		check(linnet_incremental_decide(net, pages, scratch) == (expected > 0), "incremental network's decision");
		check(linnet_incremental_decide(net, pages, scratch) == (expected > 0), "incremental network's memory");
	}
	/* What it remembers of one history says nothing about the next. */
	for (int i = 0; i < LINNET_HISTORY; i++)
		linnet_incremental_note_read(net, 0, 9999000 * (uint64_t)(i % 2), 999);
	linnet_incremental_catch_up(net, now);
	linnet_incremental_tracker(net, &tracker);
	for (uint32_t pages = now; pages <= LINNET_PAGES_MAX; pages += step) {
		linnet_tracker_digits(&tracker, pages, digits);
		check(linnet_network_score(network, digits, ready->scratch, &expected) == 0, "score refused");
		check(linnet_incremental_decide(net, pages, scratch) == (expected > 0), "decision of the history before");
	}
	readers_keep_their_history(net, tables, now);
	free(heir);
	free(net);
}

static void decide(struct ready *ready, const uint8_t *inputs, char **logits, int verdict)
{
	const struct linnet_network *network = &ready->network;
	int64_t score = 0;

	check(linnet_network_logits(network, inputs, ready->scratch, ready->logits) == 0, "logits refused");
	for (uint32_t o = 0; o < network->outputs; o++)
		check(ready->logits[o] == number(logits[o]), "logit");
	/* A network that cannot score these features is useless. */
	if (linnet_network_score(network, inputs, ready->scratch, &score) < 0)
		check(verdict == LINNET_FORCED_SUBMIT, "score refused");
	else
		check((score > 0 ? LINNET_REVOKE : LINNET_SUBMIT) == verdict, "verdict");
	incremental(ready, inputs);
}

static void networks(char **words, size_t count)
{
	static struct linnet_source layers[LINNET_LAYERS_MAX];
	static uint32_t layer_count, input_max, width;
	static struct ready ready;

	if (strcmp(words[0], "network") == 0) {
		for (uint32_t k = 0; k < layer_count; k++) {
			free((void *)(uintptr_t)layers[k].weights);
			free((void *)(uintptr_t)layers[k].biases);
		}
		dismiss(&ready);
		layer_count = 0;
		input_max = (uint32_t)number(words[1]);
		width = (uint32_t)number(words[2]);
	} else if (strcmp(words[0], "layer") == 0) {
		layers[layer_count].inputs = (uint32_t)number(words[1]);
		layers[layer_count].outputs = (uint32_t)number(words[2]);
		layers[layer_count].weight_bytes = 8;
		layer_count++;
	} else if (strcmp(words[0], "vector") != 0) {
		uint8_t *bytes = malloc(8 * count);

		for (size_t i = 1; bytes && i < count; i++)
			for (int b = 0; b < 8; b++)
				bytes[8 * (i - 1) + b] = (uint8_t)((uint64_t)number(words[i]) >> 8 * b);
		if (words[0][0] == 'w')
			layers[layer_count - 1].weights = bytes;
		else
			layers[layer_count - 1].biases = bytes;
	} else {
		uint8_t inputs[LINNET_SIZE_MAX];

		if (!ready.memory && get_ready(&ready, layers, layer_count, input_max) < 0) {
			fail("network refused");
			return;
		}
		check(ready.network.width == width, "width");
		for (uint32_t i = 0; i < ready.network.inputs; i++)
			inputs[i] = (uint8_t)number(words[1 + i]);
		decide(&ready, inputs, words + 2 + ready.network.inputs, (int)number(words[count - 1]));
		inputs[0] = (uint8_t)(input_max + 1);
		if (input_max < 255)
			check(linnet_network_logits(&ready.network, inputs, ready.scratch, ready.logits) ==
			      LINNET_E_INPUT, "input above its bound");
	}
}

#define M INT64_MAX

/*
 * Bounds of sums at their edges. Each case is a chain of layers: their sizes, then the weights and the biases of each.
 * The width is the narrowest that holds every sum, or the network is refused: below 2^31, 2^63 and 2^126.
 */
static void bounds(void)
{
	static const struct {
		int width; /* or an error */
		uint32_t input_max, sizes[4];
		int64_t numbers[32];
	} cases[] = {
		/* The sum of one neuron. */
		{ LINNET_I16, 1, { 1, 1 }, { 1, INT32_MAX - 1 } },
		{ LINNET_I64, 1, { 1, 1 }, { 1, INT32_MAX } },
		{ LINNET_I16, 1, { 1, 1 }, { -1, 1 - INT32_MAX } },
		{ LINNET_I64, 1, { 1, 1 }, { -1, -INT32_MAX } },
		{ LINNET_I16, 1, { 2, 1 }, { 1, -1, INT32_MAX - 1 } },
		{ LINNET_I16, 1, { 1, 1 }, { INT16_MIN, 0 } },
		{ LINNET_I64, 1, { 1, 1 }, { INT16_MIN - 1, 0 } },
		{ LINNET_I16, 1, { 1, 1 }, { INT16_MAX, 0 } },
		{ LINNET_I64, 1, { 1, 1 }, { INT16_MAX + 1, 0 } },
		{ LINNET_I64, 1, { 1, 1 }, { M, 0 } },
		{ LINNET_I128, 1, { 1, 1 }, { M, 1 } },
		{ LINNET_I128, 1, { 1, 1 }, { INT64_MIN, 0 } },
		/* The widest neuron of a layer counts, whichever it is. */
		{ LINNET_I128, 1, { 1, 2 }, { M, 1, 1, 0 } },
		{ LINNET_I128, 1, { 1, 2 }, { 1, M, 0, 1 } },
		/* What a neuron gives to the next layer: its positive part with its bias. */
		{ LINNET_I16, 1, { 1, 1, 1 }, { 1, 2, 100, INT32_MAX - 300 } },
		{ LINNET_I64, 1, { 1, 1, 1 }, { 1, 2, 100, INT32_MAX - 299 } },
		{ LINNET_I16, 9, { 1, 1, 1 }, { 1, -5, 100, INT32_MAX - 400 } },
		{ LINNET_I64, 9, { 1, 1, 1 }, { 1, -5, 100, INT32_MAX - 399 } },
		{ LINNET_I16, 1, { 1, 1, 1 }, { 1, -5, 100, INT32_MAX } },
		/* Products of 2^126 - 1 and 2^126; 9 (2^63 - 1) has more than 64 bits. */
		{ LINNET_I128, 1, { 1, 1, 1 }, { M, 2, M, 0 } },
		{ LINNET_E_RANGE, 1, { 1, 1, 1 }, { M, 2, M, 1 } },
		{ LINNET_E_RANGE, 1, { 1, 1, 1 }, { M, 2, -M, -1 } },
		{ LINNET_E_RANGE, 1, { 1, 1, 1 }, { M, 1, INT64_MIN, 0 } },
		{ LINNET_I128, 9, { 1, 1, 1, 1 }, { M, 0, (int64_t)1 << 58, 0, 3, 0 } },
		{ LINNET_E_RANGE, 9, { 1, 1, 1, 1 }, { M, 0, (int64_t)1 << 58, 0, 4, 0 } },
		{ LINNET_E_RANGE, 9, { 1, 1, 1 }, { M, 0, (int64_t)1 << 60, 0 } },
		/* A sum of products, of which any two are too many, and five come to 2^128 and a little. */
		{ LINNET_E_RANGE, 1, { 1, 2, 1 }, { M, 1, 2, 0, M, M, 0 } },
		{ LINNET_E_RANGE, 1, { 1, 5, 1 }, { M, M, M, M, 1, 2, 2, 2, 2, 0, M, M, M, M, 10, 0 } },
	};
	static uint8_t bytes[256];

	for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); c++) {
		struct linnet_source layers[3] = { { 0 } };
		struct ready ready = { .memory = NULL };
		uint32_t count = 0;
		uint8_t *at = bytes;
		int found;

		for (size_t n = 0; n < sizeof(cases[c].numbers) / 8; n++)
			for (int b = 0; b < 8; b++)
				bytes[8 * n + (size_t)b] = (uint8_t)((uint64_t)cases[c].numbers[n] >> 8 * b);
		for (; count < 3 && cases[c].sizes[count + 1]; count++) {
			struct linnet_source *layer = &layers[count];

			layer->inputs = cases[c].sizes[count];
			layer->outputs = cases[c].sizes[count + 1];
			layer->weight_bytes = 8;
			layer->weights = at;
			layer->biases = at += 8 * (size_t)layer->inputs * layer->outputs;
			at += 8 * (size_t)layer->outputs;
		}
		found = get_ready(&ready, layers, count, cases[c].input_max);
		if (found == 0)
			found = ready.network.width;
		line_number = (unsigned)c;
		check(found == cases[c].width, "bounds of a network, by number of the case");
		dismiss(&ready);
	}
}

#undef M

/*
 * A hidden unit that is exactly 1 counts, and one that is -1 does not, in sums of every width: the other unit of the
 * layer is large enough to need it, and has no weight behind.
 */
static void smallest_activation(void)
{
	static const int64_t large[] = { 1, (int64_t)1 << 40, (int64_t)1 << 62 };

	for (size_t w = 0; w < sizeof(large) / sizeof(*large); w++) {
		for (int64_t sign = -1; sign <= 1; sign += 2) {
			const int64_t weights[2][2] = { { sign, large[w] }, { 3, 0 } }, biases[2][2] = { { 0, 0 }, { 5, 0 } };
			uint8_t bytes[4][16], input = 1;
			struct linnet_source layers[2] = {
				{ .inputs = 1, .outputs = 2, .weight_bytes = 8, .weights = bytes[0], .biases = bytes[1] },
				{ .inputs = 2, .outputs = 1, .weight_bytes = 8, .weights = bytes[2], .biases = bytes[3] },
			};
			struct ready ready = { .memory = NULL };

			for (int i = 0; i < 4; i++)
				for (int n = 0; n < 16; n++)
					bytes[i][n] = (uint8_t)((uint64_t)(i % 2 ? biases : weights)[i / 2][n / 8] >> 8 * (n % 8));
			if (get_ready(&ready, layers, 2, 9) < 0) {
				fail("network refused");
				continue;
			}
			check(linnet_network_logits(&ready.network, &input, ready.scratch, ready.logits) == 0, "logits refused");
			check(ready.logits[0] == (sign > 0 ? 8 : 5), "a hidden unit of 1");
			dismiss(&ready);
		}
	}
}

#endif
