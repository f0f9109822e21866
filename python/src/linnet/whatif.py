# SPDX-License-Identifier: MIT OR Apache-2.0
"""Would Linnet help here? An answer from traces alone, with no device touched.

How predictable a device is depends on its device-wide share: how much of its internal work stalls the whole device at
once. No trace shows that share directly, so the answer is computed for several shares and seeds, and says so when it
depends on them. Only what an operator can deploy is recommended, with the way to do it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from linnet import _moved
from linnet._native import Array, Trace, fitted_to, presets, quantiles_ns
from linnet.calibration.calibrate import read_params
from linnet.caveats import FEW_READS, few_reads
from linnet.dm.table import HEDGE_KIB_MAX
from linnet.experiment import Experiment, Outcome, Setup, borrowings, overview
from linnet.progress import Progress
from linnet.streams import APART, together
from linnet.verdict import SHORTLIST, Rows, conclude, rank, weigh

__getattr__ = _moved.renamed(__name__)

SHARES = (0.25, 0.5, 0.75, 0.9)
"""Device-wide shares for which the answer is computed."""
SEEDS = 3
"""Seeds of each share, unless asked otherwise."""
ALIKE, FAR = 1.3, 2.0
"""Factors between quantiles of a preset and measured ones: below the first they are alike, above the second not."""
FLOODED = 0.01
"""Share of reads that time out on drives which are too slow for the traces."""


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
    if few := few_reads(reads):
        notes.append(few)
    if beyond := central.folded:
        notes.append(beyond)
    notes += borrowings(central.reports())
    if central.note:
        notes.append(central.note)
    drives = central.array.parameters()
    own_shares = {drive["device_wide_share"] for drive in drives.get("devices", [drives])}
    shares = shares_of(setup, min(own_shares))
    summary, cells = [], []
    for share in shares:
        own: list[Rows] = []
        for seed in apart(setup, seeds):
            if seed == setup.seed and own_shares == {share}:
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
    """The device-wide shares to try: the one that was asked for, or the preset's ``own`` where the fit includes it.

    It does where a fitted drive has no device-wide work: with another share it would be another drive.
    """
    if setup.device_wide_share is not None:
        return (setup.device_wide_share,)
    drives = [name.strip() for name in setup.preset.split(",")]
    included = all_fitted(setup.preset) and all(read_params(name)["device_wide_share"] == 0 for name in drives)
    return (own,) if included else SHARES


def all_fitted(drives: str) -> bool:
    """Whether each of the presets or parameter files, joined by commas, was fitted to a recorded drive."""
    return all(fitted_to(name.strip()) for name in drives.split(","))


def closest_preset(traces: Sequence[Trace], setup: Setup, progress: Progress | None) -> tuple[str, float | None, str]:
    """The preset to model the drives by: its name, the factor by which its latencies differ, and why it was chosen.

    Of the fitted presets the one with the most similar baseline latencies; a guessed one only if the fitted drives are
    too slow for these traces.
    """
    real = [t.read_latencies() for t in traces if t.has_latency]
    known = np.concatenate(real) if real and sum(map(len, real)) else None
    points = [0.50, 0.75, 0.90, 0.95, 0.99]
    distance: dict[str, float] = {}
    known_fitted = [name for name in presets() if fitted_to(name)]
    for name in (*known_fitted, *(name for name in presets() if name not in known_fitted)):
        streams = together(traces, setup.replicas).traces
        run = Array(name, setup.replicas, setup.seed, setup.device_wide_share).run(
            streams, "baseline", [], seed=setup.seed
        )
        if run.row()["extra_io_share"] > FLOODED:
            continue
        if known is None:
            why = (
                "was fitted to a recorded drive"
                if name in known_fitted
                else "is a guess; the fitted ones are too slow here"
            )
            return name, None, f"the traces have no latencies, so preset {name} is assumed, which {why}: try --preset"
        modelled, target = (quantiles_ns(latencies, points) for latencies in (run.latency_ns(), known))
        distance[name] = float(np.exp(np.mean(np.abs(np.log(np.maximum(modelled, 1) / np.maximum(target, 1))))))
    if not distance:
        return "enterprise-wide", None, "every preset is too slow for these traces: enterprise-wide is a guess"
    fitted = [name for name in known_fitted if name in distance]
    best = min(fitted or distance, key=lambda name: distance[name])
    nearest = min(distance, key=lambda name: distance[name])
    kind = "fitted to a recorded drive" if best in known_fitted else "a guess"
    note = (
        f"preset {best} ({kind}) is the most similar {'of the fitted ones' if fitted else 'one'}: its quantiles p50 to "
        f"p99 differ from the measured ones by a factor of {distance[best]:.1f} on average"
    )
    if nearest != best:
        note += f"; {nearest}, a guess, differs by {distance[nearest]:.1f}"
    if distance[best] > FAR:
        note += "; this is a large difference, so take the result as a trend and not as a forecast"
    return best, distance[best], note


def doubts(setup: Setup, factor: float | None, reads: int, cells: Sequence[Rows]) -> list[str]:
    """Why the answer may not hold on the real drives."""
    found = []
    if not all_fitted(setup.preset):
        found.append(f"{setup.preset} was not fitted to a recorded drive")
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
