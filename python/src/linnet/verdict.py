# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the figures of policies say to an operator: scores, intervals, and what to deploy.

A cell is one run of an array at one device-wide share and one seed; it has a row of figures for each policy. Only what
can be deployed is recommended, with the way to do it, and only where the interval of its gain over modelled drives does
not reach into loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from linnet._native import Error
from linnet.experiment import LEARNED, ORACLE, Setup

WORTHWHILE = 0.10
"""A gain below a tenth does not justify another component."""
PREFERRED = 0.02
"""What costs less to run is taken if it is worse by at most this."""
FIGURES = ("mean_us", "p99_us", "p999_us")
Rows = dict[str, dict[str, Any]]
"""The row of each policy in one cell."""


class Way(NamedTuple):
    """How a policy is deployed."""

    place: str
    """``dm target`` or ``your software``."""
    command: str


DEPLOY = {
    "shortest-queue": Way("dm target", "linnet dm create VOLUME DRIVE... --policy shortest-queue"),
    "ewma-inflight": Way("dm target", "linnet dm create VOLUME DRIVE... --policy ewma-inflight"),
    "ewma-hedged": Way("dm target", "linnet dm create VOLUME DRIVE... --policy ewma-inflight --hedge 2"),
    "trees-only": Way(
        "dm target", "linnet fit -t LOG -o drive.linnet && linnet dm create VOLUME DRIVE... --model drive.linnet"
    ),
    "linnet-best": Way(
        "dm target",
        "linnet fit -t LOG -o drive.linnet && linnet dm create VOLUME DRIVE... --model drive.linnet --hedge 2",
    ),
    "md-raid1": Way("your software", "mdadm --create /dev/md0 --level=1 --raid-devices=N DRIVE..."),
    "dynamic-snitch": Way(
        "your software", "ALTER TABLE ... WITH speculative_retry = '99p' (Cassandra, with its snitch)"
    ),
    "hedge-p95": Way(
        "your software", "a second read after the 95th percentile: speculative_retry = '95p', gRPC hedgingPolicy"
    ),
}
"""What can be deployed, the least effort first. The dm target sends second copies only where ``--hedge`` asks for them:
its policy ``linnet-best`` without them is ``trees-only``."""
SHORTLIST = ("baseline", *DEPLOY, ORACLE)


def score(row: dict[str, Any], base: dict[str, Any]) -> float:
    """What a policy costs beside the baseline: the geometric mean of mean, p99 and p99.9, times the reads it sends."""
    ratios = [row[figure] / base[figure] for figure in FIGURES if base[figure]]
    sent = (1 + row["extra_io_share"]) / (1 + base["extra_io_share"])
    return float(np.exp(np.mean(np.log(ratios)))) * sent if ratios else 1.0


def false_share(row: dict[str, Any]) -> float | None:
    """The share of a row's revokes that are false; ``None`` without revokes, and where false ones are not counted.

    ``false_revoke`` of a row is their number divided by the reads, and a read may be revoked by all replicas but one.
    """
    if row["false_revoke"] is None or not row["revokes"]:
        return None
    return float(row["false_revoke"] * row["reads"] / row["revokes"])


def scores(cells: Sequence[Rows], name: str) -> list[float]:
    """The score of a policy in every cell."""
    return [score(cell[name], cell["baseline"]) for cell in cells]


def against(cells: Sequence[Rows], policy: str, other: str) -> list[float]:
    """The score of a policy over that of another one, in every cell."""
    return [a / b for a, b in zip(scores(cells, policy), scores(cells, other), strict=True)]


def mean_of(values: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


STUDENT = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
)
"""Student's t at 97.5 %, for 1, 2, 3, ... degrees of freedom."""


def interval(cells: Sequence[Rows], ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the geometric mean, by Student's t.

    Each seed has its own drives, and all have the same traces: the interval is over drives, not over loads. The drive's
    share is not known, so the spread over shares is part of it. The shares of one seed have one set of drives, so only
    seeds count as repetitions, and where shares hardly matter the spread is that of the seeds' means, which is larger
    than that of all cells. With one seed nothing is known: the interval is everything.
    """
    logs = np.log(ratios)
    of_seed: dict[int, list[float]] = {}
    for cell, log in zip(cells, logs, strict=True):
        of_seed.setdefault(cell["baseline"]["seed"], []).append(log)
    seeds = len(of_seed)
    if seeds == 1:
        return 0.0, math.inf
    freedom = seeds - 1
    # Beyond the table, an expansion that is exact to a thousandth.
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.37 / freedom + 2.82 / freedom**2
    spread = max(logs.std(ddof=1), np.std([np.mean(own) for own in of_seed.values()], ddof=1))
    half = student * spread / math.sqrt(seeds)
    return float(np.exp(logs.mean() - half)), float(np.exp(logs.mean() + half))


def ends(low: float, high: float) -> tuple[float | None, float | None]:
    """The interval of a gain, from that of a ratio; ``None`` where it is not known."""
    return (None, None) if math.isinf(high) else (1 - high, 1 - low)


def rank(cells: Sequence[Rows]) -> list[dict[str, Any]]:
    """What can be deployed, the lowest score first, as gains over the baseline."""
    found = []
    for name, way in DEPLOY.items():
        own = scores(cells, name)
        line: dict[str, Any] = {"policy": name, "place": way.place, "gain": 1 - mean_of(own)}
        line["low95"], line["high95"] = ends(*interval(cells, own))
        for figure in FIGURES:
            ratios = [cell[name][figure] / max(cell["baseline"][figure], 1e-9) for cell in cells]
            line[f"{figure.removesuffix('_us')}_ratio"] = mean_of(ratios)
        line["extra_io_share"] = float(np.mean([cell[name]["extra_io_share"] for cell in cells]))
        found.append(line)
    return sorted(found, key=lambda line: -line["gain"])


def weigh(share: float, cells: Sequence[Rows]) -> dict[str, Any]:
    """One row of the summary: the best policy without a model against the best one with a model, over all seeds."""
    simple = [name for name in DEPLOY if name not in LEARNED]
    learned = [name for name in DEPLOY if name in LEARNED]
    if not cells:
        raise Error("the summary needs a simple and a learned policy")
    plain, ours = (min(names, key=lambda name: mean_of(scores(cells, name))) for names in (simple, learned))

    def figure(policy: str, key: str) -> float:
        return mean_of([max(cell[policy][key], 1e-9) for cell in cells])

    def told(prefix: str, policy: str) -> dict[str, Any]:
        return {prefix: policy} | {f"{prefix}_{key}": figure(policy, key) for key in FIGURES}

    gains = against(cells, ours, plain)
    low, high = ends(*interval(cells, gains))
    return {
        "share": share,
        "baseline_p99_us": figure("baseline", "p99_us"),
        **told("simple", plain),
        **told("learned", ours),
        "oracle_p99_us": figure(ORACLE, "p99_us"),
        "headroom": headroom(cells),
        "gain_over_baseline": 1 - mean_of(scores(cells, ours)),
        "gain_over_simple": 1 - mean_of(gains),
        "gain_low95": low,
        "gain_high95": high,
    }


@dataclass(frozen=True)
class Finding:
    """What the figures say, before it is put into words."""

    says: Literal["nothing", "unsure", "model", "device", "simple"]
    """Nothing is worth installing; the traces do not tell; a model is; it depends on the device; a rule is enough."""
    chosen: dict[str, Any]
    """The policy that the answer is about: a line of :func:`rank`."""
    ours: dict[str, Any]
    """The best policy with a model."""
    over: str
    """The policy without a model that ``model`` is over."""
    model: dict[str, Any]
    """What ours gains over it, with the interval."""


def find(ranked: Sequence[dict[str, Any]], cells: Sequence[Rows], by_share: Sequence[float]) -> Finding:
    """The answer of the figures."""
    most = ranked[0]
    best = plain_of(ranked)
    cheap = next(line for name in DEPLOY for line in ranked if line["policy"] == name and near(line, best))
    ours = next(line for line in ranked if line["policy"] in LEARNED)
    ratios = against(cells, ours["policy"], cheap["policy"])
    low, high = interval(cells, ratios)
    model = dict(zip(("gain", "low95", "high95"), (1 - mean_of(ratios), *ends(low, high)), strict=True))

    def finding(says: Literal["nothing", "unsure", "model", "device", "simple"], line: dict[str, Any]) -> Finding:
        return Finding(says, line, ours, cheap["policy"], model)

    if most["gain"] < WORTHWHILE:
        # The oracle is greedy: it limits nothing where a policy is better.
        limited = most["gain"] <= oracle_gain(cells) < WORTHWHILE
        return finding("nothing" if limited or not unclear(most) else "unsure", most)
    over = against(cells, ours["policy"], best["policy"])
    beats = interval(cells, over)[1] < 1 and 1 - mean_of(over) >= WORTHWHILE
    chosen = ours if beats else cheap
    if unclear(chosen):
        return finding("unsure", chosen)
    return finding("model" if beats else "device" if max(by_share) >= WORTHWHILE else "simple", chosen)


def conclude(
    ranked: Sequence[dict[str, Any]],
    cells: Sequence[Rows],
    by_share: Sequence[float],
    setup: Setup,
    doubt: Sequence[str],
) -> tuple[str, str, dict[str, Any]]:
    """The headline, a text with reasons, and the recommendation.

    ``by_share`` is what a model gains over the best policy without one, at each share.
    """
    found = find(ranked, cells, by_share)
    line, name = found.chosen, found.chosen["policy"]
    headline = {
        "nothing": "Not worth installing here.",
        "unsure": "Not certain: these traces do not tell.",
        "model": f"Worth installing: {name} beats what can be deployed without a model.",
        "device": f"It depends on the device: begin with {name}.",
        "simple": f"A simple policy is enough: use {name}.",
    }[found.says]
    where = f"On {setup.replicas} x {setup.preset}"
    nothing = {"policy": None, "place": None, "command": None}
    if found.says == "nothing":
        text = (
            f"{where} the best rule that can be deployed, {name}, gains {gain_of(line)} on mean, p99 and p99.9, extra "
            "reads counted"
        )
        if (limit := oracle_gain(cells)) >= line["gain"]:
            text += f"; the oracle, which knows what every replica will answer, {percent(limit)}"
        text += "."
        return headline, f"{text} {sureness(doubt)}", nothing | sure(doubt)
    if found.says == "unsure":
        seeds = len({cell["baseline"]["seed"] for cell in cells})
        why = "one seed gives no interval" if seeds == 1 else "the 95 % interval of the gain reaches into loss"
        text = (
            f"{where} {name} gains {gain_of(line)} over reading each stream's own drive, on average, but may lose. "
            "The interval is over drives, under the load of these traces. What makes it narrower: longer traces, more "
            f"seeds (--seeds {min(4 * seeds, 1000)}), and --share where the drive's share is known."
        )
        doubted = [*doubt, why]
        return headline, f"{text} {sureness(doubted)}", nothing | sure(doubted)
    way = DEPLOY[name]
    text = (
        f"{where} {name} gains {gain_of(line)} over reading each stream's own drive: mean x {line['mean_ratio']:.2f}, "
        f"p99 x {line['p99_ratio']:.2f}, p99.9 x {line['p999_ratio']:.2f}, {percent(line['extra_io_share'])} extra "
        f"reads. The model ({found.ours['policy']}) gains {gain_of(found.model)} over {found.over}. Deploy it by: "
        f"{way.command} ({way.place}). {sureness(doubt)}"
    )
    recommendation = dict(line) | {"command": way.command, "model_policy": found.ours["policy"]}
    recommendation |= {f"model_{key}": value for key, value in found.model.items()}
    return headline, text, recommendation | sure(doubt)


def oracle_gain(cells: Sequence[Rows]) -> float:
    """What the oracle gains over the baseline."""
    return 1 - mean_of(scores(cells, ORACLE))


def headroom(cells: Sequence[Rows]) -> float:
    """What the best policy gains over the baseline: the oracle, which is greedy, or one that can be deployed."""
    return 1 - min(mean_of(scores(cells, name)) for name in (ORACLE, *DEPLOY))


def plain_of(ranked: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The best policy without a model."""
    return next(line for line in ranked if line["policy"] not in LEARNED)


def near(line: dict[str, Any], best: dict[str, Any]) -> bool:
    """Whether a policy without a model is about as good as the best of them."""
    return line["policy"] not in LEARNED and (1 - line["gain"]) <= (1 - best["gain"]) * (1 + PREFERRED)


def unclear(line: dict[str, Any]) -> bool:
    """Whether the 95 % interval of a gain, which one seed does not have, reaches from loss to what is worthwhile."""
    return line["low95"] is None or (line["low95"] <= 0 and line["high95"] >= WORTHWHILE)


def gain_of(line: dict[str, Any]) -> str:
    """A gain with its interval, where that is known."""
    within = "" if line["low95"] is None else f" ({percent(line['low95'])} to {percent(line['high95'])})"
    return f"{percent(line['gain'])}{within}"


def percent(share: float) -> str:
    """A share, rounded."""
    return f"{100 * share:.0f} %"


def sure(doubt: Sequence[str]) -> dict[str, Any]:
    """How sure the answer is, for programs."""
    return {"confidence": "high" if not doubt else "medium" if len(doubt) == 1 else "low", "doubts": list(doubt)}


def sureness(doubt: Sequence[str]) -> str:
    """How sure the answer is, in words."""
    level = sure(doubt)["confidence"]
    return f"Confidence: {level}" + (f", because {'; '.join(doubt)}." if doubt else ".")
