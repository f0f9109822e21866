/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How the blocks of a model file are read: two functions of each part, which its unit defines and model.c calls. Not
 * part of the public interface.
 */
#ifndef LINNET_BLOCKS_H
#define LINNET_BLOCKS_H

#include "envelope.h"
#include "linnet.h"

/*
 * linnet_name_check_block checks the block at `at`, all of whose bytes exist, in the order of spec/model-file.md; a
 * part that passes also passes linnet_name_check. linnet_name_read_block copies a block that has passed.
 */
#define LINNET_BLOCK(NAME, name, bit, bytes, count)                                       \
	int linnet_##name##_check_block(const uint8_t *file, size_t at, size_t *offset);  \
	void linnet_##name##_read_block(struct linnet_##name *part, const uint8_t *block); \
	enum { LINNET_##NAME##_BLOCK = bytes };
LINNET_PARTS(LINNET_BLOCK)
#undef LINNET_BLOCK

#endif
