# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page and the figures of the sensitivity experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linnet.report.figures import blank, svg
from linnet.studies.interference_claims import CLAIMS, Rows, verdicts

TITLES = {
    3: "3: alignment of sizes, KiB",
    4: "4: rate of writes, thousand per second",
    5: "5: depth of writes",
    6: "6: operation",
    7: "7: order of writes",
    8: "8: alignment of offsets, size in KiB",
    9: "9: bursts",
    10: "10: deviation over mean of writes",
}
LINES = {"new": "-", "used": ":"}
COLOURS = ("#1f78b4", "#d95f02", "#33a02c")


def page_of(rows: Rows, figures: Sequence[str] = ()) -> str:
    """Verdicts, pictures, and what reads waited for, as Markdown."""
    found = verdicts(rows)
    settings = list(dict.fromkeys((one["state"], one["depths"]) for one in found))
    names = [state if depths == "total" else f"{state}, depths x8" for state, depths in settings]
    cells = {(one["figure"], one["drive"], one["paper"], one["state"], one["depths"]): one for one in found}
    lines = [f"| figure | drive | paper says | {' | '.join(names)} |", "|---|---|---|" + "---|" * len(names)]
    for claim in CLAIMS:
        own = [cells.get((claim.figure, claim.drive, claim.says, *setting)) for setting in settings]
        if any(own):
            texts = [f"{one['model']}: {'yes' if one['agrees'] else '**no**'}" if one else "" for one in own]
            lines.append(f"| {claim.figure} | {claim.drive} | {claim.says} | {' | '.join(texts)} |")
    lines += ["", *(f"![Loss of the reader in Figures 3 to 10]({name})\n" for name in figures)]
    lines += [f"| figure | drive | {' | '.join(names)} |", "|---|---|" + "---|" * len(names)]
    for figure, drive in dict.fromkeys((one["figure"], one["drive"]) for one in found):
        waits = {
            (one["state"], one["depths"]): one["waits"]
            for one in found
            if one["figure"] == figure and one["drive"] == drive
        }
        lines.append(f"| {figure} | {drive} | {' | '.join(waits.get(one, '') for one in settings)} |")
    return "\n".join(lines) + "\n"


def figure_of(rows: Rows, drive: str) -> str:
    """A panel for each of the paper's figures: loss of the reader in percent, a line for each series and state; depths
    are totals.
    """
    picture = blank(11.0, 5.4)
    own = [row for row in rows if (row["drive"], row["depths"]) == (drive, "total")]
    for axes, number in zip(picture.subplots(2, 4).flat, TITLES, strict=True):
        shown = [row for row in own if row["figure"] == number]
        axes.set_title(TITLES[number], fontsize=8)
        series = list(dict.fromkeys(row["series"] for row in shown))
        words = list(dict.fromkeys(row["x"] for row in shown if isinstance(row["x"], str)))
        for n, name in enumerate(series):
            for state, dash in LINES.items():
                line = [row for row in shown if (row["series"], row["state"]) == (name, state)]
                if line:
                    x = [words.index(row["x"]) if words else row["x"] / (1000 if number == 4 else 1) for row in line]
                    y = [row["loss_percent"] for row in line]
                    axes.plot(
                        *(x, y),
                        color=COLOURS[n],
                        marker="o",
                        markersize=4 if words else 2.5,
                        fillstyle="full" if state == "new" else "none",
                        linestyle="none" if words else dash,
                        linewidth=1.2,
                        label=f"{name}, {state}",
                    )
        if words:
            axes.set_xticks(range(len(words)), words)
            axes.set_xlim(-0.5, len(words) - 0.5)
        elif number in (3, 5, 8):
            axes.set_xscale("log", base=2)
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.tick_params(labelsize=7)
        if shown:
            axes.legend(fontsize=5.5, frameon=False)
    picture.supylabel("loss of bandwidth, %", fontsize=8)
    return svg(picture)


def summary(rows: Rows) -> dict[str, Any]:
    """Verdicts, and how many of them agree by state and meaning of the depths."""
    found = verdicts(rows)
    counts = []
    for state, depths in dict.fromkeys((one["state"], one["depths"]) for one in found):
        own = [one["agrees"] for one in found if (one["state"], one["depths"]) == (state, depths)]
        counts.append({"state": state, "depths": depths, "agree": sum(own), "claims": len(own)})
    return {"verdicts": found, "agree": counts}
