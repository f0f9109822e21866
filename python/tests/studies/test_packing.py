# SPDX-License-Identifier: MIT OR Apache-2.0
"""The bound and the baselines of a packing, its study, and what that and the benches of placement print."""

import itertools
import json

import numpy as np
import pytest
from linnet.place.moments import rows
from linnet.place.words import FEATURES, Profile
from linnet.studies import place_baselines
from linnet.studies.packing import BOUND, METRICS, Study
from linnet.studies.packing_bound import caps_of, cover, lower_bound
from linnet.studies.place_baselines import Forest, weighted_means


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
    assert (found >= limits).all(), "a cap below the limit is no bound"


@pytest.mark.parametrize("beside", [0.75, 0.7501, 0.7504])
def test_a_packing_that_fits_exactly_is_not_below_the_bound(beside: float) -> None:
    """Four equal tenants fit on a drive, each beside all the load that it bears."""
    loads = np.full(400, beside / 3)
    caps = caps_of(lambda who, others, load: load <= beside, 400, np.ones((1, len(FEATURES))), np.ones(1))
    assert lower_bound(loads, loads + caps, seconds=5) == 100


def test_weighted_means_see_no_bursts_and_no_alignment() -> None:
    plain = Profile("a", {"read_aligned_size_bytes_mean": 4096, "read_aligned_rate_mean": 100, "depth": 2})
    other = Profile("b", {**plain.features, "read_aligned_rate_std": 50, "read_aligned_unaligned_ratio": 1.0})
    seen = weighted_means(rows([plain, other]))
    assert (seen[0] == seen[1]).all()
    mixed = Profile("c", {**plain.features, "write_unaligned_size_bytes_mean": 512, "write_unaligned_rate_mean": 300})
    assert weighted_means(rows([mixed]))[0, 0] == pytest.approx((4096 * 100 + 512 * 300) / 400)


def test_placers_are_judged_by_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(60, seed=3)
    perfect = study.place(study.truth, 5.0, "best-fit")
    assert perfect.violated == 0
    assert study.bound(5.0, 5.0) <= perfect.drives
    careless = study.violated([frozenset(range(60))], 5.0)
    assert careless > 30, "all on one drive: the count of violations does count"
    own, others, shares = study.runs()
    monkeypatch.setattr(place_baselines, "TREES", 20)
    forest = Forest(METRICS)
    forest.fit(own[:800], others[:800], shares[:800])
    alone = forest.predict_aggregates([study.drive], np.zeros(60, int), study.features, np.zeros_like(study.features))
    light = study.loads < 0.3
    kept = np.isclose(alone[:, :, 0], study.alone, rtol=0.01).all(axis=1)
    assert light.any() and kept[light].all(), "a tenant without neighbours keeps its bandwidth"
    placed = study.place(forest, 5.0, "first-fit")
    assert 1 < placed.drives <= 60


def test_the_study_and_the_benches_print_json(linnet) -> None:
    done = linnet("study", "packing", "--workloads", 20, "--slo", 5, "--no-forests", "--seconds", 2, "--json")
    found = {row["placer"]: row for row in json.loads(done.stdout)["rows"]}
    assert found[BOUND]["drives"] <= found["CP-SAT packing"]["drives"] <= found["quota"]["drives"]
    assert found["perfect, first fit"]["violated"] == 0
    done = linnet("bench", "place", "--drives", 50, "--newcomers", 5, "--json")
    assert {"drives", "tenants", "ms_median", "ms_p99"} <= json.loads(done.stdout)["rows"][0].keys()
    done = linnet("bench", "service", "--clients", 4, "--tenants", 8, "--drives", 20, "--json")
    row = json.loads(done.stdout)["rows"][0]
    assert (row["lost"], row["doubled"], row["elsewhere"], row["wrong_books"]) == (0, 0, 0, 0)
    assert row["placed"] > 0
