# SPDX-License-Identifier: MIT OR Apache-2.0
"""What section 3 of the gray-box paper states about Figures 3 to 10, each beside what the modelled drives show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from linnet.studies.interference import spread_explains

Rows = Sequence[dict[str, Any]]
NEAR = 5.0
"""Percentage points by which a figure of the model may miss the paper's approximate one."""
CORRELATED = 0.7
"""Least size of what the paper calls a strong correlation."""


@dataclass(frozen=True)
class Claim:
    """A statement, and how rows of its figure, drive and state are held against it."""

    figure: int
    drive: str
    says: str
    judge: Callable[[Rows], tuple[str, bool]]


def losses(rows: Rows, series: str | None = None) -> dict[Any, float]:
    """Loss by x, of one series."""
    return {row["x"]: row["loss_percent"] for row in rows if series in (None, row["series"])}


def deltas(rows: Rows, a: str, b: str) -> list[float]:
    """Loss in series ``a`` less that in series ``b``, by rising x."""
    first, second = losses(rows, a), losses(rows, b)
    return [first[x] - second[x] for x in sorted(first)]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def _first_delta(a: str, b: str, wanted: float) -> Callable[[Rows], tuple[str, bool]]:
    def judge(rows: Rows) -> tuple[str, bool]:
        found = deltas(rows, a, b)[0]
        return f"{found:.1f}", abs(found - wanted) <= NEAR

    return judge


def _falls(rows: Rows) -> tuple[str, bool]:
    found = deltas(rows, "unaligned", "aligned")
    falls = found[0] > 1.0 and found[-1] <= found[0] / 2 and all(b <= a + 1.0 for a, b in pairwise(found))
    return _listed(found), falls


def _none(rows: Rows) -> tuple[str, bool]:
    found = deltas(rows, "unaligned", "aligned")
    return _listed(found), max(map(abs, found)) <= NEAR


def _from_to(low: float, high: float) -> Callable[[Rows], tuple[str, bool]]:
    def judge(rows: Rows) -> tuple[str, bool]:
        found = [loss for _, loss in sorted(losses(rows).items())]
        return _listed(found), abs(found[0] - low) <= NEAR and abs(found[-1] - high) <= NEAR

    return judge


def _rises(rows: Rows) -> tuple[str, bool]:
    found = [loss for _, loss in sorted(losses(rows).items())]
    return _listed(found), found[-1] > found[0] + NEAR and all(b >= a - 1.0 for a, b in pairwise(found))


def _flat(low: float, high: float) -> Callable[[Rows], tuple[str, bool]]:
    def judge(rows: Rows) -> tuple[str, bool]:
        found = [loss for x, loss in sorted(losses(rows).items()) if low <= x <= high]
        return _listed(found), max(found) - min(found) <= NEAR

    return judge


def _categories(a: str, b: str, wanted: float) -> Callable[[Rows], tuple[str, bool]]:
    def judge(rows: Rows) -> tuple[str, bool]:
        found = losses(rows)
        return f"{found[a] - found[b]:.1f}", abs(found[a] - found[b] - wanted) <= NEAR

    return judge


def _order(series: str, wanted: float | None) -> Callable[[Rows], tuple[str, bool]]:
    def judge(rows: Rows) -> tuple[str, bool]:
        found = losses(rows, series)
        delta = found["random"] - found["sequential"]
        return f"{delta:.1f}", abs(delta) <= NEAR if wanted is None else abs(abs(delta) - wanted) <= NEAR

    return judge


def _sequential_suffers_less(rows: Rows) -> tuple[str, bool]:
    pairs = [(losses(rows, f"{order} reads")) for order in ("sequential", "random")]
    shown = "; ".join(f"{order} writes {pairs[0][order]:.1f} < {pairs[1][order]:.1f}" for order in pairs[0])
    return shown, all(pairs[0][order] < pairs[1][order] - 1.0 for order in pairs[0])


def _correlates(rows: Rows) -> tuple[str, bool]:
    found = spread_explains(rows)
    shown = (
        f"correlation {found['correlation_std']:.2f}; R2 of the mean {found['r2_mean']:.2f}, "
        f"with the deviation {found['r2_mean_and_std']:.2f}"
    )
    return shown, found["correlation_std"] <= -CORRELATED


CLAIMS = (
    Claim(3, "nvme", "unaligned sizes cost about 20 points more at 6 KiB", _first_delta("unaligned", "aligned", 20)),
    Claim(3, "nvme", "that difference falls as sizes grow", _falls),
    Claim(3, "sata", "no significant difference at any size", _none),
    Claim(4, "nvme", "loss rises from 0 to about 30 % with the rate", _from_to(0, 30)),
    Claim(4, "nvme", "similar loss from 314,000 to 524,000 I/Os per second", _flat(3.1e5, 5.3e5)),
    Claim(4, "sata", "the same holds: loss rises with the rate", _rises),
    Claim(5, "nvme", "loss rises from 0 to about 30 % with the depth", _from_to(0, 30)),
    Claim(5, "nvme", "similar loss at depths 64 to 256", _flat(64, 256)),
    Claim(5, "nvme", "similar loss at depths 8,192 and 16,384", _flat(8192, 16_384)),
    Claim(5, "sata", "the same holds: loss rises with the depth", _rises),
    Claim(6, "nvme", "writes cost about 30 points more than reads", _categories("write", "read", 30)),
    Claim(6, "sata", "writes cost about 10 points more than reads", _categories("write", "read", 10)),
    Claim(7, "nvme", "random and sequential writes within 5 points, random reads", _order("random reads", None)),
    Claim(7, "nvme", "the same for sequential reads", _order("sequential reads", None)),
    Claim(7, "sata", "random and sequential writes about 20 points apart, random reads", _order("random reads", 20)),
    Claim(7, "sata", "by about 10 points, sequential reads", _order("sequential reads", 10)),
    Claim(7, "sata", "sequential reads suffer less than random ones", _sequential_suffers_less),
    Claim(8, "sata", "unaligned offsets cost about 10 points more at 4 KiB", _first_delta("unaligned", "aligned", 10)),
    Claim(8, "sata", "that difference falls as sizes grow", _falls),
    Claim(8, "nvme", "the same holds: the difference falls as sizes grow", _falls),
    Claim(9, "nvme", "bursts cost about 25 points more than a uniform rate", _categories("bursty", "uniform", 25)),
    Claim(9, "sata", "the same holds: about 25 points", _categories("bursty", "uniform", 25)),
    Claim(10, "nvme", "the reader's bandwidth correlates strongly with the standard deviation", _correlates),
    Claim(10, "sata", "the same holds", _correlates),
)
"""The paper's text; a Figure that it discusses for one drive only is said to hold for the other."""


def waited(rows: Rows, most: int = 2) -> str:
    """What made reads wait longer beside the neighbour than alone, in the run of the largest loss."""
    worst = max(rows, key=lambda row: row["loss_percent"])
    more = sorted(worst["waits_us"].items(), key=lambda pair: -pair[1])
    parts = [f"{name} {us:,.0f}" for name, us in more[:most] if us >= 1.0]
    return ", ".join(parts) or "nothing above 1 us"


def verdicts(rows: Rows) -> list[dict[str, Any]]:
    """A row for each claim and setting (state of the drive, meaning of the depths) that the rows can answer."""
    found = []
    settings = list(dict.fromkeys((row["state"], row["depths"]) for row in rows))
    for claim in CLAIMS:
        for state, depths in settings:
            wanted = (claim.figure, claim.drive, state, depths)
            own = [row for row in rows if (row["figure"], row["drive"], row["state"], row["depths"]) == wanted]
            if own:
                shown, agrees = claim.judge(own)
                found.append(
                    {
                        **{"figure": claim.figure, "drive": claim.drive, "state": state, "depths": depths},
                        **{"paper": claim.says, "model": shown, "agrees": agrees, "waits": waited(own)},
                    }
                )
    return found
