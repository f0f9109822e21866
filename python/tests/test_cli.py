# SPDX-License-Identifier: MIT OR Apache-2.0
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import device_trace
from linnet import Model, Trace, read_trace, write_trace

STAT = {
    "records", "reads", "writes", "tenants", "devices", "duration_s", "iops_mean", "iops_max_10s", "read_bytes_mean",
    "write_bytes_mean", "read_bytes_max", "write_bytes_max", "read_latency_us", "skipped",
}  # fmt: skip
ROW = {
    "trace", "preset", "policy", "seed", "reads", "mean_us", "p50_us", "p95_us", "p99_us", "p999_us", "p9999_us",
    "extra_io", "revokes", "forced_submits", "false_submit", "false_revoke",
}  # fmt: skip
EVALUATED = {"base_rate", "accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke", "rows"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "made.parquet"
    write_trace(device_trace(), path)
    return path


def one_line(result: subprocess.CompletedProcess[str], status: int) -> str:
    """A failure: the status, nothing on standard output, one message without a traceback."""
    assert result.returncode == status, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


def test_stat_has_the_promised_fields(linnet, file: Path) -> None:
    result = json.loads(linnet("trace", "stat", file, "--json").stdout)
    assert set(result) == STAT | {"notes"}
    assert result["records"] == result["reads"] + result["writes"] == 6000
    assert set(result["read_latency_us"]) == {"p50", "p90", "p95", "p99", "p999"}
    assert "read latency" in linnet("trace", "stat", file).stdout


def test_tenants_come_from_devices_or_from_merging(linnet, file: Path, tmp_path: Path) -> None:
    volumes = tmp_path / "volumes.csv"
    volumes.write_text("3,R,0,4096,1577808000000626\n9,W,512,8192,1577808000000700\n")
    plain, split, merged = (tmp_path / name for name in ("plain.parquet", "split.parquet", "merged.parquet"))
    linnet("trace", "convert", volumes, "-o", plain)
    linnet("trace", "convert", volumes, "--tenant-from", "device", "-o", split)
    assert read_trace(plain)["tenant"].to_pylist() == [0, 0]
    assert read_trace(split)["tenant"].to_pylist() == [3, 9]
    assert "tenants" not in linnet("trace", "stat", plain).stdout
    assert re.search(r"tenants\W+2", linnet("trace", "stat", split).stdout)
    assert "--tenant-from" in one_line(linnet("trace", "convert", volumes, "--tenant-from", "host", "-o", plain), 2)

    assert "3 tenants from 3 traces" in linnet("trace", "merge", plain, file, split, "-o", merged).stdout
    assert set(read_trace(merged)["tenant"].to_pylist()) == {0, 1, 2}
    linnet("trace", "merge", plain, split, "--keep-tenants", "-o", merged)
    assert set(read_trace(merged)["tenant"].to_pylist()) == {0, 4, 10}
    assert json.loads(linnet("trace", "stat", merged, "--json").stdout)["tenants"] == 3
    assert "absent.csv" in one_line(linnet("trace", "merge", file, tmp_path / "absent.csv", "-o", merged), 1)


def test_fit_and_evaluate_agree_on_the_held_out_half(linnet, file: Path, tmp_path: Path) -> None:
    model = tmp_path / "m.linnet"
    fitted = json.loads(linnet("fit", "--trace", file, "--seed", 1, "--out", model, "--json").stdout)
    evaluated = json.loads(linnet("evaluate", "--model", model, "--trace", file, "--json").stdout)
    assert set(evaluated) >= EVALUATED
    assert evaluated["accuracy"] == pytest.approx(fitted["biased"]["accuracy"], abs=0.01)
    assert evaluated["roc_auc"] > 0.9
    assert fitted["slow_above_us"] == fitted["inflection"]["latency_us"]
    given = linnet("fit", "--trace", file, "--seed", 1, "--out", model, "--slow-us", 250, "--json").stdout
    assert json.loads(given)["slow_above_us"] == 250
    for latency in ("0", "inf", "nan", "1e300"):
        assert linnet("fit", "--trace", file, "--out", model, "--slow-us", latency).returncode == 2, latency


def test_a_model_that_learned_nothing_is_told(linnet, file: Path, tmp_path: Path) -> None:
    """Of latencies in an order without a meaning."""
    columns = dict(device_trace().columns())
    np.random.default_rng(1).shuffle(columns["latency_ns"])
    shuffled, model = tmp_path / "shuffled.parquet", tmp_path / "m.linnet"
    write_trace(Trace.from_columns("shuffled", **columns), shuffled)
    for trace, better in ((file, True), (shuffled, False)):
        done = linnet("fit", "--trace", trace, "--out", model, "--json")
        tested = linnet("evaluate", "--model", model, "--trace", trace, "--json")
        for told in (done, tested):
            assert json.loads(told.stdout)["better_than_base_rate"] == {"linnos": better, "linnet": better}
            assert [f"{kind}: on the tested reads" in told.stderr for kind in ("linnos", "linnet")] == [not better] * 2


def test_a_latency_that_outweighs_all_others_is_told(linnet, file: Path, tmp_path: Path) -> None:
    columns = dict(device_trace().columns())
    at = int(np.flatnonzero(columns["op"] == 0)[100])
    columns["latency_ns"][at] = 3600 * 10**9
    hour = tmp_path / "hour.parquet"
    write_trace(Trace.from_columns("hour", **columns), hour)
    read = f"3,600 s, of the read that arrives at {columns['arrive_ns'][at] / 1e9:.6f} s"
    for words in (("label",), ("fit", "--epochs", 1, "--out", tmp_path / "m.linnet")):
        told = linnet(*words, "--trace", hour).stderr
        assert "hour.parquet: 1 of 4,842 reads has 100 % of all read latency" in told and read in told
        assert "inflection point" not in linnet(*words, "--trace", file).stderr


def test_a_rate_of_false_revokes_is_in_the_model(linnet, file: Path, tmp_path: Path) -> None:
    surer, even = tmp_path / "surer.linnet", tmp_path / "even.linnet"
    words = ("fit", "--trace", file, "--seed", 1, "--epochs", 1, "--json")
    rates = [
        json.loads(linnet(*words, "--out", surer, "--false-revoke", 0.5).stdout)["linnet"]["false_revoke"],
        json.loads(linnet(*words, "--out", even).stdout)["linnet"]["false_revoke"],
    ]
    assert Model.load(even).slow_score == 0 and Model.load(surer).slow_score != 0
    evaluated = json.loads(linnet("evaluate", "--model", surer, "--trace", file, "--json").stdout)
    assert evaluated["linnet"]["false_revoke"] == pytest.approx(rates[0], abs=0.002)
    assert linnet(*words, "--out", surer, "--false-revoke", 0).returncode == 2
    few = one_line(linnet(*words, "--out", surer, "--false-revoke", 0.001), 1)
    assert "choosing a rate of false revokes" in few


def test_compare_has_the_promised_rows_and_repeats_to_the_byte(linnet, small_drive: Path, file: Path) -> None:
    command = [
        "compare",
        "--trace",
        file,
        "--preset",
        small_drive,
        "--policy",
        "baseline,linnos+hl",
        "--policy",
        "oracle",
        "--seed",
        5,
        "--json",
    ]
    first = linnet(*command)
    rows = json.loads(first.stdout)["rows"]
    assert [row["policy"] for row in rows] == ["baseline", "linnos+hl", "oracle"]
    assert all(set(row) >= ROW for row in rows)
    assert linnet(*command).stdout == first.stdout
    found = json.loads(linnet(*command, "--continued").stdout)
    assert found["parameters"][0]["continued"] and not json.loads(first.stdout)["parameters"][0]["continued"]
    assert [row["reads"] for row in found["rows"]] == [row["reads"] for row in rows]
    assert found["rows"][0]["mean_us"] != rows[0]["mean_us"]


def test_wrong_input_is_one_clear_error(linnet, file: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    (tmp_path / "garbage.bin").write_bytes(bytes(range(256)) * 64)
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(file.read_bytes()[:-100])
    (tmp_path / "broken.csv").write_text("t_ns,op,lba_512,sectors\n0,R,0,8\n100,R,zero,8\n")
    for name in ("empty.csv", "garbage.bin", "cut.parquet", "broken.csv", "absent.csv"):
        assert name in one_line(linnet("trace", "stat", tmp_path / name), 1)
    message = one_line(linnet("trace", "stat", tmp_path / "broken.csv"), 1)
    assert "3" in message
    assert "lba_512" in message
    assert "zero" in message
    (tmp_path / "bad.linnet").write_bytes(b"not a model at all")
    assert "bad.linnet" in one_line(linnet("evaluate", "--model", tmp_path / "bad.linnet", "--trace", file), 1)


def test_invalid_records_are_left_out_and_counted(linnet, file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("t_ns,op,lba_512,sectors\n0,R,0,8\n100,R,zero,8\n200,W,8,8\n400,R")
    count = "invalid records were left out: 2 (malformed 1, truncated 1)"
    out = tmp_path / "out.parquet"
    for words in (["convert"], ["rerate", "--factor", 2], ["merge", file]):
        command = ["trace", words[0], bad, *words[1:], "-o", out]
        refused = one_line(linnet(*command), 1)
        assert "line 3" in refused and not out.exists()
        assert "`linnet trace convert --lenient`" in refused
        done = linnet(*command, "--lenient")
        assert done.returncode == 0 and count in done.stderr, done.stderr
        assert len(read_trace(out)) == (6002 if words[0] == "merge" else 2)
        assert "2 tenants" in done.stdout or words[0] != "merge"
        out.unlink()
    one_line(linnet("trace", "stat", bad), 1)
    done = linnet("trace", "stat", bad, "--lenient", "--json")
    assert count in done.stderr and json.loads(done.stdout)["skipped"] == {"malformed": 1, "truncated": 1}
    done = linnet("trace", "rerate", file, "--like", bad, "--lenient", "-o", out)
    assert count in done.stderr and "no read latencies" in done.stderr


def test_every_command_that_reads_traces_may_be_lenient(linnet, small_drive: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    write_trace(device_trace(reads=600), bad)
    with bad.open("a") as file:
        file.write("later,R,0,8,0,100,0\n")
    preset = ("--preset", small_drive)
    for words in (
        ("label", "-t", bad),
        ("fit", "-t", bad, "--epochs", 1, "-o", tmp_path / "m.linnet"),
        ("evaluate", "-m", tmp_path / "m.linnet", "-t", bad),
        ("compare", "-t", bad, "--policy", "baseline", *preset),
        ("ssd", "run", "-w", bad, "--params", small_drive),
        ("ssd", "explain", "-w", bad, "--params", small_drive),
        ("place", "profile", bad),
        ("place", "profile", bad, "--phases"),
    ):
        if words[0] != "evaluate":
            assert "later" in one_line(linnet(*words), 1)
        done = linnet(*words, "--lenient")
        assert done.returncode == 0, done.stderr
        assert f"{bad}: invalid records were left out: 1 (malformed 1)" in done.stderr, words


def test_the_advice_for_a_format_names_an_option_of_that_trace(linnet, file: Path, tmp_path: Path) -> None:
    either = tmp_path / "either.txt"
    either.write_text("0.000 0 512 512 1\n0.100 0 1024 1024 1\n")
    out = tmp_path / "out.csv"
    assert "choose one with --format" in one_line(linnet("trace", "stat", either), 1)
    words = ("trace", "rerate", file, "--like", either, "-o", out)
    assert "choose one with --like-format" in one_line(linnet(*words), 1)
    assert "no read latencies" in one_line(linnet(*words, "--like-format", "replay-ms-sectors"), 1)
    refused = linnet("trace", "rerate", file, "--factor", 2, "--like-format", "alibaba", "-o", out)
    assert "--like-format" in one_line(refused, 2)


def test_a_trace_is_not_made_longer_than_any_that_is_read(linnet, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    refused = one_line(linnet("trace", "rerate", file, "--factor", 1e-8, "-o", out), 1)
    fits = re.search("400 days.* at least (0[.][0-9]+)", refused)
    assert fits and not out.exists()
    assert linnet("trace", "rerate", file, "--factor", fits[1], "-o", out).returncode == 0
    assert len(read_trace(out)) == 6000


@pytest.mark.parametrize(
    ("command", "most"),
    [
        ("trace rerate FILE -o OUT.csv --factor 1e300", "1000000"),
        ("compare -t FILE --policy baseline --rerate 1e7", "1000000"),
        ("compare -t FILE --policy baseline --closed-loop 99999999999999999999", "65536"),
        ("compare -w az-c --policy baseline --seconds 1e300", "34560000"),
        ("trace synth az-c -o OUT --seconds 1e300", "34560000"),
        ("whatif FILE --seeds 1001", "1000"),
        ("whatif FILE --replicas 9", "8"),
        ("compare -t FILE --replicas 64", "8"),
        ("fit -t FILE -o OUT --bias 1e39", "1000000"),
        ("fit -t FILE -o OUT --bias inf", "1000000"),
        ("replay -t FILE -u nbd://h/d --time-scale 1e300", "1000000"),
    ],
)
def test_an_absurd_number_is_refused_with_the_range(
    linnet, file: Path, tmp_path: Path, command: str, most: str
) -> None:
    found = {"FILE": file, "OUT": tmp_path / "out", "OUT.csv": tmp_path / "out.csv"}
    refused = one_line(linnet(*(found.get(word, word) for word in command.split())), 2)
    said = " ".join(word for word in refused.split() if word != "│")
    assert f"less than or equal to {most}" in said and len(said) < 600 and not (tmp_path / "out.csv").exists()


def test_a_number_that_does_not_fit_is_one_line() -> None:
    text = "from linnet import cli\ndef app(): (-1).to_bytes(1)\ncli.app = app\ncli.main()"
    done = subprocess.run([sys.executable, "-c", text], check=False, capture_output=True, text=True, timeout=60)
    assert done.stderr == "linnet: a number is out of range: can't convert negative int to unsigned\n"
    assert done.returncode == 1


def test_usage_errors_have_their_own_status(linnet, file: Path) -> None:
    assert "linnos" in one_line(linnet("compare", "--trace", file, "--policy", "linos"), 2)
    assert "consumer-deep" in one_line(linnet("compare", "--trace", file, "--preset", "floppy"), 2)
    one_line(linnet("compare"), 2)
    assert "2 traces for 1 device: give" in one_line(linnet("compare", "-t", file, "-t", file, "--replicas", 1), 1)
    one_line(linnet("no-such-command"), 2)
    assert "flashnet" in one_line(linnet("trace", "stat", file, "--format", "nonsense"), 1)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["trace", "stat", ""], "file"),
        (["label", "-t", "FILE", "-t", ""], "--trace"),
        (["fit", "-t", "FILE", "-o", ""], "--out"),
        (["whatif", ""], "traces"),
        (["compare", "-t", "FILE", "--report="], "--report"),
        (["ssd", "serve", "--seconds", "0", "--directory", ""], "--directory"),
        (["place", "profile", ""], "traces"),
        (["study", "accuracy", "-t", ""], "--trace"),
    ],
)
def test_an_empty_path_is_a_usage_error(linnet, file: Path, words: list[str], option: str) -> None:
    """It would be the current directory; scripts give it where a variable is not set."""
    refused = one_line(linnet(*(file if word == "FILE" else word for word in words)), 2)
    assert option in refused and "the path is empty" in refused


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (["compare", "-t", "FILE", "--preset", "n\udcff.toml"], "--preset"),
        (["compare", "-t", "FILE", "--policy", "baseline,n\udcff"], "--policy"),
        (["compare", "-w", "n\udcff"], "--workload"),
        (["trace", "stat", "FILE", "--format", "n\udcff"], "--format"),
        (["trace", "synth", "n\udcff", "-o", "x"], "workload"),
        (["ssd", "params", "n\udcff.toml"], "preset"),
    ],
)
def test_text_that_is_no_utf_8_is_a_usage_error(linnet, file: Path, words: list[str], option: str) -> None:
    refused = one_line(linnet(*(file if word == "FILE" else word for word in words)), 2)
    assert option in refused and "is not UTF-8" in refused and "codec" not in refused


def test_a_full_disk_leaves_nothing_half_written(linnet, file: Path, tmp_path: Path) -> None:
    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    out = tmp_path / "out"
    out.mkdir()
    assert "m.linnet" in one_line(linnet("fit", "--trace", file, "--out", out / "m.linnet", preexec_fn=small_disk), 1)
    assert "t.csv" in one_line(linnet("trace", "convert", file, "--out", out / "t.csv", preexec_fn=small_disk), 1)
    assert "t.parquet" in one_line(linnet("trace", "convert", file, "-o", out / "t.parquet", preexec_fn=small_disk), 1)
    assert list(out.iterdir()) == []


def cpu_seconds(pid: int) -> float:
    """What a process has computed so far: unlike the clock, it says how far a command is on a busy machine."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def children_cpu_seconds() -> float:
    """What the processes that were started here and have ended computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return caught is not None and bool(int(caught[1], 16) >> (number - 1) & 1)


def test_a_name_that_the_terminal_lacks_is_escaped(linnet, file: Path, tmp_path: Path) -> None:
    named = tmp_path / f"t\u00e9 \u6570{file.suffix}"
    named.write_bytes(file.read_bytes())
    done = linnet("trace", "stat", named, env=os.environ | {"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0, done.stderr
    assert r"t\xe9 \u6570" in done.stdout and "records" in done.stdout


@pytest.mark.slow
def test_interrupt_stops_in_mid_run_and_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    linnet = Path(sys.executable).with_name("linnet")
    # A shell's background job ignores the signal, and so would its children.
    command = ["env", "--default-signal=INT", linnet, "compare", "-w", "az-e", "--seconds", "600", "--report", out]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    others = children_cpu_seconds()

    def wait(look: Callable[[], bool]) -> None:
        while not look():
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)

    try:
        # The command line catches it once it is imported. What the run itself imports takes half a second after that.
        wait(lambda: catches(process.pid, signal.SIGTERM))
        begun = cpu_seconds(process.pid)
        wait(lambda: cpu_seconds(process.pid) > begun + 0.8)
        process.send_signal(signal.SIGINT)
        until_signal = cpu_seconds(process.pid)
        _, stderr = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 130, stderr
    # The whole run would take minutes; by the clock, the end of it may take long on a busy machine.
    assert children_cpu_seconds() - others - until_signal < 15
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_report_stands_alone(linnet, small_drive: Path, tmp_path: Path) -> None:
    words = ("--preset", small_drive, "--share", 0.75)
    result = linnet("whatif", make(tmp_path), "--report", tmp_path / "report.html", *words)
    assert result.returncode == 0, result.stderr
    page = (tmp_path / "report.html").read_text()
    assert "<svg" in page
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:)?//""", page.replace("xlink:href", ""))


def make(folder: Path) -> Path:
    path = folder / "trace.csv"
    write_trace(device_trace(2), path)
    return path


@pytest.mark.parametrize(
    "command",
    [[], ["trace"], ["trace", "formats"], ["compare"], ["whatif"], ["fit"], ["evaluate"], ["label"], ["demo"]],
)
def test_help_shows_an_example(linnet, command: list[str]) -> None:
    result = linnet(*command, "--help")
    assert result.returncode == 0
    assert "linnet" in result.stdout and "<bool>" not in result.stdout
