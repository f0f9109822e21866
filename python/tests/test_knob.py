# SPDX-License-Identifier: MIT OR Apache-2.0
"""Networks and trees of knobs: against numpy, scikit-learn, and the published outputs of KML."""

import csv
import re
from pathlib import Path
from types import SimpleNamespace

import linnet
import numpy as np
import pytest
from conftest import SHARED
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

KML = SHARED / "reference/kml"


def slow_forward(arrays, activations, x):
    """The same in 64 bits."""
    for (w, b), activation in zip(arrays, activations, strict=True):
        x = x @ w.T.astype(float) + b
        if activation == "relu":
            x = np.maximum(x, 0)
        if activation == "sigmoid":
            x = 1 / (1 + np.exp(-x))
        if activation == "softmax":
            x = np.exp(x - x.max(axis=1, keepdims=True))
            x /= x.sum(axis=1, keepdims=True)
    return x


@pytest.mark.parametrize("sizes", [[5, 15, 5, 4], [8, 25, 10, 5, 4], [1, 1], [3, 2, 7, 3], [40, 256, 2]])
@pytest.mark.parametrize("last", ["linear", "relu", "sigmoid", "softmax"])
def test_network(sizes, last):
    rng = np.random.default_rng(len(sizes))
    shapes = zip(sizes[1:], sizes[:-1], strict=True)
    arrays = [(rng.normal(size=(o, i)).astype("f4"), rng.normal(size=o).astype("f4")) for o, i in shapes]
    names = [*["relu", "sigmoid", "linear", "sigmoid"][: len(arrays) - 1], last]
    network = linnet.FloatNetwork.from_arrays(arrays, activations=names)
    assert (network.inputs, network.outputs) == (sizes[0], sizes[-1])
    x = rng.normal(size=(50, sizes[0])).astype("f4")
    out = network.forward(x)
    assert out.shape == (50, sizes[-1])
    assert out.dtype == np.float32
    expected = slow_forward(arrays, names, x.astype(float))
    assert np.allclose(out, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert np.array_equal(network.forward(np.asfortranarray(x)), out)
    assert network.forward(x[:0]).shape == (0, sizes[-1])


def test_network_refuses():
    layer = (np.zeros((2, 3)), np.zeros(2))
    with pytest.raises(ValueError, match="one of linear, relu"):
        linnet.FloatNetwork.from_arrays([layer], activations=["tanh"])
    with pytest.raises(ValueError, match="1 layers and 2 activations"):
        linnet.FloatNetwork.from_arrays([layer], activations=["relu", "relu"])
    with pytest.raises(linnet.ModelError, match="layer 1"):
        linnet.FloatNetwork.from_arrays([layer, layer], activations=["relu", "linear"])
    with pytest.raises(linnet.ModelError, match="NaN"):
        linnet.FloatNetwork.from_arrays([(np.full((2, 3), np.nan), np.zeros(2))], activations=["linear"])
    with pytest.raises(linnet.ModelError, match="softmax"):
        linnet.FloatNetwork.from_arrays([layer, (np.zeros((2, 2)), np.zeros(2))], activations=["softmax", "linear"])
    with pytest.raises(ValueError, match="3 are expected"):
        linnet.FloatNetwork.from_arrays([layer], activations=["linear"]).forward(np.zeros((4, 2)))


@pytest.mark.parametrize("depth", [1, 3, 5, None])
@pytest.mark.parametrize("labels", [[0, 1], [3, 7, 20], ["random", "reverse", "seq"]])
def test_tree(depth, labels):
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 6)).astype("f4")
    x[:, 1] = np.round(x[:, 1], 1)
    y = np.array(labels)[(np.abs(x[:, 0] + x[:, 1]) + 0.3 * rng.normal(size=600)).astype(int) % len(labels)]
    fitted = DecisionTreeClassifier(max_depth=depth, random_state=1).fit(x, y)
    tree = linnet.Tree.from_sklearn(fitted)
    assert (tree.inputs, tree.node_count) == (6, fitted.tree_.node_count)
    # Fresh rows, and rows that lie on the thresholds.
    fresh = rng.normal(size=(5000, 6)).astype("f4")
    edges = np.repeat(x[:1], fitted.tree_.node_count, axis=0)
    for n, (feature, threshold) in enumerate(zip(fitted.tree_.feature, fitted.tree_.threshold, strict=True)):
        if feature >= 0:
            edges[n, feature] = threshold
    for rows in (x, fresh, edges, np.nextafter(edges, np.float32(np.inf)), np.nextafter(edges, np.float32(-np.inf))):
        assert np.array_equal(tree.predict(rows), fitted.predict(rows))


def test_tree_grown_best_first():
    """scikit-learn then numbers nodes in another order."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 3)).astype("f4")
    y = rng.integers(0, 3, 400)
    fitted = DecisionTreeClassifier(max_leaf_nodes=25, random_state=1).fit(x, y)
    assert np.array_equal(linnet.Tree.from_sklearn(fitted).predict(x), fitted.predict(x))


@pytest.mark.parametrize("seed", range(5))
def test_tree_induced(seed):
    """The same splits as scikit-learn's where no two splits are equally good."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(800, 5)).astype("f4")
    y = np.array(["a", "b", "c"])[np.digitize(x[:, 0] * x[:, 3] + 0.5 * rng.normal(size=800), [-0.3, 0.6])]
    fitted = DecisionTreeClassifier(max_depth=4, min_samples_leaf=30, random_state=1).fit(x, y)
    tree = linnet.Tree.fit(x, y, max_depth=4, min_samples_leaf=30)
    assert tree.node_count == fitted.tree_.node_count
    fresh = rng.normal(size=(20000, 5)).astype("f4")
    assert np.array_equal(tree.predict(fresh), fitted.predict(fresh))


def test_tree_induced_fits_its_rows():
    rng = np.random.default_rng(9)
    x = rng.normal(size=(300, 3)).astype("f4")
    y = rng.integers(0, 4, 300)
    assert np.array_equal(linnet.Tree.fit(x, y, max_depth=64, max_leaves=2048).predict(x), y)
    assert linnet.Tree.fit(x, y).node_count <= 63
    assert list(linnet.Tree.fit(x[:5], [7] * 5).predict(x[:2])) == [7, 7]
    with pytest.raises(linnet.LearnError, match="out of bounds"):
        linnet.Tree.fit(x, y, max_depth=0)
    for leaves in (0, 1, 2049, 2**31 + 1, 2**63, 2**63 + 2):
        with pytest.raises(linnet.LearnError, match="out of bounds"):
            linnet.Tree.fit(x, y, max_leaves=leaves)
    with pytest.raises(linnet.LearnError, match="not finite"):
        linnet.Tree.fit(np.full((2, 2), np.nan), [0, 1])
    with pytest.raises(linnet.LearnError, match="do not pair"):
        linnet.Tree.fit(x, y[:10])


@pytest.mark.parametrize("leaves", [8, 32, 100])
@pytest.mark.parametrize("seed", range(3))
def test_tree_of_few_leaves(seed, leaves):
    """A checkerboard that needs more leaves: those that are left lower the impurity most, as in scikit-learn."""
    rng = np.random.default_rng(seed)

    def rows():
        x = rng.random((4000, 5)).astype("f4")
        return x, ((x[:, 0] * 2).astype(int) + (x[:, 1] * 3).astype(int) + (x[:, 2] > 0.5)) % 4

    (x, y), (fresh, _) = rows(), rows()
    noisy = (y + (rng.random(4000) < 0.1)) % 4
    fitted = DecisionTreeClassifier(max_leaf_nodes=leaves, max_depth=9, random_state=0).fit(x, noisy)
    tree = linnet.Tree.fit(x, noisy, max_leaves=leaves)
    assert tree.node_count == fitted.tree_.node_count == 2 * leaves - 1
    # Where splits of few rows gain the same, the two take different ones.
    same = (tree.predict(fresh) == fitted.predict(fresh)).mean()
    assert same == 1 if leaves <= 32 else same > 0.97


def test_tree_refuses():
    with pytest.raises(TypeError, match="fit it first"):
        linnet.Tree.from_sklearn(DecisionTreeClassifier())
    with pytest.raises(TypeError, match="no classes"):
        linnet.Tree.from_sklearn(DecisionTreeRegressor().fit([[0.0], [1.0]], [0.0, 1.0]))
    with pytest.raises(ValueError, match="one output"):
        two = DecisionTreeClassifier().fit([[0.0], [1.0]], [[0, 1], [1, 0]])
        linnet.Tree.from_sklearn(two)


def test_tree_and_missing_values():
    """scikit-learn sends them to the side that the training chose; here rows have none."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(400, 2))
    x[rng.random(x.shape) < 0.3] = np.nan
    whole = np.nan_to_num(x)
    tree = linnet.Tree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(whole, whole[:, 0] > 0.5))
    for odd in (np.nan, np.inf, -np.inf):
        with pytest.raises(linnet.ModelError, match=r"feature 1 of row 2 is .*: not finite"):
            tree.predict([[0, 0], [0, 0], [0, odd]])
    with pytest.raises(ValueError, match="threshold inf: it was fitted on missing values"):
        linnet.Tree.from_sklearn(DecisionTreeClassifier(random_state=0).fit(x, np.isnan(x[:, 0])))


ODD = [
    (np.ma.array(np.ones((2, 3)), mask=[[1, 0, 0], [0, 0, 0]]), ValueError, "masked values"),
    (np.full((2, 3), 1 + 2j), TypeError, 'kind "c"'),
    (np.zeros((2, 3), "M8[ns]"), TypeError, 'kind "M"'),
    ([["1", "2", "3"]], TypeError, 'kind "U"'),
    (np.array([[1, None, 3]], dtype=object), TypeError, 'kind "O"'),
    (np.full((2, 3), -1e300), ValueError, "does not fit float32"),
    ([[1, 2, 2**63 * 1e30]], ValueError, "does not fit float32"),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("odd", "error", "text"), ODD)
def test_arrays_that_are_no_numbers(odd, error, text):
    network = linnet.FloatNetwork.from_arrays([(np.ones((2, 3)), np.zeros(2))], activations=["linear"])
    tree = linnet.Tree.fit([[0, 0, 0], [1, 1, 1]], [0, 1])
    for takes in (
        network.forward,
        tree.predict,
        lambda x: linnet.Tree.fit(x, [0] * len(x)),
        lambda x: linnet.FloatNetwork.from_arrays([(x, np.zeros(len(x)))], activations=["linear"]),
    ):
        with pytest.raises(error, match=text):
            takes(odd)


@pytest.mark.filterwarnings("error")
def test_arrays_of_numbers():
    network = linnet.FloatNetwork.from_arrays([(np.eye(3), np.zeros(3))], activations=["linear"])
    rows = np.arange(12).reshape(2, 6)[:, ::2]
    for kind in (bool, "i1", "u8", "f2", ">f8", "f4"):
        given = rows.astype(kind)
        for x in (given, given.tolist(), np.asfortranarray(given), np.ma.array(given, mask=False)):
            assert np.array_equal(network.forward(x), given.astype("f4"))
    # What is not finite stays so in a network; the largest float is finite.
    largest = np.finfo("f4").max
    assert np.isnan(network.forward([[np.nan, 0, 0]])).any()
    # No activation hides a NaN, given or computed.
    for hidden in ("linear", "relu", "sigmoid"):
        two = [([[3e38, -3e38]] * 5, [0] * 5), (np.ones((4, 5)), [0] * 4)]
        deep = linnet.FloatNetwork.from_arrays(two, activations=[hidden, "linear"])
        assert np.isnan(deep.forward([[16, 16], [np.nan, 0]])).all()
    identity = linnet.FloatNetwork.from_arrays([([[1]], [0])], activations=["linear"])
    assert identity.forward([[float(largest)]])[0, 0] == largest
    assert identity.forward([[-np.inf]])[0, 0] == -np.inf
    with pytest.raises(ValueError, match="masked values"):
        linnet.Tree.fit([[0], [1]], np.ma.array([0, 1], mask=[0, 1]))


def kml(path: str) -> Path:
    if not (KML / path).exists():
        pytest.skip(f"no {KML / path}")
    return KML / path


def kml_network(name: str, layers: int) -> linnet.FloatNetwork:
    folder = kml(f"weights/{name}")
    arrays = [
        (np.loadtxt(folder / f"linear{k}_w.csv", ndmin=2), np.loadtxt(folder / f"linear{k}_bias.csv").reshape(-1))
        for k in range(layers)
    ]
    return linnet.FloatNetwork.from_arrays(arrays, activations=["sigmoid"] * (layers - 1) + ["linear"])


def kml_tree() -> SimpleNamespace:
    """The published text of a tree, as scikit-learn keeps trees."""
    lines = kml("weights/readahead_model.dt").read_text().splitlines()
    found = [re.fullmatch(r"((?:\|   )*)\|--- (?:class: (.*)|feature_(\d+) (<=|>) +(.*))", line) for line in lines]
    left, right, feature, threshold, value = [], [], [], [], []

    def node(at: int) -> int:
        indent, leaf, name, _, number = found[at].groups()
        own = len(left)
        for column, start in ((left, -1), (right, -1), (feature, -2), (threshold, -2.0), (value, np.zeros((1, 4)))):
            column.append(start)
        if leaf is not None:
            value[own] = np.eye(4)[[int(float(leaf))]]
            return at + 1
        feature[own], threshold[own] = int(name), float(number)
        left[own] = len(left)
        at = node(at + 1)
        assert found[at].group(1) == indent
        right[own] = len(left)
        return node(at + 1)

    assert node(0) == len(lines)
    inner = SimpleNamespace(
        children_left=left, children_right=right, feature=feature, threshold=threshold, value=np.array(value)
    )
    return SimpleNamespace(tree_=inner, classes_=np.arange(4), n_features_in_=5)


def kml_outputs() -> tuple[np.ndarray, dict[str, np.ndarray]]:
    with kml("readahead_offline_outputs.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    return np.column_stack([columns[f"x{k}"] for k in range(5)]).astype("f4"), columns


def test_published_network():
    x, columns = kml_outputs()
    out = kml_network("readahead_offline", 3).forward(x)
    logits = np.column_stack([columns[f"f32_l{k}"] for k in range(4)])
    exact = np.column_stack([columns[f"f64_l{k}"] for k in range(4)])
    assert len(x) == 422
    # KML's exponential is an approximation: README beside the data. Ours is nearer to its own 64-bit outputs.
    assert np.abs(out - logits).max() < 1e-3
    assert np.abs(out - exact).max() < np.abs(logits - exact).max()
    assert np.array_equal(out.argmax(axis=1), columns["f32_class"])


def test_published_networks_have_their_shapes():
    assert kml_network("readahead_online", 3).forward(np.zeros((1, 5))).shape == (1, 4)
    assert kml_network("nfs", 4).forward(np.zeros((1, 8))).shape == (1, 4)


def test_published_tree():
    x, columns = kml_outputs()
    tree = linnet.Tree.from_sklearn(kml_tree())
    assert tree.node_count == 59
    assert np.array_equal(tree.predict(x), columns["dt_class"])
