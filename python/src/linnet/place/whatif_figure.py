# SPDX-License-Identifier: MIT OR Apache-2.0
"""What-if as a picture: each tenant's metric before and after, its interval, and what it was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from linnet.place.allocate import Allocator
from linnet.place.whatif import Effect, WhatIf
from linnet.report.figures import blank, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TENANTS = ("#8dd3c7", "#ffed6f", "#bebada", "#fb8072", "#80b1d3", "#fdb462", "#b3de69", "#fccde5", "#d9d9d9", "#bc80bd")
NARROW = 0.045
"""Parts of a bar below this load have no room for a name."""
KEPT, BROKEN, BEFORE, PROMISE = "#1f78b4", "#b10026", "#7f7f7f", "#000000"


def draw(answer: WhatIf) -> str:
    """SVG text: latencies and bandwidths in panels of their own, one line for each tenant and metric."""
    panels = {
        "latency, µs": [one for one in answer.effects if "_latency_" in one.metric],
        "bandwidth, MB/s": [one for one in answer.effects if "_bandwidth_" in one.metric],
    }
    shown = {label: effects for label, effects in panels.items() if effects}
    lines = sum(len(effects) for effects in shown.values())
    figure = blank(8.6, 1.3 + 0.34 * max(lines, 1) + 0.6 * len(shown))
    verdict = "may" if answer.allowed else "may not"
    where = f"{verdict} go to {answer.drive}" if answer.drive is not None else "fits on no drive"
    figure.suptitle(f"{answer.tenant} {where}", fontsize=11, x=0.01, ha="left")
    if not shown:
        return svg(figure)
    heights = [len(effects) + 1.2 for effects in shown.values()]
    axes = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for panel, (label, effects) in zip(axes, shown.items(), strict=True):
        _panel(panel, label, effects)
    axes[0].legend(fontsize=7, ncols=4, frameon=False, loc="lower right", bbox_to_anchor=(1, 1))
    return svg(figure)


def _panel(axes: Axes, label: str, effects: list[Effect]) -> None:
    scale = 1e-6 if label.startswith("bandwidth") else 1.0
    names = []
    for line, one in enumerate(effects):
        colour = BROKEN if one.broken else KEPT
        low, value, high = (scale * x for x in (one.after.low90, one.after.value, one.after.high90))
        # Without an interval there is no bar.
        axes.plot([low, high], [line, line], color=colour, linewidth=5, alpha=0.25, solid_capstyle="butt")
        axes.plot(scale * one.before.value, line, "o", color="white", markeredgecolor=BEFORE, markersize=6)
        axes.plot(value, line, "o", color=colour, markersize=6)
        if one.limit is not None:
            axes.plot(scale * one.limit, line, "|", color=PROMISE, markersize=14, markeredgewidth=1.8)
        if one.cause is not None:
            end = value if one.after.unsized else high
            axes.annotate(f" by {one.cause}", (end, line), fontsize=7, va="center", color="#555555")
        who = f"{one.tenant} (new)" if one.newcomer else one.tenant
        names.append(f"{who}: {one.metric.removesuffix('_us')}")
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.margins(x=0.18)
    if not label.startswith("bandwidth"):
        axes.set_xscale("log")
    axes.set_xlabel(label)
    for text, style in (
        ("before", {"marker": "o", "color": "white", "markeredgecolor": BEFORE}),
        ("after, with 90 % interval", {"marker": "o", "color": KEPT}),
        ("promise broken", {"marker": "o", "color": BROKEN}),
        ("promise", {"marker": "|", "color": PROMISE, "markersize": 10}),
    ):
        axes.plot([], [], linestyle="none", label=text, **style)


def draw_cluster(allocator: Allocator) -> str:
    """Each drive's load as a bar, a part for each tenant; SVG text."""
    cluster = allocator.cluster
    drives = np.flatnonzero(cluster.open)
    figure = blank(8.6, 1.0 + 0.42 * len(drives))
    axes = figure.add_subplot()
    kinds = sorted({cluster.profile(int(row)).name for drive in drives for row in cluster.tenants_on(int(drive))})
    colours = {name: TENANTS[index % len(TENANTS)] for index, name in enumerate(kinds)}
    for line, drive in enumerate(drives):
        left = 0.0
        for row in cluster.tenants_on(int(drive)):
            tenant = cluster.tenant(int(row))
            load = float(allocator.loads_of(int(row))[cluster.kind[drive]])
            colour = colours[cluster.profile(int(row)).name]
            axes.barh(line, 100 * load, left=100 * left, color=colour, edgecolor="white", height=0.7)
            if load > NARROW:
                axes.text(100 * (left + load / 2), line, tenant.id, ha="center", va="center", fontsize=6.5)
            left += load
        axes.text(100 * left, line, f"  {cluster.count[drive]} tenants", va="center", fontsize=7, color="#555555")
    axes.set_yticks(range(len(drives)), [cluster.specs[int(d)].drive.name for d in drives])
    axes.set_ylim(len(drives) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.set_xlabel("share of the drive's time that its tenants ask for, %, by its data sheet")
    axes.grid(axis="y", visible=False)
    handles = [axes.barh(0, 0, color=colours[name]) for name in kinds]
    axes.legend(handles, kinds, fontsize=7, ncols=5, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return svg(figure)
