/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Part of conformance.c: checks model files, good and refused. */
#ifndef LINNET_MODELS_H
#define LINNET_MODELS_H

#include "networks.h"

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

/* score F... = SCORE [N...]: the score of the file's trees for these features, and the numbers of each prediction. */
static void score(const struct linnet_model *model, char **words, size_t count)
{
	uint8_t features[LINNET_INFLIGHT_FEATURES];
	size_t at = 1;
	int32_t score;

	check(linnet_trees_check(&model->trees) == 0, "trees refused");
	for (int i = 0; i < LINNET_INFLIGHT_FEATURES; i++)
		features[i] = (uint8_t)number(words[at++]);
	score = linnet_trees_score(&model->trees, features);
	check(score == (int32_t)number(words[++at]), "score of trees");
	at++;
#define PREDICTS(NAME, name, bit, bytes, numbers)                                                            \
	if (model->parts & LINNET_PART_##NAME) {                                                              \
		check(linnet_##name##_check(&model->name) == 0, #name " refused");                            \
		for (size_t k = 0; k < (numbers) && at < count; k++)                                          \
			check(linnet_##name##_predict(&model->name, score, features)[k] == number(words[at++]), #name); \
	}
	LINNET_PREDICTIONS(PREDICTS)
#undef PREDICTS
	check(at == count, "numbers of a score");
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

/*
 * One build flips every bit, the one with sanitizers; the others flip one in nine, which come to each bit of a byte. The
 * test of linnet-core flips every bit for the build with user space's flags.
 */
#ifdef __SANITIZE_ADDRESS__
#define BITS_APART 1
#else
#define BITS_APART 9
#endif

/* Checks that every truncation and every flipped bit of a good file is refused. */
static void damage_model(void)
{
	static struct linnet_model model;
	size_t offset;

	read_again(file, file_size);
	one_field(file, file_size);
	for (size_t size = 0; size < file_size; size++)
		check(linnet_model_read(file, size, &model, &offset) == LINNET_E_TRUNCATED, "truncation passed");
	for (size_t bit = 0; bit < 8 * file_size; bit += BITS_APART) {
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
		check(linnet_model_read(file, file_size, &model, &offset) < 0, "flipped bit passed");
		file[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

#undef BITS_APART

#endif
