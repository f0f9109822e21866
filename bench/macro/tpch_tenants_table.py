# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured and predicted slowdown of the queries of tpch_tenants.py: the table, and the figure.

    linnet place label --drive sata --peak 1.6e9 --tenants 2-6 --runs 2000 --seconds 0.5 --warm-seconds 0.2 -o s.parquet
    .venv/bin/python bench/macro/tpch_tenants_table.py runs.json s.parquet [--warm-seconds 0.2] [--figure FILE.svg]

Forests learn from co-location runs on the same modelled drive, of synthetic tenants; none has seen a query. A query is
asked about by the profile of its I/Os alone, its neighbours by what `linnet place profile` makes of their job file,
with the depth that they had alone. The answer is a mean latency of reads, beside the neighbours and alone.

From latency to time: a query reads what it reads alone, with as much readahead. So its time in reads, R, in which at
least one read is outstanding, grows as the mean latency does, and the rest of its time T stays:
T' = T - R + R * latency beside / latency alone. Both latencies are the model's, as for SLOs. A query that takes S times
as long offers 1/S of the I/Os per second. So S is sought for which the model, asked about a query that offers 1/S, says
S (`closed`); asked about what the query offers alone, it says what would happen if it never slowed down (`open`).

Two columns are no predictions. `measured latency` is the same step with the latencies that were measured: what is left
is the step's own error. `replay` has latencies of the recorded I/Os, alone and beside, on the drive's model in virtual
time: what a model of interference that knows the drive would say.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from linnet import _native
from linnet._native import SharedDrive, Trace
from linnet.place import moments
from linnet.place.words import FEATURES, METRICS
from linnet.report.figures import blank, svg
from linnet.studies.colocation import Seen, plain, plain_means, predict

JOBS = Path(__file__).with_name("tpch_tenants.fio")
MODELS = ("weighted mean", "gray-box", "linnet")
LATENCY = METRICS.index("read_latency_mean_us")
DEPTH = FEATURES.index("depth")
PAGE = 4096
OFFERED = [i for i, name in enumerate(FEATURES) if "_rate_" in name or "_bandwidth_" in name or name == "depth"]
BANDWIDTHS = [i for i, name in enumerate(METRICS) if "bandwidth" in name]
SLOWDOWNS = np.array([1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0])


def labels(path: Path, drive: str) -> Seen:
    """The tenants of a table of `linnet place label`, and each workload once more as it is alone."""
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path).to_pydict()

    def columns(prefix: str, names: tuple[str, ...]) -> Any:
        return np.column_stack([np.asarray(table[f"{prefix}{name}"], float) for name in names])

    run, workload = np.asarray(table["run"], np.intp), np.asarray(table["workload"], np.intp)
    own, alone = columns("tenant_", FEATURES), columns("alone_", METRICS)
    blind = plain(own)
    means = np.empty_like(blind)
    for each in np.unique(run):
        rows = np.flatnonzero(run == each)
        means[rows] = plain_means(blind[rows], 1.0 - np.eye(len(rows)))
    _, first = np.unique(workload, return_index=True)
    together = Seen(
        *(drive, own, columns("others_", FEATURES), blind, means, alone, columns("", METRICS), run, workload),
        np.asarray(table["tenants"], np.intp),
    )
    return joined(together, alone_rows(together, first))


def alone_rows(rows: Seen, chosen: Any) -> Seen:
    """These rows without neighbours."""
    none = np.zeros_like(rows.others[chosen])
    parts = (rows.own[chosen], none, rows.plain_own[chosen], np.zeros_like(rows.plain_others[chosen]))
    ones = np.ones(len(chosen), np.intp)
    return Seen(rows.drive, *parts, rows.alone[chosen], rows.alone[chosen], -ones, rows.workload[chosen], ones)


def joined(a: Seen, b: Seen) -> Seen:
    """The rows of both."""
    names = [name for name in vars(a) if name != "drive"]
    return Seen(a.drive, *(np.concatenate([getattr(a, name), getattr(b, name)]) for name in names))


def medians(runs: list[dict[str, Any]], setting: str, query: str) -> dict[str, Any]:
    """Medians over the rounds of a query's runs: of numbers, and of each element of lists."""
    mine = [run for run in runs if run["setting"] == setting and run["query"] == query]
    found = {}
    for key in ("seconds", "reading_s", "metrics", "features", "ios", "load_average"):
        found[key] = np.median(np.array([run[key] for run in mine], float), axis=0)
    found["spread"] = (max(run["seconds"] for run in mine) / min(run["seconds"] for run in mine) - 1) / 2
    return found


def asked(found: dict[str, Any], queries: list[str], counts: list[int]) -> Seen:
    """Each query alone, then beside the first n tenants, for each n, as slow as each of SLOWDOWNS."""
    profiles = _native.declared_profiles(JOBS, JOBS.read_text())
    declared = np.array([profile.features for _, profile in profiles])
    # Labels have the depth that a workload had alone; a job file has the most that it may have.
    declared[:, DEPTH] = [found["tenants"][name]["features"][DEPTH] for name, _ in profiles]
    rows = []
    blinded = plain(declared)
    nobody = np.zeros(len(FEATURES)), np.zeros(blinded.shape[1])
    first = plain_means(blinded, np.array([np.arange(len(declared)) < n for n in counts], float))
    sets = {n: (_native.aggregate_features(declared[:n]), means) for n, means in zip(counts, first, strict=True)}
    for query in queries:
        alone = medians(found["runs"], "alone", query)
        for others, means, slowdown in [(*nobody, 1.0), *((*sets[n], s) for n in counts for s in SLOWDOWNS)]:
            own, metrics = alone["features"].copy(), alone["metrics"].copy()
            own[OFFERED] /= slowdown
            metrics[BANDWIDTHS] /= slowdown
            rows.append((own, others, plain(own[None])[0], means, metrics))
    own, others, blind, means, metrics = (np.array(column) for column in zip(*rows, strict=True))
    number = np.arange(len(rows))
    return Seen(found["drive"], own, others, blind, means, metrics, metrics, -2 - number, -2 - number, number * 0)


def predicted(found: dict[str, Any], known: Seen, queries: list[str], counts: list[int]) -> dict[str, Any]:
    """Ratio of the mean latency of reads beside the tenants to that alone, by model: [queries, counts, SLOWDOWNS]."""
    new = asked(found, queries, counts)
    both = joined(known, new)
    reading = known.own[:, moments.RATE][:, :2].sum(axis=1) > 0
    reads = np.flatnonzero(reading & np.isfinite(known.metrics[:, LATENCY]))
    tried = len(known.run) + np.arange(len(new.run))
    answers = {}
    for model in MODELS:
        values = predict(model, both, LATENCY, reads, tried).reshape(len(queries), -1)
        answers[model] = (values[:, 1:] / values[:, :1]).reshape(len(queries), len(counts), len(SLOWDOWNS))
    return answers


def step(share: float, ratio: float) -> float:
    """Slowdown of a query with this share of its time in reads whose latency grows by a ratio."""
    return 1 - share + share * ratio


def closed(share: float, ratios: Any) -> float:
    """The least of SLOWDOWNS, with what is between them, at which the latency ratios there say no more than it."""
    said = step(share, np.asarray(ratios))
    over = said - SLOWDOWNS
    fits = np.flatnonzero(over <= 0)
    if not len(fits):
        return float(SLOWDOWNS[-1])
    i = int(fits[0])
    if i == 0:
        return float(said[0])
    weight = over[i - 1] / (over[i - 1] - over[i])
    return float(SLOWDOWNS[i - 1] + weight * (SLOWDOWNS[i] - SLOWDOWNS[i - 1]))


def replayed(found: dict[str, Any], query: str, counts: list[int], warm_s: float) -> Any:
    """Ratios of the mean latency of a query's recorded reads beside the first n tenants to that alone, in replay, with
    arrivals stretched by each of SLOWDOWNS: [counts, SLOWDOWNS]. The tenants run for ``warm_s`` before.
    """
    runs = [run for run in found["runs"] if run["setting"] == "alone" and run["query"] == query]
    run = sorted(runs, key=lambda one: one["seconds"])[len(runs) // 2]
    drive = SharedDrive(found["drive"])
    longest_s = warm_s + run["seconds"] * SLOWDOWNS[-1]
    beside = []
    for known in found["tenants"].values():
        times = math.ceil(longest_s / known["seconds"])
        beside.append(tenant(known["trace"], drive.space_bytes, 0.0, known["seconds"], times))

    def latency(count: int, slowdown: float) -> float:
        stretched = {**run["trace"], "arrive_ns": np.array(run["trace"]["arrive_ns"]) * slowdown}
        mine = tenant(stretched, drive.space_bytes, warm_s, run["seconds"], 1)
        return float(drive.run([mine, *beside[:count]], warm_s, warm_s + run["seconds"] * slowdown)[0][LATENCY])

    alone = latency(0, 1.0)
    return np.array([[latency(count, s) / alone for s in SLOWDOWNS] for count in counts])


def tenant(columns: dict[str, Any], space_bytes: int, from_s: float, seconds: float, times: int) -> tuple[Trace, int]:
    """A trace of recorded I/Os, so many times in a row, inside of the space; and the most that were outstanding."""
    arrive, op, offset, size = (np.array(columns[name]) for name in ("arrive_ns", "op", "offset_bytes", "size_bytes"))
    latency = np.array(columns["latency_ns"])
    changes = np.concatenate([np.ones(len(arrive)), -np.ones(len(arrive))])
    depth = int(np.cumsum(changes[np.argsort(np.concatenate([arrive, arrive + latency]), kind="stable")]).max())
    offset = offset % (space_bytes - int(size.max())) // PAGE * PAGE
    begins = np.repeat((from_s + seconds * np.arange(times)) * 1e9, len(arrive)).astype(np.uint64)

    def column(first: int, values: Any, kind: Any) -> Any:
        # The clock of a trace starts with its first I/O, which is a read that is not measured.
        return np.concatenate([[first], np.tile(values, times)]).astype(kind)

    trace = Trace.from_columns(
        "recorded",
        column(0, arrive, np.uint64) + np.concatenate([[0], begins]).astype(np.uint64),
        column(0, op, np.uint8),
        column(0, offset, np.uint64),
        column(PAGE, size, np.uint32),
        np.zeros(1 + len(begins), np.uint32),
        column(0, latency, np.uint64),
    )
    return trace, depth


def rows_of(found: dict[str, Any], known: Seen, warm_s: float) -> Iterator[dict[str, Any]]:
    """A row for each query and number of tenants: measured slowdown, and what each way of telling it says."""
    runs = found["runs"]
    queries = list(dict.fromkeys(run["query"] for run in runs))
    counts = sorted({run["tenants"] for run in runs if run["setting"].endswith("beside")})
    told = predicted(found, known, queries, counts)
    for q, query in enumerate(queries):
        alone = medians(runs, "alone", query)
        replays = replayed(found, query, counts, warm_s)
        for c, count in enumerate(counts):
            beside = medians(runs, f"{count} beside", query)
            share = float(alone["reading_s"] / alone["seconds"])
            asked_of = {"replay": replays[c], **{model: told[model][q, c] for model in MODELS}}
            yield {
                "query": query,
                "tenants": count,
                "alone_s": float(alone["seconds"]) * found["time_scale"],
                "spread": max(alone["spread"], beside["spread"]),
                "share": share,
                "measured": float(beside["seconds"] / alone["seconds"]),
                "measured latency": step(share, float(beside["metrics"][LATENCY] / alone["metrics"][LATENCY])),
                **{way: closed(share, ratios) for way, ratios in asked_of.items()},
                **{f"{way}, open": step(share, float(ratios[0])) for way, ratios in asked_of.items()},
            }


WAYS = ("measured latency", "replay", *MODELS)


def tables(found: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    """Markdown."""
    yield "| query | alone, s | in reads | tenants | measured | spread | " + " | ".join(WAYS) + " |"
    yield "|---" * (6 + len(WAYS)) + "|"
    for row in rows:
        ways = " | ".join(f"{row[way]:.2f}" for way in WAYS)
        yield (
            f"| {row['query']} | {row['alone_s']:.2f} | {row['share']:.0%} | {row['tenants']} | "
            f"{row['measured']:.2f} | ±{row['spread']:.0%} | {ways} |"
        )
    yield ""
    yield "| told by | median error | largest | below what was measured by more than 10 % |"
    yield "|---|---|---|---|"
    for way in ("no interference", *WAYS, *(f"{way}, open" for way in WAYS[1:])):
        errors = [row.get(way, 1.0) / row["measured"] - 1 for row in rows]
        size = sorted(map(abs, errors))
        low = sum(error < -0.1 for error in errors)
        yield f"| {way} | {statistics.median(size):.0%} | {size[-1]:.0%} | {low} of {len(rows)} |"
    control = [run for run in found["runs"] if run["setting"].endswith("elsewhere")]
    if control:
        setting, queries = control[0]["setting"], dict.fromkeys(run["query"] for run in control)
        ratios = [
            float(medians(found["runs"], setting, one)["seconds"] / medians(found["runs"], "alone", one)["seconds"])
            for one in queries
        ]
        said = ", ".join(f"{one} {ratio:.2f}" for one, ratio in zip(queries, ratios, strict=True))
        yield f"\nControl, {setting}: {said}"
    server, loads = found["server"], [run["load_average"] for run in found["runs"]]
    drive = server["exports"][0]
    excess = {name: value / 1000 for name, value in drive["excess"].items()}
    yield (
        f"\nServer: {drive['late_share']:.1%} of I/Os later than the model by more than "
        f"{server['late_after_ns'] / 1000:.0f} us of its time; {excess['mean_ns']:.0f} us on average, "
        f"{excess['ns_p50']:.0f} us at the median, {excess['ns_p99']:.0f} us at p99; the model's own mean is "
        f"{drive['model']['mean_ns'] / 1000:.0f} us. Load average {min(loads):.0f} to {max(loads):.0f}."
    )


def figure_of(rows: list[dict[str, Any]]) -> str:
    """Measured against predicted slowdown, as SVG."""
    figure = blank(7.6, 3.6)
    queries = list(dict.fromkeys(row["query"] for row in rows))
    counts = sorted({row["tenants"] for row in rows})
    panels = figure.subplots(1, len(counts), sharey=True)
    style = {
        "measured": ("o", "black"),
        "replay": ("_", "#33a02c"),
        "weighted mean": ("x", "#7f7f7f"),
        "gray-box": ("^", "#1f78b4"),
        "linnet": ("s", "#b10026"),
    }
    for axes, count in zip(panels, counts, strict=True):
        mine = {row["query"]: row for row in rows if row["tenants"] == count}
        for i, (name, (marker, colour)) in enumerate(style.items()):
            at = [j + 0.15 * (i - 2) for j in range(len(queries))]
            axes.plot(at, [mine[q][name] for q in queries], marker, color=colour, markersize=4, label=name)
        axes.axhline(1.0, color="black", linestyle=":", linewidth=0.8)
        axes.set_xticks(range(len(queries)), queries, fontsize=7)
        axes.set_title(f"{count} tenant{'s' if count > 1 else ''}", fontsize=8)
    panels[0].set_ylabel("slowdown")
    panels[0].legend(fontsize=7, frameon=False)
    return svg(figure)


def main() -> int:
    """Print the tables, and write the figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--warm-seconds", type=float, default=0.2, help="before a replay is measured")
    parser.add_argument("--figure", type=Path)
    args = parser.parse_args()
    found = json.loads(args.runs.read_text())
    rows = list(rows_of(found, labels(args.labels, found["drive"]), args.warm_seconds))
    print("\n".join(tables(found, rows)))
    if args.figure:
        args.figure.write_text(figure_of(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
