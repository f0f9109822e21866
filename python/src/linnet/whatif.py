# SPDX-License-Identifier: MIT OR Apache-2.0
"""Would Linnet help here? An answer from traces alone, with no device touched.

How predictable a device is depends on its device-wide share: how much of its internal work stalls the whole device at
once. No trace shows that share directly, so the answer is computed for several shares, and says so when it depends on
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linnet import _moved
from linnet._native import Array, Error, Trace, presets
from linnet.experiment import LEARNED, Experiment, Outcome, Progress, Setup, overview, spread

__getattr__ = _moved.renamed(__name__)

SHARES = (0.25, 0.5, 0.75, 0.9)
"""Device-wide shares for which the answer is computed."""
SHORTLIST = ("baseline", "ewma-inflight", "c3", "hedge-p95", "hedge-ip", "linnos+hl", "linnet-best", "oracle")
WORTHWHILE = 0.10
"""A gain below a tenth does not justify another component."""
FEW_READS = 10_000
"""Below this, p99.99 is the slowest read."""


@dataclass(frozen=True)
class Verdict:
    """The answer and its reasons."""

    headline: str
    text: str
    notes: list[str]
    experiments: list[tuple[Experiment, list[Outcome]]]
    summary: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The verdict for programs."""
        return {
            "headline": self.headline,
            "text": self.text,
            "notes": self.notes,
            "summary": self.summary,
            "rows": [o.row for _, outcomes in self.experiments for o in outcomes],
            "parameters": [e.parameters() for e, _ in self.experiments],
        }


def assess(traces: Sequence[Trace], setup: Setup, progress: Progress | None = None) -> Verdict:
    """Run an overview of policies on the preset most like the traces, and the short list at each device-wide share.

    ``setup.preset`` may be empty. Then the preset with the most similar read latencies is used, or ``consumer-deep`` if
    the traces have no latencies.
    """
    notes: list[str] = []
    if not setup.preset:
        chosen, note = closest_preset(traces, setup, progress)
        setup = replace(setup, preset=chosen)
        notes.append(note)
    central = Experiment(traces, setup, progress=progress)
    outcomes = central.compare(overview())
    reads = outcomes[0].row["reads"]
    if reads < FEW_READS:
        notes.append(f"only {reads:,} reads are tested, so the highest percentiles depend on a handful of them")
    shares = SHARES if setup.device_wide_share is None else (setup.device_wide_share,)
    summary = []
    for share in shares:
        if share == central.array.parameters()["device_wide_share"]:
            short = [outcome for outcome in outcomes if outcome.row["policy"] in SHORTLIST]
        else:
            short = Experiment(traces, replace(setup, device_wide_share=share), progress=progress).compare(SHORTLIST)
        summary.append(weigh(share, short))
    headline, text = conclude(summary, setup)
    return Verdict(headline, text, notes, [(central, outcomes)], summary)


def closest_preset(traces: Sequence[Trace], setup: Setup, progress: Progress | None) -> tuple[str, str]:
    """The preset whose baseline read latencies are most similar to those of the traces, and how similar they are."""
    real = [t.read_latencies() for t in traces if t.has_latency]
    if not real or not sum(map(len, real)):
        return "consumer-deep", "the traces have no latencies, so the preset is a guess: try others with --preset"
    points = [50, 75, 90, 95, 99]
    target = np.percentile(np.concatenate(real), points)
    distance = {}
    for name in presets():
        streams = spread(traces, setup.replicas)
        run = Array(name, setup.replicas, setup.seed, setup.device_wide_share).run(
            streams, "baseline", [], seed=setup.seed
        )
        modelled = np.percentile(run.latency_ns(), points)
        distance[name] = float(np.exp(np.mean(np.abs(np.log(np.maximum(modelled, 1) / np.maximum(target, 1))))))
    best = min(distance, key=lambda name: distance[name])
    note = (
        f"preset {best} is most similar to these traces: its quantiles p50 to p99 differ from the measured ones by a "
        f"factor of {distance[best]:.1f} on average"
    )
    if distance[best] > 2:
        note += "; this is a large difference, so take the result as a trend and not as a forecast"
    return best, note


def weigh(share: float, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """One row of the summary: the best policy without a model against the best one with a model, by p99 and mean."""
    rows = {o.row["policy"]: o.row for o in outcomes}
    simple = [r for name, r in rows.items() if name not in LEARNED and name not in ("baseline", "oracle")]
    learned = [r for name, r in rows.items() if name in LEARNED]
    if not simple or not learned:
        raise Error("the summary needs a simple and a learned policy")

    def best(candidates: list[dict[str, Any]]) -> dict[str, Any]:
        return min(candidates, key=score)

    def score(row: dict[str, Any]) -> float:
        """Geometric mean of mean and p99, so that neither the average nor the tail decides alone."""
        return float(np.sqrt(row["mean_us"] * row["p99_us"]))

    base, limit = rows["baseline"], rows["oracle"]
    plain, ours = best(simple), best(learned)
    return {
        "share": share,
        "baseline_p99_us": base["p99_us"],
        "simple": plain["policy"],
        "simple_mean_us": plain["mean_us"],
        "simple_p99_us": plain["p99_us"],
        "learned": ours["policy"],
        "learned_mean_us": ours["mean_us"],
        "learned_p99_us": ours["p99_us"],
        "oracle_p99_us": limit["p99_us"],
        "headroom": 1 - score(limit) / score(base),
        "gain_over_baseline": 1 - score(ours) / score(base),
        "gain_over_simple": 1 - score(ours) / score(plain),
    }


def conclude(summary: Sequence[dict[str, Any]], setup: Setup) -> tuple[str, str]:
    """The headline and a sentence of reasons."""
    headroom = max(row["headroom"] for row in summary)
    gains = [row["gain_over_simple"] for row in summary]
    most = max(summary, key=lambda row: row["gain_over_simple"])
    where = f"{setup.replicas} x {setup.preset}"
    if headroom < WORTHWHILE:
        return (
            "Not worth installing here.",
            f"On {where} even the oracle, which knows what every replica will answer, improves the geometric mean of "
            f"mean and p99 latency by only {100 * headroom:.0f} %: these reads have no tail that another replica "
            "could cut.",
        )
    if min(gains) >= WORTHWHILE:
        return (
            f"Worth installing: {most['learned']} beats the best simple policy at every device-wide share.",
            f"On {where} it improves the geometric mean of mean and p99 latency by {100 * min(gains):.0f} to "
            f"{100 * max(gains):.0f} % over the best policy without a model.",
        )
    if max(gains) >= WORTHWHILE:
        return (
            "It depends on the device.",
            f"On {where} the policy with a model beats the best simple policy by {100 * max(gains):.0f} % when "
            f"{100 * most['share']:.0f} % of the drive's internal work blocks the whole drive, but not at every such "
            "share. Before you decide, fit a model on latencies measured on your own device and look at its ROC-AUC.",
        )
    simple = max(summary, key=lambda row: row["share"])["simple"]
    return (
        f"A simple policy is enough: use {simple}.",
        f"On {where} policies with a model gain at most {100 * max(*gains, 0):.0f} % over it; only perfect knowledge "
        "would gain more.",
    )
