/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Checks of the library of knobs that run in user space and, unchanged, in the kernel: files of spec/vectors/knobs
 * (knob_files.c), and runs that both sides must end with the same bits (knob_runs.c). The files are compiled without
 * floats: a float is its bits, and FLOATS(...) surrounds each call of a unit that computes in floats.
 */
#ifndef LINNET_CHECK_KNOBS_H
#define LINNET_CHECK_KNOBS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The core's, not the header of this directory. */
#include <tune.h>

#ifdef __KERNEL__
#include <asm/fpu/api.h>
#define FLOATS(call)                \
	do {                        \
		kernel_fpu_begin(); \
		call;               \
		kernel_fpu_end();   \
	} while (0)
#else
#define FLOATS(call)  \
	do {          \
		call; \
	} while (0)
#endif

/* Checks one file, prints what does not hold, and returns how much that is. *checks is the number of checks. */
unsigned knob_file(const char *path, unsigned *checks);

/* Prints `knob-run NAME HASH` for each run. Returns the number of results that were wrong in themselves. */
unsigned knob_runs(void);

#endif
