# SPDX-License-Identifier: MIT OR Apache-2.0
import csv
from dataclasses import replace
from pathlib import Path

import pytest
from linnet.calibration.calibrate import read_params
from linnet.calibration.cells import Mode, assembled, compared, descend, distance, judged, layout, run_cells, used
from linnet.calibration.shared import QUANTILES, Cell, Drive, chosen, read_drives
from linnet.place.tables import SHEET

pytest.importorskip("pyarrow")
LOADS = (10_000.0, 20_000.0, 40_000.0)


def cells(shift: float = 0.0) -> list[Cell]:
    quantiles = {name: 50.0 + 10 * place + shift for place, name in enumerate(QUANTILES)}
    return [Cell("x0", load, dict(quantiles), dict(quantiles), load + 5_000) for load in LOADS]


def tables(folder: Path) -> None:
    """Two repeats of three loads of a made-up drive: its first thread, and one other."""
    rows = []
    for load in LOADS:
        for repeat in (0, 1):
            for tenant in (0, 1):
                row = {"drive": "x0", "model": "Made up", "rate_iops": load, "repeat": repeat, "tenant": tenant}
                row |= {"t_end_s": 60, "read_iops": 5_000, "write_iops": load}
                for op in ("read", "write"):
                    row |= {f"{op}_{name}_us": 100 + repeat * 10 + tenant * 1_000 for name in QUANTILES}
                rows.append(row)
    for name, lines in (
        ("ssdiq-threads-1.csv", rows),
        ("ssdiq-drives.csv", [{"drive": "x0", "model": "Made up"} | dict.fromkeys(SHEET, 960)]),
    ):
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)


def test_tables_become_cells_of_the_first_thread(tmp_path: Path) -> None:
    tables(tmp_path)
    drive = read_drives([tmp_path])["x0"]
    assert drive == read_drives(list(tmp_path.iterdir()))["x0"]
    assert [one.load for one in drive.cells] == list(LOADS)
    assert drive.cells[0].read_us["p99"] == 105 and drive.cells[1].iops == 2 * (5_000 + 20_000)
    rates = [iops for iops, *_ in drive.cells[2].threads()]
    assert len(rates) == 7 and sum(rates) == pytest.approx(45_000)
    with pytest.raises(ValueError, match="ssdiq-drives"):
        read_drives([tmp_path / "ssdiq-threads-1.csv"])


def test_numbers_that_no_measurement_has_are_refused(tmp_path: Path) -> None:
    tables(tmp_path)
    for name, text, bad, message in (
        ("ssdiq-threads-1.csv", ",100,", ",-5,", "row 1: read_p10_us is -5"),
        ("ssdiq-drives.csv", "x0,Made up,960", "x0,Made up,", "capacity_gb is empty"),
    ):
        whole = (tmp_path / name).read_text()
        (tmp_path / name).write_text(whole.replace(text, bad, 1))
        with pytest.raises(ValueError, match=message):
            read_drives([tmp_path])
        (tmp_path / name).write_text(whole)


def test_cells_are_chosen_by_load_alone() -> None:
    assert chosen(cells(), 2) == [0, 2]
    assert chosen(cells(1e6), 2) == [0, 2]
    many = cells() * 6
    assert len(chosen(many, 99)) == 10 and chosen(many, 6)[0] == 0 and chosen(many, 6)[-1] == len(many) - 1


def test_distance_and_judgement_are_of_the_cells() -> None:
    assert distance(cells(), cells()) == 0
    assert 0 < distance(cells(5), cells()) < distance(cells(50), cells())
    far = [replace(one, iops=one.iops * 1e9) for one in cells()]
    assert distance(far, cells()) < 1, "a cell counts up to a limit"
    row = {f"{op}_{name}_us": {"measured": 100.0, "modelled": 110.0} for op in ("read", "write") for name in QUANTILES}
    off = row | {"read_p99_us": {"measured": 100.0, "modelled": 130.0}}
    found = judged([row, off], "read")
    assert found["within_20"] == 1 and found["p99"]["worst"] == pytest.approx(0.3)


def test_descent_finds_the_least() -> None:
    wanted = {"program_ns": 900_000.0, "erase_ns": 3_000_000.0}
    start = dict.fromkeys((knob.name for knob in used(Mode())), 500_000.0)
    score = lambda knobs, mode: sum(abs(knobs[name] / value - 1) for name, value in wanted.items())  # noqa: E731
    least, knobs, _ = descend(start, Mode(), used(Mode()), 0.06, 2, score)
    assert least < 0.07 and knobs["over_provisioning"] == 500_000.0


def test_a_shipped_preset_is_run_as_the_fit_ran_it() -> None:
    params = read_params("pe8110")
    sheet = dict.fromkeys(SHEET, 960.0)
    measured = [Cell("x0", 10_000.0, dict.fromkeys(QUANTILES, 100.0), dict.fromkeys(QUANTILES, 10.0), 15_000.0)]
    base = layout(Drive("x0", "Made up", sheet, tuple(measured)))
    assert all(base[key] == params[key] for key in ("channels", "dies_per_channel", "planes", "pages_per_block"))
    first, second = (run_cells(params, measured, 1, (0.2, 0.5)) for _ in range(2))
    assert first == second
    assert 40 < first[0].read_us["p50"] < 100 < first[0].read_us["p99"] < 600 and first[0].write_us["p50"] < 15
    rows = compared(params, [Drive("x0", "Made up", sheet, tuple(measured))], {"x0": [10_000.0]}, 1)
    assert rows[0]["fitted"] and rows[0]["read_p50_us"]["measured"] == 100.0
    knobs = {"fast_ns": 4e4, "slow_ns": 6e4, "program_ns": 5e5, "over_provisioning": 0.3, "suspend_ns": 1e4}
    knobs |= {
        "suspend_share": 0.5,
        "erase_ns": 2e6,
        "erase_rows": 480,
        "stalled": 10,
        "buffer_pages": 512,
        "retries": 0.004,
    }
    made = assembled(base, knobs, Mode("suspend", stalls=6, pattern=1))
    assert made["page_type_read_ns"] == [40_000, 60_000, 60_000] and made["suspend_after_ns"] == 250_000
    assert (
        made["retry_probability"] == 0.004 and made["stalled_writes_max"] == 60 and made["superblocks_per_erase"] == 20
    )


@pytest.mark.slow
def test_the_command_names_the_drives_that_there_are(tmp_path: Path, linnet) -> None:
    tables(tmp_path)
    ask = ("ssd", "calibrate", tmp_path, "-o", tmp_path / "x.toml", "--drive")
    found = linnet(*ask, "y1")
    assert found.returncode != 0 and "x0" in found.stderr and "Traceback" not in found.stderr
    found = linnet(*ask, "x0", "--set", "channels=4")
    assert found.returncode != 0 and "sheet" in found.stderr
    assert not (tmp_path / "x.toml").exists()
