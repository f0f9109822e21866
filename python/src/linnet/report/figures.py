# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures of the report, as SVG text. The same numbers give the same bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import quantiles_ns
from linnet.extras import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from linnet.report.section import Section

STYLE: dict[str, tuple[str, str, float]] = {
    "baseline": ("#4d4d4d", "-", 1.8),
    "oracle": ("#000000", ":", 1.8),
    "linnos": ("#d95f02", "-", 1.6),
    "linnos+hl": ("#fb6a4a", "-", 1.8),
    "linnet-best": ("#b10026", "-", 2.6),
    "ewma-hedged": ("#e7298a", "-", 1.6),
    "linnos+h99": ("#fc8d62", "--", 1.3),
    "hedge-p95": ("#1f78b4", "-", 1.4),
    "hedge-ip": ("#6baed6", "--", 1.2),
    "clone": ("#9e9ac8", "--", 1.1),
    "random": ("#bdbdbd", "-", 1.1),
    "shortest-queue": ("#33a02c", "-", 1.3),
    "ewma-inflight": ("#006d2c", "--", 1.3),
    "c3": ("#74c476", "-.", 1.2),
    "heur-sim": ("#e7ba52", "--", 1.1),
    "heur-adv": ("#8c6d31", "-.", 1.2),
    "linnet+hl": ("#67000d", "--", 1.4),
}
"""Colour, dash and width of each policy."""
TAIL = [0.80, 0.90, 0.95, 0.99, 0.999, 0.9999]


def blank(width: float, height: float) -> Figure:
    """An empty figure, in inches. Matplotlib is loaded by the first: most commands draw nothing."""
    require("report", "a figure")
    from matplotlib import rcParams
    from matplotlib.figure import Figure

    rcParams.update(
        {
            "svg.hashsalt": "linnet",
            "svg.fonttype": "none",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "grid.alpha": 0.25,
            "grid.linewidth": 0.6,
        }
    )
    return Figure(figsize=(width, height), layout="constrained")


def svg(figure: Figure) -> str:
    """A figure as SVG text without a date in it."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def style(policy: str) -> dict[str, Any]:
    """How a policy's line is drawn."""
    colour, dash, width = STYLE.get(policy, ("#7f7f7f", "-", 1.0))
    return {"color": colour, "linestyle": dash, "linewidth": width}


def tail_axis(axes: Axes, reads: int) -> None:
    """Percentiles from p80 up on a log axis of what remains above them."""
    axes.set_xscale("function", functions=(lambda q: -np.log10(np.maximum(1 - q, 1e-9)), lambda v: 1 - 10.0**-v))
    shown = [q for q in TAIL if (1 - q) * reads >= 1 or q <= 0.99]
    axes.set_xlim(0.80, shown[-1] if len(shown) > 1 else 0.99)
    axes.set_xticks(shown, [f"p{100 * q:g}" for q in shown])
    axes.minorticks_off()


def tail(section: Section) -> str:
    """Read latency at every percentile from p80 up, a line for each policy."""
    figure = blank(6.4, 3.9)
    axes = figure.add_subplot()
    reads = max((len(v) for v in section.latency_ns.values()), default=0)
    points = 1 - np.logspace(np.log10(0.2), np.log10(max(1e-4, 1 / max(reads, 10))), 160)
    for policy, values in section.latency_ns.items():
        if len(values):
            axes.plot(points, _quantiles_us(values, points), label=policy, **style(policy))
    tail_axis(axes, reads)
    axes.set_yscale("log")
    axes.set_ylabel("read latency, µs")
    axes.legend(fontsize=7, ncols=2, frameon=False)
    return svg(figure)


def averages(section: Section) -> str:
    """Mean read latency of each policy, with the oracle's as the limit."""
    figure = blank(6.4, 3.4)
    axes = figure.add_subplot()
    names = [row["policy"] for row in section.rows]
    means = [row["mean_us"] for row in section.rows]
    colours = [STYLE.get(name, ("#7f7f7f", "", 0))[0] for name in names]
    places = list(range(len(names)))
    axes.bar(places, means, color=colours, width=0.7)
    for place, mean in zip(places, means, strict=True):
        axes.text(place, mean, f"{mean:,.0f}", ha="center", va="bottom", fontsize=7)
    limit = next((row["mean_us"] for row in section.rows if row["policy"] == "oracle"), None)
    if limit is not None:
        axes.axhline(limit, color="black", linestyle=":", linewidth=1)
        axes.text(-0.6, limit, "oracle", va="bottom", ha="left", fontsize=7)
    axes.set_xticks(places, names, rotation=35, ha="right")
    axes.set_ylabel("mean read latency, µs")
    axes.grid(axis="x", visible=False)
    return svg(figure)


def inflections(section: Section) -> str:
    """Each device's read latency distribution with its inflection point, above the boost curve it maximises."""
    own = section.own
    figure = blank(2.9 * max(3, len(own)), 4.2)
    grid = figure.subplots(2, len(own), squeeze=False, height_ratios=[2, 1])
    for above, below, (device, report) in zip(grid[0], grid[1], own.items(), strict=True):
        point = report["inflection"]
        _distribution(above, section.device_latency_ns[device], point)
        above.set_title(f"device {device}: p{point['percentile']:.1f} = {point['latency_us']:,.0f} µs", fontsize=9)
        boost = np.asarray(report["boost"], dtype=float)
        if len(boost):
            below.plot(boost[:, 0], boost[:, 2] / 1000, color="#d62728", linewidth=1.2)
        below.axvline(point["percentile"], color="#d62728", linestyle="--", linewidth=0.9)
        below.set_xlabel("candidate percentile")
    grid[0][0].set_ylabel("share of reads below")
    grid[1][0].set_ylabel("boost, µs saved")
    return svg(figure)


def _distribution(axes: Axes, values: NDArray[np.uint64], point: dict[str, Any]) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    shares = np.linspace(0.5, 0.9999, 400)
    axes.plot(_quantiles_us(values, shares), shares, color="#4d4d4d", linewidth=1.4)
    axes.axvline(point["latency_us"], color="#d62728", linestyle="--", linewidth=0.9)
    axes.axhline(point["percentile"] / 100, color="#d62728", linestyle="--", linewidth=0.9)
    axes.set_xscale("log")
    # Within a decade or so its own labels are too few, and those between decades are too long.
    least, most = quantiles_ns(values, [0.5, 0.9999])
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 30 * least else (1,)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.12g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("read latency, µs")


def _quantiles_us(values_ns: NDArray[np.uint64], shares: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.array(quantiles_ns(values_ns, shares.tolist())) / 1000
