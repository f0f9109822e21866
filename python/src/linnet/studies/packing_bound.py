# SPDX-License-Identifier: MIT OR Apache-2.0
"""How few drives could do: a lower bound among mixes that were tried, and the best packing found (OR-tools, CP-SAT).

The bound. A tenant that shares a drive keeps its SLO only while the drive's load stays below a cap of its own. The cap
is the largest load at which any mix of neighbours that was tried lets the SLO hold, so it is generous. Two relaxations
count drives by the tightest tenant of each, below whose cap the tenants of a drive fit; the larger count holds. In one,
tenants are rounded to classes, loads down and caps up, and their loads can be divided among drives: an integer program.
In the other tenants are whole, and drives can be divided: a linear program over all sets of tenants, whose sets are
found as they are needed by knapsacks (Gilmore and Gomory, "A linear programming approach to the cutting-stock problem",
1961); Farley's bound holds when time ends it early ("A note on bounding a class of linear programming problems", 1990).
Every packing that the model allows is a solution of both, so neither optimum is more than the drives of the best
packing, provided that the mildest mix is among those tried: a milder one would raise a cap, and might lower the count.

The packing. Sets of tenants that the model allows are collected from many packings in different orders, and the
smallest cover of all tenants by such sets is chosen. It is a packing that exists, not a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require
from linnet.place.moments import Floats

SCALE = 100_000
"""Loads as integers: CP-SAT knows no fractions."""
CELLS = 1000
"""Steps of a knapsack's load, up to the largest cap."""
CLASSES = 100
"""Classes of caps of the linear program. Caps are rounded up, so that few classes cost much of the bound."""
KEPT = 0.9
"""Share of the best prices so far in those that sets are sought by: it halves the rounds (Wentges, 1997)."""
WORTH = 1e-6
"""A set is worth taking in if its tenants' prices sum to this much more than 1."""


@dataclass(frozen=True)
class Cover:
    """The smallest cover that was found."""

    sets: list[frozenset[int]]
    proven: bool
    """No smaller one can be made of the sets that were given."""


def lower_bound(loads: Floats, caps: Floats, classes: int = 24, seconds: float = 20.0, workers: int = 1) -> int:
    """Fewest drives for tenants with these loads [n] and caps [n]: the load that a drive may have while one is there.

    A tenant whose load passes its own cap needs a drive of its own. The answer is what both relaxations prove, each in
    ``seconds``.
    """
    require("study", "the bound of a packing")
    from ortools.sat.python import cp_model  # noqa: PLC0415

    single = loads >= caps
    lone = int(single.sum())
    loads, caps = loads[~single], caps[~single]
    if not len(loads):
        return lone
    whole = _whole_tenants(loads, caps, seconds)
    # Within a class the smallest load and the largest cap: both make packing easier.
    edges = np.quantile(caps, np.linspace(0, 1, classes + 1)[1:-1])
    of = np.searchsorted(edges, caps, side="left")
    cap = [int(np.ceil(SCALE * caps[of == c].max())) if (of == c).any() else 0 for c in range(classes)]
    counts = [int((of == c).sum()) for c in range(classes)]
    work = [int(np.floor(SCALE * loads[of == c].sum())) for c in range(classes)]
    model = cp_model.CpModel()
    drives = [model.new_int_var(0, counts[c], f"drives {c}") for c in range(classes)]
    flow: dict[tuple[int, int], cp_model.IntVar] = {}
    for tenant in range(classes):
        for leader in range(tenant + 1):
            flow[tenant, leader] = model.new_int_var(0, max(work[tenant], 0), f"load of {tenant} on {leader}")
        model.add(sum(flow[tenant, leader] for leader in range(tenant + 1)) == work[tenant])
    for leader in range(classes):
        here = sum(flow[tenant, leader] for tenant in range(leader, classes))
        model.add(here <= cap[leader] * drives[leader])
    model.minimize(sum(drives))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    solver.solve(model)
    return lone + max(whole, int(np.ceil(solver.best_objective_bound - 1e-6)))


def _whole_tenants(loads: Floats, caps: Floats, seconds: float) -> int:
    """The linear program over sets of tenants: Farley's bound when no set is worth taking in, or time is up."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_matrix

    step = caps.max() / CELLS
    # Loads down, caps up: what fits, fits in whole steps.
    cells = np.floor(loads / step).astype(int)
    edges = np.unique(np.quantile(caps, np.linspace(0, 1, CLASSES + 1)))
    lows, highs = (edges[:-1], edges[1:]) if len(edges) > 1 else (edges, edges)
    sets = [frozenset([tenant]) for tenant in range(len(loads))]
    known, best, until = set(sets), 0.0, time.monotonic() + seconds
    kept: Floats | None = None
    while True:
        rows = np.repeat(np.arange(len(sets)), [len(one) for one in sets])
        columns = np.array([tenant for one in sets for tenant in one])
        table = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=(len(sets), len(loads)))
        # The dual: a price of each tenant, no set dearer than 1.
        price = linprog(-np.ones(len(loads)), A_ub=table, b_ub=np.ones(len(sets)), bounds=(0, None), method="highs").x
        fresh: set[frozenset[int]] = set()
        for asked in [price] if kept is None else [KEPT * kept + (1 - KEPT) * price, price]:
            found = [
                _dearest(asked, cells, np.flatnonzero(caps >= low), int(high / step + 1e-9))
                for low, high in zip(lows, highs, strict=True)
            ]
            scaled = asked / max(1.0, *(worth for worth, _ in found))
            if scaled.sum() > best:
                best, kept = float(scaled.sum()), scaled
            fresh = {one for _, one in found if price[[*one]].sum() > 1 + WORTH} - known
            if fresh:
                break
        if not fresh or time.monotonic() > until:
            return int(np.ceil(best - 1e-6))
        sets += sorted(fresh, key=sorted)
        known |= fresh


def _dearest(
    price: Floats, cells: NDArray[np.intp], members: NDArray[np.intp], room: int
) -> tuple[float, frozenset[int]]:
    """The set of members whose prices sum to most within the room, a knapsack, and that sum."""
    members = members[(price[members] > 0) & (cells[members] <= room)]
    worth, taken = np.zeros(room + 1), np.zeros((len(members), room + 1), np.bool_)
    for index, tenant in enumerate(members):
        size = cells[tenant]
        more = worth[: room + 1 - size] + price[tenant]
        taken[index, size:] = more > worth[size:]
        worth[size:] = np.maximum(worth[size:], more)
    at, chosen = room, []
    for index in range(len(members) - 1, -1, -1):
        if taken[index, at]:
            chosen.append(int(members[index]))
            at -= int(cells[members[index]])
    return float(worth[room]), frozenset(chosen)


def cover(
    tenants: int,
    sets: Iterable[frozenset[int]],
    seconds: float = 20.0,
    workers: int = 1,
    start: Iterable[frozenset[int]] = (),
) -> Cover:
    """The fewest of these sets that contain every tenant. A tenant in two of them stays in one.

    ``start`` is a cover that is known: the answer is no worse.
    """
    require("study", "the best packing")
    from ortools.sat.python import cp_model  # noqa: PLC0415

    known = list(dict.fromkeys(sets))
    model = cp_model.CpModel()
    chosen = [model.new_bool_var(f"{index}") for index in range(len(known))]
    having: list[list[int]] = [[] for _ in range(tenants)]
    for index, one in enumerate(known):
        for tenant in one:
            having[tenant].append(index)
    for tenant, indices in enumerate(having):
        if not indices:
            raise ValueError(f"tenant {tenant} is in none of the sets")
        model.add_bool_or([chosen[index] for index in indices])
    model.minimize(sum(chosen))
    if first := set(start):
        for index, one in enumerate(known):
            model.add_hint(chosen[index], one in first)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise ValueError("no cover was found in time; give more seconds")
    seen: set[int] = set()
    found = []
    for index, one in enumerate(known):
        if solver.value(chosen[index]) and (left := one - seen):
            found.append(left)
            seen |= left
    return Cover(found, status == cp_model.OPTIMAL)


def caps_of(
    holds: Callable[[NDArray[np.intp], Floats, Floats], NDArray[np.bool_]], tenants: int, mixes: Floats, loads: Floats
) -> Floats:
    """The least load of the neighbours at which each tenant's SLO breaks under the mildest of these mixes, [tenants].

    ``holds`` says for tenants, neighbours [n, 27] as moments and the load of these, whether the SLO holds. ``mixes``
    [m, 27] are moments of workloads; each is scaled until the SLO breaks, by 12 halvings of the loads up to 2. The
    answer is at most 0.0005 too high: a cap that is too low would forbid packings that exist.
    """
    best = np.zeros(tenants)
    rows = np.arange(tenants)
    for mix, load in zip(mixes, loads, strict=True):
        low, high = np.zeros(tenants), np.full(tenants, 2.0)
        for _ in range(12):
            middle = (low + high) / 2
            good = holds(rows, mix[None, :] * (middle / load)[:, None], middle)
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        best = np.maximum(best, high)
    return best
