# SPDX-License-Identifier: MIT OR Apache-2.0
"""This build computes the exact results in tests/regress, and a difference is detected."""

import sys
from collections.abc import Sequence

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tests" / "regress"))

import results

QUICK = ("az-c", "consumer-deep")


def compared(cells: Sequence[tuple[str, str]]) -> None:
    """Fail with the rows of these cells that differ."""
    old = [row for row in results.recorded() if (row["workload"], row["preset"]) in cells]
    lines = results.differences(old, results.computed(cells))
    if lines:
        pytest.fail(results.report(lines), pytrace=False)


def test_results_are_those_that_were_accepted() -> None:
    """Of one workload on one type of drive: under every policy, with every part of the model."""
    compared([QUICK])


@pytest.mark.slow
def test_results_of_the_other_cells_are_those_that_were_accepted() -> None:
    compared([cell for cell in results.CELLS if cell != QUICK])


def test_the_file_is_as_it_would_be_written() -> None:
    assert results.FILE.read_text() == results.as_csv(results.recorded())


@pytest.mark.slow
def test_another_seed_gives_other_rows() -> None:
    old = [row for row in results.recorded() if (row["workload"], row["preset"]) == ("az-c", "sata")]
    new = list(results.cell("az-c", "sata", seed=results.SEED + 1))
    assert len(results.differences(old, new)) == len(old) == len(new)


def test_a_report_names_row_column_and_both_values() -> None:
    old = results.recorded()
    changed = [*old[1:-1], old[-1] | {"p99_ns": "1"}]
    lines = results.differences(old, changed)
    gone, other = (" ".join(row[name] for name in results.KEY) for row in (old[0], old[-1]))
    assert lines == [f"{gone}: the row is gone", f"{other}: p99_ns {old[-1]['p99_ns']} -> 1"]
    assert results.differences(changed, old)[0] == f"{gone}: the row is new"
    text = results.report(lines)
    assert "2 rows differ" in text
    assert "make regress" in text
