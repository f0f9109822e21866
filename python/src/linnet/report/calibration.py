# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figure of a calibration: modelled over measured saturation, and latency against load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from linnet.calibration.iocost import Level, Measured
from linnet.report.figures import blank, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def calibration_svg(
    measured: Measured, figures: Mapping[str, float], fitted: Sequence[str], rows: Sequence[Mapping[str, float]]
) -> str:
    """``figures`` are modelled, keys as measured; those in ``fitted`` were targets. ``rows`` is the modelled curve."""
    picture = blank(9.0, 3.6)
    left, right = picture.subplots(1, 2)
    names = list(measured.figures)
    ratios = [figures[name] / measured.figures[name] for name in names]
    left.bar(names, ratios, color=["#1f78b4" if name in fitted else "#bdbdbd" for name in names], width=0.7)
    for place, ratio in enumerate(ratios):
        left.text(place, ratio, f"{ratio:.2f}", ha="center", va="bottom", fontsize=7)
    left.axhline(1, color="black", linewidth=1)
    left.set_ylabel("modelled / measured (blue: fitted, grey: predicted)")
    left.set_xticks(range(len(names)), names, rotation=35, ha="right")
    left.grid(axis="x", visible=False)
    left.set_title(measured.drive, fontsize=9)
    if measured.levels:
        _latency(right, measured.levels, rows)
    else:
        right.set_axis_off()
    return svg(picture)


def _latency(axes: Axes, levels: Sequence[Level], rows: Sequence[Mapping[str, float]]) -> None:
    for key, colour in (("p50", "#1f78b4"), ("p99", "#d62728")):
        real = [getattr(level, key) for level in levels]
        axes.plot([level.vrate for level in levels], real, "o", markersize=3.5, color=colour, label=f"{key} measured")
        modelled = [row[f"{key}_us"] for row in rows]
        axes.plot([row["load"] for row in rows], modelled, "-", linewidth=1.4, color=colour, label=f"{key} modelled")
    axes.set_yscale("log")
    axes.set_xlabel("ceiling (measured) or load (modelled), % of the cost model")
    axes.set_ylabel("read latency, µs: median over seconds")
    axes.legend(fontsize=7, frameon=False)


def cells_svg(model: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Latency against load of a shared drive: points are measured (filled: fitted), lines modelled."""
    picture = blank(9.0, 3.6)
    first = [row for row in rows if row["drive"] == rows[0]["drive"]]
    for axes, op in zip(picture.subplots(1, 2), ("read", "write"), strict=True):
        for key, colour in (("p50", "#1f78b4"), ("p99", "#d62728"), ("p99_9", "#6a3d9a")):
            name = f"{op}_{key}_us"
            for seen, face in ((True, colour), (False, "none")):
                own = [row for row in first if row["fitted"] == seen]
                axes.plot(
                    [row["load"] for row in own],
                    [row[name]["measured"] for row in own],
                    "o",
                    markersize=4,
                    color=colour,
                    markerfacecolor=face,
                )
            modelled = [row[name]["modelled"] for row in first]
            axes.plot([row["load"] for row in first], modelled, "-", color=colour, label=key.replace("_", "."))
        axes.set_yscale("log")
        axes.set_xlabel("rate_iops of the tables")
        axes.set_ylabel(f"{op} latency, µs (points: measured, filled: fitted)")
        axes.set_title(model, fontsize=9)
        axes.legend(fontsize=7, frameon=False)
    return svg(picture)
