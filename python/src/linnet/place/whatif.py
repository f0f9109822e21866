# SPDX-License-Identifier: MIT OR Apache-2.0
"""May this tenant go there, and who suffers: numbers, intervals, and the feature that does most of the harm.

The feature is found by ablation: the model is asked again with one property of those who do the harm taken away, and
the property without which most of the change disappears is named. For a drive's own tenants the newcomer does the harm;
for the newcomer its neighbours do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from linnet.place import moments
from linnet.place.allocate import Allocator
from linnet.place.confidence import VALUE_PERCENT, parts, stated, towards, undisturbed, unsized
from linnet.place.slo import Slo, Tenant, not_measured
from linnet.place.words import FEATURES, Drive, Interference, Prediction, Profile, why_not

SHOWN = ("read_latency_p99_us", "read_bandwidth_mean", "write_latency_p99_us", "write_bandwidth_mean")
"""What is shown of a tenant without SLOs: the first of these that is predicted for it and that the model knows."""
NOTICEABLE = 0.001
"""Changes below this share of the value are none."""


@dataclass(frozen=True)
class Effect:
    """One metric of one tenant, before and after."""

    tenant: str
    newcomer: bool
    metric: str
    before: Prediction
    """A newcomer's: alone on this drive."""
    after: Prediction
    limit: float | None
    """What the tenant was promised; nothing for a tenant without SLOs."""
    confidence_percent: int | None
    """How sure the promise is."""
    compared: float | None
    """What is predicted after at that confidence, which the limit is compared with."""
    broken: bool
    cause: str | None
    """The property that does most of the harm; nothing where there is none."""
    cause_share: float | None
    """Share of the change that disappears without this property, 0 to 1."""

    @property
    def change_percent(self) -> float:
        """How much worse it gets: a latency longer, a bandwidth lower; negative where it gets better."""
        if self.before.value == 0:
            return 0.0
        change = 100 * (self.after.value / self.before.value - 1)
        return -change if "_bandwidth_" in self.metric else change


@dataclass(frozen=True)
class WhatIf:
    """The answer: whether the tenant may go there, and what everybody would see."""

    tenant: str
    drive: str | None
    allowed: bool
    effects: list[Effect]
    reasons: list[str]

    def text(self) -> str:
        """In sentences, the worst first."""
        if self.drive is None:
            return f"No drive can take {self.tenant}. " + "; ".join(self.reasons) + "."
        verdict = "may" if self.allowed else "may not"
        lines = [f"{self.tenant} {verdict} go to {self.drive}."]
        lines += [f"  {reason}." for reason in self.reasons]
        for one in self.effects:
            unit, scale, name = "us", 1.0, one.metric.removesuffix("_us")
            if "_bandwidth_" in one.metric:
                unit, scale = "MB/s", 1e-6
            before, after, low, high = (
                f"{scale * value:,.0f}"
                for value in (one.before.value, one.after.value, one.after.low90, one.after.high90)
            )
            span = "" if one.after.unsized else f" [{low}, {high}]"
            worse = f"{abs(one.change_percent):.0f} % {'worse' if one.change_percent >= 0 else 'better'}"
            line = f"  {one.tenant}: {name} {before} -> {after} {unit}{span}, {worse}"
            if one.limit is not None:
                line += f", promised {scale * one.limit:,.0f}"
                if one.compared is not None and one.confidence_percent not in (None, VALUE_PERCENT):
                    line += f" and{stated(one.confidence_percent)} {scale * one.compared:,.0f}"
                line += f": {'BROKEN' if one.broken else 'kept'}"
            if one.cause is not None and one.cause_share is not None:
                line += f"; mostly by {one.cause} ({one.cause_share:.0%})"
            lines.append(line)
        return "\n".join(lines)


def _scaled(names: Sequence[str], factor: float) -> Callable[[Mapping[str, float]], dict[str, float]]:
    chosen = [name for name in FEATURES if any(part in name for part in names)]
    return lambda features: {k: v * (factor if k in chosen else 1.0) for k, v in features.items()}


def _without(op: str) -> Callable[[Mapping[str, float]], dict[str, float]]:
    return lambda features: {k: 0.0 if k.startswith(op) else v for k, v in features.items()}


def _aligned(features: Mapping[str, float]) -> dict[str, float]:
    """The same I/Os, sizes and offsets rounded to pages."""
    out = dict(features)
    for op in ("read", "write"):
        rates = [out.get(f"{op}_{side}_rate_mean", 0.0) for side in ("aligned", "unaligned")]
        sizes = [out.get(f"{op}_{side}_size_bytes_mean", 0.0) for side in ("aligned", "unaligned")]
        whole = -(-sizes[1] // 4096) * 4096
        if sum(rates):
            out[f"{op}_aligned_size_bytes_mean"] = (rates[0] * sizes[0] + rates[1] * whole) / sum(rates)
        out[f"{op}_aligned_rate_mean"] = sum(rates)
        for name in ("rate_std", "bandwidth_std"):
            parts = [out.get(f"{op}_{side}_{name}", 0.0) for side in ("aligned", "unaligned")]
            out[f"{op}_aligned_{name}"] = (parts[0] ** 2 + parts[1] ** 2) ** 0.5
        out[f"{op}_aligned_bandwidth_mean"] = sum(rates) * out.get(f"{op}_aligned_size_bytes_mean", 0.0)
        out[f"{op}_aligned_unaligned_ratio"] = 0.0
        for name in ("size_bytes_mean", "rate_mean", "rate_std", "bandwidth_mean", "bandwidth_std", "unaligned_ratio"):
            out[f"{op}_unaligned_{name}"] = 0.0
    return out


def _small(features: Mapping[str, float]) -> dict[str, float]:
    """The same number of I/Os, none larger than a page."""
    out = dict(features)
    for name in [n for n in features if n.endswith("_size_bytes_mean") and features[n] > 4096]:
        group, factor = name.removesuffix("_size_bytes_mean"), 4096 / features[name]
        out[name] = 4096.0
        for kind in ("bandwidth_mean", "bandwidth_std"):
            if f"{group}_{kind}" in out:
                out[f"{group}_{kind}"] *= factor
    return out


ABLATIONS: dict[str, Callable[[Mapping[str, float]], dict[str, float]]] = {
    "writes": _without("write"),
    "reads": _without("read"),
    "bursts": _scaled(("_std",), 0.0),
    "large I/Os": _small,
    "unaligned I/Os": _aligned,
    "random access": _scaled(("_random_ratio",), 0.0),
    "queue depth": lambda features: {**features, "depth": min(1.0, features.get("depth", 0.0))},
}
"""Properties, and the features without them."""


def ablate(profile: Profile, name: str) -> Profile:
    """A profile without one of the properties in ABLATIONS."""
    return Profile(profile.name, ABLATIONS[name](profile.features))


def what_if(allocator: Allocator, tenant: Tenant, drive: str | None = None) -> WhatIf:
    """Ask without changing anything. Without a drive, about the one that placement would choose."""
    cluster = allocator.cluster
    if tenant.profile is None:
        raise ValueError(f"tenant {tenant.id}: give a profile; nothing is known of what it would do to others")
    if cluster.has_tenant(tenant.id):
        raise ValueError(f"tenant {tenant.id}: it is placed already; give another id, or ask about moving it")
    reasons: list[str] = []
    if drive is None:
        decision = allocator.place(tenant)
        if decision.drive is None:
            return WhatIf(tenant.id, None, False, [], decision.reasons)
        allocator.remove(tenant.id)
        drive = decision.drive
    index = cluster.drive_index(drive)
    free = int(cluster.capacity[index] - cluster.used[index])
    if free < tenant.capacity_bytes:
        reasons.append(f"{drive} has {free} bytes free, and {tenant.capacity_bytes} are asked for")
    if cluster.staging[index]:
        reasons.append(f"{drive} is a staging drive, for tenants of unknown workload")
    there = [cluster.tenant(int(row)) for row in cluster.tenants_on(index)]
    effects, unpredicted = effects_on(allocator.checker.model, cluster.specs[index].drive, there, tenant)
    reasons += unpredicted
    load = allocator.load_with(tenant.profile, index)
    if said := allocator.too_much(tenant, index):
        reasons.append(said)
    # On an empty drive load_max does not count, as in placement.
    elif there and load > allocator.settings.load_max:
        reasons.append(
            f"{drive} would be asked for {load:.0%} of its time, more than {allocator.settings.load_max:.0%}"
        )
    if len(there) >= allocator.settings.tenants_max:
        reasons.append(f"{drive} has {len(there)} tenants, as many as it may have")
    allowed = not reasons and not any(one.broken for one in effects)
    return WhatIf(tenant.id, drive, allowed, effects, reasons)


def effects_on(
    model: Interference, drive: Drive, there: Sequence[Tenant], newcomer: Tenant
) -> tuple[list[Effect], list[str]]:
    """What a newcomer does to the tenants of a drive, and they to it, the largest change first.

    Also, in words, the promises of which the model cannot say whether they would hold: beside a tenant of unknown
    workload all of them, and no change is told.
    """
    assert newcomer.profile is not None
    everyone = [*there, newcomer]
    profiles = [one.profile or Profile(one.id, {}) for one in everyone]
    alone = _predict(model, [drive] * len(everyone), profiles, [()] * len(everyone))
    # The newcomer is the last of those beside a tenant of the drive. Tenants may share one profile.
    others = [[p for j, p in enumerate(profiles) if j != i] for i in range(len(profiles))]
    residents = [beside[:-1] for beside in others[:-1]]
    before = _predict(model, [drive] * len(there), profiles[:-1], residents) if there else []
    after = _predict(model, [drive] * len(everyone), profiles, others)
    if unknown := not_measured(there):
        after = [{} for _ in everyone]
    before = [*before, alone[-1]]
    chosen = [_shown(one, predicted) for one, predicted in zip(everyone, after, strict=True)]
    causes = _causes(model, drive, profiles, others, [before, after])
    found, unsure = [], []
    for index, tenant in enumerate(everyone):
        for metric, slo in chosen[index]:
            then, now = before[index][metric], after[index][metric]
            cause, share = causes[index].get(metric, (None, None))
            limit, sure, compared, broken = None, None, None, False
            if slo is not None:
                by_itself = alone[index].get(metric, then)
                limit, sure = slo.limit(by_itself.value), slo.confidence_percent
                compared = _compared(model, drive, slo, by_itself, now)
                broken = not (compared >= limit if slo.at_least else compared <= limit)
                if math.isnan(compared):
                    unsure.append(f"{tenant.id}: {metric} {unsized(slo.confidence_percent)}")
                    compared = None
            judged = limit, sure, compared, broken
            found.append(Effect(tenant.id, tenant is newcomer, metric, then, now, *judged, cause, share))
    why = unknown or why_not(model, drive, profiles)
    unpredicted = [
        f"{tenant.id}: {slo.metric} cannot be predicted on {drive.name}{why}"
        for tenant, profile, predicted in zip(everyone, profiles, after, strict=True)
        for slo in tenant.slos
        if slo.metric not in predicted and moments.uses(moments.row(profile), slo.metric)
    ]
    return sorted(found, key=lambda one: (-one.broken, -one.change_percent)), [*unpredicted, *unsure]


def _predict(
    model: Interference, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
) -> list[dict[str, Prediction]]:
    """What the model predicts; a metric that it answers by NaN, as of an operation that a tenant lacks, is left out."""
    return [
        {metric: one for metric, one in answer.items() if not math.isnan(one.value)}
        for answer in model.predict(drives, tenants, neighbours)
    ]


def _shown(tenant: Tenant, predicted: Mapping[str, Prediction]) -> list[tuple[str, Slo | None]]:
    promised: list[tuple[str, Slo | None]] = [(slo.metric, slo) for slo in tenant.slos if slo.metric in predicted]
    if promised or tenant.slos:
        return promised
    known: list[tuple[str, Slo | None]] = [(metric, None) for metric in SHOWN if metric in predicted]
    return known[:1]


def _compared(model: Interference, drive: Drive, slo: Slo, alone: Prediction, now: Prediction) -> float:
    """What is predicted at the confidence of an SLO."""
    both = (np.array([one.value, one.low90, one.high90]) for one in (alone, now))
    if slo.unsure_against_alone and undisturbed(*both):
        return alone.value
    part = parts(model, drive, slo.confidence_percent)[[model.metrics.index(slo.metric)]]
    return float(towards(np.array([now.value]), np.array([now.low90 if slo.at_least else now.high90]), part)[0])


def _causes(
    model: Interference,
    drive: Drive,
    profiles: Sequence[Profile],
    others: Sequence[Sequence[Profile]],
    seen: Sequence[Sequence[Mapping[str, Prediction]]],
) -> list[dict[str, tuple[str | None, float | None]]]:
    """For each tenant and metric the ablation that takes most of the change away, and its share of the change."""
    before, after = seen
    best: list[dict[str, tuple[str | None, float | None]]] = [{} for _ in profiles]
    for name in ABLATIONS:
        changed = []
        for index, beside in enumerate(others):
            kept = 0 if index == len(profiles) - 1 else len(beside) - 1
            changed.append([*beside[:kept], *(ablate(p, name) for p in beside[kept:])])
        found = _predict(model, [drive] * len(profiles), profiles, changed)
        for index, predicted in enumerate(found):
            for metric, now in after[index].items():
                then = before[index].get(metric)
                if then is None or metric not in predicted:
                    continue
                change = now.value - then.value
                worse = change < 0 if "_bandwidth_" in metric else change > 0
                if not worse or abs(change) < NOTICEABLE * abs(then.value):
                    continue
                share = min(1.0, (now.value - predicted[metric].value) / change)
                _, most = best[index].get(metric, (None, None))
                if share > 0 and (most is None or share > most):
                    best[index][metric] = (name, share)
    return best
