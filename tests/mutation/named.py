# SPDX-License-Identifier: MIT OR Apache-2.0
"""Mutants that once survived and matter, each by name; every one must be noticed: ``make mutate NAMED=1``.

Each breaks a promise about budgets, probes, time limits or revokes. Exit status: 0 if all are noticed, 1 if one is not,
2 if the text that one replaces is not in its file exactly once, 77 if the checks fail without a mutant.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import crate
from common import CLEAN_SECONDS_MAX, ROOT, SECONDS_MIN, WORK, alone, copy_sources, end_with_children
from mutate import copy_core, noticing

CORE = "core"
"""The checks of the C core and of the device-mapper target in user space; otherwise the name of a crate."""


class Named(NamedTuple):
    """A text of a file, what replaces it, and whose checks must notice."""

    what: str
    file: str
    old: str
    new: str
    checks: str


NAMED = [
    Named("a bound of zero decides", "core/incremental.c", "if (low > 0)", "if (low >= 0)", "core-crate"),
    Named(
        "hedges ignore their budget, in the core",
        "core/hedge.c",
        "return !overload && linnet_budget_take(&hedge->budget, &settings->hedges);",
        "return !overload;",
        CORE,
    ),
    Named(
        "hedges ignore their budget, in the array",
        "crates/array/src/array/route.rs",
        "if !self.hedges.take(&self.hedge_rate) {",
        "if !self.hedges.take(&self.hedge_rate) && false {",
        "array",
    ),
    Named(
        "revokes ignore their budget",
        "core/decide.c",
        "else if (linnet_budget_take(revokes, &settings->revokes))",
        "else if (linnet_budget_take(revokes, &settings->revokes) || 1)",
        CORE,
    ),
    Named(
        "every read is a probe of a replica that comes back",
        "core/replica.h",
        "\t\treplica->out_until_ns = at_ns + replica->backoff_ns;\n",
        "",
        "array",
    ),
    Named(
        "predictions of slow are valid ten times as long",
        "core/decide.c",
        "settings->revoke_ages = 5;",
        "settings->revoke_ages = 50;",
        CORE,
    ),
    Named(
        "a copy times out a microsecond early",
        "crates/array/src/array/flight.rs",
        "let at_ns = now.saturating_add(limits.timeout_ns);",
        "let at_ns = now.saturating_add(limits.timeout_ns.saturating_sub(1000));",
        "array",
    ),
    Named(
        "a replica that revoked a read is not noted",
        "crates/array/src/array/route.rs",
        "        slot.refused |= bit_of(&self.placement, slot, device);\n",
        "",
        "array",
    ),
    Named(
        "a replica whose device refused a read is not noted",
        "crates/array/src/array.rs",
        "        slot.refused |= 1 << k;\n",
        "",
        "array",
    ),
]


def notices(work: Path, mutant: Named, seconds: float) -> bool:
    """Whether its checks notice a mutant."""
    tree = work if mutant.checks == CORE else WORK / "tree"
    target = tree / mutant.file
    whole = target.read_text()
    target.write_text(whole.replace(mutant.old, mutant.new))
    try:
        return not holds(work, mutant.checks, seconds)
    finally:
        target.write_text(whole)


def holds(work: Path, checks: str, seconds: float) -> bool:
    """Whether the checks pass in the copy."""
    if checks == CORE:
        return noticing(work, "decide", True, seconds) is None
    return bool(crate.survives("core" if checks == "core-crate" else checks, seconds, {}))


def main() -> int:
    """Try each."""
    end_with_children()
    for mutant in NAMED:
        if (ROOT / mutant.file).read_text().count(mutant.old) != 1:
            print(f"{mutant.file}: `{mutant.old.strip()}` is not there once: adapt '{mutant.what}'", file=sys.stderr)
            return 2
    lived, seconds = 0, dict[str, float]()
    copy_sources(WORK / "tree")
    with tempfile.TemporaryDirectory(prefix="linnet-mutate-") as folder:
        work = Path(folder)
        copy_core(work)
        for mutant in NAMED:
            if mutant.checks not in seconds:
                begun = time.monotonic()
                if not holds(work, mutant.checks, CLEAN_SECONDS_MAX):
                    print(f"the checks of {mutant.checks} fail without a mutant", file=sys.stderr)
                    return 77
                seconds[mutant.checks] = max(SECONDS_MIN, 2 * (time.monotonic() - begun) + 60)
            try:
                noticed = notices(work, mutant, seconds[mutant.checks])
            except crate.DoesNotCompileError:
                print(f"{mutant.file}: '{mutant.what}' does not compile: adapt it", file=sys.stderr)
                return 2
            lived += not noticed
            print(f"{'noticed' if noticed else 'SURVIVED'}: {mutant.what} ({mutant.file})", flush=True)
    print(f"{len(NAMED) - lived} of {len(NAMED)} were noticed")
    return int(lived > 0)


if __name__ == "__main__":
    with alone():
        sys.exit(main())
