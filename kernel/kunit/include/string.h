/* SPDX-License-Identifier: GPL-2.0-only */
/* Strings for tests/conformance/conformance.c; see stdio.h. */
#ifndef LINNET_KUNIT_STRING_H
#define LINNET_KUNIT_STRING_H

#include <linux/string.h>

char *strtok(char *text, const char *delimiters);

#endif
