# SPDX-License-Identifier: MIT OR Apache-2.0
"""What `linnet tune calibrate` does without a device: labels, rows, held-out scores, the file, and its refusals."""

import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from linnet import _native
from linnet._native import KnobModel, LearnError, ModelError, TuneError
from linnet.cli import app
from linnet.readahead import fitting, memory, sweep
from linnet.readahead.patterns import FULL, QUICK
from linnet.readahead.reader import ORDERS
from linnet.readahead.sweep import Run, Sweep
from typer.testing import CliRunner

COUNTERS = 34
ACCESSES, PAGES, FORWARD, JUMPS, FAULTS, ADDED, DISTANCE = 0, 1, 3, 5, 6, 7, 10


def window(accesses: int, jumps: int, pages_each: int = 1, added: int = 0) -> np.ndarray:
    counts = np.zeros(COUNTERS, dtype=np.uint64)
    counts[[ACCESSES, PAGES, FORWARD, JUMPS, FAULTS]] = [
        accesses,
        accesses * pages_each,
        accesses - jumps,
        jumps,
        accesses,
    ]
    counts[ADDED] = added
    counts[DISTANCE + 12] = jumps
    counts[DISTANCE] = accesses - jumps
    return counts


def made(rates: dict[str, dict[int, float]], windows: dict[str, tuple[int, int]], added: float = 1.0) -> Sweep:
    """A sweep of these throughputs, each run with ten windows of (accesses, jumps)."""
    found = Sweep("/dev/x")
    for pattern, by in rates.items():
        accesses, jumps = windows[pattern]
        for kib, rate in by.items():
            rows = np.asarray([window(accesses + i, jumps + (i if jumps else 0)) for i in range(10)])
            found.runs.append(Run(pattern, kib, rate, rows, added * (kib if jumps else 1)))
    return found


RATES = {"random": {8: 1000.0, 128: 200.0, 512: 60.0}, "seq": {8: 500.0, 128: 1000.0, 512: 990.0}}
WINDOWS = {"random": (400, 400), "seq": (400, 0)}


def test_places_of_each_order_are_in_the_file_and_as_named() -> None:
    for pattern in FULL:
        places = ORDERS[pattern.order](1000, pattern.block, pattern.length, random.Random(1).random)
        first = list(itertools.islice(places, 3000))
        assert all(0 <= place <= 1000 - pattern.block for place in first), pattern
        if pattern.order == "seq":
            assert first[:3] == [0, pattern.block, 2 * pattern.block]
        if pattern.order == "reverse":
            assert first[0] - first[1] == pattern.block
        if pattern.order == "runs":
            steps = np.diff(first)
            assert (steps == 1).sum() >= len(steps) * (pattern.length - 1) // pattern.length
        if pattern.order == "random":
            assert len(set(first)) > 900 - pattern.block


def test_names_of_patterns_are_distinct() -> None:
    assert len({pattern.name for pattern in FULL}) == len(FULL) and set(QUICK) <= set(FULL)


def test_the_reader_reads_from_a_file_without_a_name(tmp_path: Path) -> None:
    file = (tmp_path / "file").open("w+b")
    file.write(bytes(1 << 20))
    file.flush()
    (tmp_path / "file").unlink()
    (tmp_path / "cgroup.procs").touch()
    words = [sys.executable, "-I", "-S", str(sweep.READER), str(file.fileno()), str(tmp_path), "mmap", "runs", "1", "8"]
    reader = subprocess.Popen(
        [*words, "0.05", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[file.fileno()]
    )
    assert reader.stdout is not None and reader.stdout.readline() == "open\n"
    out, _ = reader.communicate("go\n")
    took, pages = out.split()
    assert float(took) >= 0.05 and int(pages) >= 16
    assert (tmp_path / "cgroup.procs").read_text() == "0"


def test_the_best_value_is_frugal_and_near_the_default() -> None:
    best = made(RATES, WINDOWS).best(0.05, 128)
    assert best == {"random": 8, "seq": 128}
    # All are as fast: of reads in order the default, of random ones the value that brings least.
    same = {name: dict.fromkeys((8, 128, 512), 100.0) for name in RATES}
    assert made(same, WINDOWS).best(0.05, 128) == {"random": 8, "seq": 128}
    assert made({"seq": {8: 50.0, 512: 1000.0, 2048: 1000.0}}, WINDOWS).best(0.05, 128) == {"seq": 512}


def test_the_best_of_rounds_counts() -> None:
    found = made({"seq": {8: 100.0}}, WINDOWS)
    found.runs += made({"seq": {8: 900.0}}, WINDOWS).runs
    assert found.throughput() == {"seq": {8: 900.0}}


def test_rows_have_labels_the_rule_s_values_and_shares() -> None:
    data = fitting.table(made(RATES, WINDOWS), 128)
    assert data.rows.shape == (2 * 3 * 11, len(_native.tune_ladder()[0]))
    assert set(data.label_kib[data.pattern == "random"]) == {8} == set(data.rule_kib[data.pattern == "random"])
    assert set(data.label_kib[data.pattern == "seq"]) == {128} == set(data.rule_kib[data.pattern == "seq"])
    scattered = data.only(data.pattern == "random")
    assert scattered.shares(np.full(len(scattered.rows), 128, dtype=np.uint32)) == pytest.approx(0.2)
    # 64 was not measured: the value below counts. Below all of them the least does.
    assert scattered.shares(np.full(len(scattered.rows), 64, dtype=np.uint32)) == pytest.approx(1.0)
    assert scattered.shares(np.full(len(scattered.rows), 4, dtype=np.uint32)) == pytest.approx(1.0)


def test_windows_of_few_reads_are_no_rows() -> None:
    with pytest.raises(TuneError, match="saw no reads"):
        fitting.table(made({"seq": {8: 1.0}}, {"seq": (3, 0)}).__class__("/dev/x"), 128)
    few = made({"seq": RATES["seq"]}, {"seq": (0, 0)})
    rows = fitting.table(few, 128).rows
    # Ten windows of 0 to 9 reads: those of 8 and 9, and the whole, of each of three runs.
    assert len(rows) == 3 * 3


def test_held_out_scores_compare_with_the_rule_and_the_default() -> None:
    data = fitting.table(made(RATES, WINDOWS), 128)
    scores = fitting.compare(data, 1, 128)
    for name in ("network", "tree", "rule"):
        assert scores["by_run"][name] == {"accuracy": 1.0, "share_of_best": 1.0, "worst_pattern": 1.0}
    assert scores["by_run"]["default"]["share_of_best"] == pytest.approx(0.6)
    assert scores["by_run"]["default"]["worst_pattern"] == pytest.approx(0.2)
    # With one of the two ways left out there is one label to learn, and it is the wrong one.
    assert scores["by_pattern"]["network"]["accuracy"] == 0.0


def test_a_held_out_group_is_not_in_its_own_training() -> None:
    data = fitting.table(made(RATES, WINDOWS), 128)
    seen: list[set[int]] = []

    def spy(part: fitting.Table):
        seen.append(set(part.run.tolist()))
        return lambda rows: np.full(len(rows), 8, dtype=np.uint32)

    fitting.held_out(data, spy, data.run, 3)
    assert [set(range(6)) - part for part in seen] == [{0, 3}, {1, 4}, {2, 5}]


def test_the_file_is_one_that_the_tuner_reads_and_decides_alike(tmp_path: Path) -> None:
    data = fitting.table(made(RATES, WINDOWS), 128)
    for parts in ("both", "network", "tree"):
        content, values = fitting.write(data, parts, 0.75, 3)
        model = KnobModel.from_bytes(content)
        assert (model.values, model.parts, model.rows) == (values, parts, len(data.rows))
        assert model.accuracy == pytest.approx(0.75)
        kib, sure = model.decide(data.rows)
        assert (kib == data.label_kib).all() and sure.min() > 0.6
    assert fitting.write(data, "both", 0.75, 3)[0] == fitting.write(data, "both", 0.75, 3)[0]
    (tmp_path / "m").write_bytes(content[:-5])
    with pytest.raises(ModelError):
        KnobModel.from_bytes(content[:-5])


def test_nothing_to_choose_is_said() -> None:
    data = fitting.table(made({"seq": RATES["seq"]}, WINDOWS), 128)
    with pytest.raises(TuneError, match="128 KiB is best for every way of reading"):
        fitting.write(data, "both", 0.5, 1)


def test_a_tree_goes_alone_where_it_does_better() -> None:
    scores = {"by_pattern": {"network": {"share_of_best": 0.8}, "tree": {"share_of_best": 0.9}}}
    assert fitting.choose(scores, "auto") == "tree" and fitting.choose(scores, "network") == "network"
    scores["by_pattern"]["network"]["share_of_best"] = 0.9
    assert fitting.choose(scores, "auto") == "both"


def test_wrong_shapes_are_refused() -> None:
    with pytest.raises(ValueError, match="3 counters in a window"):
        _native.tune_features(np.zeros((2, 3), dtype=np.uint64))
    with pytest.raises(LearnError, match="at least 2"):
        KnobModel.fit(np.zeros((2, 8), dtype=np.float32), [0, 0], [8])
    with pytest.raises(ValueError, match="give both, network or tree"):
        KnobModel.fit(np.zeros((2, 8), dtype=np.float32), [0, 1], [8, 16], parts="forest")


def test_files_are_bounded_by_memory_and_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "allowance_bytes", lambda: None)
    assert sweep.sizes(tmp_path)[0] == sweep.FILE_BYTES
    monkeypatch.setattr(memory, "allowance_bytes", lambda: 300 << 20)
    assert sweep.sizes(tmp_path) == (150 << 20, 25 << 20)
    monkeypatch.setattr(memory, "allowance_bytes", lambda: 100 << 20)
    with pytest.raises(TuneError, match="may use 100 MiB"):
        sweep.sizes(tmp_path)
    monkeypatch.setattr(memory, "allowance_bytes", lambda: None)
    full = os.statvfs_result((4096, 4096, 1000, 1000, 1000, 10, 10, 10, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(TuneError, match="3 MiB are free; a calibration needs 320 MiB"):
        sweep.sizes(tmp_path)


def test_the_scratch_file_has_no_name(tmp_path: Path) -> None:
    with sweep.scratch(tmp_path, 2 << 20, lambda _: None) as fd:
        assert os.fstat(fd).st_size == 2 << 20 and not list(tmp_path.iterdir())


def test_a_device_is_held_set_and_put_back(machine: Path) -> None:
    knob = machine / "sys/block/nvme0n1/queue/read_ahead_kb"
    journal = machine / "run/linnet/tune/journal.json"
    device = _native.TuneDevice("nvme0n1", str(machine))
    assert (device.target, device.mounts, device.value_kib) == ("/dev/nvme0n1", ["/data"], 128)
    with pytest.raises(ValueError, match="not held"):
        device.set(8)
    device.hold()
    with pytest.raises(TuneError, match="another tuner runs"):
        _native.TuneDevice("nvme0n1", str(machine)).hold()
    assert device.set(512) == 512 and json.loads(journal.read_text())["devices"][0]["original_kib"] == 128
    assert device.put_back() and knob.read_text() == "128"
    device.set(8)
    device.restore()
    assert knob.read_text() == "128" and json.loads(journal.read_text())["devices"] == []
    with pytest.raises(TuneError, match="no such device"):
        _native.TuneDevice("sdz", str(machine))


def test_a_mount_whose_value_is_not_known_is_refused(tmp_path: Path) -> None:
    for number in (2, 3):
        knob = tmp_path / f"sys/class/bdi/cifs-{number}/read_ahead_kb"
        knob.parent.mkdir(parents=True)
        knob.write_text("128")
    mounts = tmp_path / "proc/self/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("30 1 0:60 / /mnt rw - cifs //server/share rw\n")
    with pytest.raises(TuneError, match="the value of /mnt is one of cifs-2, cifs-3"):
        _native.TuneDevice("/mnt", str(tmp_path))


def test_the_command_refuses_in_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    out = str(tmp_path / "m.linnet")
    result = CliRunner().invoke(app, ["tune", "calibrate", "/dev/x", "-o", out, "--decide", "forest"])
    assert result.exit_code == 2 and "give auto, both, network or tree" in result.output
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    result = CliRunner().invoke(app, ["tune", "calibrate", "/dev/x", "-o", out])
    assert isinstance(result.exception, TuneError) and "needs root" in str(result.exception)
    assert not list(tmp_path.iterdir())


def test_a_control_group_that_vanishes_is_told_in_one_line(tmp_path: Path) -> None:
    class Device:
        def set(self, kib: int) -> int:
            return kib

        def put_back(self) -> None:
            pass

    with (tmp_path / "scratch").open("w+b") as file:
        bench = sweep.Bench(Device(), None, file.fileno(), tmp_path / "gone")  # type: ignore[arg-type]
        with pytest.raises(TuneError, match=r"^the reader did not start: FileNotFoundError: .*gone/cgroup.procs'$"):
            bench.run(QUICK[0], 8, 0.1, 0)
