# SPDX-License-Identifier: MIT OR Apache-2.0
"""A slow Python implementation of spec/forest.md: reads model files of forests, refuses bad ones, and predicts.

`forest.py --write` writes spec/vectors/place/models and reject; without it the program checks that these files are up
to date. Python's floats are the 64-bit floats of the sums.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from pathlib import Path

from knob import File, RefusedError, crc32c, envelope, f32, must
from vectors import keep

FOLDER = Path(__file__).resolve().parent.parent.parent / "spec/vectors/place"
MAGIC = bytes.fromhex("894c4e540d0a1a0a")
LEAF = 0xFF
HEADER, OUTPUT, NAME = 64, 48, 40
LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")

Tree = tuple[list[int], list[float], list[float]]
"""Features of the nodes, thresholds of the splits, values of the leaves; nodes by their distance from the root."""

PLACE_1 = 5
"""Number of the schema of features: core/place.h."""


def header(file: File) -> None:
    """Check the numbers before the tables."""
    get = file.get
    must(get("H", 10) == 3 and get("H", 8) == 2, "kind", 10)
    must(get("H", 12) == PLACE_1 or get("H", 12) >= 0x8000, "schema", 12)
    must(1 <= get("H", 14) <= 254, "field", 14)
    must(1 <= get("I", 20) <= 64, "field", 20)
    must(get("I", 20) <= get("I", 24) <= 65536, "field", 24)
    for at in range(48, HEADER):
        must(file.data[at] == 0, "field", at)


def tables(file: File) -> tuple[list[tuple[str, int]], list[int], int]:
    """Name and trees of each output, nodes of each tree, and where the features begin."""
    get, end, at = file.get, len(file.data) - 4, HEADER
    must((end - at) // OUTPUT >= get("I", 20), "shape", 16)
    outputs, trees = [], []
    for _ in range(get("I", 20)):
        name = file.data[at : at + NAME].rstrip(b"\0")
        must(len(name) > 0 and set(name) <= LETTERS, "field", at)
        must(1 <= get("I", at + NAME) <= get("I", 24), "field", at + NAME)
        must(get("I", at + NAME + 4) == 0, "field", at + NAME + 4)
        outputs.append((name.decode(), get("I", at + NAME)))
        at += OUTPUT
    total = sum(count for _, count in outputs)
    must(total == get("I", 24), "shape", 24)
    must((end - at) // 4 >= total, "shape", 16)
    for _ in range(total):
        count = get("I", at)
        must(count % 2 == 1 and count < 2**24, "field", at)
        trees.append(count)
        at += 4
    nodes = sum(trees)
    must(nodes < 2**31 and nodes + 4 * ((nodes - total) // 2) + 8 * ((nodes + total) // 2) == end - at, "shape", 16)
    must(get("I", 28) == nodes, "field", 28)
    return outputs, trees, at


def check_nodes(file: File, counts: list[int], at: int, inputs: int) -> None:
    """Follow the queue of nodes that are still to come, tree by tree."""
    for count in counts:
        waiting = 1
        for node in range(count):
            must(waiting > 0, "shape", at + node)
            waiting -= 1
            feature = file.data[at + node]
            if feature != LEAF:
                must(feature < inputs, "field", at + node)
                waiting += 2
        must(waiting == 0, "shape", at + count - 1)
        at += count


def read(data: bytes) -> tuple[int, list[tuple[str, list[Tree]]]]:
    """Number of features, and name and trees of each output. RefusedError says why a file is refused."""
    file = File(data)
    envelope(file)
    header(file)
    outputs, counts, features = tables(file)
    inputs = file.get("H", 14)
    check_nodes(file, counts, features, inputs)
    nodes = sum(counts)
    threshold = features + nodes
    value = threshold + 4 * ((nodes - len(counts)) // 2)
    for at in range(threshold, value, 4):
        must(math.isfinite(file.get("f", at)), "field", at)
    for at in range(value, len(data) - 4, 8):
        must(math.isfinite(file.get("d", at)), "field", at)
    trees: list[Tree] = []
    for count in counts:
        splits = (count - 1) // 2
        own = list(data[features : features + count])
        edges = list(struct.unpack_from(f"<{splits}f", data, threshold))
        trees.append((own, edges, list(struct.unpack_from(f"<{splits + 1}d", data, value))))
        features, threshold, value = features + count, threshold + 4 * splits, value + 8 * (splits + 1)
    found = []
    for name, count in outputs:
        found.append((name, trees[:count]))
        trees = trees[count:]
    return inputs, found


def write(inputs: int, outputs: list[tuple[str, list[Tree]]], schema: int = PLACE_1) -> bytes:
    """The bytes of a file."""
    trees = [tree for _, own in outputs for tree in own]
    nodes = sum(len(tree[0]) for tree in trees)
    data = MAGIC + struct.pack("<HHHH", 2, 3, schema, inputs)
    data += struct.pack("<IIIIQQ", 0, len(outputs), len(trees), nodes, 1000, 42) + bytes(16)
    for name, own in outputs:
        data += name.encode().ljust(NAME, b"\0") + struct.pack("<II", len(own), 0)
    data += b"".join(struct.pack("<I", len(tree[0])) for tree in trees)
    data += b"".join(bytes(tree[0]) for tree in trees)
    data += b"".join(struct.pack(f"<{len(tree[1])}f", *tree[1]) for tree in trees)
    data += b"".join(struct.pack(f"<{len(tree[2])}d", *tree[2]) for tree in trees)
    return sealed(data + bytes(4))


def sealed(data: bytes) -> bytes:
    """The file with its size and checksum set."""
    data = data[:16] + struct.pack("<I", len(data)) + data[20:-4]
    return data + struct.pack("<I", crc32c(data))


def predict(outputs: list[tuple[str, list[Tree]]], row: list[float]) -> list[float]:
    """The mean over the trees of each output."""
    found = []
    for _, trees in outputs:
        total = 0.0
        for features, thresholds, values in trees:
            node = 0
            while features[node] != LEAF:
                split = sum(feature != LEAF for feature in features[:node])
                node = 2 * split + 1 + (row[features[node]] > thresholds[split])
            total += values[sum(feature == LEAF for feature in features[:node])]
        found.append(total / len(trees))
    return found


def tree(chance: random.Random, inputs: int, splits: int) -> Tree:
    """A random tree."""
    features: list[int] = []
    waiting = 1
    while waiting:
        waiting -= 1
        if splits and (not waiting or chance.random() < 0.7):
            features.append(chance.randrange(inputs))
            splits, waiting = splits - 1, waiting + 2
        else:
            features.append(LEAF)
    edges = [f32(chance.choice((0.0, -0.0, chance.gauss(0, 1), chance.gauss(0, 1e6)))) for f in features if f != LEAF]
    return features, edges, [chance.gauss(0, 1) * 10 ** chance.randrange(-3, 9) for f in features if f == LEAF]


def models() -> dict[str, tuple[int, bytes]]:
    """Inputs and bytes of the golden files."""
    chance = random.Random(5)
    made = {
        "one-leaf": (1, [("read_latency_mean_us", [tree(chance, 1, 0)])], PLACE_1),
        "one-output": (54, [("read_latency_p99_us", [tree(chance, 54, 20) for _ in range(7)])], PLACE_1),
        "three-outputs": (
            27,
            [
                (f"m-{n}", [tree(chance, 27, chance.randrange(12)) for _ in range(count)])
                for n, count in enumerate((1, 16, 33))
            ],
            0x8000,
        ),
        "widest": (254, [("x" * NAME, [tree(chance, 254, 40) for _ in range(3)])], 0xFFFF),
    }
    return {name: (inputs, write(inputs, outputs, schema)) for name, (inputs, outputs, schema) in made.items()}


def bits(values: list[float], form: str) -> str:
    """Bits of floats, as hex."""
    whole = {"f": "I", "d": "Q"}[form]
    return " ".join(f"{struct.unpack('<' + whole, struct.pack('<' + form, value))[0]:x}" for value in values)


def rows(chance: random.Random, outputs: list[tuple[str, list[Tree]]], inputs: int) -> list[list[float]]:
    """Rows of numbers, many of which are thresholds or next to them; more rows than are evaluated together."""
    edges = [edge for _, trees in outputs for _, own, _ in trees for edge in own] or [0.0]
    found = []
    for _ in range(37):
        row = [chance.choice(edges) if chance.random() < 0.5 else f32(chance.gauss(0, 1)) for _ in range(inputs)]
        found.append([f32(x * (1 + chance.choice((-1, 0, 1)) * 2**-23)) for x in row])
    return found


def damaged() -> dict[str, bytes]:
    """Files that are refused, each for one reason."""
    good = models()["one-output"][1]
    table = HEADER + OUTPUT
    features = table + 4 * 7
    nodes = struct.unpack_from("<I", good, 28)[0]
    threshold, value = features + nodes, features + nodes + 4 * ((nodes - 7) // 2)

    def put(at: int, form: str, *numbers: float) -> bytes:
        return sealed(good[:at] + struct.pack("<" + form, *numbers) + good[at + struct.calcsize("<" + form) :])

    split = next(i for i in range(nodes) if good[features + i] != LEAF)
    first = struct.unpack_from("<I", good, table)[0]
    leaf = max(i for i in range(first) if good[features + i] == LEAF)
    return {
        "empty": b"",
        "half": good[: len(good) // 2],
        "one-byte-more": good + b"\0",
        "magic": b"X" + good[1:],
        "version-3": good[:8] + struct.pack("<H", 3) + good[10:],
        "checksum": good[:-1] + bytes([good[-1] ^ 1]),
        "kind-2": put(10, "H", 2),
        "schema-3": put(12, "H", 3),
        "inputs-0": put(14, "H", 0),
        "inputs-255": put(14, "H", 255),
        "outputs-0": put(20, "I", 0),
        "outputs-65": put(20, "I", 65),
        "trees-fewer-than-outputs": put(20, "II", 8, 7),
        "trees-65537": put(24, "I", 65537),
        "nodes-wrong": put(28, "I", nodes + 1),
        "reserved": put(63, "B", 1),
        "outputs-beyond-the-end": put(20, "II", 64, 65536),
        "name-empty": put(HEADER, "B", 0),
        "name-space": put(HEADER, "B", 32),
        "name-after-its-end": put(HEADER + NAME - 1, "B", 65),
        "output-without-trees": put(HEADER + NAME, "I", 0),
        "output-reserved": put(HEADER + NAME + 4, "I", 1),
        "trees-do-not-add-up": put(HEADER + NAME, "I", 6),
        "trees-beyond-the-end": sealed(good[: table + 8] + bytes(4)),
        "tree-of-two-nodes": put(table, "I", 2),
        "tree-without-nodes": put(table, "I", 0),
        "tree-too-large": put(table, "I", 2**24 + 1),
        "parts-too-short": sealed(good[:-8] + bytes(4)),
        "feature-out-of-range": put(features + split, "B", 54),
        "leaf-for-a-split": put(features + split, "B", LEAF),
        "split-for-a-leaf": put(features + leaf, "B", 0),
        "threshold-nan": put(threshold, "f", math.nan),
        "threshold-infinite": put(threshold, "f", math.inf),
        "value-infinite": put(value, "d", -math.inf),
        "value-nan": put(value + 8, "d", math.nan),
    }


def lines(data: bytes) -> str:
    """A file as lines of hex."""
    text = data.hex()
    return "".join(text[i : i + 128] + "\n" for i in range(0, len(text), 128))


def made() -> dict[str, str]:
    """All vectors, by path."""
    found = {}
    chance = random.Random(6)
    for name, (inputs, data) in models().items():
        own, outputs = read(data)
        assert own == inputs
        text = "# forests: spec/forest.md. Written by tests/conformance/forest.py.\n" + lines(data)
        for row in rows(chance, outputs, inputs):
            text += f"forest {bits(row, 'f')} = {bits(predict(outputs, row), 'd')}\n"
        found[f"models/{name}.txt"] = text
    for name, data in damaged().items():
        try:
            read(data)
        except RefusedError as error:
            found[f"reject/{name}.txt"] = f"error {error.name} {error.offset:x}\n" + lines(data)
        else:
            raise AssertionError(f"{name} is not refused")
    return found


if __name__ == "__main__":
    sys.exit(keep({FOLDER / name: text for name, text in made().items()}, "forests"))
