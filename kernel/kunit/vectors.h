/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef LINNET_KUNIT_VECTORS_H
#define LINNET_KUNIT_VECTORS_H

#include <stdio.h>

/* Checks one golden file, by its path from spec/. 0 when every vector in it holds; *count is how many checks ran. */
unsigned int linnet_vectors_run(const char *golden, unsigned int *count);

/* The canary: one vector no longer holds; after a second call it does again. Returns the path of its file. */
const char *linnet_vectors_spoil(void);

#endif
