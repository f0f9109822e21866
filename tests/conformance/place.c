// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks forests: golden model files and their predictions, and refused files; spec/vectors/place. Prints a hash of all
 * predictions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"
#include "refusals.h"
#include "tune.h"

#define LINE 65536
#define ROWS 64
#define SCRATCH_GUARD 0x5a5a5a5a /* no key of a golden row */

static uint8_t bytes[1 << 16];
static size_t size;
static uint64_t digest = HASH_START;
static char line[LINE];

static void hex(void)
{
	for (const char *at = line; at[0] != '\n' && at[0] != 0; at += 2) {
		char digits[3] = { at[0], at[1], 0 };

		CHECK(size < sizeof(bytes));
		bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
	}
}

/* Rows of a file and what they predict. */
static struct {
	float *rows;
	double *expected;
	uint32_t count;
} cases;

static void keep(const struct linnet_forest_file *file)
{
	char *at = line + 7;

	CHECK(cases.count < ROWS);
	for (uint32_t i = 0; i < file->inputs; i++) {
		uint32_t word = (uint32_t)strtoul(at, &at, 16);

		memcpy(&cases.rows[cases.count * file->inputs + i], &word, 4);
	}
	at = strchr(at, '=') + 1;
	for (uint32_t o = 0; o < file->outputs; o++) {
		uint64_t word = strtoull(at, &at, 16);

		memcpy(&cases.expected[cases.count * file->outputs + o], &word, 8);
	}
	cases.count++;
}

/* Predicts in batches of every size up to all rows: each must give the same bits. */
static void check_predictions(const struct linnet_forest_file *file)
{
	struct linnet_forest_cell *cells = aligned_alloc(64, file->cell_count * sizeof(*cells));
	uint32_t *roots = room(file->tree_count * sizeof(*roots));
	double *values = room(file->value_count * sizeof(*values)), *out = room(ROWS * 64 * sizeof(*out));
	struct linnet_forest forest;
	uint32_t scratch_size;
	int32_t *scratch;

	CHECK(cells);
	linnet_forest_load(file, roots, cells, values, &forest);
	scratch_size = linnet_forest_scratch(&forest);
	scratch = room((scratch_size + 1) * sizeof(*scratch));
	scratch[scratch_size - 1] = scratch[scratch_size] = SCRATCH_GUARD;
	for (uint32_t batch = 1; batch <= cases.count; batch++) {
		for (uint32_t row = 0; row + batch <= cases.count; row += batch) {
			size_t outputs = (size_t)batch * file->outputs;

			CHECK(linnet_forest_predict(&forest, cases.rows + (size_t)row * file->inputs, batch, scratch, out) == 0);
			CHECK(memcmp(out, cases.expected + (size_t)row * file->outputs, outputs * sizeof(*out)) == 0);
			digest = hash_of(out, outputs * sizeof(*out), digest);
		}
	}
	/* A block of rows takes all of it, and no more. */
	CHECK(scratch[scratch_size - 1] != SCRATCH_GUARD && scratch[scratch_size] == SCRATCH_GUARD);
	for (uint32_t word = 0x7f800000; word <= 0x7fc00000; word += 0x400000) {
		memcpy(&cases.rows[file->inputs - 1], &word, 4);
		CHECK(linnet_forest_predict(&forest, cases.rows, 1, scratch, out) == LINNET_E_INPUT);
	}
	free(scratch);
	free(out);
	free(values);
	free(roots);
	free(cells);
}

/* Reads from memory of exactly its size, so that a sanitizer sees a read beyond it. */
static uint8_t *copy_of_bytes(void)
{
	uint8_t *copy = room(size);

	memcpy(copy, bytes, size);
	return copy;
}

static void check_refusal(const char *name, unsigned long where)
{
	struct linnet_forest_file file;
	uint8_t *copy = copy_of_bytes();
	int expected = refusal(name), error;
	size_t offset = 0;

	memset(&file, 0x5a, sizeof(file));
	error = linnet_forest_read(copy, size, &file, &offset);
	if (error != expected || offset != where)
		fprintf(stderr, "expected %s (%d) at %lx, found %d at %zx\n", name, expected, where, error, offset);
	CHECK(expected != 0 && error == expected && offset == where);
	for (size_t i = 0; i < sizeof(file); i++)
		CHECK(((const uint8_t *)&file)[i] == 0x5a);
	free(copy);
}

static int check(const char *path)
{
	FILE *text = fopen(path, "r");
	struct linnet_forest_file file = { 0 };
	char name[32] = "";
	unsigned long where = 0;
	uint8_t *copy = NULL;
	size_t offset;

	CHECK(text);
	size = 0;
	cases.count = 0;
	while (fgets(line, sizeof(line), text)) {
		if (line[0] == '#')
			continue;
		if (strncmp(line, "error ", 6) == 0) {
			CHECK(sscanf(line, "error %31s %lx", name, &where) == 2);
		} else if (strncmp(line, "forest ", 7) == 0) {
			if (!copy) {
				copy = copy_of_bytes();
				CHECK(linnet_forest_read(copy, size, &file, &offset) == 0);
				cases.rows = room(ROWS * file.inputs * sizeof(float));
				cases.expected = room(ROWS * file.outputs * sizeof(double));
			}
			keep(&file);
		} else {
			hex();
		}
	}
	fclose(text);
	if (name[0]) {
		check_refusal(name, where);
		return 1;
	}
	CHECK(copy);
	check_predictions(&file);
	free(cases.rows);
	free(cases.expected);
	free(copy);
	return (int)cases.count;
}

int main(int argc, char **argv)
{
	int cases_checked = 0;

	for (int i = 1; i < argc; i++)
		cases_checked += check(argv[i]);
	CHECK(cases_checked > 100);
	printf("%d cases of %d files, predictions %016llx\n", cases_checked, argc - 1, (unsigned long long)digest);
	return 0;
}
