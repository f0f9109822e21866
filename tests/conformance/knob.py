# SPDX-License-Identifier: MIT OR Apache-2.0
"""A slow Python implementation of spec/knob.md: reads model files of knobs, refuses bad ones, and decides.

`knob.py --write` writes spec/vectors/knobs; without it the program checks that these files are up to date. 32-bit
floats are computed with Python's 64-bit floats: an addition, multiplication or division in 64 bits, rounded to 32 bits,
equals the 32-bit result.
"""

from __future__ import annotations

import math
import random
import struct
import sys
from pathlib import Path

from vectors import keep

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "spec/vectors/knobs"
MAGIC = bytes.fromhex("894c4e540d0a1a0a")
LINEAR, RELU, SIGMOID, SOFTMAX = range(4)
LEAF = 0xFFFF
Z_MAX = 16.0


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def f32(x: float) -> float:
    """The nearest 32-bit float."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def bits(x: float) -> str:
    """The bits of a 32-bit float, as hex."""
    return f"{struct.unpack('<I', struct.pack('<f', x))[0]:x}"


class RefusedError(Exception):
    """Why a file is refused, and at which byte."""

    def __init__(self, name: str, offset: int) -> None:
        super().__init__(f"{name} at {offset:x}")
        self.name, self.offset = name, offset


class File:
    """The bytes of a file, and numbers in them."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def get(self, form: str, at: int) -> float:
        """A little-endian number."""
        return struct.unpack_from("<" + form, self.data, at)[0]


def must(condition: bool, name: str, at: int) -> None:
    """Refuse the file unless the condition holds."""
    if not condition:
        raise RefusedError(name, at)


def envelope(file: File) -> None:
    """Check the parts that every model file has."""
    data, get = file.data, file.get
    for i, byte in enumerate(MAGIC):
        must(len(data) < 8 or data[i] == byte, "magic", i)
    must(len(data) >= 24, "truncated", len(data))
    must(get("H", 8) in (1, 2), "version", 8)
    must(len(data) >= get("I", 16), "truncated", len(data))
    must(len(data) == get("I", 16) and len(data) >= 124, "length", 16)
    must(get("I", len(data) - 4) == crc32c(data[:-4]), "checksum", len(data) - 4)


def header(file: File) -> None:
    """Read the numbers before the parts."""
    get = file.get
    must(get("H", 10) == 2 and get("H", 8) == 2, "kind", 10)
    parts, schema = get("I", 24), get("H", 12)
    must(parts in (1, 2, 3), "field", 24)
    must(schema in (3, 4) or schema >= 0x8000, "schema", 12)
    must(1 <= get("H", 14) <= 16, "field", 14)
    must(1 <= get("I", 20) <= 8 if parts & 1 else get("I", 20) == 0, "field", 20)
    must(1 <= get("H", 28) <= 32, "field", 28)
    must(get("H", 30) <= 2, "field", 30)
    must(get("Q", 48) <= 1 << 62, "field", 48)
    must(1 <= get("I", 60) <= 4095 if parts & 2 else get("I", 60) == 0, "field", 60)
    for at in (64, 68):
        must(get("I", at) <= 1_000_000, "field", at)
    for at in range(72, 96):
        must(file.data[at] == 0, "field", at)


def shapes(file: File, at: int, inputs: int, levels: int) -> tuple[list[tuple[int, int, int]], int]:
    """Inputs, outputs and activation of each layer, from the table at `at`, and the offset of the nodes."""
    found, count = [], file.get("I", 20)
    place = at + 8 * count
    must(place <= len(file.data) - 4, "shape", 16)
    for k in range(count):
        outputs, activation = file.get("I", at + 8 * k), file.get("I", at + 8 * k + 4)
        must(1 <= outputs <= 256 and (k + 1 < count or outputs == levels), "shape", at + 8 * k)
        must(activation < 3 or (activation == 3 and k + 1 == count), "field", at + 8 * k + 4)
        found.append((inputs, outputs, activation))
        place += 4 * (inputs + 1) * outputs
        inputs = outputs
    must(place + 8 * file.get("I", 60) == len(file.data) - 4, "shape", 16)
    return found, place


def nodes_of(file: File, at: int, inputs: int, levels: int) -> list[tuple[int, int, int]]:
    """The nodes of the tree."""
    tree, right, count = [], [], file.get("I", 60)
    for i in range(count):
        here = at + 8 * i
        word, feature, other = struct.unpack_from("<IHH", file.data, here)
        tree.append((word, feature, other))
        if feature != LEAF:
            must(feature < inputs and math.isfinite(file.get("f", here)), "field", here)
            must(len(right) < 64 and i + 1 < count, "shape", here)
            right.append(other)
            continue
        must(other < levels and word <= 1_000_000, "field", here)
        must(right.pop() == i + 1 < count if right else i + 1 == count, "shape", here)
    return tree


def read(data: bytes) -> dict:
    """A file as a dictionary, or RefusedError."""
    file = File(data)
    get = file.get
    envelope(file)
    header(file)
    inputs, levels = get("H", 14), get("H", 28)
    at_moments = 96 + 4 * levels
    at_layers = at_moments + 16 * inputs
    shape, at_nodes = shapes(file, at_layers, inputs, levels)
    moments = []
    for at in range(at_moments, at_layers, 16):
        mean, variance = get("d", at), get("d", at + 8)
        must(abs(mean) < 2.0**128, "field", at)
        must(0 <= variance < 2.0**256 and math.copysign(1, variance) > 0, "field", at + 8)
        moments.append((mean, variance))
    at = at_layers + 8 * len(shape)
    for number in range(at, at_nodes, 4):
        must(math.isfinite(get("f", number)), "field", number)
    layers = []
    for before, outputs, activation in shape:
        weights = [[get("f", at + 4 * (o * before + i)) for i in range(before)] for o in range(outputs)]
        at += 4 * before * outputs
        layers.append((weights, [get("f", at + 4 * o) for o in range(outputs)], activation))
        at += 4 * outputs
    values = [get("I", 96 + 4 * k) for k in range(levels)]
    return {"values": values, "moments": moments, "layers": layers, "tree": nodes_of(file, at_nodes, inputs, levels)}


def exp(x: float) -> float:
    """e^x as the core computes it, in 32-bit floats."""
    x = min(max(x, -80.0), 80.0)
    magic = 12582912.0
    n = f32(f32(f32(x * f32(1.44269504)) + magic) - magic)
    r = f32(x - f32(n * 0.693359375))
    r = f32(r - f32(n * f32(-2.12194440e-4)))
    r2 = f32(r * r)
    sixth, part24, part120 = f32(1 / 6), f32(1 / 24), f32(1 / 120)
    part720, part5040 = f32(1 / 720), f32(1 / 5040)
    low = f32(f32(1 + r) + f32(r2 * f32(0.5 + f32(r * sixth))))
    high = f32(f32(part24 + f32(r * part120)) + f32(r2 * f32(part720 + f32(r * part5040))))
    return math.ldexp(f32(low + f32(f32(r2 * r2) * high)), int(n))


def softmax(sums: list[float]) -> list[float]:
    """Shares of e^(x - largest)."""
    top = max(sums)
    powers = [exp(f32(x - top)) for x in sums]
    total = 0.0
    for power in powers:
        total = f32(total + power)
    return [f32(power / total) for power in powers]


def network(layers: list, z: list[float]) -> tuple[list[float], int, int]:
    """Outputs, class and confidence in millionths."""
    row, activation = z, LINEAR
    for weights, biases, activation in layers:
        sums = []
        for own, bias in zip(weights, biases, strict=True):
            chain = [bias, 0.0]
            for i, (w, x) in enumerate(zip(own, row, strict=True)):
                chain[i % 2] = f32(chain[i % 2] + f32(w * x))
            sums.append(f32(chain[0] + chain[1]))
        if activation == SIGMOID:
            sums = [f32(1 / f32(1 + exp(-x))) for x in sums]
        if activation == RELU:
            sums = [0.0 if x <= 0 else x for x in sums]
        if activation == SOFTMAX:
            sums = softmax(sums)
        row = sums
    best = row.index(max(row))
    shares = softmax(row) if activation == LINEAR else row
    share = min(max(shares[best], 0.0), 1.0)
    return row, best, int(f32(f32(share * 1_000_000) + 0.5))


def normalise(moments: list, row: list[float]) -> list[float]:
    """z-scores."""
    z = []
    for x, (mean, variance) in zip(row, moments, strict=True):
        deviation = math.sqrt(variance)
        if math.isnan(x) or not deviation > 1e-9 * abs(mean):
            z.append(0.0)
        else:
            z.append(f32(min(max((x - mean) / deviation, -Z_MAX), Z_MAX)))
    return z


def walk(tree: list, row: list[float]) -> tuple[int, int]:
    """Class and share of the leaf of a row."""
    at = 0
    while tree[at][1] != LEAF:
        word, feature, right = tree[at]
        threshold = struct.unpack("<f", struct.pack("<I", word))[0]
        at = right if row[feature] > threshold else at + 1
    return tree[at][2], tree[at][0]


# ---- the files to write ----


def grow(rng: random.Random, leaves: int, inputs: int, levels: int, at: int = 0) -> list[tuple[int, int, int]]:
    """A random tree in pre-order, whose first node has number `at`."""
    if leaves == 1:
        return [(rng.randrange(1_000_001), LEAF, rng.randrange(levels))]
    threshold = struct.unpack("<I", struct.pack("<f", rng.choice([0.0, rng.gauss(0, 30)])))[0]
    share = rng.randint(1, leaves - 1)
    left = grow(rng, share, inputs, levels, at + 1)
    right = grow(rng, leaves - share, inputs, levels, at + 1 + len(left))
    return [(threshold, rng.randrange(inputs), at + 1 + len(left)), *left, *right]


def model(
    rng: random.Random, inputs: int, shape: list[tuple[int, int]], leaves: int, levels: int, schema: int
) -> bytes:
    """A random model as a file."""
    tree = grow(rng, leaves, inputs, levels) if leaves else []
    body = b"".join(struct.pack("<I", 8 * (k * k + 1)) for k in range(levels))
    for i in range(inputs):
        body += struct.pack("<dd", rng.gauss(0, 100), 0.0 if i == 3 else rng.uniform(0, 900))
    body += b"".join(struct.pack("<II", *layer) for layer in shape)
    before = inputs
    for outputs, _ in shape:
        body += b"".join(struct.pack("<f", rng.gauss(0, 1)) for _ in range((before + 1) * outputs))
        before = outputs
    body += b"".join(struct.pack("<IHH", *node) for node in tree)
    parts = (1 if shape else 0) + (2 if tree else 0)
    head = MAGIC + struct.pack("<HHHHIII", 2, 2, schema, inputs, 0, len(shape), parts)
    head += struct.pack("<HHQQQ", levels, 2, 1234, 7, 1000)
    head += struct.pack("<IIII", 600, len(tree), 400_000, 955_000) + bytes(24)
    return seal(head + body + bytes(4))


def seal(data: bytes) -> bytes:
    """Set size and checksum to the right values."""
    data = data[:16] + struct.pack("<I", len(data)) + data[20:-4]
    return data + struct.pack("<I", crc32c(data))


def patch(data: bytes, at: int, form: str, value: float) -> bytes:
    """Change a number and correct the checksum."""
    new = bytearray(data)
    struct.pack_into("<" + form, new, at, value)
    return bytes(new[:-4]) + struct.pack("<I", crc32c(bytes(new[:-4])))


def like_nan(data: bytes) -> bytes:
    """The same model with another seed of its training, so that its checksum, which is no weight, has a NaN's bits."""
    for seed in range(10000):
        data = patch(data, 40, "Q", seed)
        if math.isnan(struct.unpack("<f", data[-4:])[0]):
            return data
    raise AssertionError("no seed does it")


def hex_lines(data: bytes) -> str:
    """Hex with 32 bytes per line."""
    return "".join(data[at : at + 32].hex() + "\n" for at in range(0, len(data), 32))


def golden(rng: random.Random, data: bytes) -> str:
    """A file and its decisions."""
    read_back = read(data)
    text = (
        "# SPDX-License-Identifier: MIT OR Apache-2.0\n"
        "# A knob's model file in hex, then rows: features = z-scores, as bits of 32-bit floats.\n"
        "# network: then outputs / class, confidence in millionths, value. tree: class, share in millionths, value.\n"
    ) + hex_lines(data)
    for number in range(12):
        row = [f32(rng.gauss(0, 100)) for _ in read_back["moments"]]
        if number == 3:
            row[0] = math.nan
        if number == 4:
            row = [math.inf if i % 2 else -math.inf for i in range(len(row))]
        if number == 5:
            row = [-0.0] * len(row)
        z = normalise(read_back["moments"], row)
        line = f"{' '.join(map(bits, row))} = {' '.join(map(bits, z))}"
        if read_back["layers"]:
            out, best, share = network(read_back["layers"], z)
            value = read_back["values"][best]
            text += f"network {line} = {' '.join(map(bits, out))} / {best:x} {share:x} {value:x}\n"
        if read_back["tree"]:
            best, share = walk(read_back["tree"], row)
            text += f"tree {line} = {best:x} {share:x} {read_back['values'][best]:x}\n"
    return text


def refusals(good: bytes, levels: int, inputs: int, layers: int) -> dict[str, bytes]:
    """Damaged files by name. `good` has both parts."""
    moments, entry = 96 + 4 * levels, 96 + 4 * levels + 16 * inputs
    numbers = entry + 8 * layers
    nodes = len(good) - 4 - 8 * struct.unpack_from("<I", good, 60)[0]
    return {
        "empty": b"",
        "text": b"a model of a knob\n" * 10,
        "half": good[: len(good) // 2],
        "one-more": good + b"\0",
        "flip": good[:200] + bytes([good[200] ^ 1]) + good[201:],
        "version-3": patch(good, 8, "H", 3),
        "version-1": patch(good, 8, "H", 1),
        "kind-1": patch(good, 10, "H", 1),
        "parts-none": patch(good, 24, "I", 0),
        "parts-unknown": patch(good, 24, "I", 4),
        "parts-no-network": patch(good, 24, "I", 2),
        "parts-no-tree": patch(good, 24, "I", 1),
        "schema-1": patch(good, 12, "H", 1),
        "schema-7fff": patch(good, 12, "H", 0x7FFF),
        "inputs-none": patch(good, 14, "H", 0),
        "inputs-17": patch(good, 14, "H", 17),
        "layers-9": patch(good, 20, "I", 9),
        "levels-none": patch(good, 28, "H", 0),
        "levels-33": patch(good, 28, "H", 33),
        "levels-other": patch(good, 28, "H", levels + 1),
        "unit-3": patch(good, 30, "H", 3),
        "normaliser-rows": patch(patch(good, 60, "I", 4096), 48, "Q", (1 << 62) + 1),
        "nodes-4096": patch(good, 60, "I", 4096),
        "nodes-fewer": patch(good, 60, "I", struct.unpack_from("<I", good, 60)[0] - 1),
        "confidence": patch(good, 64, "I", 1_000_001),
        "accuracy": patch(good, 68, "I", 1_000_001),
        "reserved": patch(good, 95, "B", 1),
        "reserved-in-a-word": patch(good, 75, "B", 1),
        "mean-nan": patch(good, moments, "d", math.nan),
        "mean-large": patch(good, moments, "d", -(2.0**128)),
        "variance-large": patch(good, moments + 8, "d", 2.0**256),
        "variance-negative": patch(good, moments + 8, "d", -1.0),
        "variance-infinite": patch(good, moments + 8, "d", math.inf),
        "outputs-none": patch(good, entry, "I", 0),
        "outputs-257": patch(good, entry, "I", 257),
        "outputs-last": patch(good, entry + 8 * (layers - 1), "I", levels + 1),
        "activation-4": patch(good, entry + 4, "I", 4),
        "softmax-hidden": patch(good, entry + 4, "I", SOFTMAX),
        "softmax-before-last": patch(good, entry + 8 * (layers - 2) + 4, "I", SOFTMAX),
        "layers-half": seal(good[: numbers - 4] + bytes(4)),
        "layers-alone": seal(patch(good, entry, "I", 0)[:numbers] + bytes(4)),
        "weight-nan": patch(good, numbers + 40, "f", math.nan),
        "bias-infinite": patch(good, nodes - 4, "f", math.inf),
        "node-feature": patch(good, nodes + 4, "H", inputs),
        "node-threshold": patch(good, nodes, "f", math.nan),
        "node-right": patch(good, nodes + 6, "H", 1),
        "node-leaf-first": patch(patch(good, nodes + 4, "H", LEAF), nodes, "I", 1),
        "leaf-class": patch(good, len(good) - 6, "H", levels),
        "leaf-share": patch(good, len(good) - 12, "I", 1_000_001),
        "tree-open": patch(good, len(good) - 8, "H", 0),
    }


def texts() -> dict[str, str]:
    """Every file by its path."""
    rng = random.Random(14)
    both = model(rng, 5, [(15, SIGMOID), (5, SIGMOID), (4, LINEAR)], 30, 4, 3)
    models = {
        "v2-readahead-network": model(rng, 5, [(15, SIGMOID), (5, SIGMOID), (4, LINEAR)], 0, 4, 3),
        "v2-readahead-tree": model(rng, 5, [], 30, 4, 3),
        "v2-readahead-both": both,
        "v2-nfs-softmax": model(rng, 8, [(25, SIGMOID), (10, RELU), (5, SIGMOID), (4, SOFTMAX)], 0, 4, 0x8001),
        "v2-narrow": model(rng, 1, [(3, RELU), (2, SIGMOID)], 1, 2, 0xFFFF),
        "v2-wide": model(rng, 16, [(33, RELU), (32, LINEAR)], 90, 32, 0x8000),
    }
    files = {f"models/{name}.txt": golden(rng, data) for name, data in models.items()}
    rng = random.Random(15)
    models = {
        "v2-one-level": model(rng, 3, [(4, RELU), (1, SIGMOID)], 1, 1, 4),
        "v2-eight-layers": model(rng, 2, [(3, RELU), *[(2, SIGMOID)] * 6, (3, LINEAR)], 5, 3, 4),
        "v2-checksum-nan": like_nan(model(rng, 2, [(3, LINEAR)], 0, 3, 3)),
    }
    files |= {f"models/{name}.txt": golden(rng, data) for name, data in models.items()}
    for name, data in refusals(both, 4, 5, 3).items():
        try:
            read(data)
        except RefusedError as error:
            files[f"reject/{name}.txt"] = (
                "# SPDX-License-Identifier: MIT OR Apache-2.0\n"
                "# A knob's model file that is refused, in hex; the first line has the error and its offset in hex.\n"
                f"error {error.name} {error.offset:x}\n"
            ) + hex_lines(data)
        else:
            raise AssertionError(f"{name} is read")
    return files


if __name__ == "__main__":
    sys.exit(keep({FOLDER / name: text for name, text in texts().items()}, "knobs", FOLDER))
