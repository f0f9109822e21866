/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by the readers of the kinds of model files. Not part of the public interface. */
#ifndef LINNET_ENVELOPE_H
#define LINNET_ENVELOPE_H

#include "port.h"

/* A little-endian number of `width` bytes. */
static inline uint64_t get(const uint8_t *p, uint32_t width)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < width; i++)
		bits |= (uint64_t)p[i] << (8 * i);
	return bits;
}

static inline int refuse(size_t *offset, size_t at, int error)
{
	*offset = at;
	return error;
}

/* Checks the file as a whole: its magic number, version, size and checksum. */
int linnet_model_envelope(const uint8_t *bytes, size_t size, size_t *offset);

#endif
