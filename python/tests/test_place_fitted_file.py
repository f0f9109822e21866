# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file of a fitted placement model: what is written, and what is refused."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from linnet.place import container
from linnet.place.answers import TARGETS
from linnet.place.fitted import PlacementModel
from linnet.place.fitted_file import MOST_FACTOR, from_bytes, read_model, to_bytes
from linnet.place.fitting import model_file
from linnet.place.models.open_loop import OpenLoop
from linnet.place.words import Drive
from place_tables import DRIVES, VICTIM, tenant


@pytest.fixture
def model(placement_model: PlacementModel) -> PlacementModel:
    return placement_model


def test_a_file_gives_the_same_answers(model: PlacementModel, tmp_path: Path) -> None:
    path = tmp_path / "m.linnet"
    path.write_bytes(to_bytes(model))
    again = read_model(path)
    assert to_bytes(again) == path.read_bytes()
    for name in DRIVES:
        one, other = (
            which.predict([which.drives[name]], [VICTIM], [[tenant("w", 0.0, 40_000.0)]])[0] for which in (model, again)
        )
        assert one == other


def test_the_checksum_is_that_of_the_specification() -> None:
    assert container.crc32c(b"123456789") == 0xE3069283


def test_every_damaged_file_is_refused(model: PlacementModel, tmp_path: Path) -> None:
    good = to_bytes(model)
    path = tmp_path / "m.linnet"
    for at in [*range(0, 40), *range(40, len(good), 397)]:
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        with pytest.raises(ValueError, match=r"m\.linnet"):
            read_model(path)
    for size in (0, 7, 20, 40, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:size])
        with pytest.raises(ValueError, match=r"m\.linnet"):
            read_model(path)


def test_factors_are_no_logarithms(model: PlacementModel, tmp_path: Path) -> None:
    path = tmp_path / "m.linnet"
    wide = replace(model, new_factor=np.full(len(TARGETS), 120.0))
    path.write_bytes(model_file(wide))
    assert read_model(path).new_factor.tolist() == wide.new_factor.tolist()
    new = Drive("new", "N", {"rnd_write_iops": 100_000.0, "rnd_read_iops": 800_000.0})
    widest = replace(model, new_factor=np.full(len(TARGETS), MOST_FACTOR))
    for one in widest.predict([new], [VICTIM], [[]])[0].values():
        assert 0 <= one.low90 <= one.value <= one.high90 < math.inf


def test_a_model_that_no_reader_takes_is_not_written(model: PlacementModel) -> None:
    with pytest.raises(ValueError, match=r"not written.*read_latency_mean_us: the factors of its intervals"):
        model_file(replace(model, known_factor=np.full(len(TARGETS), 2 * MOST_FACTOR)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda head, columns: head.update(form="other"), "form 'other' is not known"),
        (lambda head, columns: head["targets"].pop(), "targets"),
        (lambda head, columns: head["targets"][0].update(roughness=2.5), "roughness"),
        (lambda head, columns: head["targets"][0].update(known_factor=-0.5), "out of range"),
        (lambda head, columns: head["targets"][3].update(new_parts=[0.1, 0.2, 0.3]), "parts: 4 rising numbers"),
        (lambda head, columns: head["targets"][3].update(known_parts=[0.1, 0.3, 0.2, 1.0]), "rising numbers"),
        (lambda head, columns: head["targets"][3].update(known_parts=[0.1, 0.2, 0.3, 1.5]), "from 0 to 1"),
        (lambda head, columns: head["targets"][3].update(known_parts=7), "head lacks or misuses"),
        (lambda head, columns: head.pop("drives"), "drives"),
        (lambda head, columns: head.update(read_share=-0.5), "read_share -0.5 is out of range"),
        (lambda head, columns: head.update(read_share="all"), "read_share 'all' is out of range"),
        (lambda head, columns: head.update(own_pages=[2.0, 1.0]), "own_pages .* two rising numbers"),
        (lambda head, columns: head.update(own_pages=["a", 1.0]), "own_pages .* two rising numbers"),
        (lambda head, columns: head.update(own_pages=7), "head lacks or misuses"),
        (lambda head, columns: columns.__setitem__((0, 0), 99.0), "a drive that the head lacks"),
        (lambda head, columns: columns.__setitem__((2, 0), -5.0), "a load is negative"),
        (lambda head, columns: columns.__setitem__((0, 0), 1e300), "a drive that the head lacks"),
        (lambda head, columns: columns.__setitem__((0, 0), 0.5), "a drive that the head lacks"),
        (lambda head, columns: columns.__setitem__((6, 0), 0.0), "rnd_read_iops: a figure .* neither above 0 nor -1"),
        (lambda head, columns: columns.__setitem__((7, 0), -7.0), "rnd_write_iops: a figure"),
        (lambda head, columns: columns.__setitem__((5, 0), 0.0), "depth: outstanding I/Os are neither above 0 nor -1"),
        (lambda head, columns: head["drives"][0].update(name=5), "drives: a name and a model are texts"),
        (lambda head, columns: head["drives"][0].update(model=None), "drives: a name and a model are texts"),
        (lambda head, columns: head["targets"][2].update(hyperparameters=["0"] * 9), "a number is out of range"),
        (lambda head, columns: head["targets"][2].update(hyperparameters=[True] * 9), "a number is out of range"),
        (lambda head, columns: head["targets"][2].update(hyperparameters=7), "head lacks or misuses"),
        (lambda head, columns: head["targets"][2].update(centre=51), "a number is out of range"),
        (lambda head, columns: head["targets"][2].update(centre=10**400), "a number is out of range"),
        (lambda head, columns: head.update(read_share=10**400), "read_share 10+ is out of range"),
        (lambda head, columns: head.update(read_share=None), "read_share None is out of range"),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_file_that_is_whole_and_wrong_is_refused(model: PlacementModel, tmp_path: Path, change, message) -> None:
    head, columns = container.unpack(to_bytes(model))
    change(head, columns)
    path = tmp_path / "m.linnet"
    path.write_bytes(container.pack(head, columns))
    with pytest.raises(ValueError, match=message):
        read_model(path)


def with_head(file: bytes, head: bytes) -> bytes:
    """A file with other bytes of its head."""
    *_, old, _, rows, count = container.FIXED.unpack_from(file)
    columns = file[container.FIXED.size + old : -4]
    size = container.FIXED.size + len(head) + len(columns) + 4
    body = container.FIXED.pack(container.MAGIC, container.VERSION, container.KIND, len(head), size, rows, count)
    body += head + columns
    return body + struct.pack("<I", container.crc32c(body))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.encode("utf-16"), "head is not JSON"),
        (lambda text: b"\xef\xbb\xbf" + text.encode(), "head is not JSON"),
        (lambda text: text.replace('"known_parts":[0.', '"known_parts":[NaN,0.').encode(), "NaN is no number of JSON"),
        (lambda text: text.replace('"read_share":', '"read_share":Infinity,"x":').encode(), "Infinity is no number"),
        (lambda text: text.replace('"read_share":', '"read_share":1e999,"x":').encode(), "read_share inf is out of"),
    ],
)
def test_a_head_that_is_not_json_is_refused(model: PlacementModel, change, message) -> None:
    file = to_bytes(model)
    text = json.dumps(container.unpack(file)[0], sort_keys=True, separators=(",", ":"))
    assert with_head(file, text.encode()) == file
    changed = change(text)
    assert changed != text.encode()
    with pytest.raises(ValueError, match=message):
        from_bytes(with_head(file, changed))


def test_numbers_of_the_head_may_be_whole(model: PlacementModel) -> None:
    head, columns = container.unpack(to_bytes(model))
    for target in head["targets"]:
        target |= {"centre": 5, "known_factor": 2, "new_factor": 3, "hyperparameters": [0] * 9}
    head["read_share"] = 1
    found, wanted = (
        from_bytes(container.pack(one, columns)).predict([model.drives["a0"]], [VICTIM], [[]])
        for one in (head, json.loads(json.dumps(head), parse_int=float))
    )
    assert found == wanted


def test_a_sheet_without_a_figure_is_written_as_such(model: PlacementModel) -> None:
    known = model.latency.known
    sheet = {name: np.where(known.labels["drive"] == "a0", 0.0, values) for name, values in known.inputs.items()}
    latency = OpenLoop(model.latency)
    latency.known = replace(known, inputs={**known.inputs, "rnd_read_iops": sheet["rnd_read_iops"]})
    again = from_bytes(to_bytes(replace(model, latency=latency)))
    assert math.isnan(again.drives["a0"].sheet["rnd_read_iops"])


MAGIC = bytes.fromhex("894C4E540D0A1A0A")


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", container.crc32c(body))


def small(
    magic: bytes = MAGIC,
    version: int = 2,
    kind: int = 4,
    head: bytes = b"{}",
    size: int | None = None,
    rows: int = 1,
    columns: int = 2,
    numbers: bytes = struct.pack("<2d", 1.5, -2.5),
) -> bytes:
    """A file as the table of ``spec/place-model.md`` has it, with fields that may be wrong."""
    size = 28 + len(head) + len(numbers) + 4 if size is None else size
    return sealed(struct.pack("<8sHHIIII", magic, version, kind, len(head), size, rows, columns) + head + numbers)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        (small(magic=MAGIC[:7] + b"x", version=9)[:20], r"not a model file \(magic, offset 0\)"),
        (small(version=9)[:31], "truncated at 31 bytes"),
        (small(version=1, kind=9), r"version 1 \(offset 8\)"),
        (small(version=3), r"version 3 \(offset 8\)"),
        (small(kind=1, rows=1 << 31), r"kind 1 \(offset 10\)"),
        (small(rows=1 << 31), r"too large \(offset 16\).* 2147483648 rows"),
        (small(head=b"{ }", size=50), r"do not add up to its size \(offset 16\)"),
        (small(columns=3), r"do not add up to its size \(offset 16\)"),
        (small() + b"x", r"51 bytes; its head says 50 \(offset 16\)"),
        (small()[:-1] + b"x", r"checksum does not match \(offset 46\)"),
        (small(head=b"{"), r"head is not JSON \(offset 28\)"),
        (small(head=b"[]"), r"head is not an object \(offset 28\)"),
        *(
            (small(numbers=struct.pack("<2d", *numbers)), rf"not finite \(offset {offset}\)")
            for offset, numbers in ((30, (math.nan, 0.0)), (38, (0.0, math.inf)), (38, (0.0, -math.inf)))
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_refusal_says_where(file: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        container.unpack(file)


def test_a_small_file_is_read() -> None:
    head, columns = container.unpack(small())
    assert head == {} and columns.tolist() == [[1.5], [-2.5]]


@pytest.mark.parametrize(("rows", "columns"), [(1 << 16, 1), (1, 256)])
def test_rows_and_columns_up_to_the_limit_are_read(rows: int, columns: int) -> None:
    numbers = bytes(8 * rows * columns)
    assert container.unpack(small(rows=rows, columns=columns, numbers=numbers))[1].shape == (columns, rows)
    rows, columns = (rows + 1, 1) if columns == 1 else (1, columns + 1)
    with pytest.raises(ValueError, match=rf"too large .* {rows} rows, {columns} columns"):
        container.unpack(small(rows=rows, columns=columns, numbers=bytes(8 * rows * columns)))


@pytest.mark.parametrize(("size", "message"), [(64 << 20, "32 bytes; its head says"), ((64 << 20) + 1, "too large")])
def test_a_size_up_to_the_limit_is_believed(size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        container.unpack(sealed(struct.pack("<8sHHIIII", MAGIC, 2, 4, size - 32, size, 0, 0)))


def test_a_file_without_rows_is_refused(model: PlacementModel) -> None:
    head, columns = container.unpack(to_bytes(model))
    with pytest.raises(ValueError, match="columns of 0 rows"):
        from_bytes(container.pack(head, columns[:, :0]))


def test_a_latency_that_was_not_measured_is_none(model: PlacementModel) -> None:
    head, columns = container.unpack(to_bytes(model))
    columns[-1, :3] = -1000
    columns[-2, 0] = -50
    again = from_bytes(container.pack(head, columns))
    outcomes = again.latency.known.outcomes
    assert np.isnan(outcomes[:3, -1]).all() and np.isnan(outcomes).sum() == 3 and outcomes[0, -2] == -50
    assert container.unpack(to_bytes(again))[1][-1, :4].tolist() == [-1000, -1000, -1000, columns[-1, 3]]
    columns[-2, 0] = -50.1
    with pytest.raises(ValueError, match="an outcome is out of range"):
        from_bytes(container.pack(head, columns))


def test_the_first_form_has_the_usual_length_of_reads(model: PlacementModel) -> None:
    head, columns = container.unpack(to_bytes(model))
    head["form"] = "open-loop-1"
    for target in head["targets"]:
        del target["hyperparameters"][-2]
    old = from_bytes(container.pack(head, np.delete(columns, [3, 5], axis=0)))
    for process, target in zip(old.latency.processes, head["targets"], strict=True):
        first, last = target["hyperparameters"][:-1], target["hyperparameters"][-1]
        assert list(process.theta) == [*first, math.log(0.5), last]
