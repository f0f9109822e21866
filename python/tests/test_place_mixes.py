# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of tenants without rates: which rows are tried as a mix, and what neighbours of several kinds are."""

import numpy as np
import pytest
from linnet.place import judge as judging
from linnet.place.observations import Observations
from linnet.place.splits import against, folds, inner_folds


def alone(rows: Observations) -> np.ndarray:
    return rows.inputs["neighbours"] == 0


def test_a_run_without_neighbours_is_of_no_mix(mixes: Observations) -> None:
    """It has twins among the runs of other mixes, so it trains, and a mix is scored on runs that are of it."""
    found = folds("unseen-mix", mixes, 42)
    assert len(found) == 3
    for fold in found:
        for one in (fold, *inner_folds("unseen-mix", fold.train, 42)):
            assert not alone(one.tried).any() and alone(one.train).sum() == alone(mixes).sum()
            beside = one.train.labels["mix"][~alone(one.train)]
            assert not set(beside) & set(one.tried.labels["mix"])
    assert sum(len(fold.tried) for fold in found) == (~alone(mixes)).sum()
    (row, *_) = judging.judge({"icpe": mixes}, None, ["unseen-mix"], ["queueing"], 1, 0, lambda done: None)
    assert row["n"] == (~alone(mixes)).sum()
    only = mixes.take(alone(mixes) | (mixes.labels["mix"] == "4K"))
    with pytest.raises(ValueError, match="icpe, unseen-mix: one mix alone cannot be split"):
        folds("unseen-mix", only, 42)


def test_a_strange_mix_is_tried_beside_its_tenant_alone(mixes: Observations) -> None:
    strange = mixes.labels["mix"] == "64K"
    (fold,) = against("unseen-mix", mixes.take(~strange), mixes.take(strange), 42)
    assert not alone(fold.tried).any() and alone(fold.train).sum() == alone(mixes).sum()
    (fold,) = against("unseen-mix", mixes, mixes.take(strange), 42)
    assert alone(fold.train).sum() == alone(mixes).sum(), "a run that both have trains once"
    assert "64K" not in set(fold.train.labels["mix"][~alone(fold.train)])


def test_the_tenant_alone_is_one_load_of_all_mixes(mixes: Observations) -> None:
    for fold in folds("unseen-load", mixes, 42):
        for one in (fold, *inner_folds("unseen-load", fold.train, 42)):
            sides = [set(side.labels["scheduler"][alone(side)]) for side in (one.train, one.tried)]
            assert not sides[0] & sides[1]
    (fold,) = against("unseen-load", mixes, mixes.take(mixes.labels["run"] == "4K/none/0"), 42)
    assert set(fold.train.labels["scheduler"][alone(fold.train)]) == {"kyber"}
