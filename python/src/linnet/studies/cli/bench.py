# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet bench``: how fast the engine is on this machine."""

from __future__ import annotations

import json as json_text
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from linnet import _native
from linnet.cli.options import AsJson, Seed
from linnet.cli.output import Bars, console, number, print_json, table, warn
from linnet.cli.place_service import read_model
from linnet.extras import require, require_bench
from linnet.place.allocate import POLICIES, Settings
from linnet.studies.placing import filled, measure
from linnet.studies.serving import measure as serve_load

COUNTED_IOS = 20_000
"""Requests that are run under callgrind for each mix."""
LOADER = (
    "import importlib.machinery as m, importlib.util as u, sys; "
    "l = m.ExtensionFileLoader('_native', {path!r}); s = u.spec_from_loader('_native', l); "
    "n = u.module_from_spec(s); l.exec_module(n); {call}"
)
"""Loads the engine without the package around it: callgrind slows every instruction down some fifty times."""


def instructions_per_io(mix: str) -> float | None:
    """Instructions of the model for each request, by callgrind; nothing where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        return None
    code = LOADER.format(path=_native.__file__, call=f"n.bench_ssd_count({mix!r}, {COUNTED_IOS})")
    done = subprocess.run(
        [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=linnet_bench_ssd_counted",
            sys.executable,
            "-c",
            code,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) / COUNTED_IOS if found and done.returncode == 0 else None


def ssd(
    ios: Annotated[int, typer.Option(help="Requests of each mix.", min=1000)] = 2_000_000,
    rounds: Annotated[int, typer.Option(help="Take the best of this many.", min=1)] = 3,
    raw_gib: Annotated[
        int, typer.Option(help="Size of the modelled drive, spare space included.", min=10, max=1024)
    ] = 64,
    instructions: Annotated[bool, typer.Option(help="Count instructions where valgrind is installed.")] = True,
    json: AsJson = False,
) -> None:
    """Measure the SSD model on one core: requests per second, instructions per request, memory per page.

    Example: [bold]linnet bench ssd --raw-gib 16[/]
    """
    require_bench("linnet bench ssd")
    result = _native.bench_ssd(ios, rounds, raw_gib)
    for row in result["rows"]:
        row["instructions_per_io"] = instructions_per_io(row["mix"]) if instructions else None
    if json:
        print_json(result)
        return
    table(
        f"{result['raw_bytes'] / 2**30:.0f} GiB raw, preconditioned in {result['precondition_s']:.2f} s, "
        f"{result['map_bytes_per_page']:.1f} bytes per page of 4 KiB",
        ["mix", "requests/s", "instructions each"],
        [[row["mix"], int(row["ios_per_second"]), row["instructions_per_io"]] for row in result["rows"]],
    )
    if instructions and shutil.which("valgrind") is None:
        console.print(f"[dim]instructions: {number(None)} (valgrind is not installed)[/]", markup=True)


def core_rows(blocks: int, seed: int) -> list[dict[str, Any]]:
    """Network, tree and ring, next to a plain re-implementation of KML's data path."""
    return [json_text.loads(row) for row in _native.bench_tune(blocks, seed)]


OBSERVE_ROUNDS = 5
OBSERVE_READS = 50_000


def observe_rows(blocks: int, _seed: int) -> list[dict[str, Any]]:
    """What the observer adds to a read from memory, next to an empty program on the same tracepoint.

    Of each round the least of three measurements counts, since what else runs only adds; then the median of the rounds.
    """
    row: dict[str, Any] = {"what": "observe", "ns_median": None, "peer_ns_median": None}
    row |= {"allocations": 0, "peer_allocations": 0, "bytes": OBSERVED_BYTES, "peer_bytes": 0}
    rounds = min(OBSERVE_ROUNDS, max(blocks, 1))
    try:
        costs = [_native.tune_event_cost(3, OBSERVE_READS) for _ in range(rounds)]
    except (_native.TuneError, OSError) as error:
        return [{**row, "why": str(error)}]
    row["bare_ns_median"] = round(statistics.median(bare for bare, _, _ in costs), 1)
    row["peer_ns_median"] = round(statistics.median(empty for _, empty, _ in costs), 1)
    row["ns_median"] = round(statistics.median(ours for _, _, ours in costs), 1)
    return [row]


OBSERVED_BYTES = 61 * 8
"""Of a file on one CPU: `struct cell` in crates/tune/bpf/readahead.h, whose size crates/tune/src/observe checks."""

TUNE_ROWS: list[Callable[[int, int], list[dict[str, Any]]]] = [core_rows, observe_rows]
"""What `linnet bench tune` measures: each takes blocks and seed and gives rows. Add a function to add a row; its keys
are what, ns_median, peer_ns_median, allocations and bytes. What cannot be measured here is null, and `why` says so."""


def tune(
    blocks: Annotated[int, typer.Option(help="Blocks of 4096 calls; the median of their means is given.", min=1)] = 101,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Nanoseconds of a knob's network, tree and ring, next to a plain re-implementation of KML's data path; and of the
    observer's program on a read from memory, next to an empty one (needs root).

    Example: [bold]linnet bench tune --blocks 11[/]
    """
    require_bench("linnet bench tune")
    rows = [row for measure in TUNE_ROWS for row in measure(blocks, seed)]
    if json:
        print_json({"rows": rows, "seed": seed})
        return
    shown = ["what", "ns_median", "peer_ns_median", "allocations", "peer_allocations", "bytes", "peer_bytes"]
    table(
        "one call, ns; a peer keeps a heap matrix for each step",
        shown,
        [[row.get(name) for name in shown] for row in rows],
    )
    for row in rows:
        if row.get("why"):
            warn(f"{row['what']} was not measured: {row['why']}")


def decide(
    blocks: Annotated[int, typer.Option(help="Blocks of 64 calls; the median of their means is given.", min=1)] = 4001,
    instructions: Annotated[bool, typer.Option(help="Count instructions where valgrind is installed.")] = True,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Measure the nanoseconds of an admission decision, and of a plain int64 loop in the same run.

    Example: [bold]linnet bench decide --blocks 501 --no-instructions[/]
    """
    require_bench("linnet bench decide")
    with tempfile.TemporaryDirectory() as folder:
        counter = Path(folder) / "count"
        code = LOADER.format(path=_native.__file__, call="n.bench_decide_count(sys.argv[2:])")
        counter.write_text(f"#!{sys.executable}\n{code}\n")
        counter.chmod(0o755)
        counted = instructions and shutil.which("valgrind") is not None
        rows = [json_text.loads(row) for row in _native.bench_decide(blocks, seed, counter if counted else None)]
    if json:
        print_json({"rows": rows, "seed": seed})
        return
    shown = ["network", "inputs", "path", "build", "state", "remembered", "ns_median", "ns_min", "instructions"]
    table(
        "one decision, ns",
        [*shown, "ratio to plain"],
        [[*(row[name] for name in shown), row["ratio_to_plain"]] for row in rows],
        left=6,
    )


def place(
    drives: Annotated[
        list[int] | None, typer.Option(help="Size of the cluster; may repeat.", min=1, show_default="1000 and 100000")
    ] = None,
    newcomers: Annotated[
        int, typer.Option(help="Tenants that are placed, and removed again, one by one.", min=2)
    ] = 300,
    policy: Annotated[str | None, typer.Option(help="One policy.", show_default="first-fit and best-fit")] = None,
    model: Annotated[
        Path | None, typer.Option(help="Model of linnet place fit.", show_default="data sheets alone")
    ] = None,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Measure one placement in a cluster whose drives have one to seven tenants.

    Wall and processor time: they differ where the machine does other work. Each newcomer has a profile of its own; only
    an empty drive can take a strict one, so that the model is asked about as many drives as it may be.

    Example: [bold]linnet bench place --drives 1000 --newcomers 100[/]
    """
    settings = [Settings(policy=name) for name in ([policy] if policy else POLICIES)]  # type: ignore[arg-type]
    rows = []
    with Bars() as bars:
        for size in drives or [1000, 100_000]:
            bars.stage(f"filling {size} drives", 1)
            allocator = filled(size, seed, model=read_model(model))
            for one in settings:
                allocator.settings = one
                for strict in (False, True):
                    step = bars.stage(f"{size} drives, {one.policy}", newcomers)
                    rows.append(measure(allocator, newcomers, seed, strict, step))
    if json:
        print_json({"rows": rows, "seed": seed})
        return
    table("one placement", list(rows[0]), [[*row.values()] for row in rows], left=0)


def service(
    clients: Annotated[int, typer.Option(help="Connections at the same time.", min=1)] = 200,
    tenants: Annotated[int, typer.Option(help="Tenants that each client brings.", min=1)] = 20,
    drives: Annotated[int, typer.Option(help="Drives of the cluster.", min=1, max=10_000)] = 1000,
    seed: Seed = 1,
    json: AsJson = False,
) -> None:
    """Measure the placement service under many clients on the loopback interface, and check its books afterwards.

    Example: [bold]linnet bench service --clients 20 --tenants 10[/]
    """
    require("serve", "linnet bench service")
    with Bars() as bars:
        row = serve_load(clients, tenants, drives, seed, bars.stage("requests", clients * tenants))
    if json:
        print_json({"rows": [row], "seed": seed})
        return
    table("the placement service", ["what", "value"], [[k, v if k != "statuses" else str(v)] for k, v in row.items()])
