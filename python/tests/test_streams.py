# SPDX-License-Identifier: MIT OR Apache-2.0
"""Traces of one array: those of a common clock keep their times to each other."""

import json
from pathlib import Path

import numpy as np
import pytest
from linnet import FitSettings, Trace
from linnet._native import synth
from linnet.experiment import Experiment, Setup
from linnet.streams import APART, spread, together

SECOND = 1_000_000_000
BURST_NS = SECOND // 2
FIT = FitSettings(epochs=1)


def recording(seed: int, idle_ns: int = 0, seconds: int = 4, begin_ns: int = 0) -> list[tuple[int, str, int]]:
    """When, what and where: reads at random and, half into each second, a burst of writes, after an idle beginning."""
    chance = np.random.default_rng(seed)
    reads = np.cumsum(chance.exponential(1_000_000, 1000 * seconds)).astype(int)
    ios = [(int(at), "R", int(chance.integers(1 << 20)) * 8) for at in reads if at < seconds * SECOND]
    ios += [(s * SECOND + BURST_NS + i * 100_000, "W", i * 2048) for s in range(seconds) for i in range(50)]
    return sorted((begin_ns + at, op, where) for at, op, where in ios if at >= idle_ns)


def csv(path: Path, ios: list[tuple[int, str, int]]) -> Trace:
    lines = [f"{at},{op},{where},{256 if op == 'W' else 8}" for at, op, where in ios]
    path.write_text("t_ns,op,lba_512,sectors\n" + "\n".join(lines) + "\n")
    return Trace.read(path)


def iolog(path: Path, ios: list[tuple[int, str, int]]) -> Trace:
    lines = [f"{at // 1000} /dev/a {'read' if op == 'R' else 'write'} {where * 512} 4096" for at, op, where in ios]
    path.write_text("fio version 3 iolog\n0 /dev/a add\n0 /dev/a open\n" + "\n".join(lines) + "\n")
    return Trace.read(path)


def bursts(traces: list[Trace]) -> list[list[int]]:
    """When the bursts begin on each device, ns."""
    found = []
    for columns in (trace.columns() for trace in traces):
        at = columns["arrive_ns"][columns["op"] == 1].astype(int)
        found.append(at[np.diff(at, prepend=-SECOND) > SECOND // 2].tolist())
    return found


IDLE_NS = (0, 300_000_000, 600_000_000)


@pytest.mark.parametrize("begin_ns", [0, 1_700_000_000 * SECOND])
def test_a_burst_reaches_devices_at_one_moment_whenever_they_began(tmp_path: Path, begin_ns: int) -> None:
    ios = [recording(seed, idle_ns, begin_ns=begin_ns) for seed, idle_ns in enumerate(IDLE_NS)]
    traces = [csv(tmp_path / f"{seed}.csv", one) for seed, one in enumerate(ios)]
    first, second, third = bursts(traces)
    assert first[0] != second[0], "each trace begins at its own first I/O"
    experiment = Experiment(traces, Setup(fit=FIT))
    assert experiment.note is None
    first, second, third = bursts(experiment.streams)
    assert first == second and first[1:] == third and len(first) == 4
    # Both parts begin and end together too, and after a change of rate.
    for part in (experiment.train_part, experiment.test_part):
        first, second, third = bursts(part)
        assert first == second and len(first) == 2 and third == first[-len(third) :]
    slow = Experiment([trace.rerate(0.5) for trace in traces], Setup(fit=FIT)).streams
    first, second, third = bursts(slow)
    assert np.abs(np.array(first[1:]) - [second[1:], third]).max() < 1_000


def test_without_a_common_clock_traces_are_as_they_were_and_it_is_said(tmp_path: Path) -> None:
    ios = [recording(seed, idle_ns) for seed, idle_ns in enumerate(IDLE_NS)]
    own = [iolog(tmp_path / f"{seed}.log", one) for seed, one in enumerate(ios)]
    clocked = [csv(tmp_path / f"{seed}.csv", one) for seed, one in enumerate(ios)]
    later = csv(tmp_path / "later.csv", recording(3, begin_ns=3600 * SECOND))
    converted = [trace.named(f"c{i}") for i, trace in enumerate(clocked)]
    for i, trace in enumerate(converted):
        trace.write(tmp_path / f"c{i}.csv")
    converted = [Trace.read(tmp_path / f"c{i}.csv") for i in range(3)]
    for traces, why in (
        (own, "0.log (fio-iolog) does not tell when it began on a clock that others share"),
        ([*clocked[:2], own[2]], "2.log (fio-iolog) does not tell"),
        ([*clocked[:2], later], "of different times"),
        (converted, "all begin at 0, as files do that were converted"),
        (clocked[:2], "fewer than devices"),
    ):
        experiment = Experiment(traces, Setup(fit=FIT))
        assert experiment.note is not None and experiment.note.startswith(APART) and why in experiment.note
        for own_stream, stream in zip(spread(traces, 3), experiment.streams, strict=True):
            np.testing.assert_array_equal(own_stream.columns()["arrive_ns"], stream.columns()["arrive_ns"])
        cuts = [stream.split(0.5) for stream in experiment.streams]
        assert [len(part) for part, _ in cuts] == [len(part) for part in experiment.train_part]


def test_made_traces_and_one_trace_for_several_devices_are_as_they_were(tmp_path: Path) -> None:
    made = synth("az-c", seconds=2, devices=3, seed=0)
    for i, trace in enumerate(made):
        trace.write(tmp_path / f"{i}.parquet")
    stored = [Trace.read(tmp_path / f"{i}.parquet") for i in range(3)]
    one = csv(tmp_path / "one.csv", recording(0, begin_ns=SECOND))
    for traces in (made, stored, [one] * 3, [one]):
        found = together(traces, 3)
        assert (found.note, found.end_ns) == (None, None)
        for before, after in zip(spread(traces, 3), found.traces, strict=True):
            assert before is after or before.columns()["arrive_ns"].tolist() == after.columns()["arrive_ns"].tolist()
        assert [len(a) for a, _ in found.split(0.5)] == [len(trace.split(0.5)[0]) for trace in found.traces]
    # What is made of it keeps the word, in files too.
    stored[0].rerate(2.0).write(tmp_path / "fast.parquet")
    assert Trace.read(tmp_path / "fast.parquet").made and not one.made


@pytest.mark.parametrize("begin_ns", [0, 1_700_000_000 * SECOND])
def test_parquet_keeps_the_clock_that_traces_share(linnet, small_drive: Path, tmp_path: Path, begin_ns: int) -> None:
    files = [tmp_path / f"{seed}.csv" for seed in range(3)]
    for seed, (file, idle_ns) in enumerate(zip(files, IDLE_NS, strict=True)):
        csv(file, recording(seed, idle_ns, begin_ns=begin_ns))
    settings = ("--preset", small_drive, "--policy", "baseline", "--epochs", 1, "--json")

    def rows(files: list[Path]) -> list[dict[str, object]]:
        done = linnet("compare", *(word for file in files for word in ("-t", file)), *settings)
        assert done.returncode == 0 and APART not in done.stderr, done.stderr
        return [row | {"trace": ""} for row in json.loads(done.stdout)["rows"]]

    def made(end: str, *how: object) -> tuple[list[Path], str]:
        out = [file.with_name(f"{file.stem}{len(how)}{end}") for file in files]
        command = ("trace", *(how or ("convert",)))
        done = [linnet(*command, a, "-o", b) for a, b in zip(files, out, strict=True)]
        assert all(one.returncode == 0 for one in done), done[0].stderr
        return out, done[1].stderr

    before = rows(files)
    converted, said = made(".parquet")
    assert rows(converted) == before and "clock" not in said
    for file, again in zip(files, converted, strict=True):
        trace, same = Trace.read(file), Trace.read(again)
        assert (trace.origin_ns, trace.last_ns) == (same.origin_ns, same.last_ns)
        same.write(tmp_path / "again.parquet")
        assert Trace.read(tmp_path / "again.parquet").origin_ns == trace.origin_ns
    faster, _ = made(".parquet", "rerate", "--factor", 2)
    origins = [[Trace.read(file).origin_ns or 0 for file in given] for given in (files, faster)]
    assert np.abs(np.array(origins[0]) / 2 - origins[1]).max() < 1000
    for end in (".csv", ".iolog"):
        _, said = made(end, "convert")
        assert f"shared clock not held by {end[1:]} " in said


def test_a_converted_trace_without_a_common_clock_has_none(linnet, tmp_path: Path) -> None:
    iolog(tmp_path / "own.log", recording(0, begin_ns=SECOND))
    done = linnet("trace", "convert", tmp_path / "own.log", "-o", tmp_path / "own.parquet")
    assert done.returncode == 0 and "clock" not in done.stderr
    assert Trace.read(tmp_path / "own.parquet").origin_ns is None


def test_commands_say_that_traces_may_not_have_begun_together(linnet, small_drive: Path, tmp_path: Path) -> None:
    for seed in range(3):
        csv(tmp_path / f"{seed}.csv", recording(seed, IDLE_NS[seed], seconds=3))
        iolog(tmp_path / f"{seed}.log", recording(seed, IDLE_NS[seed], seconds=3))
    clocked, own = ([tmp_path / f"{seed}.{end}" for seed in range(3)] for end in ("csv", "log"))
    for files, said in ((clocked, False), (own, True)):
        words = [word for file in files for word in ("-t", file)]
        settings = ("--preset", small_drive, "--policy", "baseline", "--epochs", 1)
        compared = linnet("compare", *words, *settings, "--json")
        assert compared.returncode == 0, compared.stderr
        notes = json.loads(compared.stdout).get("notes", [])
        assert sum(note.startswith(APART) for note in notes) == said
        assert (APART in " ".join(linnet("compare", *words, *settings).stdout.split())) == said
        verdict = linnet("whatif", *files, "--preset", small_drive, "--share", 0.5, "--seeds", 1, "--json")
        assert verdict.returncode == 0, verdict.stderr
        told = json.loads(verdict.stdout)
        assert any(note.startswith(APART) for note in told["notes"]) == said
        assert (APART in told["recommendation"]["doubts"]) == said
