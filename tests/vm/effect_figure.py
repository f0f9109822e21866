# SPDX-License-Identifier: MIT OR Apache-2.0
"""Draw p99 and p99.9 of every policy on the raw device, by kernel and in virtual time, from files of effect_table.py.

    .venv/bin/python tests/vm/effect_figure.py RUN/dm-effect-6.1.json RUN/dm-effect.json -o docs/results/dm-effect.svg

Filled markers: in the machine. Hollow: the same model file, drives and load in virtual time, 100,000 reads. Small, at
p99: single rounds in the machine. Latencies are in the modelled drives' time.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from linnet.report.figures import blank, svg

TAILS = {"p99_us": "p99", "p999_us": "p99.9"}
KERNELS = (("#1f78b4", "o"), ("#b10026", "s"), ("#33a02c", "^"))
ONLY_VIRTUAL = ("linnet-best, hedged", "oracle")
APART = 0.2  # distance between kernels, as a share of a policy's height


def rows_of(run: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Results on the raw device and in virtual time, by policy."""
    measured = {row["policy"]: row for row in run["rows"] if row["where"] == "raw"}
    return measured, {row["policy"]: row for row in run["virtual"]}


def draw(runs: list[dict[str, Any]]) -> Any:
    """Two panels with common rows, one per policy."""
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    read = [rows_of(run) for run in runs]
    named = [name for measured, _ in read for name in measured]
    policies = [*dict.fromkeys(named), *(name for name in ONLY_VIRTUAL if any(name in virtual for _, virtual in read))]
    figure = blank(7.6, 4.2)
    panels = figure.subplots(1, len(TAILS), sharey=True)
    for axes, (key, label) in zip(panels, TAILS.items(), strict=True):
        for k, ((measured, virtual), (colour, marker)) in enumerate(zip(read, KERNELS, strict=False)):
            for place, policy in enumerate(policies):
                height = place + APART * (k - (len(runs) - 1) / 2)
                if policy in virtual:
                    axes.plot(virtual[policy][key], height, marker, mfc="white", mec=colour, markersize=6)
                if policy in measured:
                    rounds = measured[policy].get(f"{key}_by_round", [])
                    axes.plot(
                        rounds, [height] * len(rounds), "|", color=colour, markersize=7, linestyle="-", linewidth=0.8
                    )
                    axes.plot(measured[policy][key], height, marker, color=colour, markersize=5)
        axes.set_xscale("log")
        axes.set_xlim(60, 9000)
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.tick_params(axis="x", labelsize=8)
        axes.set_xlabel(f"{label} of read latency, µs")
    panels[0].set_yticks(range(len(policies)), policies)
    panels[0].set_ylim(len(policies) - 0.5, -0.5)
    handles = [
        Line2D([], [], color=colour, marker=marker, linestyle="none", label=f"Linux {run['kernel']}")
        for run, (colour, marker) in zip(runs, KERNELS, strict=False)
    ]
    handles.append(Line2D([], [], mfc="white", mec="#4d4d4d", marker="o", linestyle="none", label="virtual time"))
    handles.append(Line2D([], [], color="#4d4d4d", marker="|", linestyle="none", label="one round"))
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=8)
    return figure


def main() -> int:
    """Draw one figure of the given runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="dm-effect.json of a kernel")
    parser.add_argument("-o", "--out", type=Path, required=True, help="a figure, .svg or .png")
    args = parser.parse_args()
    if len(args.runs) > len(KERNELS):
        parser.error(f"at most {len(KERNELS)} runs")
    try:
        figure = draw([json.loads(path.read_text()) for path in args.runs])
    except (OSError, json.JSONDecodeError, KeyError) as error:
        print(f"effect_figure.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if args.out.suffix == ".svg":
        args.out.write_text(svg(figure))
    else:
        figure.savefig(args.out, dpi=130)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
