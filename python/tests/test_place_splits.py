# SPDX-License-Identifier: MIT OR Apache-2.0
"""What a split asks of data that other data train for, and of data that it cannot divide."""

import json
from pathlib import Path

import pytest
from linnet.place import judge as judging
from linnet.place.observations import Observations, observe
from linnet.place.splits import SPLITS, Undivided, against
from place_tables import of_drive, write_ssdiq


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder, repeats=1)
    return observe(folder)["ssdiq"]


def test_random_rows_of_other_data_ask_for_loads_and_for_drives(drives: Observations, mixes: Observations) -> None:
    """No row of their cells trains."""
    train = drives.take(drives.labels["drive"] != "a0")
    tried = of_drive(drives, "a0").joined(of_drive(drives, "b0", 50))
    found = against("random", train, tried, 42)
    assert [(set(fold.tried.labels["drive"]), fold.asks) for fold in found] == [
        ({"b0"}, "unseen-load"),
        ({"a0"}, "unseen-drive"),
    ]
    assert all("b0|50000" not in fold.train.labels["cell"] for fold in found)
    mix = mixes.labels["mix"] == "64K"
    assert [fold.asks for fold in against("random", mixes.take(~mix), mixes.take(mix), 42)] == ["unseen-mix"]


@pytest.mark.parametrize("loads", [(), (50,)])
def test_intervals_of_a_drive_that_does_not_train_are_those_of_new_drives(
    drives: Observations, loads: tuple[int, ...]
) -> None:
    """Rows of the others say nothing of how wrong a model is about one that it does not know."""
    asked = ({"ssdiq": of_drive(drives, "b0", *loads)}, {"ssdiq": drives.take(drives.labels["drive"] != "b0")})
    splits = ["random", "unseen-drive", *(["unseen-load", "unseen-model-load"] if loads else [])]
    rows, _ = judging.judge(*asked, splits, ["queueing", "linnet"], 1, 0, lambda done: None)
    assert {row["split"] for row in rows if row["leaks"]} == {"random"}
    for target in drives.targets:
        for model in ("queueing", "linnet"):
            few = [row for row in rows if (row["target"], row["model"]) == (target, model)]
            assert len(few) == len(splits)
            assert len({(row["coverage90"], row["interval90_factor"], row["p90_error"]) for row in few}) == 1


def test_what_cannot_be_divided_is_found_and_may_be_left_out(drives: Observations) -> None:
    data = {"ssdiq": of_drive(drives, "b0")}
    found = judging.undivided(data, None, SPLITS)
    assert [(one.split, one.source) for one in found] == [("unseen-drive", "ssdiq")]
    assert found[0].why.startswith("one drive model alone cannot be split")
    asked = (data, None, ["random", "unseen-drive"], ["queueing"], 1, 0, lambda done: None, 0)
    rows, _ = judging.judge(*asked, skip=found)
    assert {row["split"] for row in rows} == {"random"}
    assert judging.work(data, None, ["random", "unseen-drive"], 1, skip=found) == 1
    with pytest.raises(Undivided, match="ssdiq, unseen-drive: one drive model alone"):
        judging.judge(*asked)
    both = judging.undivided(data, data, SPLITS)
    assert [one.split for one in both] == ["random", "unseen-drive"], "no row would train; other loads of it would"


@pytest.mark.slow
def test_the_command_asks_what_one_drive_model_can_answer(tmp_path: Path, linnet) -> None:
    write_ssdiq(tmp_path, ("b0",), repeats=1)
    asked = ("place", "judge", "--data", tmp_path, "--model", "queueing", "--seeds", 1)
    done = linnet(*asked, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {row["split"] for row in found["rows"]} == {"random", "unseen-load", "unseen-model-load"}
    (note,) = found["skipped"]
    assert (note["source"], note["split"]) == ("ssdiq", "unseen-drive") and "one drive model" in note["why"]
    assert "not judged: ssdiq, unseen-drive: one drive model alone" in " ".join(linnet(*asked).stdout.split())
    refused = linnet(*asked, "--split", "unseen-drive")
    assert refused.returncode == 1 and "one drive model alone cannot be split" in refused.stderr
    refused = linnet(*asked, "--train", tmp_path, "--split", "random")
    assert refused.returncode == 1 and "no row is left to train or to try" in refused.stderr
