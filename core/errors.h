/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What functions of the core return when they fail. */
#ifndef LINNET_ERRORS_H
#define LINNET_ERRORS_H

enum linnet_error {
	LINNET_E_SHAPE = -1,    /* layer count, layer size or the link between two layers is out of bounds */
	LINNET_E_RANGE = -2,    /* the network's sums could leave 127 bits, or a number its range */
	LINNET_E_MEMORY = -3,   /* the caller's memory is too small or not aligned */
	LINNET_E_INPUT = -4,    /* an input exceeds the bound that the network was proven for */
	LINNET_E_TRUNCATED = -5, /* model file: ends early */
	LINNET_E_MAGIC = -6,    /* model file: not a model file */
	LINNET_E_VERSION = -7,  /* model file: unknown version */
	LINNET_E_LENGTH = -8,   /* model file: its size field is wrong */
	LINNET_E_CHECKSUM = -9, /* model file: damaged */
	LINNET_E_KIND = -10,    /* model file: unknown kind */
	LINNET_E_SCHEMA = -11,  /* model file: unknown features */
	LINNET_E_FIELD = -12,   /* model file: a number out of range */
};

#endif
