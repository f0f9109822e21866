# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command ``linnet``. Exit status: 0 success, 1 the data or the run failed, 2 usage, 130 interrupted."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys

import typer

from linnet._native import Error, Panic, __commit__, __version__
from linnet.cli.lazy import Root
from linnet.cli.output import console, fail
from linnet.extras import MissingExtra

INTERRUPTED = 130
"""Status after Ctrl-C, as shells count it."""
TERMINATED = 143
"""Status after SIGTERM."""

app = typer.Typer(
    name="linnet",
    cls=Root,
    help="Predictable storage latency: learn how flash drives behave, and send each read where it is fast.\n\n"
    "Start with [bold]linnet demo[/], or with your own trace: [bold]linnet whatif TRACE[/].",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(show: bool) -> None:
    if show:
        typer.echo(f"linnet {__version__} (engine commit {__commit__})")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", help="Show the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    console.file = None  # type: ignore[assignment]  # standard output, until `-o -` takes it


def _terminate(number: int, frame: object) -> None:
    raise SystemExit(TERMINATED)


def main() -> None:
    """Run the command line; every failure is one line on standard error and a non-zero status."""
    status: object = 0
    # What is imported stays until the end, so no collection need walk it, least of all the one at exit.
    gc.freeze()
    atexit.register(gc.freeze)
    # What is open is removed and put back, as after Ctrl-C. Commands that have more to end set their own handler.
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except SystemExit as end:
        status = end.code
        if status in (INTERRUPTED, TERMINATED):
            fail("interrupted; no incomplete file was left")
    except BrokenPipeError:
        # The reader of our output left (`| head`): not an error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    except Panic as error:
        fail(f"a defect of linnet, please report it with the command: {error}")
        status = 1
    except (Error, MissingExtra, ValueError) as error:
        fail(str(error))
        status = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
        status = 1
    except MemoryError:
        fail("out of memory: the traces are held in memory; convert a shorter part with `linnet trace convert`")
        status = 1
    sys.exit(status if isinstance(status, int) else 0)
