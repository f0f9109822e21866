# SPDX-License-Identifier: MIT OR Apache-2.0
"""Names of offered loads: minutes repeat each other only where the tenants ask for the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.tables import APART

Floats = NDArray[np.float64]


def loads_of(rate: Floats, figures: Floats) -> tuple[Floats, NDArray[Any]]:
    """The load of each row by what was offered, figures [n, k] from 0 up: what it is called, [n], and its name, [n].

    ``rate``, [n], is what the tables call loads. A load is rows whose figures differ by at most APART from those of its
    first, by ascending figures, and is called by the least rate of its rows. The name is that rate; of loads that are
    called the same, all but the first, by ascending figures, have a number too. Names do not depend on the order of the
    rows, but on which rows there are: those of two sets are told apart only when they are named together.
    """
    each, member = np.unique(figures, axis=0, return_inverse=True)
    first: list[int] = []
    kind = np.empty(len(each), np.intp)
    for i, one in enumerate(each):
        near = (np.abs(each[first] - one) <= APART * np.maximum(each[first], one)).all(axis=1)
        if not near.any():
            first.append(i)
            near = np.append(near, True)
        kind[i] = np.argmax(near)
    which = kind[member.reshape(-1)]
    called = np.full(len(first), np.inf)
    np.minimum.at(called, which, rate)
    names = np.empty(len(first), dtype=object)
    counted: dict[float, int] = {}
    for i, value in enumerate(called.tolist()):
        counted[value] = counted.get(value, 0) + 1
        plain = f"{value:.0f}" if value.is_integer() else repr(value)
        names[i] = plain if counted[value] == 1 else f"{plain}/{counted[value]}"
    return called[which], names[which]
