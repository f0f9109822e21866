# SPDX-License-Identifier: MIT OR Apache-2.0
"""``linnet bench``: how fast the engine is on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import Annotated

import typer

from linnet import _native
from linnet.cli.options import AsJson
from linnet.cli.output import console, number, print_json, table

app = typer.Typer(help="How fast the engine is on this machine.", no_args_is_help=True)

COUNTED_IOS = 20_000
"""Requests that are run under callgrind for each mix."""
LOADER = (
    "import importlib.machinery as m, importlib.util as u; "
    "l = m.ExtensionFileLoader('_native', {path!r}); s = u.spec_from_loader('_native', l); "
    "n = u.module_from_spec(s); l.exec_module(n); n.bench_ssd_count({mix!r}, {ios})"
)
"""Loads the engine without the package around it: callgrind slows every instruction down some fifty times."""


def instructions_per_io(mix: str) -> float | None:
    """Instructions of the model for each request, by callgrind; nothing where valgrind is not installed."""
    if shutil.which("valgrind") is None:
        return None
    code = LOADER.format(path=_native.__file__, mix=mix, ios=COUNTED_IOS)
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


@app.command()
def ssd(
    ios: Annotated[int, typer.Option(help="Requests of each mix.", min=1000)] = 2_000_000,
    rounds: Annotated[int, typer.Option(help="Take the best of this many.", min=1)] = 3,
    raw_gib: Annotated[
        int, typer.Option(help="Size of the modelled drive, spare space included.", min=10, max=1024)
    ] = 64,
    instructions: Annotated[bool, typer.Option(help="Count instructions where valgrind is installed.")] = True,
    json: AsJson = False,
) -> None:
    """Requests per second of the SSD model on one core, instructions for each, memory for each page.

    Example: [bold]linnet bench ssd --raw-gib 16[/]
    """
    result = _native.bench_ssd(ios, rounds, raw_gib)
    for row in result["rows"]:
        row["instructions_per_io"] = instructions_per_io(row["mix"]) if instructions else None
    if json:
        print_json(result)
        return
    table(
        f"{result['raw_bytes'] / 2**30:.0f} GiB raw, preconditioned in {result['precondition_s']:.2f} s, "
        f"{result['map_bytes_per_page']:.1f} bytes for each page of 4 KiB",
        ["mix", "requests/s", "instructions each"],
        [[row["mix"], int(row["ios_per_second"]), row["instructions_per_io"]] for row in result["rows"]],
    )
    if instructions and shutil.which("valgrind") is None:
        console.print(f"[dim]instructions: {number(None)} (valgrind is not installed)[/]")
