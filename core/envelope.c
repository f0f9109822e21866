/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What every kind of model file has in common: magic number, version, size and checksum. The input is not trusted.
 */
#include "envelope.h"
#include "linnet.h"

#define SHORT_BYTES 24  /* magic to layer_count */
#define LEAST_BYTES 124 /* the header of 96 bytes, an entry of the layer table and the checksum */

static const uint8_t magic[8] = { 0x89, 0x4c, 0x4e, 0x54, 0x0d, 0x0a, 0x1a, 0x0a };

uint32_t linnet_crc32c(const uint8_t *bytes, size_t size)
{
	/* Remainders of the sixteen values of four bits: a byte takes two look-ups. */
	static const uint32_t step[16] = {
		0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
		0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
	};
	uint32_t crc = UINT32_MAX;

	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		crc = crc >> 4 ^ step[crc & 15];
		crc = crc >> 4 ^ step[crc & 15];
	}
	return ~crc;
}

int linnet_model_envelope(const uint8_t *bytes, size_t size, size_t *offset)
{
	size_t whole;

	for (size_t i = 0; i < sizeof(magic) && size >= sizeof(magic); i++)
		if (bytes[i] != magic[i])
			return refuse(offset, i, LINNET_E_MAGIC);
	if (size < SHORT_BYTES)
		return refuse(offset, size, LINNET_E_TRUNCATED);
	if (get16(bytes + 8) < 1 || get16(bytes + 8) > LINNET_MODEL_VERSION)
		return refuse(offset, 8, LINNET_E_VERSION);
	whole = get32(bytes + 16);
	if (size < whole)
		return refuse(offset, size, LINNET_E_TRUNCATED);
	if (size > whole || whole < LEAST_BYTES)
		return refuse(offset, 16, LINNET_E_LENGTH);
	if (get32(bytes + size - 4) != linnet_crc32c(bytes, size - 4))
		return refuse(offset, size - 4, LINNET_E_CHECKSUM);
	return 0;
}
