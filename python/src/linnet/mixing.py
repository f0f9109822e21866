# SPDX-License-Identifier: MIT OR Apache-2.0
"""A hash of numbers, for arrays of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def mixed(numbers: NDArray[np.uint64], seed: int = 1) -> NDArray[np.uint64]:
    """Spread each number over 64 bits (the finaliser of SplitMix64); each seed does it in another way."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
