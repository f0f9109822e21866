# SPDX-License-Identifier: MIT OR Apache-2.0
"""C programs of ``tests/conformance`` on a changed C core, which they use as a shared library.

They notice most mutants of what Rust tests reach little, and are compiled again only for the headers that they read.
Some print bits, which must be those in ``tests/conformance/outputs``.
"""

from __future__ import annotations

from pathlib import Path

from common import ROOT
from linked import Check

# The sources of each program, and its arguments: vectors, or a seed and a number of steps.
PROGRAMS = {
    "conformance": (["conformance"], ["*.txt", "*/*.txt"]),
    "bitsliced": (["bitsliced"], []),
    "dense": (["dense"], []),
    "prune": (["prune"], []),
    "layouts": (["layouts"], []),
    "tune": (
        ["tune", "tune_trees", "tune_growth", "tune_limits", "tune_exponentials", "knob_files", "knob_runs"],
        ["knobs/*/*.txt"],
    ),
    "place": (["place"], ["place/models/*.txt", "place/reject/*.txt"]),
    "ledger": (["ledger", "ledger_flight"], ["1", "5000"]),
    "train": (["train", "train_limits", "train_loops", "train_losses", "train_runs"], []),
}
# The program with its arguments, and the file with what it prints.
PRINTS = ("sh", "-c", 'printed=$("$@") && [ "$printed" = "$(cat "$0")" ]')


def sources() -> dict[str, list[Path]]:
    """The sources of each program."""
    return {name: [ROOT / f"tests/conformance/{part}.c" for part in parts] for name, (parts, _) in PROGRAMS.items()}


def checks(lib: Path) -> list[Check]:
    """Runs of the programs in ``lib``."""
    vectors, found = ROOT / "spec/vectors", []
    for name, (_, words) in PROGRAMS.items():
        inputs = [str(path) for word in words for path in ([word] if word.isdigit() else sorted(vectors.glob(word)))]
        printed = ROOT / f"tests/conformance/outputs/{name}.txt"
        told = (*PRINTS, str(printed)) if printed.exists() else ()
        found.append(Check(f"tests/conformance/{name}", (*told, str(lib / name), *inputs), ROOT / "core"))
    return found
