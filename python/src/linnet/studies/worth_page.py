# SPDX-License-Identifier: MIT OR Apache-2.0
"""The page of ``linnet study worth``: the headline, the same by group, the best rules, and every loss."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from linnet.studies.worth import FRUGAL, LOST, WON, summary
from linnet.studies.worth_fair import fair
from linnet.whatif import all_fitted

NAMES = {"mean": "mean", "p99": "p99", "p999": "p99.9"}
Row = dict[str, Any]


def page_of(rows: Sequence[Row]) -> str:
    """The whole page in Markdown."""
    return "\n".join(
        [
            *counted(rows),
            "\n## Against the best of all rules, chosen in each cell after the fact\n",
            *headline(rows),
            f"\n## Against the best rule that sends at most {100 * FRUGAL:.1f} % of the reads twice\n",
            *headline([against(row, "frugal_rule_us") for row in rows]),
            "\n## Against one rule for all cells: ewma-hedged, which is linnet-best without its model\n",
            *headline([against(row, "ewma_hedged_us") for row in rows]),
            *rivals(rows),
            *with_expected(rows),
            "\n## By group, against the best of all rules\n",
            *by_group(rows),
            "\n## The best rule, by the number of cells\n",
            *best_rules(rows),
            "\n## Losses of more than 2 %\n",
            *losses(rows),
            "",
        ]
    )


def against(row: Row, rival: str) -> Row:
    """The row with the ratio to another rival."""
    return row | {"ratio": row["learned_us"] / row[rival] if row[rival] else 1.0}


def counted(rows: Sequence[Row]) -> Iterator[str]:
    """What the page rests on."""

    def values(key: str) -> list[Any]:
        return list(dict.fromkeys(row[key] for row in rows))

    def several(count: int, noun: str) -> str:
        return f"{count} {noun}" + "s" * (count != 1)

    seeds = sorted(values("seed"))
    cells = several(len(rows) // len(values("metric")), "cell")
    traces, arrays = several(len(values("trace")), "trace"), several(len(values("preset")), "array")
    yield (
        f"{cells}: {traces} on {arrays}, writes to {' and '.join(values('writes'))}, seeds {seeds[0]} to {seeds[-1]}. "
        "A ratio below 1 means that linnet-best is faster."
    )


def headline(rows: Sequence[Row]) -> Iterator[str]:
    """One line for each figure."""
    yield "| figure | cells | won by more than 5 % | lost by more than 2 % | ratio, geometric mean | 95 % interval |"
    yield "|---|---|---|---|---|---|"
    for line in summary(rows):
        yield (
            f"| {NAMES[line['metric']]} | {line['cells']} | {share(line['won_by_5'], line['cells'])} | "
            f"{share(line['lost_by_2'], line['cells'])} | {line['ratio_geomean']:.3f} | "
            f"{line['low95']:.3f} to {line['high95']:.3f} |"
        )


def with_expected(rows: Sequence[Row]) -> Iterator[str]:
    """linnet-expected against the best of all rules, ewma-hedged and linnet-best; nothing if no row has it."""
    own = [
        row | {"learned_us": row["expected_us"], "best_us": row["learned_us"]} for row in rows if "expected_us" in row
    ]
    if not own:
        return
    rivals = {"best_rule_us": "the best of all rules", "ewma_hedged_us": "ewma-hedged", "best_us": "linnet-best"}
    for rival, text in rivals.items():
        yield f"\n## linnet-expected, against {text}\n"
        yield from headline([against(row, rival) for row in own])
    yield "\n## linnet-expected by group, against linnet-best\n"
    yield from by_group([against(row, "best_us") | {"way": None} for row in own])


RIVALS = {
    "hindsight": "the best of its cell, after the fact",
    "combination": "the best on other seeds of the same trace, array and load",
    "single": "one rule, the best on other seeds of all other traces",
}


def rivals(rows: Sequence[Row]) -> Iterator[str]:
    """The same against rules chosen on one half of the seeds and judged on the other; nothing with one seed."""
    lines = fair(rows)
    if not lines:
        return
    yield "\n## Against rules chosen on one half of the seeds and judged on the other\n"
    yield "| rule | figure | cells | its latency over the best's | policy | that over its | 95 % interval | rules |"
    yield "|---|---|---|---|---|---|---|---|"
    for kind, text in RIVALS.items():
        for line in (line for line in lines if line["rival"] == kind):
            named = ", ".join(f"{name} {count}" for name, count in list(line["rules"].items())[:3])
            yield (
                f"| {text} | {NAMES[line['metric']]} | {line['cells']} | {line['hindsight_geomean']:.3f} | "
                f"{line['policy']} | {line['ratio_geomean']:.3f} | {line['low95']:.3f} to {line['high95']:.3f} | "
                f"{named} |"
            )


def share(part: int, whole: int) -> str:
    """A count and its share."""
    return f"{part} ({100 * part / whole:.0f} %)"


def kind_of(row: Row) -> str:
    """Which drives the array has."""
    names = row["preset"].split(",")
    if row["engine"] == "queued":
        return "queued engine" + (", mixed" if len(names) > 1 else "")
    kind = "fitted presets" if all_fitted(row["preset"]) else "guessed presets"
    return kind + (", mixed" if len(names) > 1 else "")


GROUPS: dict[str, Callable[[Row], str]] = {
    "drives": kind_of,
    "load": lambda row: str(row.get("load") or "as asked"),
    "arrivals": lambda row: "Table 1 workload" if row["trace"][2:] in ("-c", "-e") else "recorded trace",
}


def by_group(rows: Sequence[Row]) -> Iterator[str]:
    """The geometric mean, wins and losses of each group, and the median way from the best rule to the oracle."""
    yield (
        "| group | cells | "
        + " | ".join(f"{name}: ratio, won, lost" for name in NAMES.values())
        + " | way to the oracle |"
    )
    yield "|---|---|" + "---|" * (len(NAMES) + 1)
    for group in GROUPS.values():
        for name in sorted({group(row) for row in rows}):
            own = [row for row in rows if group(row) == name]
            lines = [f"{line['ratio_geomean']:.3f}, {line['won_by_5']}, {line['lost_by_2']}" for line in summary(own)]
            yield f"| {name} | {len(own) // len(lines)} | {' | '.join(lines)} | {ways(own)} |"


def ways(rows: Sequence[Row]) -> str:
    """Median share of the oracle's gain over the best rule that linnet-best has, at the mean, p99 and p99.9."""
    found = []
    for metric in dict.fromkeys(row["metric"] for row in rows):
        own = [row["way"] for row in rows if row["metric"] == metric and row["way"] is not None]
        found.append(f"{100 * float(np.median(own)):.0f} %" if own else "-")
    return ", ".join(found)


def best_rules(rows: Sequence[Row]) -> Iterator[str]:
    """How often each rule is the best one."""
    counts = {metric: Counter(row["best_rule"] for row in rows if row["metric"] == metric) for metric in NAMES}
    total: Counter[str] = sum(counts.values(), Counter())
    yield "| rule | " + " | ".join(NAMES.values()) + " |"
    yield "|---|" + "---|" * len(NAMES)
    for rule, _ in sorted(total.items(), key=lambda item: (-item[1], item[0])):
        yield f"| {rule} | " + " | ".join(str(counts[metric][rule]) for metric in NAMES) + " |"


def losses(rows: Sequence[Row]) -> Iterator[str]:
    """Every trace on every array where a seed is lost: how many seeds, the mean ratio and the worst, and to whom."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["trace"], row["preset"], row.get("load"), row["writes"], row["metric"]), []).append(row)
    lost = {key: own for key, own in groups.items() if any(row["ratio"] > LOST for row in own)}
    if not lost:
        yield "None."
        return
    yield "| trace | array | load | figure | seeds lost, won, all | mean ratio | worst | best rules | their extra I/O |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for (trace, preset, load, _, metric), own in sorted(lost.items(), key=lambda item: -mean_of(item[1])):
        ratios = [row["ratio"] for row in own]
        beaten = sum(ratio > LOST for ratio in ratios), sum(ratio < WON for ratio in ratios), len(own)
        rules = ", ".join(dict.fromkeys(row["best_rule"] for row in own if row["ratio"] > LOST))
        extra = max(row["best_rule_extra_io_share"] for row in own if row["ratio"] > LOST)
        yield (
            f"| {trace} | {preset} | {load or 'as asked'} | {NAMES[metric]} | {', '.join(map(str, beaten))} | "
            f"{mean_of(own):.3f} | {max(ratios):.3f} | {rules} | {100 * extra:.1f} % |"
        )


def mean_of(rows: Sequence[Row]) -> float:
    """Geometric mean of the ratios."""
    return float(np.exp(np.mean(np.log([row["ratio"] for row in rows]))))
