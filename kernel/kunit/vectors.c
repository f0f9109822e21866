// SPDX-License-Identifier: GPL-2.0-only
/*
 * Checks the core, as this kernel compiled it, with the golden vectors of spec/vectors. The checks are those of user
 * space, the whole files conformance.c and knob_files.c of tests/conformance; include/ has what they need of a C
 * library.
 */
int linnet_conformance(int argc, char **argv);
#define main linnet_conformance
#include "conformance.c"
#undef main

#include "knobs.h"
#include "vectors.h"

FILE *fopen(const char *path_asked, const char *mode)
{
	for (FILE *golden = linnet_goldens; golden->path; golden++)
		if (!strcmp(golden->path, path_asked)) {
			golden->at = 0;
			return golden;
		}
	return NULL;
}

char *fgets(char *line, int size, FILE *golden)
{
	const char *from = golden->text + golden->at;
	int n = 0;

	while (from[n] && n + 1 < size && (n == 0 || from[n - 1] != '\n')) {
		line[n] = from[n];
		n++;
	}
	line[n] = 0;
	golden->at += n;
	return n ? line : NULL;
}

char *strtok(char *text, const char *delimiters)
{
	static char *left;
	char *word;

	if (text)
		left = text;
	do
		word = strsep(&left, delimiters);
	while (word && !*word);
	return word;
}

unsigned int linnet_vectors_run(const char *golden, unsigned int *count)
{
	char *argv[] = { "vectors", (char *)golden };
	unsigned int wrong;

	if (strstr(golden, "/knobs/"))
		return knob_file(golden, count);
	checked = failed = 0;
	wrong = linnet_conformance(2, argv);
	file = NULL; /* linnet_conformance freed it; as a program it would end there */
	*count = checked;
	return wrong;
}

const char *linnet_vectors_spoil(const char *name)
{
	FILE *golden = linnet_goldens;

	while (golden->path && !strstr(golden->path, name))
		golden++;
	if (!golden->path)
		return NULL;
	/* The last character before its newline is a digit of an expected value. */
	golden->text[strlen(golden->text) - 2] ^= 1;
	return golden->path;
}
