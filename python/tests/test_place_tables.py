# SPDX-License-Identifier: MIT OR Apache-2.0
"""Readers of measured co-location, and the observations that come of them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from linnet.place.observations import observe, together
from linnet.tables import read_tables
from place_tables import DRIVES, LOADS, WRITERS, write_icpe, write_iocost, write_ssdiq


def test_minutes_of_the_victim_know_the_loads_of_all(tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    rows = observe(tmp_path)["ssdiq"]
    assert len(rows) == len(DRIVES) * len(LOADS) * 2 * 3
    assert set(rows.inputs["tenants"]) == {WRITERS + 1.0}
    total = 5000 + 0.99 * (rows.inputs["load"] - 5000)
    np.testing.assert_allclose(rows.inputs["all_write_pages"], total)
    assert np.all(np.isnan(rows.inputs["dwpd"])), "an empty figure of a data sheet is unknown"
    beyond = rows.inputs["load"] == 500_000
    capacity = {name: figures[2] for name, figures in DRIVES.items()}
    held_back = rows.achieved["write_pages"][beyond] / [capacity[name] for name in rows.labels["drive"][beyond]]
    assert np.all((held_back > 0.98) & (held_back < 1.1))


def test_compressed_parts_of_a_table_are_one(tmp_path: Path) -> None:
    write_ssdiq(tmp_path / "plain")
    write_ssdiq(tmp_path / "packed")
    whole = (tmp_path / "packed" / "ssdiq-threads-1.csv").read_text().splitlines()
    half = len(whole) // 2
    (tmp_path / "packed" / "ssdiq-threads-1.csv").unlink()
    for number, part in ((1, whole[1:half]), (2, whole[half:])):
        packed = pa.compress("\n".join([whole[0], *part, ""]).encode(), "zstd", asbytes=True)
        (tmp_path / "packed" / f"ssdiq-threads-{number}.csv.zst").write_bytes(packed)
    plain, packed = (read_tables(tmp_path / name)["ssdiq-threads"] for name in ("plain", "packed"))
    for name, values in plain.items():
        assert np.array_equal(values, packed[name]), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("off_write_iops", "offered", 1), "no column .*off_write_iops"),
        (lambda text: text.replace("5000.0", "many", 1), "many"),
        (lambda text: text.splitlines()[0] + "\n", "has a header and no rows"),
        (lambda text: text.replace("\na0,", "\n,", 1), "row 1: drive is empty"),
        (lambda text: text.replace("\na0,", "\nz9,", 1), "drive z9 of ssdiq-threads has no row in ssdiq-drives"),
    ],
)
def test_a_bad_table_says_file_and_place(tmp_path: Path, change, message: str) -> None:
    write_ssdiq(tmp_path)
    path = tmp_path / "ssdiq-threads-1.csv"
    path.write_text(change(path.read_text()))
    with pytest.raises(ValueError, match=message) as caught:
        observe(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_a_damaged_archive_and_a_folder_without_tables_are_errors(tmp_path: Path, linnet) -> None:
    (tmp_path / "ssdiq-threads-1.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd nonsense")
    done = linnet("place", "judge", "--data", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert "ssdiq-threads-1.csv.zst" in done.stderr and "Traceback" not in done.stderr
    (tmp_path / "none").mkdir()
    done = linnet("place", "judge", "--data", tmp_path / "none")
    assert done.returncode == 1 and "no table here" in done.stderr


def test_a_run_must_have_all_its_tenants(tmp_path: Path) -> None:
    write_icpe(tmp_path)
    path = tmp_path / "icpe-tenants.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(ValueError, match="neighbours is 32, but 31 have rows"):
        observe(tmp_path)


@pytest.mark.parametrize(
    ("row", "fields", "message"),
    [
        # Rows have seven tenants of each minute: row 3 is of tenant 2.
        (3, {"t_end_s": 60.01}, "run 10-0: the minute to 60 s has rows of tenant 0, 1, 3, 4, 5, 6, and the run has"),
        (1, {"t_end_s": 59.99}, "run 10-0: the minute to 59.99 s has rows of tenant 0, and the run has tenants 0, 1"),
        (10, {"run": "other"}, "run 10-0: the minute to 120 s has rows of tenant 0, 1, 3"),
    ],
)
def test_a_minute_must_have_all_tenants_of_its_run(tmp_path: Path, row: int, fields: dict, message: str) -> None:
    write_ssdiq(tmp_path)
    change(tmp_path / "ssdiq-threads-1.csv", row, **fields)
    with pytest.raises(ValueError, match=rf"{tmp_path}: ssdiq-threads: drive a0, {message}") as caught:
        observe(tmp_path)
    assert "need the same t_end_s" in str(caught.value)


def test_minutes_of_the_victim_alone_are_a_run(tmp_path: Path) -> None:
    """A drive without neighbours is measured too; another run has others."""
    write_ssdiq(tmp_path)
    path = tmp_path / "ssdiq-threads-1.csv"
    lines = path.read_text().splitlines()
    tenant, run = (lines[0].split(",").index(name) for name in ("tenant", "run"))
    kept = [line for line in lines[1:] if line.split(",")[run] != "10-0" or line.split(",")[tenant] == "0"]
    assert len(kept) < len(lines) - 1
    path.write_text("\n".join([lines[0], *kept]) + "\n")
    assert set(observe(tmp_path)["ssdiq"].inputs["tenants"]) == {1.0, WRITERS + 1.0}


def change(path: Path, row: int, **fields: object) -> None:
    """Set fields of one row of a CSV file; row 1 is the first below the header."""
    lines = path.read_text().splitlines()
    names, values = lines[0].split(","), lines[row].split(",")
    for name, value in fields.items():
        values[names.index(name)] = str(value)
    lines[row] = ",".join(values)
    path.write_text("\n".join(lines) + "\n")


WRITERS_OF = {"ssdiq": write_ssdiq, "icpe": write_icpe, "iocost": write_iocost}


@pytest.mark.parametrize(
    ("file", "row", "column", "value"),
    [
        ("ssdiq-drives.csv", 2, "rnd_write_iops", "0"),
        ("ssdiq-drives.csv", 1, "rnd_read_iops", "inf"),
        ("ssdiq-threads-1.csv", 3, "off_write_iops", ""),
        ("ssdiq-threads-1.csv", 3, "off_write_iops", "-5"),
        ("ssdiq-threads-1.csv", 3, "off_read_iops", "inf"),
        ("ssdiq-threads-1.csv", 3, "write_iops", "NaN"),
        ("ssdiq-threads-1.csv", 3, "bs_bytes", "0"),
        ("ssdiq-threads-1.csv", 3, "bs_bytes", "1e300"),
        ("ssdiq-threads-1.csv", 3, "tenant", "0.5"),
        ("ssdiq-threads-1.csv", 3, "rate_iops", ""),
        ("ssdiq-threads-1.csv", 8, "read_p99_us", "0"),
        ("ssdiq-threads-1.csv", 8, "read_p99_us", "-3"),
        ("ssdiq-threads-1.csv", 8, "read_p99_us", "1e300"),
        ("icpe-tenants.csv", 4, "iops", ""),
        ("icpe-tenants.csv", 4, "iodepth", "-1"),
        ("icpe-tenants.csv", 4, "bs_kib", "inf"),
        ("icpe-tenants.csv", 1, "clat_p99_us", ""),
        ("iocost-qos.csv", 2, "vrate_max", ""),
        ("iocost-qos.csv", 2, "vrate_max", "inf"),
        ("iocost-qos.csv", 2, "prot_read_p99_mean_us", "0"),
        ("iocost-qos.csv", 2, "throttle_off", "2"),
        ("iocost-qos.csv", 2, "model_rbps", "-1"),
    ],
)
def test_a_number_that_cannot_be_measured_is_refused(
    tmp_path: Path, file: str, row: int, column: str, value: str
) -> None:
    WRITERS_OF[file.partition("-")[0]](tmp_path)
    observe(tmp_path)
    change(tmp_path / file, row, **{column: value})
    said = "empty" if value in ("", "NaN") else f"{float(value):g}"
    with pytest.raises(ValueError, match=rf"{file}: row {row}: {column} is {said.replace('+', '.')}; it must be a"):
        observe(tmp_path)


def test_a_writer_without_reads_has_no_latency_to_refuse(tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    change(tmp_path / "ssdiq-threads-1.csv", 2, read_p99_us=0, read_p99_9_us="")
    assert not observe(tmp_path)["ssdiq"].dropped


def test_a_part_twice_and_a_part_that_is_not_read_are_refused(tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    path = tmp_path / "ssdiq-threads-1.csv"
    packed = tmp_path / "ssdiq-threads-1.csv.zst"
    packed.write_bytes(pa.compress(path.read_bytes(), "zstd", asbytes=True))
    with pytest.raises(ValueError, match=r"ssdiq-threads-1\.csv and ssdiq-threads-1\.csv\.zst"):
        observe(tmp_path)
    packed.unlink()
    (tmp_path / "ssdiq-cells.csv").write_text("other\n1\n")
    (tmp_path / "ssdiq-threads.md").write_text("notes")
    observe(tmp_path)
    for name in ("ssdiq-threads-2.csv.gz", "ssdiq-threads_2.csv", "ssdiq-threads-2.CSV"):
        (tmp_path / name).write_bytes(b"")
        with pytest.raises(ValueError, match=f"{name}: named like a part of ssdiq-threads, but not read"):
            observe(tmp_path)
        (tmp_path / name).unlink()


def repeat(path: Path, row: int) -> int:
    """Append a row again; its number."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[row]]) + "\n")
    return len(lines)


@pytest.mark.parametrize(
    ("write", "file", "row", "key"),
    [
        (write_ssdiq, "ssdiq-threads-1.csv", 9, "drive a0, run 10-0, tenant 1, t_end_s 120"),
        (write_ssdiq, "ssdiq-drives.csv", 1, "drive a0"),
        (write_icpe, "icpe-tenants.csv", 3, "run 4K/none/1, tenant 1"),
        (write_iocost, "iocost-qos.csv", 2, "run r/1"),
    ],
)
def test_a_row_that_is_there_already_is_refused(
    tmp_path: Path, write: Callable[[Path], None], file: str, row: int, key: str
) -> None:
    write(tmp_path)
    last = repeat(tmp_path / file, row)
    place = f"{tmp_path / file}: row"
    with pytest.raises(ValueError, match=f"{place} {last}: {key} is also in {place} {row}, the same row"):
        observe(tmp_path)


def test_two_sheets_of_one_drive_are_refused(tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    path = tmp_path / "ssdiq-drives.csv"
    change(path, repeat(path, 1), rnd_write_iops=5)
    with pytest.raises(ValueError, match=r"row 5: drive a0 is also in .*row 1, with another rnd_write_iops"):
        observe(tmp_path)


IOCOST_OUTCOMES = ("lat_imp_mean", *(f"prot_read_{name}_mean_us" for name in ("p50", "p99", "p99_9")))


def test_rows_that_are_left_out_are_counted_by_reason(tmp_path: Path) -> None:
    write_ssdiq(tmp_path)
    path = tmp_path / "ssdiq-threads-1.csv"
    whole = len(observe(tmp_path)["ssdiq"])
    change(path, 1, read_p50_us="", read_p99_us="", read_p99_9_us="", write_p99_us="")
    change(path, 8, read_p99_us="")
    rows = observe(tmp_path)["ssdiq"]
    assert len(rows) == whole - 1
    assert rows.dropped == {"all latencies are empty": 1}
    assert rows.joined(rows).dropped["all latencies are empty"] == 2
    assert np.isnan(rows.outcomes).sum() == 1, "a row that lacks some has the others"

    for number, (fields, why) in enumerate(
        [
            ({"prot_ok": ""}, "prot_ok is empty"),
            ({"prot_ok": 0}, "prot_ok is 0"),
            (dict.fromkeys(IOCOST_OUTCOMES, ""), "all latencies are empty"),
        ]
    ):
        write_iocost(tmp_path / str(number), **fields)
        runs = observe(tmp_path / str(number))["iocost"]
        assert (len(runs), runs.dropped) == (3, {why: 1})


@pytest.mark.parametrize(("source", "stem"), [("ssdiq", "ssdiq-threads"), ("icpe", "icpe-tenants")])
def test_the_order_of_rows_and_parts_does_not_matter(tmp_path: Path, source: str, stem: str) -> None:
    WRITERS_OF[source](tmp_path)
    whole = observe(tmp_path)[source]
    (path,) = tmp_path.glob(f"{stem}*.csv")
    head, *lines = path.read_text().splitlines()
    np.random.default_rng(3).shuffle(lines)
    path.unlink()
    for part, rows in ((1, lines[: len(lines) // 3]), (2, lines[len(lines) // 3 :])):
        (tmp_path / f"{stem}-{part}.csv").write_text("\n".join([head, *rows]) + "\n")
    found = observe(tmp_path)[source]
    np.testing.assert_array_equal(found.outcomes, whole.outcomes)
    for one, other in ((found.inputs, whole.inputs), (found.labels, whole.labels), (found.achieved, whole.achieved)):
        for name, values in other.items():
            np.testing.assert_array_equal(one[name], values)


def test_folders_whose_drives_are_called_alike_are_not_merged(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    write_ssdiq(one, ("a0", "b0"))
    write_ssdiq(two, ("a0",), noise=0.02)
    places = [(str(one), observe(one)["ssdiq"]), (str(two), observe(two)["ssdiq"])]
    assert len(together(places)) == sum(len(rows) for _, rows in places)
    with pytest.raises(ValueError, match=f"{two}: the minute to 60 s of run a0.* is also in {one}"):
        shutil.copy(one / "ssdiq-threads-1.csv", two)
        shutil.copy(one / "ssdiq-drives.csv", two)
        together([places[0], (str(two), observe(two)["ssdiq"])])
    change(two / "ssdiq-drives.csv", 1, rnd_write_iops=70_000)
    with pytest.raises(ValueError, match=f"drive a0: rnd_write_iops is 80000 in {one} and 70000 in {two}"):
        together([places[0], (str(two), observe(two)["ssdiq"])])
    write_ssdiq(two, ("a0",))
    for file in ("ssdiq-drives.csv", "ssdiq-threads-1.csv"):
        path = two / file
        path.write_text(path.read_text().replace(",A,", ",Other,").replace("a0,A", "a0,Other"))
    with pytest.raises(ValueError, match=f"drive a0: model is A in {one} and Other in {two}"):
        together([places[0], (str(two), observe(two)["ssdiq"])])
    write_ssdiq(two, ("a0",))
    change(two / "ssdiq-threads-1.csv", 5, model="Other")
    with pytest.raises(ValueError, match="drive a0: model is A in ssdiq-drives and Other in ssdiq-threads"):
        observe(two)


def test_two_mixes_of_one_rate_are_two_cells(tmp_path: Path) -> None:
    write_ssdiq(tmp_path, ("a0",), repeats=1)
    one = observe(tmp_path)["ssdiq"]
    assert set(one.labels["cell"]) == {f"a0|{load}000" for load in LOADS}
    # The same rates by half as many writers' writes, and once more with 4 % less: arrivals at random differ so.
    lines = (tmp_path / "ssdiq-threads-1.csv").read_text().splitlines()
    columns = lines[0].split(",")
    for number, factor in ((2, 0.5), (3, 0.48)):
        rows = [line.split(",") for line in lines[1:]]
        for row in rows:
            row[columns.index("run")] += f"-{number}"
            if row[columns.index("tenant")] != "0":
                write = columns.index("off_write_iops")
                row[write] = str(float(row[write]) * factor)
        text = "\n".join([lines[0], *map(",".join, rows)])
        (tmp_path / f"ssdiq-threads-{number}.csv").write_text(text + "\n")
    rows = observe(tmp_path)["ssdiq"]
    assert len(set(rows.labels["cell"])) == 2 * len(LOADS)
    for cell in set(rows.labels["cell"]):
        writes = rows.inputs["all_write_pages"][rows.labels["cell"] == cell]
        assert writes.max() <= writes.min() / 0.95
    assert set(rows.labels["model_load"]) == {f"A|{cell.partition('|')[2]}" for cell in rows.labels["cell"]}
