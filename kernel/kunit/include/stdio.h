/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The part of the C library that tests/conformance/conformance.c uses, so that the same checks run in the kernel. Files
 * are texts that are compiled in. Messages go to the kernel log.
 */
#ifndef LINNET_KUNIT_STDIO_H
#define LINNET_KUNIT_STDIO_H

#include <linux/kernel.h>
#include <linux/printk.h>

/* A text that was compiled in, and the read position. */
typedef struct linnet_golden {
	const char *path;
	char *text;
	size_t at;
} FILE;

/* The last entry has a NULL path. embed.py generates the array from spec/vectors. */
extern FILE linnet_goldens[];

#define stdin NULL
#define stderr NULL
#define fprintf(stream, ...) pr_err(__VA_ARGS__)
#define printf(...) pr_info(__VA_ARGS__)
#define perror(what) pr_err("%s: failed\n", what)

FILE *fopen(const char *path, const char *mode);
static inline int fclose(FILE *file) { return 0; }
char *fgets(char *line, int size, FILE *file);

#endif
