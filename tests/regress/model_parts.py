# SPDX-License-Identifier: MIT OR Apache-2.0
"""Makes model files with only one of the parts, as `spec/model-file.md` defines them."""

from __future__ import annotations

import struct

from linnet import Model

HEADER_BYTES = 96
CHECKSUM_BYTES = 4
LAYER_BYTES = 24
BIAS_BYTES = 8
NETWORK = 1
"""Bit of the field ``parts``."""
POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial, reflected."""


def remainder(byte: int) -> int:
    """The checksum of eight zero bits, for each value of the last byte."""
    for _ in range(8):
        byte = byte >> 1 ^ (POLYNOMIAL if byte & 1 else 0)
    return byte


REMAINDERS = [remainder(byte) for byte in range(256)]


def crc32c(data: bytes) -> int:
    """The checksum of a model file."""
    rest = 0xFFFFFFFF
    for byte in data:
        rest = rest >> 8 ^ REMAINDERS[(rest ^ byte) & 0xFF]
    return rest ^ 0xFFFFFFFF


def sealed(body: bytearray, parts: int) -> Model:
    """The model of a file whose checksum is not set yet."""
    struct.pack_into("<I", body, 16, len(body) + CHECKSUM_BYTES)
    struct.pack_into("<I", body, 76, parts)
    return Model.from_bytes(bytes(body) + struct.pack("<I", crc32c(body)))


def split(model: Model) -> tuple[bytes, bytes, int]:
    """Header with network, the bytes after the network, and the field ``parts``."""
    body = model.to_bytes()[:-CHECKSUM_BYTES]
    (layers,) = struct.unpack_from("<I", body, 20)
    (parts,) = struct.unpack_from("<I", body, 76)
    end = HEADER_BYTES + LAYER_BYTES * layers
    for layer in range(layers):
        inputs, outputs, weight_bytes = struct.unpack_from("<III", body, HEADER_BYTES + LAYER_BYTES * layer)
        end += outputs * (inputs * weight_bytes + BIAS_BYTES)
    return body[:end], body[end:], parts


def without_trees(model: Model) -> Model:
    """The model with only its network."""
    front, _, parts = split(model)
    return sealed(bytearray(front), parts & NETWORK)


def trees_alone(model: Model) -> Model:
    """The model with only its trees and the predictions by their score."""
    front, tail, parts = split(model)
    header = bytearray(front[:HEADER_BYTES])
    struct.pack_into("<HH", header, 12, 0, 0)  # schema and input_max belong to the network
    struct.pack_into("<I", header, 20, 0)  # layer_count
    return sealed(header + tail, parts & ~NETWORK)
