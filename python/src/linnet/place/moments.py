# SPDX-License-Identifier: MIT OR Apache-2.0
"""Profiles in a form that adds: the aggregate of a set of tenants is the sum of their moments.

Planning adds and takes away tenants, which `linnet_tenant::Independent`, with which tables are made, cannot; the golden
vectors of spec/profile.md hold both to one part in 10^12.

A feature that is a weighted mean is kept as the sum of weight times value, a standard deviation as a variance (the
tenants' bursts are taken as independent), a rate or a depth as it is. The formulas are those of the gray-box paper,
section 4.2, with equation 3 divided by the sum of rates: as printed it is not a mean. All arrays have the columns of
:data:`linnet.place.words.FEATURES` as their last axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from linnet.place.words import FEATURES, GROUPS, OPS, PER_GROUP, Profile

Floats = NDArray[np.float64]

COLUMN = {name: index for index, name in enumerate(FEATURES)}
"""Column of each feature."""

WIDTH = len(FEATURES)


def _columns(name: str) -> NDArray[np.intp]:
    return np.array([COLUMN[f"{group}_{name}"] for group in GROUPS])


RATE = _columns("rate_mean")
SIZE = _columns("size_bytes_mean")
BANDWIDTH = _columns("bandwidth_mean")
UNALIGNED = _columns("unaligned_ratio")
STD = np.concatenate([_columns("rate_std"), _columns("bandwidth_std")])
RANDOM = np.array([COLUMN["read_random_ratio"], COLUMN["write_random_ratio"]])
_RATIOS = np.concatenate([UNALIGNED, RANDOM])
_WEIGHTED = np.concatenate([SIZE, UNALIGNED])
_WEIGHT = np.concatenate([RATE, RATE])
assert len(PER_GROUP) == 6  # a new feature of a group needs a rule here


def row(profile: Profile) -> Floats:
    """The features of a profile as one row, zero where a feature is absent."""
    return np.array([profile.features.get(name, 0.0) for name in FEATURES])


def rows(profiles: Sequence[Profile]) -> Floats:
    """The features of profiles, one row each."""
    return np.array([row(profile) for profile in profiles]).reshape(len(profiles), WIDTH)


def to_moments(features: Floats) -> Floats:
    """Features, [..., 27], as moments of the same shape."""
    out = features.copy()
    out[..., _WEIGHTED] *= features[..., _WEIGHT]
    out[..., STD] **= 2
    out[..., RANDOM] *= _operation_rates(features)
    return out


def to_features(moments: Floats) -> Floats:
    """Moments, [..., 27], as features. None is below 0 and no ratio above 1 by rounding; a mean over no I/O is 0."""
    out = np.maximum(moments, 0.0)
    weights = out[..., _WEIGHT]
    rates = _operation_rates(out)
    out[..., _WEIGHTED] = np.divide(out[..., _WEIGHTED], weights, out=np.zeros_like(weights), where=weights > 0)
    out[..., STD] = np.sqrt(out[..., STD])
    out[..., RANDOM] = np.divide(out[..., RANDOM], rates, out=np.zeros_like(rates), where=rates > 0)
    out[..., _RATIOS] = np.minimum(out[..., _RATIOS], 1.0)
    return out


def uses(features: Floats, metric: str) -> bool:
    """Whether a workload with these features, [27], has the operation that a metric is about."""
    return bool(_operation_rates(features)[OPS.index(metric.partition("_")[0])] > 0)


def _operation_rates(features: Floats) -> Floats:
    """I/Os per second by operation, aligned and unaligned sizes together, [..., 2]; columns as RANDOM's."""
    rates = features[..., RATE]
    return np.stack([rates[..., 0] + rates[..., 1], rates[..., 2] + rates[..., 3]], axis=-1)


def aggregated(features: Floats) -> Floats:
    """The features of all rows together: [n, 27] gives [27], zeros for none."""
    return to_features(to_moments(features).sum(axis=0))
