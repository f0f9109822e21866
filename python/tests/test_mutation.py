# SPDX-License-Identifier: MIT OR Apache-2.0
"""The table of mutants in SECURITY.md is of the core as it is, or says of which rows it is not."""

import re
import sys

from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "mutation"))

import mutate

ROW = re.compile(r"^\| ([a-z_]+\.[ch])\*?( †)? \| ([\d,]+) \|", re.MULTILINE)
TABLE = (ROOT / "SECURITY.md").read_text()


def test_rows_of_another_state_of_the_core_are_marked() -> None:
    rows = {name: None if older else int(count.replace(",", "")) for name, older, count in ROW.findall(TABLE)}
    counts = {file.name: len(list(mutate.mutants(file))) for file in sorted((ROOT / "core").glob("*.[ch]"))}
    counts = {name: count for name, count in counts.items() if count}
    assert rows.keys() == counts.keys()
    stale = [name for name, count in rows.items() if count not in (None, counts[name])]
    assert not stale, f"run make mutate UNITS='{' '.join(stale)}' COUNT=0 and enter the results, or mark them by †"
