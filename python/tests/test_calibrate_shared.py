# SPDX-License-Identifier: MIT OR Apache-2.0
import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from linnet.calibration.calibrate import read_params
from linnet.calibration.cells import Mode, assembled, compared, descend, distance, judged, layout, run_cells, used
from linnet.calibration.shared import QUANTILES, Cell, Drive, chosen, read_drives, ssdiq
from linnet.cli.calibrate_shared import header
from linnet.tables import SHEET

pytest.importorskip("pyarrow")
LOADS = (10_000.0, 20_000.0, 40_000.0)


def cells(shift: float = 0.0) -> list[Cell]:
    quantiles = {name: 50.0 + 10 * place + shift for place, name in enumerate(QUANTILES)}
    return [Cell("x0", load, ssdiq(load), dict(quantiles), dict(quantiles), load + 5_000) for load in LOADS]


def two(load: float, repeat: int) -> list[tuple[float, float, int]]:
    """Reads and writes per second that each of two tenants offers, and whether in Poisson arrivals."""
    return [(5_000, load - 5_000, 0), (load, 100, 1)]


def seven(load: float, repeat: int) -> list[tuple[float, float, int]]:
    """The same of SSD-iq's tenants, as its tables have it: rounded to a tenth, and a repeat adds to the load."""
    each = (load + repeat - 5_000) / 6
    return [(5_000, 5_000, 0)] + [(round(each * 0.01, 1), round(each * 0.99, 1), 1)] * 6


def tables(folder: Path, tenants: Callable[[float, int], Sequence[tuple[float, float, int]]] = two) -> None:
    """Two repeats of three loads of a made-up drive."""
    rows = []
    for load in LOADS:
        for repeat in (0, 1):
            for tenant, (reads, writes, poisson) in enumerate(tenants(load, repeat)):
                row = {"drive": "x0", "model": "Made up", "rate_iops": load, "repeat": repeat, "tenant": tenant}
                row |= {"t_end_s": 60, "bs_bytes": 4096, "poisson": poisson}
                row |= {"off_read_iops": reads, "off_write_iops": writes, "read_iops": 5_000, "write_iops": load}
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
    with pytest.raises(ValueError, match="ssdiq-drives"):
        read_drives([tmp_path / "ssdiq-threads-1.csv"])


def test_the_threads_are_those_of_the_table(tmp_path: Path) -> None:
    tables(tmp_path)
    cells = read_drives([tmp_path])["x0"].cells
    assert cells[1].threads == ((20_000, 0.75, False, 64), (20_100, pytest.approx(100 / 20_100), True, 64))
    for one in cells:
        assert one.offered == pytest.approx(sum(reads + writes for reads, writes, _ in two(one.load, 0)))
        assert not one.as_ssdiq
    # Rates that are SSD-iq's but for rounding are those of its generator.
    tables(tmp_path, seven)
    for one in read_drives([tmp_path])["x0"].cells:
        assert one.threads == ssdiq(one.load) and one.as_ssdiq
        offered = seven(one.load, 0)
        assert one.offered == pytest.approx(sum(reads + writes for reads, writes, _ in offered), rel=1e-4)
        assert one.offered == pytest.approx(one.load + 5_000)
        written = sum(iops * share for iops, share, *_ in one.threads)
        assert written == pytest.approx(sum(writes for _, writes, _ in offered), rel=1e-4)
        assert written == pytest.approx(0.99 * one.load + 50)


def test_the_parameter_file_names_ssdiq_only_for_its_load() -> None:
    summary = {"drive": "x0", "model": "Made up", "fitted_loads": [1e4], "seed": 1, "held_out": {}, "params": {}}
    assert "SSD-iq" in header(summary | {"as_ssdiq": True})
    other = header(summary | {"as_ssdiq": False})
    assert "SSD-iq" not in other and "at most 64" in other and "rate_iops 10,000." in other


@pytest.mark.parametrize(
    ("tenants", "message"),
    [
        (lambda load, repeat: [(load * (1 + repeat), 9, 0)], "tenant 0: off_read_iops is 10000 in one"),
        (lambda load, repeat: [(9, 9, repeat)], "tenant 0: poisson is 0 in one minute and 1"),
        (lambda load, repeat: [(9, 9, 0)] * (1 + repeat), "tenant 0 has 2 rows and tenant 1 has 1"),
        (lambda load, repeat: [(0, 0, 0), (9, 9, 0)], "of tenant 0, whose latency is fitted, are 0"),
    ],
)
def test_a_load_that_is_no_single_load_is_refused(tenants, message: str, tmp_path: Path) -> None:
    tables(tmp_path, tenants)
    with pytest.raises(ValueError, match=rf"ssdiq-threads-1\.csv: drive x0, rate_iops 10000: .*{message}"):
        read_drives([tmp_path])


def test_numbers_that_no_measurement_has_are_refused(tmp_path: Path) -> None:
    tables(tmp_path)
    for name, text, bad, message in (
        ("ssdiq-threads-1.csv", ",100,", ",-5,", "row 1: read_p10_us is -5"),
        ("ssdiq-threads-1.csv", ",4096,", ",65536,", "row 1: bs_bytes is 65536; .* 4,096 bytes"),
        ("ssdiq-threads-1.csv", ",10000.0,", ",0,", "row 1: rate_iops is 0"),
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
    read, write = (dict.fromkeys(QUANTILES, us) for us in (100.0, 10.0))
    measured = [Cell("x0", 10_000.0, ssdiq(10_000.0), read, write, 15_000.0)]
    base = layout(Drive("x0", "Made up", sheet, tuple(measured)))
    assert all(base[key] == params[key] for key in ("channels", "dies_per_channel", "planes", "pages_per_block"))
    first, second = (run_cells(params, measured, 1, (0.2, 0.5)) for _ in range(2))
    assert first == second
    assert 40 < first[0].read_us["p50"] < 100 < first[0].read_us["p99"] < 600 and first[0].write_us["p50"] < 15
    rows = compared(params, [Drive("x0", "Made up", sheet, tuple(measured))], {"x0": [10_000.0]}, 1)
    assert rows[0]["offered_iops"] == pytest.approx(15_000)
    assert rows[0]["fitted"] and rows[0]["read_p50_us"]["measured"] == 100.0
    with pytest.raises(ValueError, match=r"drive x0, rate_iops 7: tenant 0 .* no write in 0\.5 s"):
        run_cells(params, [replace(measured[0], load=7.0, threads=((100.0, 0.0, False, 64),))], 1, (0.2, 0.5))
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
