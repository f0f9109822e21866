# SPDX-License-Identifier: MIT OR Apache-2.0
"""The five features that KML's readahead code computes from a window of one second.

The paper names others (moving mean and deviation of the page index, the inode's number); these are the code's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NAMES = ("events", "variance_over_range", "sample_variance_over_range", "mean_distance", "readahead")
INDEX_MAX = 1_000_000
"""Larger indices are left out, as "superblock"; so is whatever lies beyond 4 GiB in a file."""


def features(indices: NDArray[np.int64], readahead_kib: int) -> NDArray[np.float32] | None:
    """One row (5,), or None for a window without events. Where all indices are equal, KML divides by 0; we give 0."""
    kept = indices[indices <= INDEX_MAX].astype(np.float64)
    if not len(kept):
        return None
    span = float(kept.max() - kept.min())
    squares = float(((kept - kept.mean()) ** 2).sum())
    population = squares / len(kept) / span if span else 0.0
    sample = squares / (len(kept) - 1) / span if span else 0.0
    # The first difference of a window is to nothing: n - 1 differences, divided by n.
    distance = float(np.abs(np.diff(kept)).sum()) / len(kept)
    sectors = 2 * readahead_kib / 1024
    return np.asarray([len(kept), population, sample, distance, sectors], dtype=np.float32)
