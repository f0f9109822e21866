# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bound and the baselines of a packing, and the demo."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from linnet.place.baselines import weighted_means
from linnet.place.bound import caps_of, cover, lower_bound
from linnet.place.catalogue import drives, profiles
from linnet.place.moments import rows
from linnet.place.sheet import SheetModel
from linnet.place.words import FEATURES, Profile


def fewest(loads: list[float], caps: list[float]) -> int:
    """The best packing by trying all: the load of a drive is at most the smallest cap of its tenants."""
    best = len(loads)
    for places in itertools.product(range(len(loads)), repeat=len(loads)):
        used = set(places)
        if len(used) >= best:
            continue
        sets = [[i for i, place in enumerate(places) if place == drive] for drive in used]
        if all(len(one) == 1 or sum(loads[i] for i in one) <= min(caps[i] for i in one) for one in sets):
            best = len(used)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_bound_is_never_above_the_best_packing(seed: int) -> None:
    chance = np.random.default_rng(seed)
    loads, caps = chance.uniform(0.05, 0.6, 5), chance.uniform(0.2, 1.0, 5)
    bound = lower_bound(loads, caps, classes=4, seconds=5)
    best = fewest(loads.tolist(), caps.tolist())
    assert bound <= best
    assert bound >= np.ceil(loads.sum() / caps.max())


def test_the_bound_is_reached_where_tenants_are_alike() -> None:
    assert lower_bound(np.full(20, 0.25), np.full(20, 1.0), seconds=5) == 5
    assert lower_bound(np.full(7, 0.9), np.full(7, 0.5), seconds=5) == 7, "whoever passes its own cap is alone"


def test_the_bound_knows_that_tenants_are_whole() -> None:
    """Divided, nine loads of 0.4 fit in four drives; whole, two fit in one drive."""
    assert lower_bound(np.full(9, 0.4), np.full(9, 1.0), seconds=5) == 5


def test_a_cover_is_the_smallest_and_has_everybody_once() -> None:
    sets = [frozenset(s) for s in ({0}, {1}, {2}, {3}, {0, 1}, {1, 2}, {2, 3}, {0, 1, 2})]
    found = cover(4, sets)
    assert found.proven and len(found.sets) == 2
    assert sorted(itertools.chain(*found.sets)) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="tenant 3 is in none"):
        cover(4, [frozenset({0, 1, 2})])


def test_caps_are_where_the_slo_breaks() -> None:
    limits = np.array([0.3, 0.7])
    found = caps_of(lambda who, others, load: load <= limits[who], 2, np.ones((1, len(FEATURES))), np.ones(1))
    assert found == pytest.approx(limits, abs=0.001)


def test_weighted_means_see_no_bursts_and_no_alignment() -> None:
    plain = Profile("a", {"read_aligned_size_bytes_mean": 4096, "read_aligned_rate_mean": 100, "depth": 2})
    other = Profile("b", {**plain.features, "read_aligned_rate_std": 50, "read_aligned_unaligned_ratio": 1.0})
    seen = weighted_means(rows([plain, other]))
    assert (seen[0] == seen[1]).all()
    mixed = Profile("c", {**plain.features, "write_unaligned_size_bytes_mean": 512, "write_unaligned_rate_mean": 300})
    assert weighted_means(rows([mixed]))[0, 0] == pytest.approx((4096 * 100 + 512 * 300) / 400)


def test_shipped_profiles_fit_the_shipped_drives() -> None:
    model = SheetModel()
    for drive, capacity in drives():
        assert capacity > 0
        loads = model.load(drive, rows(profiles()))
        assert ((loads > 0) & (loads < 0.5)).all(), drive.name


def test_the_demo_writes_a_page(linnet, tmp_path: Path) -> None:
    done = linnet("place", "demo", "--out", tmp_path / "demo.html")
    assert done.returncode == 0, done.stderr
    assert "backup-all may not go to" in done.stdout and "BROKEN" in done.stdout
    page = (tmp_path / "demo.html").read_text()
    assert page.count("<svg") == 3 and "Who would suffer" in page
