#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Prints published LinnOS weights and vectors in the form of spec/vectors/network.txt. Exits 77 if there are none."""

import json
import os
import pathlib
import sys


def main():
    """Print the vectors, or the reason why there are none."""
    root = pathlib.Path(__file__).resolve().parents[2]
    path = pathlib.Path(os.environ.get("LINNET_SHARED") or root.parent / "shared") / "reference/linnos/vectors.json"
    if not path.exists():
        print(f"skipped: {path} is not there", file=sys.stderr)
        return 77
    data = json.loads(path.read_text())
    print("network 9 0")
    for k, (inputs, outputs) in enumerate([(31, 256), (256, 2)]):
        print(f"layer {inputs:x} {outputs:x}")
        print("weights", *(f"{w:x}" for w in data[f"w{k}"]))
        print("biases", *(f"{b:x}" for b in data[f"b{k}"]))
    for digits, out, verdict in zip(data["inputs"], data["out"], data["decisions"], strict=True):
        print("vector", *digits, "=", *(f"{x:x}" for x in out), verdict)
    return 0


if __name__ == "__main__":
    sys.exit(main())
