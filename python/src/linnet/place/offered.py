# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of offered loads: minutes repeat each other only where the tenants ask for the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.tables import APART


def loads_of(rate: NDArray[np.float64], figures: NDArray[np.float64]) -> NDArray[Any]:
    """A name for the load of each row, by its total rate [n] and by what else was offered, figures [n, k] from 0 up.

    The name is the rate; where rows of one rate were offered different figures, all but the first kind, by ascending
    figures, have a number too. Names do not depend on the order of the rows.
    """
    names = np.empty(len(rate), dtype=object)
    for value in np.unique(rate):
        rows = np.flatnonzero(rate == value)
        each, member = np.unique(figures[rows], axis=0, return_inverse=True)
        kinds: list[int] = []
        kind = np.empty(len(each), np.intp)
        for i, one in enumerate(each):
            near = (np.abs(each[kinds] - one) <= APART * np.maximum(each[kinds], one)).all(axis=1)
            if not near.any():
                kinds.append(i)
                near = np.append(near, True)
            kind[i] = np.argmax(near)
        for row, which in zip(rows, kind[member.reshape(-1)], strict=True):
            names[row] = f"{value:.0f}" if which == 0 else f"{value:.0f}/{which + 1}"
    return names
