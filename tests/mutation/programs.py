# SPDX-License-Identifier: MIT OR Apache-2.0
"""C programs of ``tests/conformance`` on a changed C core: compiled once, they use it as a shared library.

They notice most mutants of what Rust tests reach little, at the cost of no compiler. What their own copies of a
header's inline functions would notice, the C checks do.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from common import ROOT
from linked import NAME, CannotBuildError, Check

HERE = ROOT / "tests/conformance"
# The sources and the vectors of each.
PROGRAMS = {
    "conformance": (["conformance.c"], ["*.txt", "*/*.txt"]),
    "bitsliced": (["bitsliced.c"], []),
    "tune": (["tune.c", "tune_trees.c", "knob_files.c", "knob_runs.c"], ["knobs/*/*.txt"]),
    "place": (["place.c"], ["place/models/*.txt", "place/reject/*.txt"]),
    "ledger": (["ledger.c"], []),
}


def compiled(core: Path, lib: Path) -> list[Check]:
    """The programs, against the library in ``lib``."""
    checks = []
    for name, (sources, patterns) in PROGRAMS.items():
        program = lib / name
        command = ["cc", "-std=c11", "-O1", "-w", f"-I{core}", *(str(HERE / source) for source in sources)]
        command += ["-o", str(program), f"-L{lib}", f"-l{NAME}", "-lm"]
        if subprocess.run(command, check=False).returncode:
            raise CannotBuildError(name)
        inputs = [str(path) for pattern in patterns for path in sorted((ROOT / "spec/vectors").glob(pattern))]
        # The ledger takes a seed and a number of steps.
        inputs = ["1", "5000"] if name == "ledger" else inputs
        checks.append(Check(f"tests/conformance/{name}", (str(program), *inputs), ROOT / "core"))
    return checks
