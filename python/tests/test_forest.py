# SPDX-License-Identifier: MIT OR Apache-2.0
"""Forests in the core have the bits of scikit-learn's predictions."""

import numpy as np
import pytest
from linnet import Forest, ModelError

sklearn = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed")


def _data(rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(rows, features)) * 10.0 ** chance.integers(-3, 9, size=features)
    # Repeated values and halves of each other put thresholds on values that occur.
    x[:, 0] = np.round(x[:, 0], 1)
    return x, x[:, 0] * x[:, 1] + np.abs(x).sum(axis=1) ** 0.5


@pytest.mark.parametrize("make", ["RandomForestRegressor", "ExtraTreesRegressor"])
def test_predictions_have_the_bits_of_scikit_learn(make):
    x, y = _data(600, 54, 1)
    new, _ = _data(333, 54, 2)
    models = [
        (f"m{n}", getattr(sklearn, make)(n_estimators=trees, random_state=42).fit(x, y * (n + 1)))
        for n, trees in enumerate((40, 17, 1))
    ]
    forest = Forest.from_sklearn(models, rows=600, seed=42)
    assert (forest.inputs, forest.names, forest.tree_count) == (54, ["m0", "m1", "m2"], 58)
    assert (forest.rows, forest.seed, forest.schema) == (600, 42, 5)
    # Training rows as well: thresholds lie between them, in 64 bits.
    for rows in (new, x, x[:1], x[:0]):
        found = forest.predict(rows)
        assert found.shape == (len(rows), 3)
        for n, (_, model) in enumerate(models):
            if len(rows):
                assert found[:, n].tobytes() == model.predict(rows).tobytes()
    again = Forest.from_bytes(forest.to_bytes())
    assert again.predict(new).tobytes() == forest.predict(new).tobytes()


def test_values_next_to_thresholds_take_the_same_side():
    x, _ = _data(200, 3, 3)
    y = x[:, 1] ** 2
    model = sklearn.RandomForestRegressor(n_estimators=20, random_state=1).fit(x, y)
    edges = np.concatenate([tree.tree_.threshold[tree.tree_.feature == 1] for tree in model.estimators_])
    near = edges.astype(np.float32)
    near = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
    rows = np.column_stack([np.zeros_like(near), near, np.zeros_like(near)])
    found = Forest.from_sklearn([("m", model)], schema=40000).predict(rows)
    assert found[:, 0].tobytes() == model.predict(rows).tobytes()


def test_a_single_tree_is_a_forest():
    from sklearn.tree import DecisionTreeRegressor, ExtraTreeRegressor

    x, y = _data(100, 4, 4)
    for kind in (DecisionTreeRegressor, ExtraTreeRegressor):
        model = kind(random_state=0).fit(x, y)
        assert Forest.from_sklearn([("m", model)]).predict(x)[:, 0].tobytes() == model.predict(x).tobytes()


def test_other_ensembles_are_refused():
    """They have trees as well, and do not predict the mean of them on all features."""
    from sklearn.tree import DecisionTreeRegressor

    class Other(sklearn.RandomForestRegressor):
        def predict(self, x):
            return 2 * super().predict(x)

    x, y = _data(100, 4, 6)
    pair = [("a", DecisionTreeRegressor()), ("b", DecisionTreeRegressor(max_depth=2))]
    for model in (
        sklearn.AdaBoostRegressor(n_estimators=3),
        sklearn.BaggingRegressor(n_estimators=3, max_features=0.5),
        sklearn.GradientBoostingRegressor(n_estimators=3),
        sklearn.IsolationForest(n_estimators=3),
        sklearn.RandomTreesEmbedding(n_estimators=3),
        sklearn.StackingRegressor(pair),
        sklearn.VotingRegressor(pair, weights=[1, 9]),
        Other(n_estimators=3),
    ):
        with pytest.raises(
            TypeError, match=f"m: a model of class {type(model).__name__}; RandomForestRegressor, ExtraTrees"
        ):
            Forest.from_sklearn([("m", model.fit(x, y))])


def test_missing_values_are_refused():
    x, _ = _data(100, 4, 7)
    x[::3, 1] = np.nan
    model = sklearn.RandomForestRegressor(n_estimators=5, random_state=0).fit(x, np.isnan(x[:, 1]) * 1.0)
    with pytest.raises(ValueError, match="fitted on missing values"):
        Forest.from_sklearn([("m", model)])


def test_what_is_no_forest_is_refused():
    x, y = _data(50, 4, 5)
    fitted = sklearn.RandomForestRegressor(n_estimators=2).fit(x, y)
    for models, problem in [
        ([("m", sklearn.RandomForestRegressor())], "not a fitted"),
        ([("m", sklearn.RandomForestClassifier(n_estimators=2).fit(x, y > 0))], "of class RandomForestClassifier"),
        ([("m", sklearn.RandomForestRegressor(n_estimators=2).fit(x, np.column_stack([y, y])))], "one forest for each"),
        ([("m", fitted), ("n", sklearn.RandomForestRegressor(n_estimators=2).fit(x[:, :3], y))], "n has 3 features"),
        ([("m", object())], "of class object"),
        ([("m", fitted), ("m", fitted)], 'two forests have the name "m"'),
        ([], "no forest"),
    ]:
        with pytest.raises((TypeError, ValueError), match=problem):
            Forest.from_sklearn(models)
    with pytest.raises(ModelError, match="range"):
        Forest.from_sklearn([("a name", fitted)])
    forest = Forest.from_sklearn([("m", fitted)])
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ModelError, match="feature 2 of row 1"):
            forest.predict(np.array([[0, 0, 0, 0], [0, 0, bad, 0]]))
    with pytest.raises(ValueError, match="4 are expected"):
        forest.predict(x[:, :3])
    with pytest.raises(ModelError, match="byte"):
        Forest.from_bytes(forest.to_bytes()[:-1])
