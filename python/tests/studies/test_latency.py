# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gains of policies as a share of the oracle's, and the estimated limit."""

from __future__ import annotations

import json

import pytest
from linnet.cli import app
from linnet.experiment import share_of_gain
from linnet.studies.latency import figures, summary, with_ways
from typer.testing import CliRunner


def row(policy: str, trace: str, us: float) -> dict[str, object]:
    cell = {"trace": trace, "preset": "p", "share": 0.75, "seed": 0, "policy": policy, "extra_io_share": 0.01}
    return cell | {"mean_us": us, "p99_us": 2 * us, "p999_us": 3 * us}


def test_the_way_is_from_baseline_to_oracle_and_none_without_one():
    assert share_of_gain(10.0, 4.0, 2.0) == 0.75
    assert share_of_gain(10.0, 12.0, 2.0) == -0.25
    assert share_of_gain(10.0, 9.99, 9.96) is None
    assert share_of_gain(0.0, 0.0, 0.0) is None and share_of_gain(10.0, 4.0, None) is None
    rows = with_ways([row("baseline", "a", 10.0), row("linnet-best", "a", 4.0), row("oracle", "a", 2.0)])
    assert [r["way_mean"] for r in rows] == [0.0, 0.75, 1.0]
    alone = [row("linnet-best", "a", 4.0)]
    assert with_ways(alone) == alone


def test_the_summary_is_of_geometric_means():
    rows = [row(policy, "a", us) for policy, us in (("baseline", 100.0), ("linnet-best", 50.0), ("oracle", 25.0))]
    rows += [row(policy, "b", us) for policy, us in (("baseline", 1.0), ("linnet-best", 0.5), ("oracle", 0.25))]
    best = summary(rows)[1]
    assert best["policy"] == "linnet-best" and best["cells"] == 2
    assert best["mean"] == pytest.approx(0.5) and best["way_p999"] == pytest.approx(2 / 3)
    assert summary([row("linnet-best", "a", 1.0)]) == []


def test_p999_is_the_nearest_rank():
    import numpy as np

    assert figures(np.arange(1.0, 1001.0)) == {"mean": 500.5, "p999": 999.0}


def test_study_latency_gives_rows_ways_and_limits():
    arguments = "study latency -w az-e --preset enterprise-wide --share 0.9 --seconds 2 --limit --json"
    result = CliRunner().invoke(app, [*arguments.split(), "--policy", "baseline,linnet-best,linnet+hl,oracle"])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    rows = {r["policy"]: r for r in found["rows"]}
    assert [r["way_mean"] for r in (rows["baseline"], rows["oracle"])] == [0.0, 1.0]
    assert rows["linnet-best"]["extra_io_share"] <= 0.02 and rows["linnet+hl"]["extra_io_share"] <= 0.02
    for name in ("limit_mean", "limit_p999", "step_mean", "step_p999"):
        assert rows["linnet-best"][name] <= 1.0, "no choice beats the best of each read"
        assert name not in rows["linnet+hl"]
    assert [line["policy"] for line in found["summary"]] == list(rows)


def test_study_latency_names_what_is_wrong():
    for arguments, text in ((["--preset", "none"], "unknown 'none'"), (["--seed", "x"], "list of whole numbers")):
        result = CliRunner().invoke(app, ["study", "latency", "-w", "az-e", *arguments])
        assert result.exit_code != 0 and text in result.output
