/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LINNET_KUNIT_VECTORS_H
#define LINNET_KUNIT_VECTORS_H

#include <stdio.h>

/* Checks one golden file, by its path from spec/. Returns 0 if every vector holds; *count is the number of checks. */
unsigned int linnet_vectors_run(const char *golden, unsigned int *count);

/*
 * The canary: damages one vector of the first file with `name` in its path; a second call restores it. Returns the
 * path; NULL if none has.
 */
const char *linnet_vectors_spoil(const char *name);

#endif
