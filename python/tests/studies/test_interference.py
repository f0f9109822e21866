# SPDX-License-Identifier: MIT OR Apache-2.0
"""The gray-box paper's sensitivity experiments on modelled drives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from linnet import _native
from linnet.cli import app
from linnet.studies.interference import PERIOD_S, RATES, SIZE_PAIRS, Bench, bursty, cases, spread_explains
from linnet.studies.interference_claims import CLAIMS, verdicts
from typer.testing import CliRunner


def made(figure: int, series: str, x: float | str, loss: float, **more: Any) -> dict[str, Any]:
    row = {
        "figure": figure,
        "drive": "nvme",
        "state": "new",
        "depths": "total",
        "series": series,
        "x": x,
        "loss_percent": loss,
    }
    return {**row, "waits_us": {"flush-wide": 10.0 * loss, "bus": 0.5}, **more}


def judged(rows: list[dict[str, Any]]) -> dict[str, bool]:
    return {str(one["paper"]): bool(one["agrees"]) for one in verdicts(rows)}


def test_a_statement_is_refused_when_the_figures_say_otherwise() -> None:
    both = [made(6, "interfering", "read", 2.0), made(6, "interfering", "write", 31.0)]
    assert judged(both) == {"writes cost about 30 points more than reads": True}
    assert verdicts(both)[0]["model"] == "29.0"
    assert verdicts(both)[0]["waits"] == "flush-wide 310"
    assert judged([made(6, "interfering", "read", 2.0), made(6, "interfering", "write", 50.0)]) == {
        "writes cost about 30 points more than reads": False
    }
    for losses, agrees in (((20.0, 9.0, 1.0), True), ((20.0, 21.5, 1.0), False), ((20.0, 15.0, 12.0), False)):
        rows = [made(3, "aligned", x, 0.0) for x in (6, 10, 18)]
        rows += [made(3, "unaligned", x, loss) for x, loss in zip((6, 10, 18), losses, strict=True)]
        assert judged(rows)["that difference falls as sizes grow"] is agrees


def test_what_the_deviation_explains_is_told_from_what_the_mean_does() -> None:
    rows = []
    for mean in (0.5, 1.0, 1.5):
        for spread in (0.0, 0.4, 0.8):
            kept = 2000 - 400 * mean - 800 * spread * mean
            rows.append(
                {"series": f"{mean} times the mean", "beside_mbs": kept, "interfering_std_mbs": 1000 * spread * mean}
            )
    found = spread_explains(rows)
    assert found["r2_mean"] < 0.9 < found["r2_mean_and_std"] == pytest.approx(1.0)
    assert found["correlation_std"] == pytest.approx(-1.0)


def test_loads_are_those_of_the_tables() -> None:
    space = 700 << 20
    for drive, rates in RATES.items():
        low, high = rates.bursty
        loads = bursty(low, high)
        ios = sum(len(load.trace(PERIOD_S, space, 1)) for load in loads)
        assert ios / PERIOD_S == pytest.approx((low + high) / 2, rel=0.01)
        for case in cases(drive, [3]):
            (load,) = case.interfering
            (_, profile), *_ = _native.profile_trace(load.trace(0.2, space, 1), end_s=0.2)
            written = profile.features[[i for i, n in enumerate(_native.profile_features()) if "bandwidth_mean" in n]]
            # Few large I/Os fit in the sample.
            assert written.sum() == pytest.approx(rates.size_bandwidth, rel=0.05 if case.x < 300 else 0.2)
    assert [sum(pair) / 2 % 4 for pair in SIZE_PAIRS] == [2.0] * len(SIZE_PAIRS)
    assert {claim.figure for claim in CLAIMS} == set(range(3, 11))


def test_a_used_drive_collects_garbage_and_a_new_one_does_not() -> None:
    (case,) = [case for case in cases("sata", [6]) if case.x == "write"]
    rows = {state: Bench("sata", state).run(case) for state in ("new", "used")}
    collected = {state: sum(us for name, us in row["waits_us"].items() if "gc" in name) for state, row in rows.items()}
    assert collected["new"] == 0 < collected["used"]
    for row in rows.values():
        assert row["alone_mbs"] == pytest.approx(65_536 * 4096 / 1e6, rel=0.02)
        assert row["loss_percent"] == pytest.approx(100 * (1 - row["beside_mbs"] / row["alone_mbs"]), abs=0.01)


def test_the_command_keeps_its_runs(tmp_path: Path) -> None:
    keep, page = tmp_path / "kept.jsonl", tmp_path / "page.md"
    ask = ["study", "interference", "--drive", "sata", "--state", "new", "--figure", "6", "--keep", str(keep)]
    ask += ["--page", str(page), "--pictures", str(tmp_path), "--json"]
    first = CliRunner().invoke(app, ask, catch_exceptions=False)
    assert first.exit_code == 0, first.output
    found = json.loads(first.stdout)
    assert [(row["depths"], row["x"]) for row in found["rows"]] == [
        (depths, x) for depths in ("total", "per-thread") for x in ("read", "write")
    ]
    assert len(found["verdicts"]) == 2
    lines = keep.read_text()
    assert len(lines.splitlines()) == 4
    assert json.loads(CliRunner().invoke(app, ask, catch_exceptions=False).stdout) == found
    assert keep.read_text() == lines
    assert "| 6 | sata |" in page.read_text()
    assert (tmp_path / "interference-sata.svg").read_text().startswith("<svg")
