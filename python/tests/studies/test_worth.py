# SPDX-License-Identifier: MIT OR Apache-2.0
"""The study of what the model is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import device_trace
from linnet import Trace
from linnet._native import Array, workloads
from linnet.cli import app
from linnet.experiment import DEPLOYED, LEARNED, Progress, overview
from linnet.studies import worth, worth_grid
from linnet.studies.grid import ARRIVALS, REAL_SSD, Source
from linnet.studies.kept import CONTENT, kept_rows
from linnet.studies.worth_fair import fair
from linnet.studies.worth_grid import Cell
from linnet.studies.worth_page import page_of
from typer.testing import CliRunner


def row(trace: str, ratio: float, metric: str = "mean") -> dict[str, object]:
    return {"trace": trace, "metric": metric, "ratio": ratio, "seed": 0}


def test_reported_seeds_and_tuning_seeds_are_apart() -> None:
    assert not set(worth.reported_seeds(1_000)) & set(worth.split()["seeds"]["tuning"])
    assert worth.reported_seeds(3) == [100, 200, 300]


def test_the_rules_have_no_model_and_the_rival_has_our_hedge_and_probe() -> None:
    rules = worth.rules()
    assert {"ewma-hedged", "md-raid1", "shortest-queue", "baseline"} <= set(rules)
    assert not {"linnet-best", "linnos", "trees-only", "oracle", "clone"} & set(rules)


def test_what_the_overview_leaves_out_is_known_to_the_engine() -> None:
    assert DEPLOYED and LEARNED and not DEPLOYED & LEARNED
    assert not DEPLOYED & set(overview()) and {"baseline", "linnet-best", "oracle"} <= set(overview())


def test_wins_losses_and_the_mean_are_counted_per_metric() -> None:
    rows = [row("a", 0.90), row("a", 0.96), row("b", 1.03), row("b", 1.01), row("a", 0.5, "p99")]
    mean, p99 = worth.summary(rows)
    assert (mean["cells"], mean["won_by_5"], mean["lost_by_2"]) == (4, 1, 1)
    assert mean["ratio_geomean"] == pytest.approx((0.90 * 0.96 * 1.03 * 1.01) ** 0.25)
    assert mean["low95"] < mean["ratio_geomean"] < mean["high95"]
    assert (p99["ratio_geomean"], p99["low95"], p99["high95"]) == (0.5, 0.5, 0.5)


def test_cells_of_one_trace_do_not_narrow_the_interval() -> None:
    apart = worth.summary([row(str(k), 0.8 + 0.4 * (k % 2)) for k in range(20)])[0]
    together = worth.summary([row(str(k % 2), 0.8 + 0.4 * (k % 2)) for k in range(20)])[0]
    assert together["high95"] - together["low95"] > 2 * (apart["high95"] - apart["low95"])


def test_cells_of_one_seed_do_not_narrow_the_interval() -> None:
    def width(seeds: int) -> float:
        rows = [row(trace, 0.8 + 0.4 * (k % 2)) | {"seed": k % seeds} for trace in "abcd" for k in range(20)]
        line = worth.summary(rows)[0]
        return float(line["high95"] - line["low95"])

    assert width(2) > 2 * width(20)


def test_an_interval_is_that_of_a_bootstrap_over_traces_and_seeds() -> None:
    chance = np.random.default_rng(3)
    # Not every trace was run with every seed.
    cells = [(trace, seed) for trace in "abc" for seed in range(4) if (trace, seed) != ("b", 2)] + [("c", 1)]
    logs = chance.normal(size=len(cells))
    low, high = worth.interval(logs, [trace for trace, _ in cells], [seed for _, seed in cells])
    means = []
    for _ in range(20_000):
        traces, seeds = list(chance.choice(list("abc"), 3)), list(chance.integers(4, size=4))
        times = [traces.count(trace) * seeds.count(seed) for trace, seed in cells]
        if any(times):
            means.append(np.average(logs, weights=times))
    assert (low, high) == pytest.approx(tuple(np.exp(np.quantile(means, (0.025, 0.975)))), rel=0.08)
    one = worth.interval(logs, ["a"] * len(cells), [7] * len(cells))
    assert one[0] < float(np.exp(logs.mean())) < one[1]
    assert worth.interval(logs[:1], ["a"], [7]) == pytest.approx((np.exp(logs[0]), np.exp(logs[0])))


def test_ties_are_broken_by_a_hash_and_nothing_else_moves() -> None:
    arrive = np.array([5, 5, 5, 5, 9, 9, 20], dtype=np.uint64)
    count = len(arrive)
    trace = Trace.from_columns(
        "ties",
        arrive,
        np.zeros(count, np.uint8),
        np.arange(count, dtype=np.uint64) * 4096,
        np.full(count, 4096, np.uint32),
        np.zeros(count, np.uint32),
        np.full(count, 80_000, np.uint64),
    )
    orders = {tuple(trace.without_ties(seed).columns()["offset_bytes"] // 4096) for seed in range(20)}
    assert len(orders) > 5
    for order in orders:
        assert sorted(order[:4]) == [0, 1, 2, 3] and sorted(order[4:6]) == [4, 5] and order[6] == 6


def test_the_command_answers_with_rows_and_a_summary(linnet: Callable[..., Any]) -> None:
    result = linnet("study", "worth", "-w", "bs-c", "--seconds", "4", "--seeds", "1", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert [row["metric"] for row in found["rows"]] == ["mean", "p99", "p999"]
    for row_ in found["rows"]:
        assert row_["writes"] == "all" and row_["seed"] == 100 and row_["engine"] == "timelines"
        assert row_["ratio"] == pytest.approx(row_["learned_us"] / row_["best_rule_us"])
        assert row_["best_rule_us"] <= row_["ewma_hedged_us"]
        assert min(row_["rules_us"].values()) == row_["best_rule_us"]
    assert [line["cells"] for line in found["summary"]] == [1, 1, 1] and found["fair"] == [], "one seed"


def test_the_grid_goes_round_all_sources_with_all_seeds_of_a_combination(tmp_path: Path) -> None:
    cells, lacking = worth_grid.every_cell(tmp_path, 5, True)
    assert len(lacking) == len(REAL_SSD | ARRIVALS) - len(worth_grid.SMALL), "no trace is there"
    assert len(cells) == len(workloads()) * len(worth_grid.ARRAYS) * 5
    first = cells[: 5 * len(workloads())]
    assert [cell.setup.seed for cell in first[:5]] == worth.reported_seeds(5)
    assert {cell.source.name for cell in first} == set(workloads())
    assert len({cell.setup.preset for cell in first}) == len(workloads()) and len({cell.load for cell in cells}) == 3
    assert {cell.setup.preset for cell in cells} == set(worth_grid.ARRAYS)
    assert all((cell.ios == worth_grid.IOS // 2) == (cell.setup.preset in worth_grid.QUEUED) for cell in cells)


def test_a_busy_array_is_found_on_a_tuning_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell(Source("bs-c"), worth_grid.worth_setup("970-evo", 3, 100, True), "busy", 1.0, 3_000)
    seeds = []
    parts = worth_grid.parts
    monkeypatch.setattr(worth_grid, "parts", lambda cell, seed, load: seeds.append(seed) or parts(cell, seed, load))
    rate = worth_grid.busy_rate(cell, lambda source: [])
    assert seeds == [worth.split()["seeds"]["tuning"][0]]

    first, _ = parts(cell, seeds[0], lambda source: [])
    array = Array("970-evo", 3, seeds[0], None)

    def median(factor: float) -> float:
        run = array.run([t.rerate(factor) for t in first], "baseline", [], seed=seeds[0], writes_to_all=True)
        return float(np.median(run.latency_ns()))

    assert median(rate) <= worth_grid.BUSY * median(rate / 64) < median(2 * rate)


MADE = {name: {str: "made", dict: {}, int: 1}.get(kind, 0.9) for name, kind in worth.ROW.items()}
"""A row of a cell, as far as what it has goes."""


def test_kept_cells_are_not_run_again(tmp_path: Path, small_drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setups = [worth_grid.worth_setup(str(small_drive), 3, seed, True) for seed in (100, 101)]
    cells = [Cell(Source("bs-c"), setup, None, 1.0, 600) for setup in setups]
    ran: list[int] = []

    def rows_of(experiment: Any, writes: str) -> list[dict[str, Any]]:
        ran.append(experiment.setup.seed)
        return [{"trace": experiment.name, **MADE}] * 2

    monkeypatch.setattr(worth_grid, "cell_rows", rows_of)
    keep = tmp_path / "kept.jsonl"
    first = worth_grid.run_cells(cells[:1], lambda source: [], Progress(), keep)
    both = worth_grid.run_cells(cells, lambda source: [], Progress(), keep)
    assert ran == [100, 101] and both[:2] == first and kept_rows(keep) == both
    # The second cell's rows were cut off within its last one: its first one says too little.
    keep.write_bytes(keep.read_bytes()[:-20])
    assert worth_grid.run_cells(cells, lambda source: [], Progress(), keep) == both == kept_rows(keep)
    assert ran == [100, 101, 101]


def test_kept_rows_of_traces_of_one_name_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup, ran = worth_grid.worth_setup("970-evo", 3, 100, True), []
    cells, traces = [], {}
    for number in (1, 2):
        source = Source("odd.csv", tmp_path / f"o{number}" / "odd.csv")
        traces[source] = [device_trace(number, 100)]
        cells.append(Cell(source, setup, None, 1.0, 600))
    monkeypatch.setattr(worth_grid, "experiment", lambda cell, *rest: ran.append(cell))
    monkeypatch.setattr(worth_grid, "cell_rows", lambda *rest: [{"trace": "odd.csv", **MADE, "reads": len(ran)}])
    keep = tmp_path / "kept.jsonl"
    first, second = (worth_grid.run_cells([cell], traces.get, Progress(), keep) for cell in cells)
    assert ran == cells and first != second and first[0][CONTENT] != second[0][CONTENT]
    assert worth_grid.run_cells(cells, traces.get, Progress(), keep) == first + second == kept_rows(keep)
    # A row of before digests may be of either.
    keep.write_text(json.dumps({name: value for name, value in second[0].items() if name != CONTENT}) + "\n")
    worth_grid.run_cells(cells[:1], traces.get, Progress(), keep)
    assert ran == [*cells, cells[0]]


@pytest.mark.parametrize("study", ["worth", "paths", "informed", "interference", "colocation"])
@pytest.mark.parametrize("text", ["my notes\n", '{"trace": "odd.csv"}\n', '{"figure": 3, "drive": "sata"}\n', "ROW"])
def test_a_file_of_another_study_is_refused(
    study: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ran(*words: Any) -> None:
        raise AssertionError("the study was run")

    for name in ("worth_grid.busy_rate", "worth_grid.experiment", "interference.Bench", "cli.colocation._label"):
        monkeypatch.setattr(f"linnet.studies.{name}", ran)
    words = {
        **{"worth": ["-w", "az-c"], "paths": ["-w", "az-c", "--seeds", "1"], "informed": ["--traces", str(tmp_path)]},
        **{"interference": ["--drive", "sata"], "colocation": ["--drive", "sata"]},
    }
    # A row of a cell that `worth` has, too.
    cell = Cell(Source("az-c"), worth_grid.worth_setup("consumer-deep", 3, 100, True), None, 1.0, None).key()
    row_ = json.dumps({"rate": 1.0, "variant": "base", **cell}) + "\n"
    keep = tmp_path / "own.jsonl"
    keep.write_text(text.replace("ROW", row_))
    done = CliRunner().invoke(app, ["study", study, *words[study], "--keep", str(keep)])
    assert isinstance(done.exception, ValueError) and "own.jsonl: line 1: " in str(done.exception)
    assert keep.read_text() == text.replace("ROW", row_)


def full_row(trace: str, preset: str, metric: str, ratio: float, **more: Any) -> dict[str, Any]:
    found = {"trace": trace, "preset": preset, "metric": metric, "ratio": ratio, "engine": "timelines", "seed": 100}
    found |= {"writes": "all", "load": "busy", "best_rule": "dm-hst", "best_rule_us": 100.0, "learned_us": 100 * ratio}
    found |= {"frugal_rule_us": 120.0, "ewma_hedged_us": 125.0, "best_rule_extra_io_share": 0.0, "way": 0.5}
    return found | more


def test_the_page_says_what_was_won_and_lists_every_loss() -> None:
    rows = [full_row("az-c", "970-evo", metric, 0.8) for metric in ("mean", "p99", "p999")]
    rows += [full_row("msnfs", "970-evo,600p", metric, 1.5, best_rule="hedge-ip") for metric in ("mean", "p99", "p999")]
    page = page_of(rows)
    assert "2 cells: 2 traces on 2 arrays" in page
    assert "| mean | 2 | 1 (50 %) | 1 (50 %) | 1.095 |" in page, "sqrt(.8 x 1.5)"
    assert "| mean | 2 | 1 (50 %) | 1 (50 %) | 0.913 |" in page, "against 120 us: sqrt(.667 x 1.25)"
    assert page.count("| msnfs | 970-evo,600p | busy |") == 3 and "| az-c | 970-evo | busy |" not in page
    assert "| fitted presets, mixed | 1 | 1.500, 0, 1 |" in page and "| hedge-ip | 1 | 1 | 1 |" in page
    assert "None." in page_of(rows[:3])


def seeded_rows(
    latency_us: dict[str, list[float]], trace: str = "az-c", learned_us: float = 90.0
) -> list[dict[str, Any]]:
    """Rows of one combination, a seed for each latency; all rules have as many."""
    rows = []
    for k in range(len(next(iter(latency_us.values())))):
        rules = {name: values[k] for name, values in latency_us.items()}
        best = min(rules, key=lambda name: rules[name])
        own = {"seed": 100 + k, "best_rule": best, "best_rule_us": rules[best], "learned_us": learned_us}
        own["expected_us"] = 0.8 * learned_us
        rows.append(full_row(trace, "970-evo", "mean", learned_us / rules[best], rules_us=rules, **own))
    return rows


def test_a_rule_is_chosen_on_other_seeds_than_it_is_judged_on() -> None:
    # Each rule is lucky on one half of the seeds: hindsight has 80 everywhere, what the other half chose has 120.
    rows = seeded_rows({"dm-hst": [80, 120, 80, 120], "c3": [120, 80, 120, 80]})
    assert all("expected_us" in row_ for row_ in rows)
    expected = next(line for line in fair(rows) if line["policy"] == "linnet-expected")
    assert expected["ratio_geomean"] == pytest.approx(72 / 80), "hindsight comes first"
    by = {line["rival"]: line for line in fair(rows) if line["policy"] == "linnet-best"}
    assert by["hindsight"]["hindsight_geomean"] == 1 and by["hindsight"]["ratio_geomean"] == pytest.approx(90 / 80)
    for kind in ("combination", "single"):
        assert by[kind]["hindsight_geomean"] == pytest.approx(1.5) and by[kind]["ratio_geomean"] == pytest.approx(
            90 / 120
        )
        assert by[kind]["rules"] == {"c3": 2, "dm-hst": 2} and by[kind]["cells"] == 4


def test_the_single_rule_is_chosen_on_other_traces() -> None:
    rows = seeded_rows({"dm-hst": [80, 80], "c3": [100, 100]}) + seeded_rows(
        {"dm-hst": [80, 80], "c3": [60, 60]}, "bs-e"
    )
    by = {line["rival"]: line for line in fair(rows) if line["policy"] == "linnet-best"}
    assert by["combination"]["hindsight_geomean"] == 1
    assert by["single"]["hindsight_geomean"] == pytest.approx((100 / 80 * 80 / 60) ** 0.5)
    page = page_of(rows)
    assert "one rule, the best on other seeds of all other traces" in page
    after = page.partition("## linnet-expected, against linnet-best\n")[2]
    assert after and "| mean | 4 | 4 (100 %) | 0 (0 %) | 0.800 |" in after.partition("##")[0]


def test_one_seed_gives_no_fair_figures() -> None:
    assert fair(seeded_rows({"dm-hst": [80.0], "c3": [120.0]})) == []


def test_what_everything_chooses_cannot_be_chosen_too(linnet: Callable[..., Any], tmp_path: Path) -> None:
    result = linnet("study", "worth", "--everything", "--traces", str(tmp_path), "-w", "az-c")
    assert result.returncode != 0 and "--everything" in result.stderr and "Traceback" not in result.stderr
    assert linnet("study", "worth", "--everything").returncode != 0
