# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet place plan``: recorded tenants on as few drives as trials allow."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from linnet._native import SharedDrive, TenantError, TenantLoad, Trace
from linnet.cli import app
from linnet.place import share_forest
from linnet.place.plan import Tenants, Windows, plan
from linnet.place.slo import Slo
from typer.testing import CliRunner

PEAK = 4e8
CUT = Windows(seconds=0.2, trial=2)
BANDWIDTH = Slo("read_bandwidth_mean", degradation_percent=10.0)
SIZE = 16_384


def reads(share: float, seed: int, seconds: float = 0.8) -> Trace:
    """A tenant that reads at a share of the peak, steadily."""
    load = TenantLoad(share * PEAK / SIZE, [SIZE], depth=64)
    return load.trace(seconds, 1 << 30, seed)


def tenants(traces: list[Trace], metrics: tuple[str, ...] = ("read_bandwidth_mean",)) -> Tenants:
    made = Tenants(traces, SharedDrive("sata", 0), metrics, CUT, 64)
    made.measure_alone(lambda done: None)
    return made


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_forest, "TREES", 10)


def test_neighbours_cost_a_share_of_what_a_tenant_has_alone() -> None:
    traces = [reads(0.2, 1), reads(0.2, 2), reads(2.0, 3), reads(2.0, 4)]
    made = tenants(traces, ("read_bandwidth_mean", "read_latency_p99_us"))
    assert made.uses.all()
    assert (made.share(frozenset([0]), 1) == 1).all()
    quiet, crowded = (made.share(frozenset(mix), 1) for mix in ([0, 1], [0, 1, 2, 3]))
    np.testing.assert_allclose(quiet[:, 0], 1.0, atol=0.02)
    assert (crowded[2:, 0] < 0.9).all(), "the drive is overloaded"
    assert (crowded[:2, 1] < 0.5).all(), "a latency that grows is a share that falls"


def test_who_has_nothing_to_do_in_a_window_has_no_share_of_it() -> None:
    burst = reads(0.3, 4, 0.2)
    late = burst.followed_by(burst, 600_000_000)
    made = tenants([late, reads(0.3, 5)])
    assert np.isnan(made.share(frozenset([0, 1]), 1)[0]).all() and not np.isnan(made.share(frozenset([0, 1]), 1)[1])
    assert made.uses.all(), "it has windows with I/O"


def test_tenants_share_drives_but_not_two_that_fill_one() -> None:
    made = tenants([reads(0.15, seed) for seed in range(6)] + [reads(1.1, seed) for seed in (7, 8)])
    found = plan(made, [BANDWIDTH], CUT, 80, 0, lambda stage, done, of: None)
    assert sorted(i for drive in found.drives for i in drive) == list(range(8))
    assert 2 <= len(found.drives) <= 4
    assert not any({6, 7} <= drive for drive in found.drives)
    assert found.held <= found.trials and found.runs <= 80
    hurried = plan(made, [BANDWIDTH], CUT, 8, 0, lambda stage, done, of: None)
    assert hurried.runs <= 8 and len(hurried.drives) >= 8 - hurried.held


def test_who_misses_a_promise_in_the_last_window_is_named() -> None:
    light, heavy = reads(0.1, 1, 0.6), reads(1.5, 2, 0.2)
    made = tenants([light.followed_by(heavy, 600_000_000), light.followed_by(reads(1.5, 3, 0.2), 600_000_000)])
    found = plan(made, [BANDWIDTH], CUT, 80, 0, lambda stage, done, of: None)
    assert found.drives == [frozenset([0, 1])], "all windows of trials are light"
    assert {tenant for tenant, _, _ in found.missed} and all(share < 0.9 for _, _, share in found.missed)


def test_who_completes_nothing_beside_others_has_lost_all(monkeypatch: pytest.MonkeyPatch) -> None:
    made = tenants([reads(0.1, 1), reads(0.1, 2)], ("read_bandwidth_mean", "read_latency_p99_us"))
    seen = np.array([[0.0, np.nan], [1e6, 100.0]]), np.zeros(2, np.bool_)
    monkeypatch.setattr(made, "_run", lambda members, window: seen)
    share = made.share(frozenset([0, 1]), 1)
    assert share[0].tolist() == [0.0, 0.0] and (share[1] > 0).all()


def test_a_trace_that_is_too_short_is_refused() -> None:
    with pytest.raises(TenantError, match=r"has 0\.4.* s, and 4 windows of 0\.2 s are asked for"):
        tenants([reads(0.2, 1, 0.45)])


def test_a_trace_of_several_tenants_is_refused(tmp_path: Path) -> None:
    path, merged = tmp_path / "a.csv", tmp_path / "m.csv"
    reads(0.2, 1).write(path)
    assert CliRunner().invoke(app, ["trace", "merge", str(path), str(path), "-o", str(merged)]).exit_code == 0
    with pytest.raises(TenantError, match="has 2 tenants; give a trace for each"):
        tenants([Trace.read(merged)])


def test_the_command_prints_every_tenant_once(tmp_path: Path) -> None:
    paths = [tmp_path / f"t{seed}.csv" for seed in range(4)]
    for seed, path in enumerate(paths):
        reads(0.15, seed).write(path)
    options = ["--drive", "sata", "--seconds", "0.2", "--windows", "2", "--slo", "read_bandwidth_mean-10%"]
    done = CliRunner().invoke(app, ["place", "plan", *map(str, paths), *options, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert sorted(name for drive in found["drives"] for name in drive) == sorted(map(str, paths))
    assert found["missed"] == [] and found["slos"] == ["read_bandwidth_mean -10 %"]
    again = CliRunner().invoke(app, ["place", "plan", *map(str, paths), *options, "--json"])
    assert again.stdout == done.stdout, "the same seed gives the same bytes"
    text = CliRunner().invoke(app, ["place", "plan", *map(str, paths), *options])
    assert "4 tenants on" in text.stdout and "4 of the 4 tenants with I/O there had what was promised" in text.stdout


@pytest.mark.parametrize(
    "slo", ["read_bandwidth_mean>=5", "read_latency_p50_us+5%", "read_bandwidth_mean-5% at 90%", "nonsense"]
)
def test_promises_that_trials_cannot_judge_are_refused(tmp_path: Path, slo: str) -> None:
    done = CliRunner().invoke(app, ["place", "plan", str(tmp_path / "a.csv"), "--slo", slo])
    assert done.exit_code == 2
