# SPDX-License-Identifier: MIT OR Apache-2.0
"""Readers of measured co-location, and the observations that come of them."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from linnet.place.observations import observe
from linnet.place.tables import read_tables
from place_tables import DRIVES, LOADS, WRITERS, write_icpe, write_ssdiq


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
