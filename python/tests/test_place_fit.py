# SPDX-License-Identifier: MIT OR Apache-2.0
"""Fitted placement models: their file, and what they answer."""

import json
import math
from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from linnet.place import container, moments
from linnet.place.allocate import Allocator
from linnet.place.answers import TARGETS
from linnet.place.cache import Cache
from linnet.place.check import Checker
from linnet.place.cluster import Cluster, DriveSpec
from linnet.place.confidence import CONFIDENCES, parts
from linnet.place.fitted import PlacementModel, read_share
from linnet.place.fitted_file import from_bytes, read_model, to_bytes
from linnet.place.fitting import fit_model, model_file
from linnet.place.models.open_loop import OpenLoop
from linnet.place.observations import observe
from linnet.place.slo import Slo, Tenant
from linnet.place.whatif import what_if
from linnet.place.whatif_figure import draw
from linnet.place.words import Drive, Profile
from linnet.place.workers import Work
from place_tables import DRIVES, VICTIM, read_p99_us, tenant, write_ssdiq


@pytest.fixture
def model(placement_model: PlacementModel) -> PlacementModel:
    return placement_model


class Stopping:
    """Workers that are stopped after some pieces, done from the last to the first."""

    def __init__(self, pieces: int) -> None:
        self.left = pieces
        self.done: list[int] = []

    def map(self, work: Work, shared: Any, pieces: Sequence[Any]) -> Generator[tuple[int, Any]]:
        for index in reversed(range(len(pieces))):
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            self.done.append(pieces[index])
            yield index, work(shared, pieces[index])


@pytest.mark.slow
def test_a_stopped_fit_continues_and_gives_the_same_bytes(tmp_path: Path) -> None:
    write_ssdiq(tmp_path, ("a0", "b0"), repeats=1)
    rows = observe(tmp_path, TARGETS)["ssdiq"]
    rows = rows.take(rows.inputs["load"] <= 70_000)
    whole = to_bytes(fit_model(rows, 42, lambda done: None))

    first, second, told = Stopping(5), Stopping(len(TARGETS)), []
    for workers in (first, second):
        cache = Cache(tmp_path / "fits")
        if workers is first:
            with pytest.raises(KeyboardInterrupt):
                fit_model(rows, 42, lambda done: None, workers, cache)
        else:
            assert to_bytes(fit_model(rows, 42, told.append, workers, cache)) == whole
        cache.close()
    assert sorted(first.done + second.done) == list(range(len(TARGETS))), "no metric is fitted twice"
    assert told == list(range(5, len(TARGETS) + 1))

    # Other rows, or another seed, are another fit.
    for other, seed in ((rows.take(np.arange(1, len(rows))), 42), (rows, 43)):
        strange, cache = Stopping(1), Cache(tmp_path / "fits")
        with pytest.raises(KeyboardInterrupt):
            fit_model(other, seed, lambda done: None, strange, cache)
        assert cache.hits == 0
        cache.close()


def deep(depth: float, writes: float) -> Profile:
    """A writer with so many outstanding I/Os."""
    return Profile("writer", {**tenant("writer", 0.0, writes).features, "depth": depth})


def test_a_prediction_follows_the_law_of_its_drive(model: PlacementModel) -> None:
    for name in DRIVES:
        for writes in (25_000.0, 60_000.0, 400_000.0):
            answer = model.predict([model.drives[name]], [VICTIM], [[deep(447.0, writes - 5000)]])[0]
            found = answer["read_latency_p99_us"]
            assert found.low90 < found.value < found.high90
            assert math.log(found.value) == pytest.approx(math.log(read_p99_us(name, writes)), abs=0.5)
    assert set(answer) == set(model.metrics)


def test_more_of_a_tenant_than_its_queue_holds_loses_bandwidth(model: PlacementModel) -> None:
    greedy = tenant("greedy", 0.0, 60_000_000.0)
    for depth, outstanding in ((0.0, 64), (64.0, 64), (1.0, 1), (0.1, 1), (4.0, 4)):
        one = Profile("greedy", {**greedy.features, "depth": depth})
        alone = model.predict([model.drives["a0"]], [one], [[]])[0]
        latency_s = alone["write_latency_mean_us"].value / 1e6
        assert alone["write_bandwidth_mean"].value == pytest.approx(outstanding / latency_s * 4096)
        assert alone["write_bandwidth_mean"].value < greedy.features["write_aligned_bandwidth_mean"]
    assert math.isnan(alone["read_latency_p99_us"].value), "a tenant that does not read has no latency of reads"


def test_confidences_between_rise_to_the_end_of_the_interval(model: PlacementModel, tmp_path: Path) -> None:
    for drive in (model.drives["a0"], Drive("strange", "other", {"rnd_read_iops": 5e5, "rnd_write_iops": 9e4})):
        ways = np.array([parts(model, drive, percent) for percent in CONFIDENCES])
        assert ways.shape == (len(CONFIDENCES), len(model.metrics))
        assert (ways[0] == 0).all() and (ways[-1] == 1).all() and (np.diff(ways, axis=0) >= 0).all()
        assert (ways[1] < 1).any(), "the levels are told apart"
    assert not np.array_equal(model.known_parts, model.new_parts)


def test_a_promise_against_the_tenant_alone_holds_on_an_empty_drive(model: PlacementModel) -> None:
    strange = Drive("strange", "other", {"rnd_read_iops": 5e5, "rnd_write_iops": 9e4})
    for drive in (model.drives["a0"], strange):
        for percent in CONFIDENCES:
            allocator = Allocator(Cluster(), model)
            allocator.add_drives([DriveSpec(drive, 10**12)])
            promise = (Slo("read_latency_p99_us", degradation_percent=0.0, confidence_percent=percent),)
            one = Tenant("a", 10**9, VICTIM, promise)
            assert what_if(allocator, one, drive.name).allowed
            assert allocator.place(one).drive == drive.name
            assert not allocator.breaches(0)


def test_a_file_of_an_older_version_knows_two_confidences(model: PlacementModel, tmp_path: Path) -> None:
    head, columns = container.unpack(to_bytes(model))
    for target in head["targets"]:
        del target["known_parts"]
    path = tmp_path / "old.linnet"
    path.write_bytes(container.pack(head, columns))
    old = read_model(path)
    assert (parts(old, old.drives["a0"], 95) == 1).all()
    with pytest.raises(ValueError, match="knows 50 and 95 only"):
        parts(old, old.drives["a0"], 80)


def test_quantiles_do_not_cross(model: PlacementModel) -> None:
    answer = model.predict([model.drives["d0"]], [VICTIM], [[tenant("writer", 0.0, 45_000.0)]])[0]
    rising = [answer[f"read_latency_{name}_us"] for name in ("p50", "p90", "p95", "p99", "p99_9")]
    for part in ("value", "low90", "high90"):
        values = [getattr(one, part) for one in rising]
        assert values == sorted(values)


def test_latency_beyond_the_capacity_grows_with_what_is_outstanding(model: PlacementModel, tmp_path: Path) -> None:
    drive = model.drives["a0"]
    # 448 I/Os were measured. 447 of the writer and 1 of the victim are as many.
    beside = [deep(depth, 400_000.0) for depth in (447.0, 223.0, 1.0)] + [deep(447.0, 400.0), deep(1.0, 400.0)]
    usual, half, two, *idle = (model.predict([drive], [VICTIM], [[one]])[0] for one in beside)
    name = "read_latency_p99_us"
    assert usual[name].value == pytest.approx(2 * half[name].value, rel=1e-6)
    assert idle[0] == idle[1], "below the capacity the depth is no load"
    near = model.predict([drive], [VICTIM], [[deep(1.0, 80_000.0)]])[0]
    assert two[name].value > 0.8 * near[name].value, "two I/Os leave the drive in the open state"
    # Those of few I/Os per second have few outstanding, whatever their depth.
    quiet = [Profile(f"q{i}", {**tenant("q", 0.0, 1.0).features, "depth": 64.0}) for i in range(20)]
    found = model.predict([drive], [VICTIM], [[deep(440.0, 400_000.0), *quiet]])[0]
    assert found[name].value == pytest.approx(usual[name].value * 441 / 448, rel=0.01)
    more = deep(448.0, 400_000.0)
    assert math.isnan(model.predict([drive], [VICTIM], [[more]])[0][name].value)
    said = "they ask for more than a0 sustains, with 449 I/Os outstanding, and no more than 448 were measured"
    assert model.unmeasured(drive, [VICTIM, more]) == said and model.unmeasured(drive, [VICTIM, beside[0]]) is None
    assert model.unmeasured(drive, [VICTIM, deep(4480.0, 400.0)]) is None, "the drive is not full"


def test_a_file_of_the_first_form_knows_no_depths(model: PlacementModel) -> None:
    head, columns = container.unpack(to_bytes(model))
    head["form"] = "open-loop-1"
    for target in head["targets"]:
        del target["hyperparameters"][7]
    old = from_bytes(container.pack(head, np.delete(columns, [3, 5], axis=0)))
    drive, name = model.drives["a0"], "read_latency_p99_us"
    one, *others = (old.predict([drive], [VICTIM], [[deep(depth, 400_000.0)]])[0][name] for depth in (447.0, 1.0, 4e4))
    assert others == [one, one] and old.unmeasured(drive, [VICTIM, deep(4e4, 400_000.0)]) is None
    new = model.predict([drive], [VICTIM], [[deep(447.0, 400_000.0)]])[0][name]
    assert one.value == pytest.approx(new.value, rel=0.02)


MOST_READS = 9950.0
"""Reads per second of the tables' heaviest load, on drives whose sheets have 800,000."""


def known_up_to(model: PlacementModel, drive: Drive, most: float) -> None:
    """Assert that reads are predicted up to ``most`` a second, of two tenants together, and not beyond."""
    for share, known in ((0.5, True), (0.51, False)):
        reader = tenant("reader", share * most, 0.0)
        answer = model.predict([drive], [reader], [[reader]])[0]
        for name in ("latency_p99_us", "bandwidth_mean"):
            assert math.isfinite(answer[f"read_{name}"].value) == known, (share, name)
        assert (model.unmeasured(drive, [reader, reader]) is None) == known


def test_more_reads_than_were_measured_are_not_predicted(model: PlacementModel, tmp_path: Path) -> None:
    path = tmp_path / "m.linnet"
    path.write_bytes(to_bytes(model))
    for one in (model, read_model(path)):
        known_up_to(one, model.drives["a0"], MOST_READS)
        sheet = {"rnd_write_iops": 100_000.0, "rnd_read_iops": 400_000.0}
        known_up_to(one, Drive("half", "N", sheet), MOST_READS / 2)
        known_up_to(one, Drive("unknown", "N", sheet | {"rnd_read_iops": math.nan}), MOST_READS)


def test_a_file_without_the_measured_reads_answers_up_to_the_sheet(model: PlacementModel, tmp_path: Path) -> None:
    head, columns = container.unpack(to_bytes(model))
    del head["read_share"]
    path = tmp_path / "old.linnet"
    path.write_bytes(container.pack(head, columns))
    old = read_model(path)
    known_up_to(old, old.drives["a0"], 800_000)
    assert to_bytes(old) == path.read_bytes()


def test_drives_without_a_read_rate_were_measured_up_to_their_reads(tmp_path: Path, model: PlacementModel) -> None:
    known = model.latency.known
    bare = replace(known, inputs=known.inputs | {"rnd_read_iops": np.full(len(known), math.nan)})
    latency = OpenLoop(model.latency)
    latency.known, latency.noise = bare, model.latency.noise
    path = tmp_path / "m.linnet"
    path.write_bytes(to_bytes(replace(model, latency=latency, read_share=read_share(bare))))
    again = read_model(path)
    known_up_to(again, again.drives["a0"], MOST_READS)


def large(kib: int) -> Profile:
    """Reads of so many KiB, and writes of 4 KiB."""
    features = {"read_aligned_size_bytes_mean": kib * 1024.0, "read_aligned_rate_mean": 5.0}
    return Profile(f"reads of {kib} KiB", {**tenant("", 0.0, 100.0).features, **features})


def test_sizes_that_nobody_measured_are_not_predicted(model: PlacementModel, tmp_path: Path) -> None:
    path, drive = tmp_path / "m.linnet", model.drives["a0"]
    path.write_bytes(to_bytes(model))
    for one in (model, read_model(path)):
        page, more = one.predict([drive, drive], [large(4), large(1024)], [[], []])
        assert page["read_latency_p99_us"].value > 0 and page["read_bandwidth_mean"].value > 0
        assert math.isnan(more["read_latency_p99_us"].value) and math.isnan(more["read_bandwidth_mean"].value)
        assert more["write_latency_p99_us"].value > 0, "its writes are of a size that was measured"
        assert one.unmeasured(drive, [VICTIM, large(4)]) is None
        said = "reads of reads of 1024 KiB are of 256 pages of 4 KiB, and the latency of 1 was measured"
        assert one.unmeasured(drive, [VICTIM, large(1024)]) == said


def test_larger_ios_take_the_time_of_their_transfer(model: PlacementModel) -> None:
    """Within measured sizes, and in files of older versions, which do not say which were."""
    sheet = {**model.drives["a0"].sheet, "seq_read_mbs": 4096.0}
    for pages in ((1.0, 256.0), None):
        wide = replace(model, own_pages=pages)
        # 255 pages more: 1 us each by the sequential rate, 1.25 us by the 800,000 random reads of the sheet.
        for drive, page_us in ((Drive("a0", "A", sheet), 1.0), (model.drives["a0"], 1.25)):
            few, many = (wide.predict([drive], [one], [[]])[0] for one in (tenant("x", 1280.0, 100.0), large(1024)))
            for name in ("read_latency_mean_us", "read_latency_p99_us"):
                assert many[name].value - few[name].value == pytest.approx(255 * page_us, rel=1e-6)
            assert many["write_latency_p99_us"] == few["write_latency_p99_us"]


def test_a_promise_where_nothing_was_measured_is_refused_with_the_most_that_was(model: PlacementModel) -> None:
    allocator = Allocator(Cluster(), model)
    allocator.add_drives([DriveSpec(model.drives["c0"], 10**12)])
    slo = Slo("read_latency_p99_us", bound=1e9, confidence_percent=95)
    assert allocator.place(Tenant("quiet", 1, VICTIM, (slo,))).drive == "c0"
    loud = Tenant("loud", 1, tenant("loud", 50_000.0, 0.0))
    said = "quiet: read_latency_p99_us cannot be predicted on {}: 55,000 pages of 4 KiB are read a second, and nothing "
    said += "was measured beyond 9,950 on a drive like c0"
    refused = allocator.place(loud)
    assert refused.drive is None and refused.reasons == [f"c0: {said.format('this drive')}"]
    told = what_if(allocator, loud, "c0")
    assert not told.allowed and told.reasons == [said.format("c0")]


def test_a_drive_that_nobody_measured_is_less_certain(model: PlacementModel) -> None:
    new = Drive("new", "N", {"rnd_write_iops": 100_000.0, "rnd_read_iops": 800_000.0})
    known, strange = (
        model.predict([drive], [VICTIM], [[]])[0]["read_latency_p99_us"] for drive in (model.drives["a0"], new)
    )
    assert strange.high90 / strange.low90 > 1.5 * known.high90 / known.low90


def test_another_drive_of_a_model_is_no_surer_than_the_measured_one(model: PlacementModel) -> None:
    """With a factor of new models that is below that of known drives, as data sets of models that are alike have it."""
    ones = np.ones(len(TARGETS))
    given = replace(model, known_factor=4 * ones, new_factor=2 * ones)
    real, name = given.drives["a0"], "read_latency_p99_us"
    answers = []
    for drive in (Drive("a1", "A", real.sheet), given.drives["A"], real, Drive("n", "N", real.sheet)):
        found = given.predict([drive], [VICTIM], [[deep(447.0, 27_000.0)]])[0][name]
        answers.append(math.log(found.high90 / found.value))
    twin, by_model, known, stranger = answers
    assert twin == by_model >= known
    assert parts(given, Drive("a1", "A", real.sheet), 80)[0] == given.known_parts[2, 0]
    assert parts(given, Drive("n", "N", real.sheet), 80)[0] == given.new_parts[2, 0] and stranger > 0


def test_a_model_is_answered_for_another_of_its_drives(model: PlacementModel) -> None:
    assert model.drives["A"] == Drive("", "A", model.drives["a0"].sheet)
    assert not model.knows(model.drives["A"]) and model.knows(model.drives["a0"])


@pytest.mark.parametrize(
    ("kind", "sheet"),
    [("B", {}), ("A", {"rnd_write_iops": 300_000.0, "rnd_read_iops": 800_000.0})],
    ids=["model", "sheet"],
)
def test_a_name_alone_is_no_measured_drive(model: PlacementModel, kind: str, sheet: dict[str, float]) -> None:
    real = model.drives["a0"]
    stranger = Drive("a0", kind, {**real.sheet, **sheet})
    renamed = Drive("elsewhere", kind, stranger.sheet)
    assert model.knows(real) and not model.knows(stranger)
    known, found, expected = (
        model.predict([drive], [VICTIM], [[]])[0]["read_latency_p99_us"] for drive in (real, stranger, renamed)
    )
    assert found == expected
    assert found.high90 / found.low90 > known.high90 / known.low90
    np.testing.assert_array_equal(parts(model, stranger, 80), parts(model, renamed, 80))


def test_a_drive_of_which_nothing_is_known_is_named(model: PlacementModel) -> None:
    for name, more in (("a0", " (another of that name was, of model A)"), ("new", "")):
        drive = Drive(name, "N")
        assert math.isnan(model.predict([drive], [VICTIM], [[]])[0]["read_latency_p99_us"].value)
        said = f"{name} of model N was not measured{more}, and its sheet lacks rnd_write_iops"
        assert model.unmeasured(drive, [VICTIM]) == said


def test_what_is_not_said_of_a_drive_is_no_difference(model: PlacementModel) -> None:
    named, real = Drive("a0", "", {"rnd_write_iops": math.nan}), model.drives["a0"]
    assert model.knows(named)
    one, other = (model.predict([drive], [VICTIM], [[]])[0]["read_latency_p99_us"] for drive in (named, real))
    assert one == other


def test_a_drive_of_few_loads_has_the_wider_of_both_intervals(model: PlacementModel) -> None:
    known = model.latency.known
    own = np.flatnonzero(known.labels["drive"] == "a0")
    drive, column, other = model.drives["a0"], *map(TARGETS.index, ("read_latency_p99_us", "write_latency_p50_us"))
    for kept, few in ((12, False), (11, True)):
        rows = np.setdiff1d(np.arange(len(known)), own[kept:])
        latency = OpenLoop(model.latency)
        latency.known, latency.noise = known.take(rows), model.latency.noise[rows]
        sure, unsure = np.full((2, len(TARGETS)), 2.0)
        unsure[column] = 5.0
        sure[other] = 3.0
        given = replace(model, latency=latency, known_factor=sure, new_factor=unsure)
        answer = given.predict([drive], [VICTIM], [[]])[0]
        narrow = replace(given, known_factor=np.full(len(TARGETS), 1.0), new_factor=np.full(len(TARGETS), 1.0))
        unit = narrow.predict([drive], [VICTIM], [[]])[0]
        for name, factor in ((TARGETS[column], 5.0 if few else 2.0), (TARGETS[other], 3.0)):
            width, one = (math.log(a[name].high90 / a[name].value) for a in (answer, unit))
            assert width == pytest.approx(factor * one, rel=0.05)
        level = parts(given, drive, 80)[column]
        assert level == (given.new_parts if few else given.known_parts)[2, column]


def test_writes_are_rough_and_older_files_keep_what_they_were(model: PlacementModel, tmp_path: Path) -> None:
    writes = [t for t, name in enumerate(TARGETS) if name.startswith("write_")]
    assert {model.latency.processes[t].roughness for t in writes} == {0.5}
    head, columns = container.unpack(to_bytes(model))
    for t in writes:
        head["targets"][t]["roughness"] = 1.5
    path = tmp_path / "old.linnet"
    path.write_bytes(container.pack(head, columns))
    old = read_model(path)
    assert {old.latency.processes[t].roughness for t in writes} == {1.5}
    assert to_bytes(old) == path.read_bytes()


def test_an_unaligned_io_touches_more_pages(model: PlacementModel) -> None:
    features = {"write_unaligned_rate_mean": 100.0, "write_unaligned_size_bytes_mean": 6000.0}
    asked = [features, features | {"write_unaligned_unaligned_ratio": 1.0}, {"read_aligned_rate_mean": 7.0}]
    found = model.sums(moments.rows([Profile("x", one) for one in asked]))
    np.testing.assert_allclose(found[:, :2], [[0, 200], [0, 300], [7, 0]])


@pytest.mark.slow
def test_curves_are_the_processes_between_their_steps(model: PlacementModel) -> None:
    chance = np.random.default_rng(3)
    writes, depth = 10 ** chance.uniform(3, 5.8, 200), 10 ** chance.uniform(0, 4, 200)
    new = Drive("new", "N", {"rnd_write_iops": 100_000.0, "rnd_read_iops": 800_000.0})
    for drive in (model.drives["a0"], model.drives["d0"], new):
        curve = model.curve(drive)
        rows = model.latency.known.take(np.zeros(len(writes), int))
        figures = {name: np.full(len(writes), drive.sheet[name]) for name in ("rnd_read_iops", "rnd_write_iops")}
        inputs = {**rows.inputs, **figures, "all_read_pages": writes / 10, "all_write_pages": writes}
        names = {"drive": drive.name, "model": drive.model}
        labels = {name: np.full(len(writes), value, dtype=object) for name, value in names.items()}
        mean, spread = model.latency.at(replace(rows, inputs=inputs | {"depth": depth}, labels=labels))
        found = curve.at(writes / 10, writes, depth)
        np.testing.assert_allclose(found[0], mean, atol=0.01)
        # The spread steps at known loads, where the bracket changes; a step is narrow.
        assert np.mean(np.abs(found[1] - spread) > 0.01) < 0.02


def test_a_cluster_is_answered_by_sums_as_by_sets(model: PlacementModel) -> None:
    cluster = Cluster()
    cluster.add_drives([DriveSpec(model.drives[name], 10**12) for name in DRIVES])
    chance = np.random.default_rng(5)
    rows = []
    for i in range(12):
        one = tenant(f"t{i}", chance.uniform(0, 1e3), chance.uniform(0, 3e4))
        rows.append(cluster.add_tenant(Tenant(one.name, 1, one, ())))
        if i < 10:
            cluster.put(rows[-1], i % 2)
    checker = Checker(cluster, model)
    newcomer = rows[-1]
    asked, drives = np.array(rows * 2), np.repeat([0, 1], len(rows))
    empty = checker.predict(np.array([newcomer]), np.array([2]), newcomer)
    np.testing.assert_array_equal(empty, checker.alone(np.array([newcomer]), int(cluster.kind[2])))
    found = checker.predict(asked, drives, newcomer)
    for row, drive, one in zip(asked, drives, found, strict=True):
        beside = [cluster.profile(int(r)) for r in {*cluster.tenants_on(drive), newcomer} - {row}]
        said = model.predict([cluster.kinds[cluster.kind[drive]]], [cluster.profile(int(row))], [beside])[0]
        np.testing.assert_allclose(one, [(p.value, p.low90, p.high90) for p in said.values()], rtol=1e-9)


@pytest.fixture(scope="module")
def of_one_drive(tmp_path_factory: pytest.TempPathFactory) -> PlacementModel:
    folder = tmp_path_factory.mktemp("one")
    write_ssdiq(folder, ("a0",), repeats=1)
    (folder / "m.linnet").write_bytes(model_file(fit_model(observe(folder, TARGETS)["ssdiq"], 42, lambda done: None)))
    return read_model(folder / "m.linnet")


def test_one_drive_makes_a_model_without_intervals(of_one_drive: PlacementModel) -> None:
    """They reached from 1e-21 to 1e34 us."""
    assert np.isnan(of_one_drive.known_factor).all() and np.isnan(of_one_drive.new_factor).all()
    measured = of_one_drive.drives["a0"]
    other = Drive("x", "other", {"rnd_read_iops": 5e5, "rnd_write_iops": 9e4})
    for drive in (measured, replace(measured, name="another"), other):
        for beside in ([], [tenant("w", 100.0, 40_000.0)]):
            found = of_one_drive.predict([drive], [VICTIM], [beside])[0]
            assert all(one.value > 0 and one.unsized for one in found.values())
            assert found["read_latency_p99_us"].shown()["high90"] is None
    near = of_one_drive.predict([measured], [VICTIM], [[tenant("w", 100.0, 40_000.0)]])[0]["read_latency_p99_us"]
    assert near.value == pytest.approx(read_p99_us("a0", 45_000), rel=0.1)


def test_one_drive_model_has_no_intervals_on_others(model: PlacementModel) -> None:
    one = replace(model, new_factor=np.full(len(TARGETS), math.nan))
    again = from_bytes(to_bytes(one))
    assert np.isnan(again.new_factor).all() and np.array_equal(again.known_factor, model.known_factor)
    measured = model.drives["a0"]
    assert not any(p.unsized for p in again.predict([measured], [VICTIM], [[]])[0].values())
    for drive in (replace(measured, name="another"), Drive("x", "other", dict(measured.sheet))):
        assert all(p.unsized for p in again.predict([drive], [VICTIM], [[]])[0].values())


def test_a_promise_that_needs_an_interval_is_refused_in_words(of_one_drive: PlacementModel) -> None:
    def made() -> Allocator:
        allocator = Allocator(Cluster(measured=of_one_drive.drives), of_one_drive)
        allocator.add_drives([DriveSpec(of_one_drive.drives["a0"], 10**12)])
        return allocator

    said = "a: read_latency_p99_us cannot be promised{}: too few drives were measured for the model to have intervals"
    for percent in CONFIDENCES[1:]:
        promise = (Slo("read_latency_p99_us", bound=1e9, confidence_percent=percent),)
        one = Tenant("a", 10**9, VICTIM, promise)
        asked = what_if(made(), one, "a0")
        assert not asked.allowed and said.format(f" at {percent} %") in asked.reasons[0]
        assert asked.effects[0].compared is None and asked.effects[0].broken and "nan" not in asked.text()
        assert draw(asked)
        decision = made().place(one)
        assert decision.drive is None and said.format(f" at {percent} %") in decision.reasons[0]
    for promise in (
        Slo("read_latency_p99_us", bound=1e9),
        Slo("read_latency_p99_us", degradation_percent=0.0, confidence_percent=95),
    ):
        one = Tenant("a", 10**9, VICTIM, (promise,))
        assert what_if(made(), one, "a0").allowed and made().place(one).drive == "a0"


def test_fit_says_that_one_drive_has_no_intervals(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path / "data", ("a0",), repeats=1)
    done = linnet("place", "fit", tmp_path / "data", "-o", tmp_path / "m.linnet")
    assert done.returncode == 0 and "one drive does not tell how wide 90 % intervals are" in done.stderr
    (tmp_path / "v.json").write_text(json.dumps({"name": "v", "features": dict(VICTIM.features)}))
    asked = ("place", "predict", "--model", tmp_path / "m.linnet", "--drive", "a0", "--tenant", tmp_path / "v.json")
    found = json.loads(linnet(*asked, "--json").stdout)["read_latency_p99_us"]
    assert found["value"] > 0 and found["low90"] is None and found["high90"] is None
    assert "nan" not in linnet(*asked).stdout


@pytest.mark.slow
def test_latencies_that_never_change_are_known_to_half_a_step(tmp_path: Path) -> None:
    """As the writes of drives that were measured below their knees alone."""
    write_ssdiq(tmp_path, ("a0", "b0"), repeats=1)
    rows = observe(tmp_path, TARGETS)["ssdiq"]
    rows = rows.take(rows.inputs["load"] <= 60_000)
    constant = TARGETS.index("write_latency_p50_us")
    rows.outcomes[:, constant] = math.log(10)
    path = tmp_path / "m.linnet"
    path.write_bytes(model_file(fit_model(rows, 42, lambda done: None)))
    model = read_model(path)
    assert model.known_factor[constant] > 0 and (model.known_parts[:, constant] == 0).all()
    found = model.predict([model.drives["a0"]], [VICTIM], [[tenant("w", 0.0, 24_000.0)]])[0]["write_latency_p50_us"]
    assert found.value == pytest.approx(10)
    assert 8.5 < found.low90 < 9.9 and 10.1 < found.high90 < 11.5


@pytest.mark.slow
def test_fit_and_predict_as_commands(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path / "data", ("a0", "b0"))
    path = tmp_path / "m.linnet"
    done = linnet("place", "fit", tmp_path / "data", "-o", path, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["drives"] == ["a0", "b0"]
    for one in (VICTIM, tenant("w", 0.0, 30_000.0)):
        (tmp_path / f"{one.name}.json").write_text(json.dumps({"name": one.name, "features": dict(one.features)}))
    asked = ("place", "predict", "--model", path, "--tenant", tmp_path / "victim.json")
    both = ("--neighbours", f"{tmp_path}/w.json,{tmp_path}/w.json")
    done = linnet(*asked, "--drive", "a0", *both, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["read_latency_p99_us"]
    assert found["low90"] < found["value"] < found["high90"]
    assert linnet(*asked, "--drive", "zz", *both).returncode == 2
    (tmp_path / "loud.json").write_text(json.dumps({"features": dict(tenant("loud", 20_000.0, 0.0).features)}))
    done = linnet(*asked, "--drive", "a0", "--neighbours", tmp_path / "loud.json")
    assert done.returncode == 1 and "25,000 pages of 4 KiB are read a second" in done.stderr
    (tmp_path / "bad.json").write_text('{"features": {"speed": 1}}')
    done = linnet("place", "predict", "--model", path, "--tenant", tmp_path / "bad.json", "--drive", "a0")
    assert done.returncode == 1 and "bad.json: features.speed: unknown" in done.stderr
    (tmp_path / "idle.json").write_text('{"features": {}}')
    done = linnet("place", "predict", "--model", path, "--tenant", tmp_path / "idle.json", "--drive", "a0")
    assert done.returncode == 1 and "neither reads nor writes" in done.stderr
    path.write_bytes(path.read_bytes()[:100])
    done = linnet(*asked, "--drive", "a0")
    assert (done.returncode, done.stdout) == (1, "") and "Traceback" not in done.stderr


def test_arrays_are_answered_at_once_as_one_by_one(model: PlacementModel) -> None:
    drives = [model.drives[name] for name in DRIVES]
    beside = [[tenant("w", 100.0, 10_000.0 * (i + 1))] for i in range(len(drives))]
    at_once = model.predict(drives, [VICTIM] * len(drives), beside)
    for drive, neighbours, answer in zip(drives, beside, at_once, strict=True):
        alone = model.predict([drive], [VICTIM], [neighbours])[0]
        np.testing.assert_allclose(
            [one.value for one in alone.values()], [one.value for one in answer.values()], rtol=1e-9
        )


def test_a_trace_or_a_table_of_labels_is_refused_with_what_to_do(tmp_path: Path, linnet) -> None:
    table = tmp_path / "sata.parquet"
    table.write_bytes(b"PAR1")
    done = linnet("place", "fit", table, "-o", tmp_path / "m.linnet")
    assert done.returncode == 1 and "is a file" in done.stderr and "linnet place profile" in done.stderr
