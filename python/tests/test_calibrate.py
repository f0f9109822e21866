# SPDX-License-Identifier: MIT OR Apache-2.0
import gzip
import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from linnet import DeviceError
from linnet import Error as LinnetError
from linnet._native import presets
from linnet.calibration.calibrate import STEPS, build, calibrate, figure, fitted, read_params, with_layout
from linnet.calibration.iocost import SATURATION, Level, Measured, read_result
from linnet.calibration.loadcurve import beneath, curve, fit, nearest, off

SMALL = {"channels": 4, "dies_per_channel": 2, "blocks_per_plane": 64, "pages_per_block": 16}
"""A drive of 256 MiB raw."""


def small() -> dict[str, Any]:
    return with_layout(read_params("consumer-deep"), SMALL | {"over_provisioning": 0.4, "gc_free_superblocks": 3.0})


def run(vrate: float, p50: float, p99: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """A run at one ceiling: its settings and its latencies in s; the quiet seconds are a fifth faster."""
    reads = {p: {"10": 0.8e-6 * us, "50": 1e-6 * us, "mean": 1.5e-6 * us} for p, us in (("50", p50), ("99", p99))}
    return {"qos": {"max": vrate}}, {"stor": {"iolat": [reads, {}]}}


def result_file(path: Path, figures: dict[str, float], runs: list[tuple[float, float, float]] | None = None) -> Path:
    """A result in the form of resctl-bench, with what the reader needs."""
    jobs: list[dict[str, Any]] = [
        {
            "spec": {"kind": "iocost-params"},
            "sysinfo": {"sysreqs_report": {"scr_dev_model": "made up "}},
            "record": {"model": {name: figures[name] for name in SATURATION if name in figures}},
        }
    ]
    if runs:
        pairs = [run(*one) for one in runs]
        jobs.append(
            {
                "spec": {"kind": "iocost-qos"},
                "sysinfo": {"hashd": {"chunk_pages": 8}},
                # The first run has no ceiling, the last was not made.
                "record": {"runs": [{"qos": None}, *(record for record, _ in pairs), None]},
                "result": {"runs": [pairs[0][1], *(result for _, result in pairs), None]},
            }
        )
    path.write_bytes(gzip.compress(json.dumps(jobs).encode()))
    return path


@pytest.fixture(scope="module")
def known() -> tuple[dict[str, Any], dict[str, float]]:
    """A modelled drive and its figures."""
    params = small() | {"read_ns": 70_000, "program_ns": 800_000, "link_mb_per_s": 900, "over_provisioning": 0.6}
    return params, {name: figure(name, params, 1) for name in SATURATION}


@pytest.mark.slow
def test_the_figures_of_a_known_drive_are_recovered(known, tmp_path: Path) -> None:
    truth, figures = known
    measured = read_result(result_file(tmp_path / "known.json.gz", figures))
    assert measured.drive == "made up"
    assert measured.levels == []
    found = calibrate(measured, small(), seed=2)
    for step in STEPS:
        if step.figure in figures:
            assert found.figures[step.figure] == pytest.approx(figures[step.figure], rel=0.03), step
    for field, tolerance in (("read_ns", 0.03), ("link_mb_per_s", 0.03), ("program_ns", 0.05)):
        assert found.params[field] == pytest.approx(truth[field], rel=tolerance), field
    assert found.at_bound == {}
    assert calibrate(measured, small(), seed=2) == found


def test_a_held_key_is_not_moved_and_a_bound_is_told(known, tmp_path: Path) -> None:
    _, figures = known
    measured = read_result(result_file(tmp_path / "fast.json.gz", figures | {"wbps": 50 * figures["wbps"]}))
    found = calibrate(measured, small(), {"read_ns": 60_000})
    assert found.params["read_ns"] == 60_000
    assert found.at_bound["wbps"] == "program_ns"
    with pytest.raises(LinnetError, match="no such SSD parameter"):
        calibrate(measured, small(), {"dies": 4})


def test_the_link_can_be_held(known, tmp_path: Path) -> None:
    _, figures = known
    measured = read_result(result_file(tmp_path / "held.json.gz", figures))
    held = {step.field: small()[step.field] for step in STEPS if step.field != "channel_mb_per_s"}
    found = calibrate(measured, small(), held)
    assert {field: found.params[field] for field in held} == held


def test_every_preset_lies_in_the_ranges_of_the_fit() -> None:
    for name in presets():
        params = read_params(name)
        for step in STEPS:
            assert step.least <= params[step.field] <= step.most, (name, step.field)


def test_page_types_are_fitted_with_the_time_of_a_read() -> None:
    start = small() | {"read_ns": 60_000, "page_type_read_ns": [40_000, 60_000, 80_000]}
    truth = start | {"read_ns": 90_000, "page_type_read_ns": [60_000, 90_000, 120_000], "command_ns": 12_000}
    figures = {name: figure(name, truth, 1) for name in ("rrandiops", "unloaded_ns")}
    # The median is of the middle type, whatever internal reads take.
    assert figures["unloaded_ns"] == build(truth, 1).unloaded_read_ns(4096)
    assert figure("unloaded_ns", start | {"read_ns": 90_000}, 1) == figure("unloaded_ns", start, 1)
    measured = Measured("made up", figures, [], 4096)
    found = calibrate(measured, start)
    for name, target in figures.items():
        assert found.figures[name] == pytest.approx(target, rel=0.01), name
    assert found.params["read_ns"] == pytest.approx(90_000, rel=0.02)
    lower, middle, upper = found.params["page_type_read_ns"]
    assert middle == found.params["read_ns"]
    assert (lower / middle, upper / middle) == pytest.approx((2 / 3, 4 / 3), rel=1e-4)
    # Types that are known of the drive stay, and no parameter answers for random reads then.
    held = {"page_type_read_ns": [50_000, 70_000]}
    params = calibrate(measured, start, held).params
    assert (params["page_type_read_ns"], params["read_ns"]) == ([50_000, 70_000], 60_000)
    assert "rrandiops" not in {step.figure for step in fitted(held)}


def test_any_parameter_can_be_held(tmp_path: Path) -> None:
    start = small()
    off = {"gc_paced": True, "suspend_after_ns": 100_000, "page_type_read_ns": [40_000, 60_000]}
    assert not start.keys() & off.keys()
    fixed = off | {"gc_quantum_rows": 16, "dies_per_channel": 4}
    assert with_layout(start, fixed).items() >= fixed.items()
    build(with_layout(start, off), 0)
    # What does not fit is refused, and not changed.
    with pytest.raises(DeviceError, match="gc_quantum_rows = 100"):
        build(with_layout(start, {"gc_quantum_rows": 100}), 0)
    assert with_layout(start, {"dies_per_channel": 32})["gc_quantum_rows"] == 1


@pytest.mark.slow
def test_the_command_writes_a_file_that_reads_back(linnet, known, tmp_path: Path) -> None:
    params, figures = known
    start = tmp_path / "start.toml"
    start.write_text("".join(f"{k} = {json.dumps(v)}\n" for k, v in params.items()))
    result = result_file(tmp_path / "r.json.gz", figures, [(50.0, 150.0, 900.0), (25.0, 130.0, 700.0)])
    out, picture = tmp_path / "o.toml", tmp_path / "o.svg"
    held = ["--set", 'read_priority="suspend"', "--set", "flush_watermark=0.25"]
    made = linnet("ssd", "calibrate", result, "--start", start, "-o", out, "--report", picture, *held, "--json")
    summary = json.loads(made.stdout)
    assert {row["figure"] for row in summary["figures"]} == {*SATURATION, "unloaded_ns"}
    unloaded = next(row for row in summary["figures"] if row["figure"] == "unloaded_ns")
    assert unloaded["measured"] == pytest.approx(104_000)
    assert [row["ceiling"] for row in summary["latency"]] == [25.0, 50.0]
    assert summary["params"]["read_priority"] == "suspend"
    assert tomllib.loads(out.read_text()) == {"fitted_to": summary["drive"], **summary["params"]}
    assert out.read_text().startswith("# SPDX-License-Identifier")
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize("name", SATURATION)
def test_a_missing_figure_is_named(name: str, tmp_path: Path) -> None:
    figures = {other: 1e5 for other in SATURATION if other != name}
    with pytest.raises(LinnetError, match=rf"r\.json\.gz.*{name}"):
        read_result(result_file(tmp_path / "r.json.gz", figures))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", "list of jobs"),
        ("[]", "no job of kind iocost-params"),
        ("[{}]", "job 0 has no field 'spec'"),
        ("nonsense", "not JSON"),
    ],
)
def test_what_is_no_result_is_refused(text: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(LinnetError, match=told):
        read_result(path)
    path.write_bytes(gzip.compress(text.encode())[:-4])
    with pytest.raises(LinnetError, match="not JSON"):
        read_result(path)


def test_figures_below_zero_and_broken_latencies_are_refused(tmp_path: Path) -> None:
    figures = dict.fromkeys(SATURATION, 1e5)
    with pytest.raises(LinnetError, match="wbps = -1"):
        read_result(result_file(tmp_path / "a.json.gz", figures | {"wbps": -1}))
    with pytest.raises(LinnetError, match=r"runs\[0\].qos.max = 0|runs\[1\].qos.max = 0"):
        read_result(result_file(tmp_path / "b.json.gz", figures, [(0, 100.0, 200.0)]))


@pytest.mark.parametrize(
    ("job", "keys", "value", "told"),
    [
        (0, ("spec", "kind"), ["a"], r"job 0\.spec\.kind: must be text"),
        pytest.param(0, ("record", "model", "rbps"), 10**400, r"model\.rbps = 10{39}\.\.\.: must be", id="long"),
        (0, ("record", "model", "wrandiops"), 0.01, r"model\.wrandiops = 0\.01: must be a number from 1"),
        (1, ("sysinfo",), [1], r"iocost-qos\.sysinfo: must be an object"),
        (1, ("sysinfo", "hashd"), [1], r"iocost-qos\.sysinfo\.hashd: must be an object"),
        (1, ("sysinfo", "hashd", "chunk_pages"), "abc", r"hashd\.chunk_pages = 'abc': must be a number"),
        (1, ("sysinfo", "hashd", "chunk_pages"), float("nan"), r"hashd\.chunk_pages = nan: must be a number"),
        (1, ("sysinfo", "hashd", "chunk_pages"), -3, r"hashd\.chunk_pages = -3: must be a number from 1 to 262144"),
        (1, ("record", "runs"), 3, r"iocost-qos\.record\.runs: must be a list"),
        (1, ("record", "runs"), ["x"], r"iocost-qos\.record\.runs\[0\]: must be an object"),
        (1, ("result", "runs", 1), "x", r"iocost-qos\.result\.runs\[1\] has no field 'stor'"),
        (1, ("result", "runs", 1, "stor", "iolat", 0, "50", "50"), 1e300, r"iolat\[0\]\.50\.50 = 1e\+300: must be"),
    ],
)
def test_a_field_that_no_result_has_is_named(job: int, keys: Any, value: object, told: str, tmp_path: Path) -> None:
    path = result_file(tmp_path / "r.json.gz", dict.fromkeys(SATURATION, 1e5), [(50.0, 150.0, 900.0)])
    at = jobs = json.loads(gzip.decompress(path.read_bytes()))
    for key in (job, *keys[:-1]):
        at = at[key]
    at[keys[-1]] = value
    path.write_bytes(gzip.compress(json.dumps(jobs).encode()))
    with pytest.raises(DeviceError, match=rf"r\.json\.gz: .*{told}"):
        read_result(path)


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ({"wbps": 10}, r"wbps = 10: at load 5 % the cost model grants 3\.05e-05 I/Os per second"),
        ({"rrandiops": 1}, r"rrandiops = 1: at load 5 % the cost model grants 0\.06"),
        (dict.fromkeys(SATURATION, 1e15), r"= 1e\+15: at load 5 % .* from 1 to 2,000,000"),
    ],
)
def test_a_load_beyond_what_is_modelled_is_refused_at_once(
    figures: dict[str, float], told: str, tmp_path: Path
) -> None:
    usual = dict(zip(SATURATION, (5e8, 6e4, 5e4, 3e8, 4e4, 2e4), strict=True))
    measured = read_result(result_file(tmp_path / "r.json.gz", usual | figures, [(50.0, 150.0, 900.0)]))
    steps: list[str] = []
    with pytest.raises(DeviceError, match=told):
        fit(measured, small(), told=steps.append)
    assert not steps


def test_a_chunk_fits_the_modelled_drive(tmp_path: Path) -> None:
    path = result_file(tmp_path / "r.json.gz", dict.fromkeys(SATURATION, 1e6), [(50.0, 150.0, 900.0)])
    measured = replace(read_result(path), chunk_bytes=1 << 30)
    with pytest.raises(DeviceError, match="chunk_pages = 262144: the modelled drive has"):
        curve(small(), measured, [100.0], 1)


def test_a_ceiling_is_compared_with_a_load_beneath_it() -> None:
    levels = [Level(30.0, 150.0, 1000.0, 160.0, 1100.0, 120.0), Level(90.0, 200.0, 2000.0, 210.0, 2100.0, 150.0)]
    rows = [
        {"load": load, "p50_us": p50, "p99_us": 1000.0} for load, p50 in ((10, 100), (25, 140), (50, 150), (75, 190))
    ]
    assert beneath(rows, levels[0])["load"] == 25
    assert beneath(rows, levels[1])["load"] == 75
    assert nearest(levels, 85) is levels[1]
    assert nearest(levels, 60) is None
    assert 0 < off(rows, levels) < 0.3


@pytest.mark.parametrize("value", [0, -1, 2.0, "8", True])
def test_a_layout_is_of_whole_numbers(value: object) -> None:
    with pytest.raises(DeviceError, match=r"channels = .*give a whole number from 1 up"):
        with_layout(read_params("consumer-deep"), {"channels": value})
