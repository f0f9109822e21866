# SPDX-License-Identifier: MIT OR Apache-2.0
"""Drives that differ from all known ones more than these do from each other."""

import math
from dataclasses import replace

import numpy as np
import pytest
from linnet.place.gaussian import Process
from linnet.place.models import open_loop
from linnet.place.models.open_loop import OpenLoop
from linnet.place.observations import Observations, observe
from linnet.place.probing import probe_drive
from place_tables import write_ssdiq

P99 = 1
"""Index of the p99 of reads among the targets."""


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Observations:
    folder = tmp_path_factory.mktemp("drives")
    write_ssdiq(folder)
    rows = observe(folder)["ssdiq"]
    return replace(rows, targets=rows.targets[P99 : P99 + 1], outcomes=rows.outcomes[:, P99 : P99 + 1])


@pytest.mark.parametrize("times", [10.0, 0.1])
def test_three_minutes_set_the_level_of_a_drive_that_is_far_from_the_others(drives: Observations, times: float) -> None:
    """The others are within a factor of 1.5, so a fit alone would say that levels hardly differ."""
    new = drives.labels["drive"] == "b0"
    model = OpenLoop()
    model.fit(drives.take(~new))
    own = drives.take(new)
    own = replace(own, outcomes=own.outcomes + math.log(times))
    off = model.calibrated(probe_drive(model, own, 3)).predict(own)[0] - own.outcomes
    assert math.sqrt(np.mean(off**2)) < 0.16


def test_a_probe_of_a_known_model_sets_no_level_of_its_own(
    drives: Observations, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = drives.labels["drive"] == "b0"
    model = OpenLoop()
    model.fit(drives.take(~own | (drives.inputs["load"] < 60_000)))
    asked, probe = (drives.take(own & (drives.inputs["load"] == load)) for load in (80_000, 500_000))
    mean, spread = model.calibrated(probe).predict(asked)
    monkeypatch.setattr(open_loop, "PROBED", open_loop.KERNEL)
    np.testing.assert_allclose(model.calibrated(probe).predict(asked), (mean, spread), rtol=1e-12)


def test_probes_extend_the_factor_of_what_trained(drives: Observations, monkeypatch: pytest.MonkeyPatch) -> None:
    new = drives.labels["drive"] == "b0"
    train, own = drives.take(~new), drives.take(new)
    train.outcomes[train.labels["cell"] == "a0|50000"] = math.nan
    model = OpenLoop()
    model.fit(train)
    probes = probe_drive(model, own, 3)
    mean, spread = model.calibrated(probes).predict(own)
    sizes: list[int] = []
    whole = np.linalg.cholesky

    def counted(matrix: np.ndarray) -> np.ndarray:
        sizes.append(len(matrix))
        return np.asarray(whole(matrix))

    monkeypatch.setattr(np.linalg, "cholesky", counted)
    np.testing.assert_array_equal(model.calibrated(probes).predict(own), (mean, spread))
    assert sizes == [3], "the probes alone"
    monkeypatch.setattr(Process, "begins", lambda *given: False)
    np.testing.assert_allclose(model.calibrated(probes).predict(own), (mean, spread), rtol=1e-9)
    assert sizes == [3, 44 + 3]


def test_other_points_are_no_beginning(drives: Observations) -> None:
    model = OpenLoop()
    model.fit(drives)
    (one,) = model.conditioned
    assert one.begins(one.points, one.noise)
    assert not one.begins(one.points, one.noise + 0.1)
    assert not one.begins({**one.points, "load": one.points["load"] + 1e-9}, one.noise)
    assert not one.begins({name: column[:-1] for name, column in one.points.items()}, one.noise[:-1])
