# SPDX-License-Identifier: MIT OR Apache-2.0
"""The aggregate of profiles: its algebra, and the paper's formulas on numbers worked by hand."""

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from linnet.place import profiles as engine
from linnet.place.moments import RANDOM, RATE, UNALIGNED, aggregated, row, rows, to_features, to_moments
from linnet.place.words import FEATURES, Profile

VECTORS = Path(__file__).parents[2] / "spec/vectors/place/profiles/cases.txt"

values = st.floats(min_value=0.0, max_value=1e6, allow_subnormal=False)


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    features = {}
    for name in FEATURES:
        if "ratio" in name:
            features[name] = draw(st.floats(0, 1))
        else:
            features[name] = draw(st.floats(1.0, 1e6))
    return Profile("made", features)


def aggregate(some: list[Profile]) -> Profile:
    return Profile("aggregate", dict(zip(FEATURES, aggregated(rows(some)).tolist(), strict=True)))


def close(left: Profile, right: Profile) -> bool:
    return np.allclose(row(left), row(right), rtol=1e-9)


@given(profiles())
def test_one_workload_is_its_own_aggregate(one: Profile) -> None:
    assert close(aggregate([one]), one)


@given(st.lists(profiles(), min_size=2, max_size=5), st.randoms())
def test_order_does_not_matter(some: list[Profile], chance) -> None:
    mixed = list(some)
    chance.shuffle(mixed)
    assert close(aggregate(mixed), aggregate(some))


@given(profiles(), profiles(), profiles())
def test_aggregates_of_aggregates(a: Profile, b: Profile, c: Profile) -> None:
    assert close(aggregate([a, aggregate([b, c])]), aggregate([a, b, c]))


@given(st.lists(profiles(), max_size=5))
def test_the_engine_aggregates_alike(some: list[Profile]) -> None:
    assert close(aggregate(some), engine.aggregate(some))


def test_the_golden_aggregates() -> None:
    def numbers(words: list[str]) -> list[float]:
        return [struct.unpack(">d", bytes.fromhex(word.zfill(16)))[0] for word in words]

    known, aggregates = [], 0
    for kind, *words in (line.split() for line in VECTORS.read_text().splitlines()):
        if kind == "profile":
            known.append(numbers(words[1:]))
        elif kind == "aggregate":
            equals = words.index("=")
            members = np.array([known[int(word, 16)] for word in words[:equals]])
            np.testing.assert_allclose(aggregated(members), numbers(words[equals + 1 :]), rtol=1e-12, atol=0)
            # As planning has the neighbours of one: all, less this one.
            rest = to_moments(members).sum(axis=0) - to_moments(members[0])
            np.testing.assert_allclose(to_features(rest), aggregated(members[1:]), rtol=1e-6, atol=1e-3)
            aggregates += 1
    assert (len(known), aggregates) == (24, 5)


def test_no_ratio_exceeds_one() -> None:
    chance = np.random.default_rng(1)
    features = np.zeros((200, 3, len(FEATURES)))
    features[..., RATE] = chance.random((200, 3, 4)) * 1e5
    features[..., np.concatenate([UNALIGNED, RANDOM])] = 1.0
    moments = to_moments(features)
    left = to_features(moments.sum(axis=1) - moments[:, 0])
    assert left[..., UNALIGNED].max() == left[..., RANDOM].max() == 1.0


def test_formulas() -> None:
    a = Profile(
        "a",
        {
            "read_aligned_size_bytes_mean": 4096,
            "read_aligned_rate_mean": 300,
            "read_aligned_rate_std": 3,
            "read_aligned_unaligned_ratio": 1.0,
            "read_random_ratio": 1.0,
            "depth": 4,
        },
    )
    b = Profile(
        "b",
        {
            "read_aligned_size_bytes_mean": 8192,
            "read_aligned_rate_mean": 100,
            "read_aligned_rate_std": 4,
            "read_unaligned_size_bytes_mean": 512,
            "read_unaligned_rate_mean": 100,
            "depth": 1,
        },
    )
    both = aggregate([a, b]).features
    assert both["read_aligned_size_bytes_mean"] == pytest.approx((4096 * 300 + 8192 * 100) / 400)
    assert both["read_aligned_rate_mean"] == 400
    assert both["read_aligned_rate_std"] == pytest.approx(5)
    assert both["read_aligned_unaligned_ratio"] == pytest.approx(0.75)
    assert both["read_unaligned_size_bytes_mean"] == pytest.approx(512)
    assert both["read_random_ratio"] == pytest.approx(300 / 500)
    assert both["depth"] == 5
    assert both["write_random_ratio"] == 0


def test_nothing_and_less_than_nothing() -> None:
    assert not to_features(np.zeros(len(FEATURES))).any()
    assert not to_features(-np.ones(len(FEATURES))).any()
    assert to_moments(np.zeros((2, 3, len(FEATURES)))).shape == (2, 3, len(FEATURES))
