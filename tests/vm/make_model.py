# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a model file that needs no training, for the cases: `make_model.py KIND FILE`.

KIND is `slow` (calls every read slow), `fast` (none), or `busy:PAGES` (those that find more than PAGES outstanding,
their own pages included). The bytes are those of spec/model-file.md, version 1: one linear layer.
"""

import struct
import sys
from pathlib import Path

DIGITS = 31
NOW = 12  # digits 12..14 count the pages outstanding


def crc32c(data: bytes) -> int:
    """Castagnoli, bit by bit: slow, and independent of the core's."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def model(weights: list[int], bias: int, inflection_ns: int = 1_000_000) -> bytes:
    """Fast scores 0; slow scores `bias` and the weighted digits."""
    numbers = struct.pack(f"<{2 * DIGITS}h2q", *[0] * DIGITS, *weights, 0, bias)
    layer = struct.pack("<IIIIq", DIGITS, 2, 2, 0, 1)
    size = 96 + len(layer) + len(numbers) + 4
    head = b"\x89LNT\r\n\x1a\n" + struct.pack("<HHHHII", 1, 1, 1, 9, size, 1)
    head += struct.pack("<4Q6I2Q", inflection_ns, 2_000_000, 5_000_000, 2_000_000, 4, 2, 1, 950_000, 0, 0, 1, 0)
    body = head + layer + numbers
    return body + struct.pack("<I", crc32c(body))


def main() -> int:
    """Writes the file that was asked for."""
    kind, path = sys.argv[1:]
    weights = [0] * DIGITS
    if kind in ("slow", "fast"):
        bias = 1 if kind == "slow" else -1
    elif kind.startswith("busy:"):
        weights[NOW : NOW + 3] = 100, 10, 1
        bias = -int(kind.removeprefix("busy:"))
    else:
        print(f"make_model.py: no such kind: {kind}", file=sys.stderr)
        return 2
    Path(path).write_bytes(model(weights, bias))
    return 0


if __name__ == "__main__":
    sys.exit(main())
