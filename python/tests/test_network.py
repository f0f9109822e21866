# SPDX-License-Identifier: MIT OR Apache-2.0
import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from linnet import ModelError, Network


def exact(layers: list[tuple[np.ndarray, np.ndarray]], digits: np.ndarray) -> list[list[int]]:
    """Outputs by Python's own integers."""
    out = []
    for row in digits.tolist():
        values = row
        for k, (weights, biases) in enumerate(layers):
            sums = [
                b + sum(w * v for w, v in zip(ws, values, strict=True))
                for ws, b in zip(weights.tolist(), biases.tolist(), strict=True)
            ]
            values = sums if k == len(layers) - 1 else [max(0, s) for s in sums]
        out.append(values)
    return out


@settings(max_examples=40, deadline=None)
@given(
    shape=st.lists(st.integers(1, 12), min_size=2, max_size=5),
    magnitude=st.sampled_from([3, 3000, 40_000, 1_000_000]),
    seed=st.integers(0, 2**32 - 1),
)
def test_networks_of_any_shape_and_magnitude_are_exact(shape: list[int], magnitude: int, seed: int) -> None:
    chance = np.random.default_rng(seed)
    shape[-1] = 2
    layers = [
        (chance.integers(-magnitude, magnitude + 1, (o, i)), chance.integers(-magnitude, magnitude + 1, o))
        for i, o in pairwise(shape)
    ]
    network = Network.from_integers(layers, [1000 ** (k + 1) for k in range(len(layers))])
    digits = chance.integers(0, 10, (20, shape[0]), dtype=np.uint8)
    expected = exact(layers, digits)
    assert network.logits(digits).tolist() == expected
    assert network.decide(digits).tolist() == [int(b > a) for a, b in expected]


def test_reference_network_agrees_on_every_vector(shared) -> None:
    reference = json.loads((shared / "reference/linnos/vectors.json").read_text())
    w0 = np.array(reference["w0"], np.int64).reshape(256, 31)
    w1 = np.array(reference["w1"], np.int64).reshape(2, 256)
    layers = [(w0, np.array(reference["b0"], np.int64)), (w1, np.array(reference["b1"], np.int64))]
    network = Network.from_integers(layers, [1000, 1_000_000])
    digits = np.array([list(map(int, row)) for row in reference["inputs"]], np.uint8)
    assert network.decide(digits).tolist() == reference["decisions"]
    assert network.logits(digits).tolist() == reference["out"]


def test_integers_of_any_type_are_taken_and_floats_are_not() -> None:
    layers = [([[1, -2, 3], [4, 5, -6]], np.array([7, -8], np.int32))]
    network = Network.from_integers(layers, np.array([1000]))
    assert network.logits([[1, 2, 3]]).tolist() == [[13, -12]]
    assert network.decide(np.array([[0, 9, 0]], np.int64)).tolist() == [1]
    with pytest.raises(TypeError, match="integers"):
        network.decide(np.array([[0.5, 1, 1]]))
    with pytest.raises(ValueError, match="uint8"):
        network.decide(np.array([[-1, 1, 1]]))


def test_wrong_shapes_are_refused_in_words() -> None:
    with pytest.raises(ModelError, match="layer 1"):
        Network.from_integers(
            [(np.zeros((3, 2), np.int64), np.zeros(3, np.int64)), (np.zeros((2, 4), np.int64), np.zeros(2, np.int64))],
            [1, 1],
        )
    network = Network.from_integers([(np.zeros((2, 3), np.int64), np.zeros(2, np.int64))], [1])
    with pytest.raises(ValueError, match="rows have 4 digits; the network takes 3"):
        network.decide(np.zeros((1, 4), np.uint8))
    with pytest.raises(ModelError, match="above the bound"):
        network.decide(np.full((1, 3), 10, np.uint8))
