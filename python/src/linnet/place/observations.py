# SPDX-License-Identifier: MIT OR Apache-2.0
"""Measured co-location as learning material: what is known before a placement, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place.offered import loads_of
from linnet.tables import COST_MODEL, KEYS, SHEET, TEXT, Columns, read_tables

Floats = NDArray[np.float64]
Labels = NDArray[Any]
PAGE = 4096
"""Bytes of the I/Os in which a drive's rates are stated."""


@dataclass(frozen=True)
class Observations:
    """Rows of one source. All arrays are equally long, n.

    ``inputs`` are numbers known before placement: offered loads and data sheets. ``labels`` are names: of cell, drive,
    model and what else rows can be split or grouped by; ``model_load`` is a load, on any drive of a model or in any
    mix. ``achieved`` are outcomes that are no target: a model may learn from those of its training rows, and must not
    see those of the rows that it is tried on.
    """

    source: str
    targets: tuple[str, ...]
    outcomes: Floats
    """(n, targets): logarithm of the value, us; NaN where none was recorded."""
    inputs: dict[str, Floats]
    labels: dict[str, Labels]
    achieved: dict[str, Floats] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    """Reasons why rows of the tables are not among these, and how many rows each kept out."""

    def __len__(self) -> int:
        return len(self.outcomes)

    def take(self, rows: NDArray[Any]) -> Observations:
        """These rows: indices, or a mask."""
        return Observations(
            self.source,
            self.targets,
            self.outcomes[rows],
            {name: values[rows] for name, values in self.inputs.items()},
            {name: values[rows] for name, values in self.labels.items()},
            {name: values[rows] for name, values in self.achieved.items()},
        )

    def joined(self, other: Observations) -> Observations:
        """These rows, then those of another set of the same source."""
        return Observations(
            self.source,
            self.targets,
            np.concatenate([self.outcomes, other.outcomes]),
            {name: np.concatenate([values, other.inputs[name]]) for name, values in self.inputs.items()},
            {name: np.concatenate([values, other.labels[name]]) for name, values in self.labels.items()},
            {name: np.concatenate([values, other.achieved[name]]) for name, values in self.achieved.items()},
            {
                why: self.dropped.get(why, 0) + other.dropped.get(why, 0)
                for why in dict.fromkeys([*self.dropped, *other.dropped])
            },
        )


def same_drives(places: Sequence[tuple[str, Observations]]) -> None:
    """Raise ValueError for drives of one name that differ in model or data sheet, by the places that they are of.

    A figure that one of them lacks is no difference. Cost models are measured, so each host may have its own.
    """
    known: dict[tuple[str, str], tuple[str, dict[str, Any]]] = {}
    for place, rows in places:
        if "drive" not in rows.labels:
            continue
        figures = [name for name in SHEET if name in rows.inputs]
        columns = [rows.labels["model"], *(rows.inputs[name] for name in figures)]
        for drive, *values in dict.fromkeys(zip(rows.labels["drive"], *map(list, columns), strict=True)):
            sheet = dict(zip(("model", *figures), values, strict=True))
            first, other = known.setdefault((rows.source, drive), (place, sheet))
            for name, value in sheet.items():
                if not _agree(value, other[name]):
                    raise ValueError(
                        f"drive {drive}: {name} is {_shown(other[name])} in {first} and {_shown(value)} in {place}; "
                        "rename one of the drives in all tables of its folder, or correct its sheet"
                    )


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{value:g}"


def _agree(one: Any, other: Any) -> bool:
    return bool(one == other) or (not isinstance(one, str) and bool(np.isnan(one) or np.isnan(other)))


def together(places: Sequence[tuple[str, Observations]]) -> Observations:
    """The rows of all places as one set. Raises ValueError for a minute of one drive that two places have."""
    same_drives(places)
    seen: dict[tuple[Any, ...], str] = {}
    for place, rows in places:
        # Bytes, since outcomes that were not recorded are equal too.
        outcomes = [one.tobytes() for one in rows.outcomes]
        for run, minute, values in zip(rows.labels["run"], rows.inputs["minute_s"], outcomes, strict=True):
            if seen.setdefault((run, minute, values), place) != place:
                first = seen[run, minute, values]
                raise ValueError(f"{place}: the minute to {minute:g} s of run {run} is also in {first}; give it once")
    found = places[0][1]
    for _, rows in places[1:]:
        found = found.joined(rows)
    return replace(named(found), dropped=found.dropped)


def named(rows: Observations) -> Observations:
    """The same rows, with cells named by what was offered in all of them: see :func:`linnet.place.offered.loads_of`."""
    if rows.source != "ssdiq":
        return rows
    load, names = loads_of(rows.inputs["load"], np.stack([rows.inputs[name] for name in OFFERED], 1))
    labels = {
        label: np.array([f"{one}|{name}" for one, name in zip(rows.labels[of], names, strict=True)], dtype=object)
        for label, of in (("cell", "drive"), ("model_load", "model"))
    }
    return replace(rows, inputs=rows.inputs | {"load": load}, labels=rows.labels | labels)


def _dropped(kept: NDArray[np.bool_], reasons: dict[str, NDArray[np.bool_]]) -> dict[str, int]:
    """How many rows are not kept, by the first reason that each has."""
    left, found = ~kept, {}
    for why, rows in reasons.items():
        if count := int((left & rows).sum()):
            found[why] = count
        left = left & ~rows
    return found


def observe(folder: Path, threads: Sequence[str] | None = None) -> dict[str, Observations]:
    """All observations that the tables of a folder give, by source.

    ``threads`` names other targets for the minutes of tenants, as ``read_latency_p99_us``; by default those that
    published base rates use.
    """
    tables = {stem: _in_order(table, KEYS[stem]) for stem, table in read_tables(folder).items()}
    found: dict[str, Observations] = {}
    if "ssdiq-threads" in tables:
        if "ssdiq-drives" not in tables:
            raise ValueError(f"{folder}: ssdiq-threads needs the data sheets of its drives, ssdiq-drives.csv[.zst]")
        found["ssdiq"] = ssdiq(folder, tables["ssdiq-threads"], tables["ssdiq-drives"], threads or SSDIQ_TARGETS)
    if "icpe-tenants" in tables:
        found["icpe"] = icpe(folder, tables["icpe-tenants"])
    if "iocost-qos" in tables:
        found["iocost"] = iocost(folder, tables["iocost-qos"])
    if not found:
        raise ValueError(f"{folder}: data sheets alone; measurements are missing (ssdiq-threads.csv[.zst])")
    for rows in found.values():
        same_drives([(str(folder), rows)])
    return found


def _in_order(table: Columns, key: Sequence[str]) -> Columns:
    """The same rows by drive, run, tenant and minute: forests draw rows by their place, and sums round by it."""
    order = np.lexsort([table[name].astype(str) if name in TEXT else table[name] for name in reversed(key)])
    return {name: column[order] for name, column in table.items()}


SSDIQ_TARGETS = ("read_latency_p50_us", "read_latency_p99_us", "read_latency_p99_9_us", "write_latency_p99_us")
SSDIQ_COLUMN = {
    f"{op}_latency_{name}_us": f"{op}_{column}_us"
    for op in ("read", "write")
    for name, column in (
        *(("mean", "avg"), ("p50", "p50"), ("p90", "p90"), ("p95", "p95"), ("p99", "p99"), ("p99_9", "p99_9")),
    )
}
"""Metrics that minutes of tenants can have as targets, and their columns."""
SSDIQ_DEPTH = 64
"""I/Os that a thread has outstanding at most; the tables do not repeat it."""
OFFERED = (
    *(f"{whose}_{op}_iops" for whose in ("own", "all") for op in ("read", "write")),
    *("all_read_pages", "all_write_pages", "size_bytes", "tenants"),
)
"""Inputs that say what load the tenants of a minute are: I/Os and pages per second, bytes, a count."""


def ssdiq(folder: Path, threads: Columns, drives: Columns, targets: Sequence[str]) -> Observations:
    """The minutes of tenant 0, beside the offered loads of all tenants that ran in the same minute."""
    drive_of = {name: i for i, name in enumerate(drives["drive"])}
    for name, model in dict.fromkeys(zip(threads["drive"], threads["model"], strict=True)):
        if name in drive_of and (sheet := drives["model"][drive_of[name]]) != model:
            raise ValueError(
                f"{folder}: drive {name}: model is {sheet} in ssdiq-drives and {model} in ssdiq-threads; two drives "
                "need two names"
            )
    lacking = sorted(set(threads["drive"]) - set(drive_of))
    if lacking:
        raise ValueError(f"{folder}: drive {lacking[0]} of ssdiq-threads has no row in ssdiq-drives; add its sheet")
    minute = np.array(
        [f"{d}|{r}|{t}" for d, r, t in zip(threads["drive"], threads["run"], threads["t_end_s"], strict=True)],
        dtype=object,
    )
    _, member = np.unique(minute.astype(str), return_inverse=True)
    _all_tenants(folder, threads, member)
    victim = np.flatnonzero(threads["tenant"] == 0)
    if not len(victim):
        raise ValueError(f"{folder}: ssdiq-threads has no rows of tenant 0, the one whose latency is learned")
    pages = np.ceil(threads["bs_bytes"] / PAGE)

    def total(name: str, scale: Floats | float = 1.0) -> Floats:
        return np.asarray(np.bincount(member, threads[name] * scale)[member[victim]], np.float64)

    rate = threads["off_read_iops"] + threads["off_write_iops"]
    beside = np.where(threads["tenant"] > 0, rate, 0.0)
    beside_all = np.bincount(member, beside)

    def by_rate(values: Floats) -> Floats:
        """Mean over the others, weighted by their rates; 0 where they have none."""
        sums = np.bincount(member, beside * values)
        means = np.divide(sums, beside_all, out=np.zeros_like(sums), where=beside_all > 0)
        return np.asarray(means[member[victim]], np.float64)

    sheet_row = np.array([drive_of[name] for name in threads["drive"][victim]])
    drive = threads["drive"][victim]
    values = np.stack([threads[SSDIQ_COLUMN[name]][victim] for name in targets], 1)
    tenants = np.bincount(member)[member[victim]].astype(np.float64)
    # A tenant that only reads has no latency of writes: each target has its own rows.
    kept = np.isfinite(values).any(1)
    dropped = _dropped(kept, {"all latencies are empty": ~kept})
    if not kept.any():
        raise ValueError(f"{folder}: ssdiq-threads: no row of tenant 0 has a latency: {said(dropped)}")
    found = Observations(
        "ssdiq",
        tuple(targets),
        np.log(values),
        {
            "own_read_iops": threads["off_read_iops"][victim],
            "own_write_iops": threads["off_write_iops"][victim],
            "all_read_iops": total("off_read_iops"),
            "all_write_iops": total("off_write_iops"),
            "all_read_pages": total("off_read_iops", pages),
            "all_write_pages": total("off_write_iops", pages),
            "size_bytes": threads["bs_bytes"][victim],
            "tenants": tenants,
            "mean_iops": by_rate(rate),
            "mean_pages": by_rate(rate * pages),
            "depth": tenants * SSDIQ_DEPTH,
            "own_depth": np.full(len(victim), float(SSDIQ_DEPTH)),
            "minute_s": threads["t_end_s"][victim],
            "repeat": threads["repeat"][victim],
            "load": threads["rate_iops"][victim],
            **{name: drives[name][sheet_row] for name in SHEET},
        },
        {
            "run": np.array([f"{d}|{r}" for d, r in zip(drive, threads["run"][victim], strict=True)], dtype=object),
            "drive": drive,
            "model": threads["model"][victim],
        },
        {"write_pages": total("write_iops", pages), "read_pages": total("read_iops", pages)},
    )
    return replace(named(found.take(kept)), dropped=dropped)


def _all_tenants(folder: Path, threads: Columns, minute: NDArray[np.intp]) -> None:
    """Raise ValueError for a minute that lacks a tenant of its run; ``minute`` is the index of each row's."""
    _, run = np.unique(
        np.array([f"{d}|{r}" for d, r in zip(threads["drive"], threads["run"], strict=True)]), return_inverse=True
    )
    # A minute has no tenant twice, so its rows are as many as its tenants.
    everyone = np.unique(np.column_stack([run, threads["tenant"]]), axis=0)[:, 0].astype(np.intp)
    lacking = np.flatnonzero(np.bincount(minute)[minute] < np.bincount(everyone)[run])
    if not len(lacking):
        return
    row = lacking[0]
    there, all_ = (
        ", ".join(f"{tenant:.0f}" for tenant in np.unique(threads["tenant"][which]))
        for which in (minute == minute[row], run == run[row])
    )
    raise ValueError(
        f"{folder}: ssdiq-threads: drive {threads['drive'][row]}, run {threads['run'][row]}: the minute to "
        f"{threads['t_end_s'][row]:.12g} s has rows of tenant {there}, and the run has tenants {all_}. Rows of one "
        "minute need the same t_end_s, digit by digit; leave out minutes that not all tenants were measured in"
    )


def said(dropped: dict[str, int]) -> str:
    """Reasons and counts, for people."""
    return ", ".join(f"{count:,} because {why}" for why, count in dropped.items())


ICPE_TARGETS = ("read_latency_p50_us", "read_latency_p99_us", "read_latency_p99_9_us")


def icpe(folder: Path, tenants: Columns) -> Observations:
    """Tenant 0 of each run beside the others, which keep a fixed number of I/Os outstanding."""
    first = np.flatnonzero(tenants["tenant"] == 0)
    if not len(first):
        raise ValueError(f"{folder}: icpe-tenants has no rows of tenant 0, the one whose latency is learned")
    wrong = first[tenants["op"][first] != "read"]
    if len(wrong):
        raise ValueError(
            f"{folder}: run {tenants['run'][wrong[0]]}: op of tenant 0 is {tenants['op'][wrong[0]]}, and the latency "
            "that is learned from icpe-tenants is that of reads; leave the run out"
        )
    _, run = np.unique(tenants["run"].astype(str), return_inverse=True)
    others = tenants["tenant"] > 0

    def total(values: Labels) -> Floats:
        return np.asarray(np.bincount(run, np.where(others, values, 0.0))[run[first]], np.float64)

    depth = total(tenants["iodepth"])
    counted = np.bincount(run, others)[run[first]]
    expected = tenants["neighbours"][first]
    wrong = np.flatnonzero(counted != expected)
    if len(wrong):
        name = tenants["run"][first[wrong[0]]]
        raise ValueError(
            f"{folder}: run {name}: neighbours is {expected[wrong[0]]:.0f}, but {counted[wrong[0]]:.0f} have rows"
        )
    # Of all I/Os that neighbours have outstanding; a run without neighbours has none.
    each = np.where(depth > 0, depth, math.nan)
    kib = total(tenants["iodepth"] * tenants["bs_kib"]) / each
    writes = np.nan_to_num(total(tenants["iodepth"] * (tenants["op"] == "write")) / each)
    mix = tenants["mix"][first]
    scheduler = tenants["scheduler"][first]
    values = np.stack([tenants[f"clat_{name}_us"][first] for name in ("p50", "p99", "p99_9")], 1)
    return Observations(
        "icpe",
        ICPE_TARGETS,
        np.log(values),
        {
            "neighbours": expected,
            "load": expected,
            "depth": depth,
            "own_depth": tenants["iodepth"][first],
            "own_kib": tenants["bs_kib"][first],
            "kib": kib,
            "writes": writes,
            "devices": tenants["n_devices"][first],
        },
        {
            "cell": np.array(
                [f"{m}|{s}|{n:.0f}" for m, s, n in zip(mix, scheduler, expected, strict=True)], dtype=object
            ),
            "run": tenants["run"][first],
            "mix": mix,
            "scheduler": scheduler,
            "setting": np.array([f"{m}|{s}" for m, s in zip(mix, scheduler, strict=True)], dtype=object),
            "model_load": np.array(
                [f"{m}|{s}|{n:.0f}" if n else f"alone|{s}" for m, s, n in zip(mix, scheduler, expected, strict=True)],
                dtype=object,
            ),
        },
        {"others_iops": total(tenants["iops"]), "others_kib": total(tenants["iops"] * tenants["bs_kib"])},
    )


IOCOST_TARGETS = ("slowdown", "read_latency_p50_us", "read_latency_p99_us", "read_latency_p99_9_us")
"""Slowdown is of the protected job's requests; the latencies are of all reads of the device."""


def iocost(folder: Path, runs: Columns) -> Observations:
    """Runs with a protection result: a ceiling of load, and what a memory hog then did to a protected job."""
    columns = ("lat_imp_mean", *(f"prot_read_{name}_mean_us" for name in ("p50", "p99", "p99_9")))
    values = np.stack([1 + runs[columns[0]], *(runs[name] for name in columns[1:])], 1)
    told = np.isfinite(values).any(1)
    kept = (runs["prot_ok"] == 1) & told
    reasons = {"prot_ok is 0": runs["prot_ok"] == 0, "prot_ok is empty": np.isnan(runs["prot_ok"])}
    dropped = _dropped(kept, reasons | {"all latencies are empty": ~told})
    if not kept.any():
        raise ValueError(f"{folder}: iocost-qos has no run with a protection result (prot_ok = 1): {said(dropped)}")
    off = runs["throttle_off"] == 1
    level = np.where(off, 0.0, runs["vrate_max"])
    found = Observations(
        "iocost",
        IOCOST_TARGETS,
        # Runs that are not kept may have any numbers.
        np.log(np.where(values > 0, values, math.nan)),
        {
            "load": np.where(off, 1000.0, level),
            "off": off.astype(float),
            **{name: runs[name] for name in (*COST_MODEL, "size_gb", "cpus", "mem_gib")},
        },
        {
            "cell": np.array([f"{r}|{v:g}" for r, v in zip(runs["result"], level, strict=True)], dtype=object),
            "run": runs["run"],
            "drive": runs["result"],
            "model": runs["family"],
            "model_load": np.array([f"{m}|{v:g}" for m, v in zip(runs["family"], level, strict=True)], dtype=object),
        },
    )
    return replace(found.take(kept), dropped=dropped)
