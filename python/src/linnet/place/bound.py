# SPDX-License-Identifier: MIT OR Apache-2.0
"""How few drives could do: a lower bound, and the best packing that a solver finds (OR-tools, CP-SAT).

The bound. A tenant that shares a drive keeps its SLO only while the drive's load stays below a cap of its own. The cap
is the largest load at which any mix of neighbours that was tried lets the SLO hold, so it is generous. Tenants are
rounded to classes, loads down and caps up, and an integer program counts drives by the tightest tenant of each: the
tenants of a drive fit below the cap of its tightest one. Every packing that the model allows is a solution of this
program, so its optimum is no more than the drives of the best packing, as far as the mixes tried are the mildest.

The packing. Sets of tenants that the model allows are collected from many packings in different orders, and the
smallest cover of all tenants by such sets is chosen. It is a packing that exists, not a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from linnet.extras import require
from linnet.place.moments import Floats

SCALE = 100_000
"""Loads as integers: CP-SAT knows no fractions."""


@dataclass(frozen=True)
class Cover:
    """The smallest cover that was found."""

    sets: list[frozenset[int]]
    proven: bool
    """No smaller one can be made of the sets that were given."""


def lower_bound(loads: Floats, caps: Floats, classes: int = 24, seconds: float = 20.0, workers: int = 1) -> int:
    """Fewest drives for tenants with these loads [n] and caps [n]: the load that a drive may have while one is there.

    A tenant whose load passes its own cap needs a drive of its own. The answer is what CP-SAT proves in ``seconds``.
    """
    require("place", "the bound of a packing")
    from ortools.sat.python import cp_model  # noqa: PLC0415

    single = loads >= caps
    lone = int(single.sum())
    loads, caps = loads[~single], caps[~single]
    if not len(loads):
        return lone
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
    return lone + int(np.ceil(solver.best_objective_bound - 1e-6))


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
    require("place", "the best packing")
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
    """The largest load of the neighbours at which each tenant's SLO holds under the mildest of these mixes, [tenants].

    ``holds`` says for tenants, neighbours [n, 27] as moments and the load of these, whether the SLO holds. ``mixes``
    [m, 27] are moments of workloads; each is scaled until the SLO breaks, by 12 halvings of the loads up to 2.
    """
    best = np.zeros(tenants)
    rows = np.arange(tenants)
    for mix, load in zip(mixes, loads, strict=True):
        low, high = np.zeros(tenants), np.full(tenants, 2.0)
        for _ in range(12):
            middle = (low + high) / 2
            good = holds(rows, mix[None, :] * (middle / load)[:, None], middle)
            low, high = np.where(good, middle, low), np.where(good, high, middle)
        best = np.maximum(best, low)
    return best
