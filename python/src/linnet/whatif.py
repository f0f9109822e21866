# SPDX-License-Identifier: MIT OR Apache-2.0
"""Would Linnet help here? An answer from traces alone, with no device touched.

How predictable a device is depends on its device-wide share: how much of its internal work stalls the whole device at
once. No trace shows that share directly, so the answer is computed for several shares and seeds, and says so when it
depends on them. Only what an operator can deploy is recommended, with the way to do it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from linnet import _moved
from linnet._native import Array, Error, Trace, presets, quantiles_ns
from linnet.dm.table import HEDGE_KIB_MAX
from linnet.experiment import LEARNED, ORACLE, Experiment, Outcome, Setup, borrowings, overview
from linnet.progress import Progress
from linnet.streams import APART, together

__getattr__ = _moved.renamed(__name__)

SHARES = (0.25, 0.5, 0.75, 0.9)
"""Device-wide shares for which the answer is computed."""
SEEDS = 3
"""Seeds of each share, unless asked otherwise."""
WORTHWHILE = 0.10
"""A gain below a tenth does not justify another component."""
PREFERRED = 0.02
"""What costs less to run is taken if it is worse by at most this."""
FEW_READS = 10_000
"""Below this, p99.99 is the slowest read."""
FITTED = ("970-evo", "600p", "pe8110", "d7-p5520", "cm7-r", "7450-pro")
"""Presets that were fitted to recorded drives; the others are guesses."""
PACED = ("pe8110", "d7-p5520", "cm7-r", "7450-pro")
"""Fitted presets without device-wide work: their share is part of the fit, and other shares are other drives."""
ALIKE, FAR = 1.3, 2.0
"""Factors between quantiles of a preset and measured ones: below the first they are alike, above the second not."""
FLOODED = 0.01
"""Share of reads that time out on drives which are too slow for the traces."""
FIGURES = ("mean_us", "p99_us", "p999_us")


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


@dataclass(frozen=True)
class Verdict:
    """The answer and its reasons."""

    headline: str
    text: str
    notes: list[str]
    experiments: list[tuple[Experiment, list[Outcome]]]
    summary: list[dict[str, Any]]
    recommendation: dict[str, Any]
    """Policy, where it is deployed, the command, its gains with intervals, and how sure that is. Policy, place and
    command are ``None`` where nothing is worth installing, and where the traces do not tell."""
    candidates: list[dict[str, Any]]
    """Every policy that can be deployed, over all shares and seeds, the best first."""

    def as_dict(self) -> dict[str, Any]:
        """The verdict for programs."""
        return {
            "headline": self.headline,
            "text": self.text,
            "notes": self.notes,
            "recommendation": self.recommendation,
            "candidates": self.candidates,
            "summary": self.summary,
            "rows": [o.row for _, outcomes in self.experiments for o in outcomes],
            "parameters": [e.parameters() for e, _ in self.experiments],
        }


Rows = dict[str, dict[str, Any]]


def assess(traces: Sequence[Trace], setup: Setup, progress: Progress | None = None, seeds: int = SEEDS) -> Verdict:
    """Run an overview of policies on the preset most like the traces, and the short list at each share and seed.

    ``setup.preset`` may be empty. Then it is chosen among those that were fitted to recorded drives. Each policy is
    tested after it has run the training part, as on a system that runs. Policies of the dm target hedge what it does.
    """
    setup = replace(setup, continued=True, hedge_bytes_max=HEDGE_KIB_MAX << 10)
    notes: list[str] = []
    factor = None
    if not setup.preset:
        chosen, factor, note = closest_preset(traces, setup, progress)
        setup = replace(setup, preset=chosen)
        notes.append(note)
    central = Experiment(traces, setup, progress=progress)
    outcomes = central.compare([*overview(), *(name for name in SHORTLIST if name not in overview())])
    reads = outcomes[0].row["reads"]
    if reads < FEW_READS:
        notes.append(f"only {reads:,} reads are tested, so the highest percentiles depend on a handful of them")
    notes += borrowings(central.reports())
    if central.note:
        notes.append(central.note)
    shares = shares_of(setup, central.array.parameters()["device_wide_share"])
    summary, cells = [], []
    for share in shares:
        own: list[Rows] = []
        for seed in apart(setup, seeds):
            if seed == setup.seed and share == central.array.parameters()["device_wide_share"]:
                found = outcomes
            else:
                again = replace(setup, device_wide_share=share, seed=seed)
                found = Experiment(traces, again, progress=progress).compare(SHORTLIST)
            own.append({o.row["policy"]: o.row for o in found if o.row["policy"] in SHORTLIST})
        summary.append(weigh(share, own))
        cells += own
    ranked = rank(cells)
    doubt = doubts(setup, factor, reads, cells)
    if central.note:
        doubt.append(APART)
    by_share = [row["gain_over_simple"] for row in summary]
    headline, text, recommendation = conclude(ranked, cells, by_share, setup, doubt)
    notes += uncopied(traces, recommendation)
    return Verdict(headline, text, notes, [(central, outcomes)], summary, recommendation, ranked)


def apart(setup: Setup, seeds: int) -> Sequence[int]:
    """Seeds that have no drive in common: drive i of an array has the seed of the array plus i."""
    return range(setup.seed, setup.seed + seeds * setup.replicas, setup.replicas)


def shares_of(setup: Setup, own: float) -> Sequence[float]:
    """The device-wide shares to try: the one that was asked for, or the preset's ``own`` where the fit includes it."""
    if setup.device_wide_share is not None:
        return (setup.device_wide_share,)
    return (own,) if all(name.strip() in PACED for name in setup.preset.split(",")) else SHARES


def closest_preset(traces: Sequence[Trace], setup: Setup, progress: Progress | None) -> tuple[str, float | None, str]:
    """The preset to model the drives by: its name, the factor by which its latencies differ, and why it was chosen.

    Of the fitted presets the one with the most similar baseline latencies; a guessed one only if the fitted drives are
    too slow for these traces.
    """
    real = [t.read_latencies() for t in traces if t.has_latency]
    known = np.concatenate(real) if real and sum(map(len, real)) else None
    points = [0.50, 0.75, 0.90, 0.95, 0.99]
    distance: dict[str, float] = {}
    for name in (*FITTED, *(name for name in presets() if name not in FITTED)):
        streams = together(traces, setup.replicas).traces
        run = Array(name, setup.replicas, setup.seed, setup.device_wide_share).run(
            streams, "baseline", [], seed=setup.seed
        )
        if run.row()["extra_io_share"] > FLOODED:
            continue
        if known is None:
            why = (
                "was fitted to a recorded drive" if name in FITTED else "is a guess; the fitted ones are too slow here"
            )
            return name, None, f"the traces have no latencies, so preset {name} is assumed, which {why}: try --preset"
        modelled, target = (quantiles_ns(latencies, points) for latencies in (run.latency_ns(), known))
        distance[name] = float(np.exp(np.mean(np.abs(np.log(np.maximum(modelled, 1) / np.maximum(target, 1))))))
    if not distance:
        return "enterprise-wide", None, "every preset is too slow for these traces: enterprise-wide is a guess"
    fitted = [name for name in FITTED if name in distance]
    best = min(fitted or distance, key=lambda name: distance[name])
    nearest = min(distance, key=lambda name: distance[name])
    kind = "fitted to a recorded drive" if best in FITTED else "a guess"
    note = (
        f"preset {best} ({kind}) is the most similar {'of the fitted ones' if fitted else 'one'}: its quantiles p50 to "
        f"p99 differ from the measured ones by a factor of {distance[best]:.1f} on average"
    )
    if nearest != best:
        note += f"; {nearest}, a guess, differs by {distance[nearest]:.1f}"
    if distance[best] > FAR:
        note += "; this is a large difference, so take the result as a trend and not as a forecast"
    return best, distance[best], note


def score(row: dict[str, Any], base: dict[str, Any]) -> float:
    """What a policy costs beside the baseline: the geometric mean of mean, p99 and p99.9, times the reads it sends."""
    ratios = [row[figure] / base[figure] for figure in FIGURES if base[figure]]
    sent = (1 + row["extra_io_share"]) / (1 + base["extra_io_share"])
    return float(np.exp(np.mean(np.log(ratios)))) * sent if ratios else 1.0


def scores(cells: Sequence[Rows], name: str) -> list[float]:
    """The score of a policy in every cell."""
    return [score(cell[name], cell["baseline"]) for cell in cells]


def against(cells: Sequence[Rows], policy: str, other: str) -> list[float]:
    """The score of a policy over that of another one, in every cell."""
    return [a / b for a, b in zip(scores(cells, policy), scores(cells, other), strict=True)]


def mean_of(values: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(values))))


STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t at 97.5 %, for 1, 2, 3, ... degrees of freedom."""


def interval(cells: Sequence[Rows], ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the geometric mean, by Student's t.

    The drive's share is not known, so the spread over shares is part of it. The shares of one seed have one load, so
    only seeds count as repetitions. With one seed nothing is known: the interval is everything.
    """
    logs = np.log(ratios)
    seeds = len({cell["baseline"]["seed"] for cell in cells})
    if seeds == 1:
        return 0.0, math.inf
    freedom = seeds - 1
    # Beyond the table, an expansion that is exact to a thousandth.
    student = STUDENT[freedom - 1] if freedom <= len(STUDENT) else 1.96 + 2.37 / freedom + 2.82 / freedom**2
    half = student * logs.std(ddof=1) / math.sqrt(seeds)
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
        "headroom": 1 - mean_of(scores(cells, ORACLE)),
        "gain_over_baseline": 1 - mean_of(scores(cells, ours)),
        "gain_over_simple": 1 - mean_of(gains),
        "gain_low95": low,
        "gain_high95": high,
    }


def doubts(setup: Setup, factor: float | None, reads: int, cells: Sequence[Rows]) -> list[str]:
    """Why the answer may not hold on the real drives."""
    found = []
    if not all(name.strip() in FITTED for name in setup.preset.split(",")):
        found.append(f"{setup.preset} is no preset that was fitted to a recorded drive")
    if factor is None:
        found.append("the drives were not compared with measured latencies")
    elif factor > ALIKE:
        found.append(f"the modelled latencies differ from the measured ones by a factor of {factor:.1f}")
    if reads < FEW_READS:
        found.append("few reads were tested")
    # The shares of one seed have its drives and its traces.
    if len({cell["baseline"]["seed"] for cell in cells}) < SEEDS:
        found.append("few seeds were run")
    return found


def uncopied(traces: Sequence[Trace], recommendation: dict[str, Any]) -> list[str]:
    """A note if reads are too large for a second copy in the dm target, and in its policies on the modelled array."""
    if "--hedge" not in (recommendation["command"] or ""):
        return []
    columns = [trace.columns() for trace in traces]
    sizes = np.concatenate([one["size_bytes"][one["op"] == 0] for one in columns])
    large = int((sizes > HEDGE_KIB_MAX << 10).sum())
    if not large:
        return []
    return [
        f"{large:,} of {len(sizes):,} reads are larger than {HEDGE_KIB_MAX} KiB: the dm target sends no second copy of "
        "them, and none was counted"
    ]


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
    where = f"{setup.replicas} x {setup.preset}"
    headroom = 1 - mean_of(scores(cells, ORACLE))
    nothing = {"policy": None, "place": None, "command": None}
    most = ranked[0]
    if headroom < WORTHWHILE or (most["gain"] < WORTHWHILE and not unclear(most)):
        text = (
            f"On {where} the best rule that can be deployed, {most['policy']}, gains {gain_of(most)} on mean, p99 and "
            f"p99.9, extra reads counted; the oracle, which knows what every replica will answer, {percent(headroom)}."
        )
        return "Not worth installing here.", f"{text} {sureness(doubt)}", nothing | sure(doubt)

    def unsure(line: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
        seeds = len({cell["baseline"]["seed"] for cell in cells})
        why = "one seed gives no interval" if seeds == 1 else "the 95 % interval of the gain reaches into loss"
        text = (
            f"On {where} {line['policy']} gains {gain_of(line)} over reading each stream's own drive, on average, but "
            f"may lose. What makes the interval narrower: longer traces, more seeds (--seeds {min(4 * seeds, 1000)}), "
            "and --share where the drive's share is known."
        )
        doubted = [*doubt, why]
        return "Not certain: these traces do not tell.", f"{text} {sureness(doubted)}", nothing | sure(doubted)

    if most["gain"] < WORTHWHILE:
        return unsure(most)
    cheap = next(line for name in DEPLOY for line in ranked if line["policy"] == name and near(line, plain_of(ranked)))
    ours = next(line for line in ranked if line["policy"] in LEARNED)
    ratios = against(cells, ours["policy"], cheap["policy"])
    over = against(cells, ours["policy"], plain_of(ranked)["policy"])
    low, high = interval(cells, ratios)
    model = dict(zip(("gain", "low95", "high95"), (1 - mean_of(ratios), *ends(low, high)), strict=True))
    beside = f"{gain_of(model)} over {cheap['policy']}"
    if interval(cells, over)[1] < 1 and 1 - mean_of(over) >= WORTHWHILE:
        chosen, headline = ours, f"Worth installing: {ours['policy']} beats what can be deployed without a model."
    elif max(by_share) >= WORTHWHILE:
        chosen, headline = cheap, f"It depends on the device: begin with {cheap['policy']}."
    else:
        chosen, headline = cheap, f"A simple policy is enough: use {cheap['policy']}."
    if unclear(chosen):
        return unsure(chosen)
    way = DEPLOY[chosen["policy"]]
    text = (
        f"On {where} {chosen['policy']} gains {gain_of(chosen)} over reading each stream's own drive: mean x "
        f"{chosen['mean_ratio']:.2f}, p99 x {chosen['p99_ratio']:.2f}, p99.9 x {chosen['p999_ratio']:.2f}, "
        f"{percent(chosen['extra_io_share'])} extra reads. The model ({ours['policy']}) gains {beside}. Deploy it by: "
        f"{way.command} ({way.place}). {sureness(doubt)}"
    )
    recommendation = dict(chosen) | {"command": way.command, "model_policy": ours["policy"]}
    recommendation |= {f"model_{name}": value for name, value in model.items()}
    return headline, text, recommendation | sure(doubt)


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
