# SPDX-License-Identifier: MIT OR Apache-2.0
"""Write a model file that needs no training, for the cases: `make_model.py KIND FILE`.

KIND is `slow` (predicts every read slow), `fast` (none), `busy:PAGES` (reads that find more than PAGES outstanding,
including their own pages), `random:SEED`, `pages:SEED` (the same on features of linnet-2, half of them input 9),
`linnos:SEED` (random weights in a network of 31, 256 and 2) or `wide:NEURONS` (one of 31, that many, 2 and 2, for which
the target has no memory if they are too many). Network and trees agree, except in the random kinds. The format is
spec/model-file.md, version 2: one linear layer (except `linnos` and `wide`) and 64 trees.
"""

import random
import struct
import sys
from pathlib import Path

DIGITS = 31
NOW = 12  # digits 12..14 count the pages outstanding


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit: slow, but independent of the core's code."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def trees(base: int, features: list[int], thresholds: list[int], leaves: list[int], schema: int) -> bytes:
    """The bytes of the trees. Features and thresholds are ordered by level, then tree; leaves by tree."""
    return struct.pack("<HHi192B192B512h", schema, 0, base, *features, *thresholds, *leaves)


def layer(weights: list[list[int]], biases: list[int]) -> tuple[bytes, bytes]:
    """A layer's entry in the table, and its numbers; weights by output."""
    numbers = b"".join(struct.pack(f"<{len(row)}h", *row) for row in weights)
    entry = struct.pack("<IIIIq", len(weights[0]), len(weights), 2, 0, 1)
    return entry, numbers + struct.pack(f"<{len(biases)}q", *biases)


def model(layers: list[tuple[bytes, bytes]], trees: bytes, inflection_ns: int = 1_000_000) -> bytes:
    """The bytes of the file."""
    table = b"".join(entry for entry, _ in layers)
    numbers = b"".join(data for _, data in layers)
    size = 96 + len(table) + len(numbers) + len(trees) + 4
    head = b"\x89LNT\r\n\x1a\n" + struct.pack("<HHHHII", 2, 1, 1, 9, size, len(layers))
    head += struct.pack("<4Q6I2Q", inflection_ns, 2_000_000, 5_000_000, 2_000_000, 4, 2, 1, 950_000, 0, 3, 1, 0)
    body = head + table + numbers + trees
    return body + struct.pack("<I", crc32c(body))


def main() -> int:
    """Write the requested file."""
    kind, path = sys.argv[1:]
    weights = [0] * DIGITS
    base, features, thresholds, leaves = 0, [0] * 192, [0] * 192, [0] * 512
    if kind in ("slow", "fast") or kind.startswith("wide:"):
        bias = -1 if kind == "fast" else 1
        base = 4096 * bias
    elif kind.startswith("busy:"):
        pages = int(kind.removeprefix("busy:"))
        weights[NOW : NOW + 3] = 100, 10, 1
        bias = -pages
        # Pages of the reads in flight, without this one: exact as long as a bucket is one page wide.
        base, features[0], thresholds[0] = -4096, 3, max(pages - 1, 0)
        leaves[1:8:2] = [8192] * 4  # its other levels compare this read's own pages, which always goes to the right
    elif kind.startswith(("random:", "pages:", "linnos:")):
        chance = random.Random(kind)
        weights = [chance.randint(-100, 100) for _ in weights]
        bias = chance.randint(-2000, 2000)
        base = chance.randint(-4096, 4096)
        features = [chance.randrange(16) for _ in features]
        thresholds = [chance.randrange(64) for _ in thresholds]
        if kind.startswith("pages:"):
            features[::2], thresholds[::2] = [9] * 96, [chance.randrange(5) for _ in range(96)]
        leaves = [chance.randint(-2000, 2000) for _ in leaves]
    else:
        print(f"make_model.py: no such kind: {kind}", file=sys.stderr)
        return 2
    # The logit of fast is 0; that of slow is `bias` plus the weighted digits.
    layers = [layer([[0] * DIGITS, weights], [0, bias])]
    if kind.startswith("linnos:"):
        hidden = [[chance.randint(-150, 150) for _ in range(DIGITS)] for _ in range(256)]
        last = [[chance.randint(-150, 150) for _ in range(256)] for _ in range(2)]
        layers = [layer(hidden, [chance.randint(-2000, 2000) for _ in hidden]), layer(last, [0, 0])]
    if kind.startswith("wide:"):
        neurons = int(kind.removeprefix("wide:"))
        hidden = [[100] * DIGITS] * neurons
        layers = [layer(hidden, [0] * neurons), layer([[100] * neurons] * 2, [0, 0]), layer([[1, 0], [0, 1]], [0, 1])]
    data = model(layers, trees(base, features, thresholds, leaves, 3 if kind.startswith("pages:") else 2))
    Path(path).write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main())
