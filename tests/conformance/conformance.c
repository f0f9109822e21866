// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks the C core with spec/vectors (features.txt, inflight.txt, heimdall.txt, network.txt, choose.txt, decide.txt, hedge.txt,
 * readahead.txt, models, reject). core/Makefile builds it with the core's user-space flags and with the kernel's flags.
 *
 *   conformance FILE...          exits 0 if every vector holds; else 1, and prints the file and line of the vector
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "linnet.h"

#define WORDS 8192

static const char *path;
static unsigned line_number, checked, failed;

static void fail(const char *what)
{
	fprintf(stderr, "%s:%u: %s\n", path, line_number, what);
	failed++;
}

static void check(int holds, const char *what)
{
	checked++;
	if (!holds)
		fail(what);
}

static void *aligned(size_t size)
{
	void *memory = aligned_alloc(LINNET_ALIGN, (size + LINNET_ALIGN - 1) / LINNET_ALIGN * LINNET_ALIGN);

	if (!memory) {
		perror("conformance");
		exit(1);
	}
	return memory;
}

static linnet_int128 number(const char *text)
{
	int negative = *text == '-';
	linnet_uint128 bits = 0;

	for (text += negative; *text; text++) {
		const char *digits = "0123456789abcdef", *at = strchr(digits, *text);

		if (!at)
			fail("not a hex digit");
		else
			bits = bits << 4 | (linnet_uint128)(at - digits);
	}
	return negative ? -(linnet_int128)bits : (linnet_int128)bits;
}

#include "choices.h"
#include "windows.h"

/* ---- features ---- */

static void features(char **words, size_t count)
{
	static struct linnet_tracker tracker;
	uint64_t n[4] = { 0 };
	const char *event = words[0];

	for (size_t i = 1; i < count && i < 4 && !(strcmp(event, "digits") == 0 && i == 2); i++)
		n[i] = (uint64_t)number(words[i]);
	if (strcmp(event, "start") == 0) {
		linnet_tracker_init(&tracker);
	} else if (strcmp(event, "arrive") == 0) {
		check(linnet_tracker_arrive(&tracker, (uint32_t)n[1]) == n[2], "snapshot");
	} else if (strcmp(event, "read") == 0) {
		linnet_tracker_complete_read(&tracker, (uint32_t)n[1], n[2], (uint32_t)n[3]);
	} else if (strcmp(event, "write") == 0) {
		linnet_tracker_complete_write(&tracker, (uint32_t)n[1]);
	} else if (strcmp(event, "withdraw") == 0) {
		linnet_tracker_withdraw(&tracker, (uint32_t)n[1]);
	} else {
		uint8_t digits[LINNET_DIGITS];
		char text[LINNET_DIGITS + 1] = "";

		linnet_tracker_digits(&tracker, (uint32_t)n[1], digits);
		for (int i = 0; i < LINNET_DIGITS; i++)
			text[i] = (char)('0' + digits[i]);
		check(count == 3 && strcmp(text, words[2]) == 0, "digits");
	}
}

/* ---- features from I/Os in flight ---- */

#define INFLIGHT_IOS 256 /* I/Os of one case, indexed by number */

static void inflight(char **words, size_t count)
{
	static struct linnet_inflight_io ios[INFLIGHT_IOS];
	static struct linnet_inflight inflight;
	uint64_t n[3 + LINNET_INFLIGHT_FEATURES] = { 0 };
	const char *event = words[0];
	uint32_t io;

	for (size_t i = 0; i + 1 < count && i < 3 + LINNET_INFLIGHT_FEATURES; i++)
		n[i] = (uint64_t)number(words[1 + i]);
	io = (uint32_t)n[0] % INFLIGHT_IOS;
	if (strcmp(event, "start") == 0) {
		linnet_inflight_init(&inflight, n[0]);
	} else if (strcmp(event, "arrive") == 0) {
		linnet_inflight_arrive(&inflight, ios, io, n[1], n[2] == 0, n[3], (uint32_t)n[4]);
	} else if (strcmp(event, "complete") == 0) {
		linnet_inflight_complete(&inflight, ios, io, n[1]);
	} else if (strcmp(event, "withdraw") == 0) {
		linnet_inflight_withdraw(&inflight, ios, io);
	} else if (strcmp(event, "label") == 0) {
		check((uint64_t)linnet_is_slow(n[0], n[1]) == n[2], "slow");
	} else {
		uint32_t schema = strcmp(event, "describe2") == 0 ? LINNET_SCHEMA_LINNET2 : LINNET_SCHEMA_LINNET1;
		uint8_t features[LINNET_INFLIGHT_FEATURES];

		linnet_inflight_describe(&inflight, ios, schema, n[0], n[1], (uint32_t)n[2], features);
		for (size_t i = 0; i < LINNET_INFLIGHT_FEATURES; i++)
			check(features[i] == n[3 + i], "feature");
	}
}

/* ---- features of Heimdall ---- */

static void heimdall(char **words, size_t count)
{
	static struct linnet_heimdall tracker;
	static struct linnet_heimdall_scale scale;
	uint32_t n[2 * LINNET_HEIMDALL_FEATURES] = { 0 }, features[LINNET_HEIMDALL_FEATURES];
	uint8_t inputs[LINNET_HEIMDALL_INPUTS];
	const char *event = words[0];
	size_t given = count - 1 < 2 * LINNET_HEIMDALL_FEATURES ? count - 1 : 2 * LINNET_HEIMDALL_FEATURES;

	for (size_t i = 0; i < given; i++)
		n[i] = (uint32_t)number(words[1 + i]);
	if (strcmp(event, "start") == 0) {
		linnet_heimdall_init(&tracker);
	} else if (strcmp(event, "arrive") == 0) {
		check(linnet_heimdall_arrive(&tracker) == n[0], "snapshot");
	} else if (strcmp(event, "leave") == 0) {
		linnet_heimdall_leave(&tracker);
	} else if (strcmp(event, "read") == 0) {
		linnet_heimdall_complete_read(&tracker, n[0], (uint64_t)number(words[2]), n[2]);
	} else if (strcmp(event, "features") == 0) {
		linnet_heimdall_features(&tracker, n[0], n[1], features);
		check(memcmp(features, n + 2, sizeof(features)) == 0, "features");
	} else if (strcmp(event, "scale") == 0) {
		check(linnet_heimdall_scale_set(&scale, n, n + LINNET_HEIMDALL_FEATURES) == 0, "scale refused");
	} else {
		linnet_heimdall_inputs(&scale, n, inputs);
		for (size_t i = 0; i < LINNET_HEIMDALL_INPUTS; i++)
			check(inputs[i] == number(words[1 + LINNET_HEIMDALL_FEATURES + i]), "input");
	}
}

/* ---- networks ---- */

/* A loaded network with its memory. */
struct ready {
	struct linnet_network network;
	void *memory, *scratch;
	linnet_int128 *logits;
};

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
	memset(ready, 0, sizeof(*ready));
}

static uint32_t join(const uint8_t *digits, int count)
{
	uint32_t n = 0;

	for (int i = 0; i < count; i++)
		n = 10 * n + digits[i];
	return n;
}

/* Checks the incremental network with these digits: its score and decision, and those at larger pending counts. */
static void incremental(const struct ready *ready, const uint8_t *inputs)
{
	const struct linnet_network *network = &ready->network;
	struct linnet_tables tables;
	struct linnet_incremental *net;
	struct linnet_tracker tracker;
	uint8_t digits[LINNET_DIGITS];
	uint32_t now = join(inputs + 12, 3);
	void *memory, *scratch;
	int64_t score, expected;

	if (network->inputs != LINNET_DIGITS || network->outputs != 2 || network->input_max != 9)
		return;
	check(linnet_tables_plan(&tables, network, &linnet_prune_portable) == 0, "tables refused");
	memory = aligned(tables.memory_size + 1);
	scratch = aligned(tables.scratch_size + 1);
	net = aligned(tables.incremental_size);
	check(linnet_tables_place(&tables, memory, tables.memory_size) == 0, "tables refused");
	check(linnet_incremental_init(net, tables.incremental_size - 1, &tables, NULL) == LINNET_E_MEMORY, "small memory passed");
	check(linnet_incremental_init(net, tables.incremental_size, &tables, NULL) == 0, "incremental network refused");
	for (int i = 0; i < LINNET_HISTORY; i++)
		linnet_incremental_note_read(net, 0, 1000 * (uint64_t)join(inputs + 15 + 4 * i, 4), join(inputs + 3 * i, 3));
	linnet_incremental_catch_up(net, now);
	/* Who takes the network's place gets its history. */
	linnet_incremental_tracker(net, &tracker);
	linnet_tracker_digits(&tracker, now, digits);
	check(memcmp(digits, inputs, sizeof(digits)) == 0, "history handed on");
	memcpy(digits, inputs, sizeof(digits));
	for (uint32_t pages = now; pages <= LINNET_PAGES_MAX; pages += 7) {
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
	for (uint32_t pages = now; pages <= LINNET_PAGES_MAX; pages += 7) {
		linnet_tracker_digits(&tracker, pages, digits);
		check(linnet_network_score(network, digits, ready->scratch, &expected) == 0, "score refused");
		check(linnet_incremental_decide(net, pages, scratch) == (expected > 0), "decision of the history before");
	}
	free(memory);
	free(scratch);
	free(net);
}

static void decide(const struct ready *ready, const uint8_t *inputs, char **logits, int verdict)
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

/* ---- model files ---- */

static uint8_t *file;
static size_t file_size;

static int add_bytes(char **words, size_t count)
{
	if (count != 1)
		return 0;
	file = realloc(file, file_size + strlen(words[0]) / 2 + 1);
	for (const char *text = words[0]; text[0] && text[1]; text += 2) {
		char pair[3] = { text[0], text[1], 0 };

		file[file_size++] = (uint8_t)number(pair);
	}
	return 1;
}

/* score F... = SCORE [NS...]: the score of the file's trees for these features, and the latencies that they predict. */
static void score(const struct linnet_model *model, char **words, size_t count)
{
	uint8_t features[LINNET_INFLIGHT_FEATURES];
	int told = model->parts & LINNET_PART_LATENCIES ? LINNET_LATENCIES : 0;

	check(linnet_trees_check(&model->trees) == 0, "trees refused");
	for (int i = 0; i < LINNET_INFLIGHT_FEATURES; i++)
		features[i] = (uint8_t)number(words[1 + i]);
	check(linnet_trees_score(&model->trees, features) == (int32_t)number(words[2 + LINNET_INFLIGHT_FEATURES]),
	      "score of trees");
	check(count == 3 + LINNET_INFLIGHT_FEATURES + (size_t)told, "numbers of a score");
	if (!told)
		return;
	check(linnet_latencies_check(&model->latencies) == 0, "latencies refused");
	for (int k = 0; k < told; k++)
		check(linnet_latencies_predict(&model->latencies, linnet_trees_score(&model->trees, features),
					       features)[k] == number(words[3 + LINNET_INFLIGHT_FEATURES + k]),
		      "latency");
}

static void models(char **words, size_t count)
{
	static struct linnet_model model;
	struct ready ready = { .memory = NULL };
	uint8_t inputs[LINNET_DIGITS];
	size_t offset = SIZE_MAX;

	if (add_bytes(words, count))
		return;
	check(linnet_model_read(file, file_size, &model, &offset) == 0, "model refused");
	check(offset == SIZE_MAX, "offset written without an error");
	if (strcmp(words[0], "score") == 0) {
		check(model.parts & LINNET_PART_TREES, "trees missing");
		score(&model, words, count);
		return;
	}
	check(model.parts & LINNET_PART_NETWORK, "network missing");
	if (get_ready(&ready, model.layers, model.layer_count, model.input_max) < 0) {
		fail("network refused");
		return;
	}
	for (int i = 0; i < LINNET_DIGITS; i++)
		inputs[i] = (uint8_t)(words[1][i] - '0');
	decide(&ready, inputs, words + 3, (int)number(words[5]));
	dismiss(&ready);
}

static const char *name_of(int error)
{
	static const char *const names[] = { "none", "shape", "range", "memory", "input", "truncated", "magic",
					     "version", "length", "checksum", "kind", "schema", "field" };

	return names[-error];
}

static char expected[32];
static size_t expected_offset;

static void rejects(char **words, size_t count)
{
	if (add_bytes(words, count))
		return;
	snprintf(expected, sizeof(expected), "%s", words[1]);
	expected_offset = (size_t)number(words[2]);
}

static void finish_reject(void)
{
	static struct linnet_model model, before;
	size_t offset = SIZE_MAX;
	/* A copy of exactly this size, so that a memory checker finds a read beyond it. */
	uint8_t *exact = malloc(file_size ? file_size : 1);
	int error;

	memset(&model, 0x5a, sizeof(model));
	memcpy(&before, &model, sizeof(model));
	if (exact && file_size)
		memcpy(exact, file, file_size);
	error = linnet_model_read(exact, file_size, &model, &offset);
	check(strcmp(name_of(error), expected) == 0, "error");
	check(offset == expected_offset, "offset of the error");
	check(memcmp(&before, &model, sizeof(model)) == 0, "output touched");
	free(exact);
}

#include "header.h"

/* Checks that every truncation and every flipped bit of a good file is refused. */
static void damage_model(void)
{
	static struct linnet_model model;
	size_t offset;

	read_again(file, file_size);
	one_field(file, file_size);
	for (size_t size = 0; size < file_size; size++)
		check(linnet_model_read(file, size, &model, &offset) == LINNET_E_TRUNCATED, "truncation passed");
	for (size_t bit = 0; bit < 8 * file_size; bit++) {
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		check(linnet_model_read(file, file_size, &model, &offset) < 0, "flipped bit passed");
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

int main(int argc, char **argv)
{
	static char line[1 << 20];
	static char *words[WORDS];

	for (int f = 1; f < argc; f++) {
		void (*read)(char **, size_t) = networks;
		FILE *in;

		path = argv[f];
		line_number = 0;
		file_size = 0;
		if (strstr(path, "reject/"))
			read = rejects;
		else if (strstr(path, "models/"))
			read = models;
		else if (strstr(path, "readahead"))
			read = windows;
		else if (strstr(path, "features"))
			read = features;
		else if (strstr(path, "inflight"))
			read = inflight;
		else if (strstr(path, "heimdall"))
			read = heimdall;
		else if (strstr(path, "choose"))
			read = choices;
		else if (strstr(path, "decide"))
			read = decisions;
		else if (strstr(path, "hedge"))
			read = hedges;
		in = strcmp(path, "-") == 0 ? stdin : fopen(path, "r");
		if (!in) {
			perror(path);
			return 1;
		}
		while (fgets(line, sizeof(line), in)) {
			size_t count = 0;

			line_number++;
			for (char *word = strtok(line, " \n"); word && count < WORDS; word = strtok(NULL, " \n"))
				words[count++] = word;
			if (count > 0 && count < WORDS && words[0][0] != '#')
				read(words, count);
			else if (count == WORDS)
				fail("line too long");
		}
		fclose(in);
		if (read == rejects)
			finish_reject();
		if (read == models)
			damage_model();
	}
	free(file);
	smallest_activation();
	settings_refused();
	printf("%u checks, %u failed\n", checked, failed);
	return failed || !checked;
}
