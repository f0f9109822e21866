# SPDX-License-Identifier: MIT OR Apache-2.0
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import read_trace, write_trace
from linnet._native import Device

CHECKED = {
    "mean_ratio", "p50_ratio", "p75_ratio", "p90_ratio", "p95_ratio", "p99_ratio", "p999_ratio", "ks_log10pct",
    "waf_ratio", "ios_per_second", "peak_rss_bytes",
}  # fmt: skip


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "w.csv"
    lines = [f"{i * 40_000},{'W' if i % 4 == 0 else 'R'},{(i * 7919) % 1_000_000 * 8},8" for i in range(4000)]
    path.write_text("t_ns,op,lba_512,sectors\n" + "\n".join(lines) + "\n")
    return path


def test_run_gives_every_latency_and_repeats(linnet, workload: Path, tmp_path: Path) -> None:
    command = ["ssd", "run", "--preset", "sata", "--workload", workload, "--json", "--out"]
    first = json.loads(linnet(*command, tmp_path / "a.parquet").stdout)
    linnet(*command, tmp_path / "b.csv")
    assert first["ios"] == 4000
    assert first["reads"]["count"] == 3000
    latency = read_trace(tmp_path / "a.parquet")["latency_ns"]
    assert latency.null_count == 0
    assert latency.to_pylist() == read_trace(tmp_path / "b.csv")["latency_ns"].to_pylist()
    least = Device(preset="sata").unloaded_read_ns(4096)
    reads = read_trace(tmp_path / "a.parquet").filter(
        [x == 0 for x in read_trace(tmp_path / "a.parquet")["op"].to_pylist()]
    )
    assert np.median(reads["latency_ns"].to_numpy()) >= least * 0.9


@pytest.mark.slow
def test_explain_accounts_for_the_wait(linnet, workload: Path, tmp_path: Path) -> None:
    picture = tmp_path / "p.svg"
    result = linnet("ssd", "explain", "-w", workload, "--from", 95, "--picture", picture, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    explained = found["range"]["service_us_mean"] + sum(m["wait_us_mean"] for m in found["range"]["mechanisms"])
    assert explained == pytest.approx(found["range"]["latency_us_mean"], rel=0.02)
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize("words", [("--from", "100"), ("--from", "99", "--to", "50")])
def test_percentiles_are_checked_before_the_run(linnet, words: tuple[str, ...]) -> None:
    refused = linnet("ssd", "explain", "-w", "absent.csv", *words)
    assert refused.returncode == 2
    said = " ".join(refused.stderr.replace("│", " ").split())
    assert f"--from: {words[1]} with --to {words[-1] if words[2:] else 100}: give percentiles" in said


def test_reference_is_met(linnet, shared: Path) -> None:
    found = json.loads(linnet("ssd", "check", shared / "reference/mqsim/w2_mix7030_low.json", "--json").stdout)
    assert set(found) >= CHECKED
    assert abs(found["mean_ratio"] - 1) < 0.05
    assert found["ks_log10pct"] < 0.05


def test_the_tail_of_a_check_is_named_for_what_it_sums(linnet, shared: Path) -> None:
    shown = linnet("ssd", "check", shared / "reference/mqsim/w2_mix7030_low.json").stdout
    assert "our reads above the reference's p95" in shown, shown


def test_parameter_files_are_printed_read_and_refused(linnet, workload: Path, tmp_path: Path) -> None:
    text = linnet("ssd", "params", "sata").stdout
    file = tmp_path / "mine.toml"
    file.write_text(text)
    assert linnet("ssd", "run", "--params", file, "-w", workload).returncode == 0
    file.write_text(text.replace("channels = 8", "channels = 0"))
    refused = linnet("ssd", "run", "--params", file, "-w", workload)
    assert refused.returncode == 1
    assert "channels" in refused.stderr
    assert "mine.toml" in refused.stderr
    assert linnet("ssd", "run", "--params", file, "--preset", "sata", "-w", workload).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "hint", "known"),
    [
        ("ssd params nix", "PRESET", "consumer-deep"),
        ("ssd precondition --preset nix -o x", "--preset", "consumer-deep"),
        ("place plan x.csv --drive nix", "--drive", "nvme, consumer-deep"),
        ("place label --drive nix -o x.csv", "--drive", "nvme, consumer-deep"),
    ],
)
def test_an_unknown_drive_is_of_the_option_that_was_given(linnet, command: str, hint: str, known: str) -> None:
    done = linnet(*command.split())
    said = " ".join(done.stderr.replace("│", " ").split())
    assert done.returncode == 2 and f"Invalid value for {hint}: unknown preset 'nix'; known: {known}," in said, said


def test_a_saved_drive_answers_as_the_one_it_was(linnet, workload: Path, tmp_path: Path) -> None:
    saved = tmp_path / "s.drive"
    made = linnet("ssd", "precondition", "--preset", "sata", "-o", saved)
    assert made.returncode == 0 and "write amplification 6." in made.stdout, made.stdout + made.stderr
    linnet("ssd", "run", "--snapshot", saved, "-w", workload, "-o", tmp_path / "a.csv")
    linnet("ssd", "run", "--preset", "sata", "-w", workload, "-o", tmp_path / "b.csv")
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    # Nothing says that its seed is another than it is, and its clones are no drives of their own.
    assert json.loads(linnet("ssd", "run", "--snapshot", saved, "-w", workload, "--json").stdout)["seed"] is None
    for command in ("run", "explain"):
        refused = linnet("ssd", command, "--snapshot", saved, "--seed", 0, "-w", workload)
        assert refused.returncode == 2 and "--seed" in refused.stderr, refused.stderr
    for option in (("--seed", 1), ("--drives", 3)):
        refused = linnet("ssd", "serve", "--snapshot", saved, *option, "--seconds", 0, "--unix", tmp_path / "s")
        assert refused.returncode == 2 and option[0] in refused.stderr, refused.stderr
    saved.write_bytes(saved.read_bytes()[:-9])
    assert "s.drive" in linnet("ssd", "run", "--snapshot", saved, "-w", workload).stderr


def test_what_no_server_can_have_is_refused(linnet, tmp_path: Path) -> None:
    for option, value in (("--size", -1), ("--size", 0), ("--size", 2**63), ("--tcp", -1), ("--tcp", 70_000)):
        refused = linnet("ssd", "serve", option, value, "--seconds", 0, "--unix", tmp_path / "s")
        assert refused.returncode == 2 and option in refused.stderr, refused.stderr


def test_the_end_of_the_terminal_removes_the_socket(tmp_path: Path) -> None:
    socket = tmp_path / "d.sock"
    # Under nohup the tests ignore the signal, and so would the server.
    command = [
        "env",
        "--default-signal=HUP",
        Path(sys.executable).with_name("linnet"),
        "ssd",
        "serve",
        "--preset",
        "sata",
    ]
    with subprocess.Popen(
        [*command, "--unix", socket], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout and "drive0" in server.stdout.readline()
        assert socket.exists()
        server.send_signal(signal.SIGHUP)
        _, stderr = server.communicate(timeout=60)
    assert (server.returncode, stderr) == (0, "")
    assert not socket.exists()


def test_served_drives_take_a_replay(linnet, tmp_path: Path) -> None:
    socket = tmp_path / "d.sock"
    trace = tmp_path / "t.csv"
    write_trace(device_trace(1, 600), trace)
    command = [Path(sys.executable).with_name("linnet"), "ssd", "serve", "--drives", "2", "--unix", socket, "--json"]
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("w") as to_out, err.open("w") as to_err:
        server = subprocess.Popen(command, stdout=to_out, stderr=to_err)
    try:
        # It says where it can be reached once it can be.
        until = time.monotonic() + 120
        while "nbd+unix:///drive1" not in out.read_text() + err.read_text():
            assert server.poll() is None and time.monotonic() < until, err.read_text()
            time.sleep(0.05)
        uris = [f"-unbd+unix:///drive{i}?socket={socket}" for i in range(2)]
        refused = linnet("replay", "-t", trace, *uris)
        assert refused.returncode == 2
        assert "overwrite" in refused.stderr
        done = linnet("replay", "-t", trace, *uris, "--overwrite", "--policy", "baseline,shortest-queue", "--json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["rows"]
        assert [row["policy"] for row in rows] == ["baseline", "shortest-queue"]
        assert all(row["reads"] > 400 and row["mean_us"] > 50 for row in rows)
    finally:
        server.terminate()
        server.wait(timeout=60)
    stdout, stderr = out.read_text(), err.read_text()
    assert server.returncode == 0, stderr
    stats = json.loads(stdout)
    assert sum(one["reads"] for one in stats["exports"]) > 800
    assert not socket.exists()


def test_what_is_no_reference_is_called_so(linnet, tmp_path: Path) -> None:
    for text in ("", "garbage", "{}"):
        (tmp_path / "r.json").write_text(text)
        done = linnet("ssd", "check", tmp_path / "r.json")
        assert done.returncode == 1
        assert done.stderr.startswith(f"linnet: {tmp_path / 'r.json'}: not a reference file (JSON): ")


def test_an_io_of_a_trace_without_reads_is_explained(linnet, tmp_path: Path) -> None:
    writes = tmp_path / "w.csv"
    writes.write_text("t_ns,op,lba_512,sectors\n" + "".join(f"{i * 1000},W,{i * 8},8\n" for i in range(100)))
    for words in (("--json",), ()):
        done = linnet("ssd", "explain", "-w", writes, "--preset", "sata", "--io", 7, *words)
        assert done.returncode == 0, done.stderr
    found = json.loads(linnet("ssd", "explain", "-w", writes, "--preset", "sata", "--io", 7, "--json").stdout)
    assert found["io"]["op"] == "write" and "range" not in found
    assert linnet("ssd", "explain", "-w", writes, "--preset", "sata").returncode == 1
