/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Shared by the readers of the kinds of model files. Not part of the public interface. */
#ifndef LINNET_ENVELOPE_H
#define LINNET_ENVELOPE_H

#include "port.h"

/* Little-endian numbers. */
static inline uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t get32(const uint8_t *p)
{
	return get16(p) | (uint32_t)get16(p + 2) << 16;
}

static inline uint64_t get64(const uint8_t *p)
{
	return get32(p) | (uint64_t)get32(p + 4) << 32;
}

static inline int refuse(size_t *offset, size_t at, int error)
{
	*offset = at;
	return error;
}

/* Checks the file as a whole: its magic number, version, size and checksum. */
int linnet_model_envelope(const uint8_t *bytes, size_t size, size_t *offset);

#endif
