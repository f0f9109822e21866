# SPDX-License-Identifier: MIT OR Apache-2.0
"""The whole experiment on the queued engine of the SSD model: log, fit, compare."""

import json
from pathlib import Path

import numpy as np
import pytest
from linnet import DeviceError, PolicyError, Setup, Trace
from linnet._native import Array, queued_presets
from linnet.cli.options import check_preset
from linnet.experiment import Experiment


def load(seed: int = 0, ios: int = 12_000) -> Trace:
    """Reads, and a fifth writes, at random places."""
    chance = np.random.default_rng(seed)
    return Trace.from_columns(
        "load",
        arrive_ns=np.cumsum(chance.exponential(400_000, ios)).astype(np.uint64),
        op=(chance.random(ios) < 0.2).astype(np.uint8),
        offset_bytes=(chance.integers(0, 1 << 18, ios) * 4096).astype(np.uint64),
        size_bytes=np.full(ios, 4096, np.uint32),
        device=np.zeros(ios, np.uint32),
        latency_ns=np.zeros(ios, np.uint64),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "load.parquet"
    load().write(path)
    return path


@pytest.mark.slow
def test_compare_names_the_engine_and_says_what_is_left_out(linnet, small_queued_drive: Path, file: Path) -> None:
    command = ["compare", "-t", file, "--preset", small_queued_drive, "--policy", "baseline,hedge-p95,linnos+hl,oracle"]
    result = linnet(*command, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    rows = {row["policy"]: row for row in found["rows"]}
    assert list(rows) == ["baseline", "hedge-p95", "linnos+hl"]
    for row in rows.values():
        assert row["engine"] == "queued"
        assert row["false_revoke"] is None
        assert row["waf"] > 1.2, "a drive in long use collects"
        assert row["gc_runs"] > 10
        assert row["reads_behind_gc"] > 0
        assert row["reads"] > 4000
    assert rows["hedge-p95"]["p999_us"] < rows["baseline"]["p999_us"]
    (parameters,) = found["parameters"]
    assert parameters["device"]["engine"] == "queued"
    assert set(parameters["left_out"]) == {"oracle", "false_revoke"}
    assert linnet(*command, "--json").stdout == result.stdout, "the same seed gives the same bytes"
    shown = linnet(*command).stdout
    assert "(queued engine)" in shown
    assert "not computed: oracle" in shown
    assert "write amplification" in shown


def test_rows_of_the_timeline_model_are_what_they_were(linnet, small_drive: Path, file: Path) -> None:
    found = json.loads(linnet("compare", "-t", file, "--preset", small_drive, "--policy", "baseline", "--json").stdout)
    assert {"engine", "waf"}.isdisjoint(found["rows"][0])
    assert {"left_out"}.isdisjoint(found["parameters"][0])


def test_label_and_fit_run_on_the_queued_engine(linnet, small_queued_drive: Path, file: Path, tmp_path: Path) -> None:
    labelled = json.loads(linnet("label", "-t", file, "--preset", small_queued_drive, "--json").stdout)
    assert labelled
    model = tmp_path / "m.linnet"
    fitted = linnet("fit", "-t", file, "--preset", small_queued_drive, "--out", model, "--json")
    assert fitted.returncode == 0, fitted.stderr
    assert model.stat().st_size > 1000


def test_a_run_meets_a_drive_in_long_use(linnet, small_queued_drive: Path, file: Path, tmp_path: Path) -> None:
    run = ["ssd", "run", "--params", small_queued_drive, "-w", file]
    first, again, other = (json.loads(linnet(*run, "--seed", seed, "--json").stdout) for seed in (1, 1, 2))
    assert first["drive"]["gc_runs"] > 10
    assert first["reads"] == again["reads"] != other["reads"]
    refused = linnet(*run, "--share", 0.5)
    assert refused.returncode == 1 and "device-wide share" in refused.stderr, refused.stderr
    picture = tmp_path / "p.svg"
    refused = linnet("ssd", "explain", "--params", small_queued_drive, "-w", file, "--picture", picture)
    assert refused.returncode == 1 and "picture" in refused.stderr, refused.stderr
    assert not picture.exists()


def test_what_needs_foresight_is_refused(linnet, small_queued_drive: Path, file: Path) -> None:
    experiment = Experiment([load(ios=600)], Setup(preset=str(small_queued_drive)))
    assert experiment.array.engine == "queued"
    assert not experiment.array.foresight
    with pytest.raises(PolicyError, match="oracle"):
        experiment.compare(["oracle"])
    with pytest.raises(PolicyError, match="foresight"):
        experiment.run("oracle")
    with pytest.raises(DeviceError, match="device-wide share"):
        Array(str(small_queued_drive), 3, 0, 0.5)
    refused = linnet("whatif", file, "--preset", small_queued_drive)
    assert refused.returncode == 2
    assert "foresight" in refused.stderr


def test_presets_of_the_queued_engine_are_known_and_files_are_checked(linnet, tmp_path: Path) -> None:
    for name in queued_presets():
        check_preset(name)
        assert 'model = "queued"' in linnet("ssd", "params", name).stdout
    (tmp_path / "wrong.toml").write_text('model = "queued"\nchannels = 0\n')
    refused = linnet("compare", "-w", "az-c", "--preset", tmp_path / "wrong.toml")
    assert refused.returncode == 2
    assert "channels" in refused.stderr
