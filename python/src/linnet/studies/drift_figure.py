# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figure: what happened to a model on a device that changes."""

from __future__ import annotations

from typing import Any

from linnet.report.figures import blank, svg

STYLE = {
    "once": ("#4d4d4d", "--", 1.4, "trained once"),
    "always": ("#1f78b4", "-", 1.2, "trained always, untested"),
    "drift": ("#b10026", "-", 2.2, "monitored"),
}
MARKS = {
    "alarm": ("v", "#e6ab02", "alarm"),
    "swapped": ("^", "#33a02c", "swapped in"),
    "rejected": ("x", "#7f7f7f", "rejected"),
    "rolled-back": ("s", "#d62728", "rolled back"),
}


def drift_svg(found: dict[str, Any]) -> str:
    """ROC-AUC and balanced accuracy over time, what happened between them, and where fast ends."""
    from matplotlib.lines import Line2D

    figure = blank(7.6, 6.2)
    area, balanced, events, point = figure.subplots(4, 1, sharex=True, height_ratios=[3, 3, 1, 1.6])
    chunks = found["chunks"]
    middle = [(chunk["from_s"] + chunk["until_s"]) / 2 for chunk in chunks]
    for axes, key, label in ((area, "roc_auc", "ROC-AUC"), (balanced, "balanced_accuracy", "balanced accuracy")):
        for name, (colour, dash, width, text) in STYLE.items():
            pairs = [(at, chunk[name][key]) for at, chunk in zip(middle, chunks, strict=True)]
            known = [(at, value) for at, value in pairs if value is not None]
            axes.plot(*zip(*known, strict=True), color=colour, linestyle=dash, linewidth=width, label=text)
        axes.set_ylabel(label)
        axes.axhline(0.5, color="black", linestyle=":", linewidth=0.8)
    area.legend(fontsize=7, ncols=3, frameon=False, loc="lower left", bbox_to_anchor=(0, 1.0))
    rows = list(MARKS)
    for what, (marker, colour, _) in MARKS.items():
        times = [one["at_s"] for one in found["happenings"] if one["what"] == what]
        events.plot(times, [rows.index(what)] * len(times), marker, color=colour, markersize=5, linestyle="none")
    events.set_yticks(range(len(rows)), [MARKS[what][2] for what in rows], fontsize=7)
    events.set_ylim(len(rows) - 0.5, -0.5)
    handles = [Line2D([], [], color="#7570b3", label="of these reads"), Line2D([], [], color="#b10026", label="served")]
    point.plot(middle, [chunk["inflection_us"] for chunk in chunks], color="#7570b3", linewidth=1.4)
    point.step(*served(found), where="post", color="#b10026", linewidth=1.4)
    point.set_yscale("log")
    point.set_ylabel("inflection, µs", fontsize=8)
    point.legend(handles=handles, fontsize=7, ncols=2, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.95))
    point.set_xlabel("seconds")
    return svg(figure)


def served(found: dict[str, Any]) -> tuple[list[float], list[float]]:
    """When which inflection point was served: a fit proposes one, a swap adopts it, a rollback returns."""
    times: list[float] = []
    points: list[float] = []
    proposed = before = 0.0
    for one in found["happenings"]:
        if one["what"] == "fitted":
            proposed = one["inflection_us"]
            if not points:
                times, points = [one["at_s"]], [proposed]
        elif one["what"] == "swapped":
            before = points[-1]
            times.append(one["at_s"])
            points.append(proposed)
        elif one["what"] == "rolled-back":
            times.append(one["at_s"])
            points.append(before)
    if points:
        times.append(found["chunks"][-1]["until_s"])
        points.append(points[-1])
    return times, points
