# SPDX-License-Identifier: MIT OR Apache-2.0
"""The study of packings, and what it and the benches of placement print."""

import json

import numpy as np
import pytest
from linnet.place import baselines
from linnet.place.baselines import Forest
from linnet.studies.packing import METRICS, Study


def test_placers_are_judged_by_the_truth(monkeypatch: pytest.MonkeyPatch) -> None:
    study = Study(60, seed=3)
    perfect = study.place(study.truth, 5.0, "best-fit")
    assert perfect.violated == 0
    assert study.bound(5.0, 5.0) <= perfect.drives
    careless = study.violated([frozenset(range(60))], 5.0)
    assert careless > 30, "all on one drive: the count of violations does count"
    own, others, shares = study.runs()
    monkeypatch.setattr(baselines, "TREES", 20)
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
    assert found["lower bound"]["drives"] <= found["CP-SAT packing"]["drives"] <= found["quota"]["drives"]
    assert found["perfect, first fit"]["violated"] == 0
    done = linnet("bench", "place", "--drives", 50, "--newcomers", 5, "--json")
    assert {"drives", "tenants", "ms_median", "ms_p99"} <= json.loads(done.stdout)["rows"][0].keys()
    done = linnet("bench", "service", "--clients", 4, "--tenants", 8, "--drives", 20, "--json")
    row = json.loads(done.stdout)["rows"][0]
    assert (row["lost"], row["doubled"], row["elsewhere"], row["wrong_books"]) == (0, 0, 0, 0)
    assert row["placed"] > 0
