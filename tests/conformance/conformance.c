// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Checks the C core with spec/vectors (features.txt, inflight.txt, heimdall.txt, network.txt, choose.txt, decide.txt,
 * hedge.txt, readahead.txt, models, reject). core/Makefile builds it with the core's user-space flags and with the
 * kernel's flags.
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
#include "header.h"
#include "models.h"
#include "networks.h"
#include "trackers.h"
#include "windows.h"

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
	many_errors();
	many_in_flight();
	grown_wait();
	none_eligible();
	no_place_for_a_copy();
	decided_at_once();
	verdicts_at_limits();
	verdicts_by_page();
	bounds();
	settings_begin();
	settings_refused();
	printf("%u checks, %u failed\n", checked, failed);
	return failed || !checked;
}
