# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figure: what the dies and channels of a modelled drive did around a moment."""

from __future__ import annotations

from collections.abc import Sequence

from linnet.report.figures import blank, svg

Span = tuple[str, int, str, int, int]
"""Resource ("die" or "channel"), its number, what it did, from ns, until ns."""

COLOURS = ("#1f78b4", "#33a02c", "#d95f02", "#e7298a", "#7570b3", "#a6761d", "#666666", "#66c2a5", "#e6ab02", "#d62728")


def timeline_svg(spans: Sequence[Span], window: tuple[int, int], io: tuple[int, int]) -> str:
    """Draw ``spans`` within ``window``; ``io`` is the stretch of the I/O that is explained."""
    from matplotlib.patches import Patch

    origin = io[0]
    rows = sorted({(kind, number) for kind, number, *_ in spans})
    place = {row: i for i, row in enumerate(rows)}
    kinds = sorted({what for _, _, what, _, _ in spans})
    colour = {what: COLOURS[i % len(COLOURS)] for i, what in enumerate(kinds)}
    figure = blank(10, max(2.2, 0.09 * len(rows) + 1.2))
    axes = figure.add_subplot()
    for kind, number, what, start, end in spans:
        begin, stop = max(start, window[0]), min(end, window[1])
        axes.broken_barh(
            [((begin - origin) / 1000, (stop - begin) / 1000)],
            (place[kind, number] - 0.45, 0.9),
            facecolor=colour[what],
            linewidth=0,
        )
    axes.axvspan(0, (io[1] - io[0]) / 1000, color="#d62728", alpha=0.08)
    axes.set_xlim((window[0] - origin) / 1000, (window[1] - origin) / 1000)
    channels = sum(kind == "channel" for kind, _ in rows)
    ticks = [i for i, (kind, _) in enumerate(rows) if i in (0, channels, len(rows) - 1) or len(rows) <= 24]
    axes.set_yticks(ticks, [f"{rows[i][0]} {rows[i][1]}" for i in ticks], fontsize=7)
    axes.set_xlabel("µs since the I/O arrived (shaded: until its answer)")
    axes.grid(axis="y", visible=False)
    axes.legend(
        handles=[Patch(color=colour[what], label=what) for what in kinds],
        fontsize=7,
        ncols=max(1, len(kinds)),
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
    )
    return svg(figure)
