# SPDX-License-Identifier: MIT OR Apache-2.0
"""What an operator is told: the score, the recommendation and how sure it is."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import device_trace
from linnet import Trace, write_trace
from linnet._native import fitted_to
from linnet.experiment import Experiment, Setup
from linnet.learning import FitSettings, fit
from linnet.verdict import DEPLOY, ORACLE, conclude, interval, rank, score, weigh
from linnet.whatif import SHARES, apart, closest_preset, doubts, shares_of, uncopied
from scipy.stats import t as student

BASE = {"mean_us": 100.0, "p99_us": 1000.0, "p999_us": 4000.0, "extra_io_share": 0.0}


def times(ratio: float, extra: float = 0.0, p999: float | None = None) -> dict[str, Any]:
    row = {key: value * ratio for key, value in BASE.items() if key != "extra_io_share"}
    return row | {"extra_io_share": extra} | ({"p999_us": BASE["p999_us"] * p999} if p999 is not None else {})


def cells(**ratios: float) -> list[dict[str, dict[str, Any]]]:
    """Six cells that differ by a few per cent; every policy that is not named is the baseline."""
    found = []
    for k in range(6):
        cell = {name: times(1.0) for name in ("baseline", *DEPLOY)} | {ORACLE: times(0.4)}
        cell |= {name.replace("_", "-"): times(ratio * (1 + 0.01 * k)) for name, ratio in ratios.items()}
        found.append({name: row | {"seed": k % 3} for name, row in cell.items()})
    return found


def told(
    found: list[dict[str, dict[str, Any]]], doubt: list[str] | None = None, by_share: tuple[float, ...] = (0.0,)
) -> tuple[str, str, dict[str, Any]]:
    return conclude(rank(found), found, by_share, Setup(preset="970-evo"), doubt or [])


def test_the_score_weighs_three_figures_and_the_extra_reads() -> None:
    assert score(times(0.5), BASE) == pytest.approx(0.5)
    assert score(times(1.0, p999=0.25), BASE) == pytest.approx(0.25 ** (1 / 3)), "a fourfold p99.9 counts"
    assert score(times(0.5, extra=0.2), BASE) == pytest.approx(0.6)


def of_seeds(*seeds: int) -> list[dict[str, dict[str, Any]]]:
    return [{"baseline": {"seed": seed}} for seed in seeds]


def test_the_interval_holds_the_mean_and_grows_with_the_spread() -> None:
    low, high = interval(of_seeds(0, 1, 2, 3, 4), [0.8, 0.9, 1.0, 0.85, 0.95])
    # scipy.stats.t.interval over the logarithms.
    assert (low, high) == pytest.approx((0.8041, 1.0010), abs=1e-3)
    assert interval(of_seeds(0, 1, 2, 3, 4), [0.9] * 5) == pytest.approx((0.9, 0.9))


def test_only_seeds_count_as_repetitions() -> None:
    few = interval(of_seeds(0, 1), [0.8, 0.9])
    more_shares = interval(of_seeds(0, 1) * 100, [0.8, 0.9] * 100)
    assert few[0] < 0.6 and few[1] > 1.2
    assert more_shares[0] < 0.6 and more_shares[1] > 1.2
    many = interval(of_seeds(*range(12)), [0.8, 0.9] * 6)
    # 2.201 is Student's t of 11 degrees of freedom.
    half = 2.201 * np.std(np.log([0.8, 0.9] * 6), ddof=1) / np.sqrt(12)
    assert many[1] == pytest.approx(np.sqrt(0.72) * np.exp(half), rel=1e-3)


def test_the_interval_is_that_of_student_at_every_number_of_seeds() -> None:
    for seeds in range(2, 60):
        logs = np.linspace(-0.5, 0.5, seeds)
        low, high = interval(of_seeds(*range(seeds)), np.exp(logs))
        half = (np.log(high) - np.log(low)) / 2 / (logs.std(ddof=1) / seeds**0.5)
        assert half == pytest.approx(student.ppf(0.975, seeds - 1), abs=1e-3)


def test_where_shares_hardly_matter_the_seeds_tell_the_interval() -> None:
    # scipy.stats.t.interval over the logarithms of 0.8, 0.9 and 1.0.
    known = pytest.approx((0.6792, 1.1827), abs=1e-3)
    assert interval(of_seeds(0, 1, 2), [0.8, 0.9, 1.0]) == known
    assert interval(of_seeds(0, 1, 2) * 4, [0.8, 0.9, 1.0] * 4) == known
    # Where the seeds agree, the spread is that of the shares.
    logs = np.log([0.5, 1.0] * 3)
    half = 4.303 * logs.std(ddof=1) / np.sqrt(3)
    low, high = interval(of_seeds(0, 0, 1, 1, 2, 2), [0.5, 1.0] * 3)
    assert (low, high) == pytest.approx((np.sqrt(0.5) * np.exp(-half), np.sqrt(0.5) * np.exp(half)), rel=1e-3)


def test_seeds_have_no_drive_in_common() -> None:
    setup = Setup(preset="970-evo", replicas=3, seed=7)
    drives = [seed + drive for seed in apart(setup, 4) for drive in range(setup.replicas)]
    assert len(set(drives)) == len(drives) == 12 and apart(setup, 1)[0] == 7


def test_one_seed_has_no_interval() -> None:
    assert interval(of_seeds(3, 3, 3), [0.8, 0.9, 0.7]) == (0.0, np.inf)
    made = cells(ewma_hedged=0.70, linnet_best=0.50)
    one = [{name: row | {"seed": 0} for name, row in cell.items()} for cell in made]
    headline, text, found = told(one)
    assert headline.startswith("Not certain") and json.dumps(found, allow_nan=False)
    assert rank(one)[0]["low95"] is None and not {"nan", "inf"} & set(re.findall(r"\w+", text))


def test_a_gain_that_may_be_a_loss_is_not_certain() -> None:
    found = cells(ewma_hedged=0.6)
    for k, cell in enumerate(found):
        cell["ewma-hedged"] = times((0.3, 0.6, 1.1)[k % 3]) | {"seed": k % 3}
    line = rank(found)[0]
    assert line["gain"] > 0.3 and line["low95"] < 0 < line["high95"]
    headline, text, answer = told(found)
    assert headline == "Not certain: these traces do not tell." and answer["policy"] is answer["command"] is None
    assert "linnet dm" not in text and "--seeds 12" in text and "Confidence: medium" in text
    assert answer["confidence"] == "medium" and "reaches into loss" in answer["doubts"][0]


def test_a_small_gain_is_not_worth_it_unless_it_may_be_a_large_one() -> None:
    found = cells(ewma_hedged=0.95)
    assert told(found)[0] == "Not worth installing here."
    for k, cell in enumerate(found):
        cell["ewma-hedged"] = times((0.5, 0.95, 1.7)[k % 3]) | {"seed": k % 3}
    assert rank(found)[0]["gain"] < 0.10 and told(found)[0].startswith("Not certain")


def hedged(ratios: tuple[float, float, float], oracle: float) -> list[dict[str, dict[str, Any]]]:
    """Cells with these ratios of ewma-hedged, by seed, and this of the oracle."""
    found = cells()
    for cell in found:
        seed = cell["baseline"]["seed"]
        cell["ewma-hedged"] = times(ratios[seed]) | {"seed": seed}
        cell[ORACLE] = times(oracle) | {"seed": seed}
    return found


@pytest.mark.parametrize(
    ("ratios", "oracle", "says"),
    [
        ((0.7, 0.88, 1.1), 1.1, "Not certain"),
        ((0.75, 0.91, 1.1), 1.1, "Not certain"),
        ((0.5, 0.51, 0.52), 1.1, "A simple policy is enough"),
        ((0.94, 0.95, 0.96), 1.1, "Not worth installing"),
        ((0.75, 0.95, 1.2), 0.93, "Not worth installing"),
    ],
)
def test_the_oracle_limits_only_what_it_beats(ratios: tuple[float, float, float], oracle: float, says: str) -> None:
    found = hedged(ratios, oracle)
    best = rank(found)[0]
    headline, text, _ = told(found)
    assert headline.startswith(says) and best["policy"] == "ewma-hedged"
    assert ("the oracle, which knows" in text) == (oracle < 1), text
    assert weigh(0.5, found)["headroom"] == pytest.approx(max(best["gain"], 1 - oracle))


def test_the_rival_without_a_model_is_recommended_where_the_model_adds_nothing() -> None:
    headline, text, found = told(cells(ewma_hedged=0.60, linnet_best=0.59, trees_only=0.8))
    assert headline == "A simple policy is enough: use ewma-hedged." and found["policy"] == "ewma-hedged"
    assert found["command"] == DEPLOY["ewma-hedged"].command and found["command"] in text
    assert found["low95"] < found["gain"] < found["high95"]


def test_the_least_effort_wins_among_equals() -> None:
    headline, _, found = told(cells(ewma_hedged=0.60, ewma_inflight=0.605, linnet_best=0.59))
    assert found["policy"] == "ewma-inflight" and found["place"] == "dm target" and "simple" in headline


def test_the_hedge_of_the_target_is_less_effort_than_other_software() -> None:
    found = told(cells(ewma_hedged=0.60, md_raid1=0.60, hedge_p95=0.60, linnet_best=0.59))[2]
    assert found["policy"] == "ewma-hedged" and found["place"] == "dm target" and "--hedge" in found["command"]


@pytest.fixture(scope="module")
def drive_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (fitted,) = fit([device_trace(1, reads=3000)], settings=FitSettings(epochs=1))
    path = tmp_path_factory.mktemp("models") / "drive.linnet"
    path.write_bytes(fitted.model.to_bytes())
    return path


@pytest.mark.parametrize(
    ("policy", "arguments"),
    [
        ("shortest-queue", "2 policy shortest-queue"),
        ("ewma-inflight", "2 policy ewma-inflight"),
        ("ewma-hedged", "4 policy ewma-inflight hedge 2"),
        ("trees-only", "4 policy linnet-best model drive.linnet"),
        ("linnet-best", "6 policy linnet-best model drive.linnet hedge 2"),
    ],
)
def test_the_target_takes_what_is_recommended(
    linnet: Callable[..., Any], drive_model: Path, policy: str, arguments: str
) -> None:
    way = DEPLOY[policy]
    assert way.place == "dm target" and ("linnet fit" in way.command) == ("model" in arguments)
    _, words = way.command.replace("drive.linnet", str(drive_model)).split("linnet dm create VOLUME DRIVE... ")
    dry = linnet("dm", "create", "vol", "/dev/absent-a", "/dev/absent-b", *shlex.split(words), "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert dry.stdout.splitlines()[-1].endswith(f' {arguments}"')


def test_reads_that_the_target_does_not_hedge_are_named() -> None:
    sizes = np.array([4096, 65_536, 69_632, 131_072, 1 << 20], np.uint32)
    op = np.array([0, 0, 0, 0, 1], np.uint8)
    zeros = np.zeros(5, np.uint32)
    wide = zeros.astype(np.uint64)
    trace = Trace.from_columns("sizes", np.arange(5, dtype=np.uint64), op, wide, sizes, zeros, wide + 100_000)
    small = device_trace(reads=10)
    hedged, plain = ({"command": DEPLOY[name].command} for name in ("ewma-hedged", "ewma-inflight"))
    (note,) = uncopied([trace], hedged)
    assert note.startswith("2 of 4 reads are larger than 64 KiB")
    assert not uncopied([trace], plain) and not uncopied([trace], {"command": None}) and not uncopied([small], hedged)


def test_the_targets_policies_hedge_what_it_does(small_drive: Path) -> None:
    columns = device_trace(reads=6000).columns()
    columns["size_bytes"] = np.where(np.arange(6000) % 2, 65_536, 69_632).astype(np.uint32)
    trace = Trace.from_columns("sizes", **columns)
    fast = FitSettings(epochs=1)
    experiment = Experiment([trace], Setup(preset=str(small_drive), device_wide_share=0.75, fit=fast))
    experiment.learn()
    hedges = {}
    for most in (None, 69_632, 65_536, 1):
        experiment.setup = replace(experiment.setup, hedge_bytes_max=most)
        for name in ("ewma-hedged", "hedge-p95"):
            run = experiment.array.run(experiment.run_part, name, experiment.models(), **experiment.run_settings())
            hedges[name, most] = run.counters()["hedges"]
    ours = [hedges["ewma-hedged", most] for most in (None, 69_632, 65_536, 1)]
    assert ours[0] == ours[1] > ours[2] > ours[3] == 0, "the setting is the largest that is hedged"
    assert len({hedges["hedge-p95", most] for most in (None, 65_536, 1)}) == 1, "other software has no such limit"


def test_the_model_is_recommended_where_it_beats_every_rule() -> None:
    headline, text, found = told(cells(ewma_hedged=0.70, linnet_best=0.50))
    assert headline.startswith("Worth installing: linnet-best") and found["policy"] == "linnet-best"
    assert found["model_gain"] == pytest.approx(1 - 0.5 / 0.7) and "Confidence: high" in text


def test_what_depends_is_said_to_depend_and_what_gains_nothing_is_not_worth_it() -> None:
    found = cells(ewma_hedged=0.7)
    for k, cell in enumerate(found):
        cell["linnet-best"] = times(0.35 if k < 2 else 0.75) | {"seed": k % 3}
    assert told(found, by_share=(0.5, -0.1))[0] == "It depends on the device: begin with ewma-hedged."
    # The seeds differ as much, but at no share is the model worth it.
    assert told(found, by_share=(0.09, -0.1))[0] == "A simple policy is enough: use ewma-hedged."
    headline, _, nothing = told(cells(linnet_best=0.95))
    assert headline == "Not worth installing here." and nothing["policy"] is None


def test_a_guess_is_called_a_guess() -> None:
    few = cells(ewma_hedged=0.6)
    assert doubts(Setup(preset="970-evo"), 1.1, 20_000, few) == []
    assert len(doubts(Setup(preset="consumer-deep"), None, 20_000, few)) == 2
    one = [{name: row | {"seed": 0} for name, row in cell.items()} for cell in few]
    assert doubts(Setup(preset="970-evo"), 1.1, 20_000, one) == ["few seeds were run"], "six shares of one seed"
    assert told(few, ["one"])[2]["confidence"] == "medium" and told(few, ["one", "two"])[2]["confidence"] == "low"


def test_the_summary_keeps_its_keys() -> None:
    row = weigh(0.5, cells(ewma_hedged=0.6, linnet_best=0.5))
    kept = {"share", "baseline_p99_us", "simple", "simple_mean_us", "simple_p99_us", "learned", "learned_mean_us"}
    assert kept | {"learned_p99_us", "oracle_p99_us", "headroom", "gain_over_baseline", "gain_over_simple"} <= set(row)
    assert (row["simple"], row["learned"], row["gain_over_simple"]) == (
        "ewma-hedged",
        "linnet-best",
        pytest.approx(1 - 0.5 / 0.6),
    )


@pytest.mark.slow
def test_a_fitted_preset_is_chosen_and_named() -> None:
    arrive = np.arange(3_000, dtype=np.uint64) * 1_000_000
    zeros = np.zeros(len(arrive), np.uint32)
    trace = Trace.from_columns(
        "quiet",
        arrive,
        zeros.astype(np.uint8),
        arrive // 250 * 4096,
        zeros + 4096,
        zeros,
        zeros.astype(np.uint64) + 100_000,
    )
    name, factor, note = closest_preset([trace], Setup(preset="", replicas=1), None)
    assert fitted_to(name) and name in note and "fitted" in note and factor is not None and factor < 3


def test_the_command_keeps_its_options_and_keys(linnet: Callable[..., Any], small_drive: Path, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    write_trace(device_trace(2), path)
    drives = ",".join([str(small_drive)] * 3)
    result = linnet("whatif", path, "--preset", drives, "--share", 0.75, "--seeds", 2, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert {"headline", "text", "notes", "summary", "rows", "parameters", "recommendation", "candidates"} <= set(found)
    assert [row["share"] for row in found["summary"]] == [0.75]
    assert {one["hedge_bytes_max"] for one in found["parameters"]} == {65_536}, "as the dm target"
    assert {line["policy"] for line in found["candidates"]} == set(DEPLOY)
    assert found["recommendation"]["confidence"] == "low" and len(found["recommendation"]["doubts"]) >= 2


def test_a_file_that_says_what_it_was_fitted_to_is_no_guess(tmp_path: Path) -> None:
    """As the file that `linnet ssd calibrate` writes, and not one that changes a preset."""
    own, changed = tmp_path / "own.toml", tmp_path / "changed.toml"
    own.write_text('preset = "cm7-r"\nfitted_to = "a drive of ours"\n')
    changed.write_text('preset = "cm7-r"\nread_ns = 70_000\n')
    cells = [{"baseline": {"seed": seed}} for seed in range(3)]

    def guessed(drives: object) -> bool:
        return any("was not fitted" in why for why in doubts(Setup(preset=str(drives)), 1.0, 100_000, cells))

    assert [guessed(drives) for drives in ("cm7-r", own, changed, f"cm7-r, {own}", f"cm7-r,{changed}")] == [
        *(False, False, True, False, True)
    ]
    assert [shares_of(Setup(preset=str(drives)), 0.0) for drives in ("cm7-r", own, f"cm7-r,{own}")] == [(0.0,)] * 3
    assert shares_of(Setup(preset="cm7-r,970-evo"), 0.9) == shares_of(Setup(preset=str(changed)), 0.0) == SHARES


def test_each_drive_of_a_mixed_array_is_checked(linnet: Callable[..., Any]) -> None:
    unknown = linnet("whatif", "a.csv", "--preset", "sata,floppy,970-evo")
    assert unknown.returncode == 2 and "unknown preset 'floppy'" in unknown.stderr
    queued = linnet("whatif", "a.csv", "--preset", "sata, consumer-deep-queued, 970-evo")
    assert queued.returncode == 2 and "the queued engine has none" in " ".join(queued.stderr.split()), queued.stderr


def test_one_replica_leaves_nothing_to_choose(linnet: Callable[..., Any]) -> None:
    refused = linnet("whatif", "a.csv", "--replicas", 1)
    assert refused.returncode == 2 and "--replicas" in refused.stderr, refused.stderr
