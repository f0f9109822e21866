# SPDX-License-Identifier: MIT OR Apache-2.0
"""The command ``linnet``. Exit status: 0 success, 1 the data or the run failed, 2 usage, 130 interrupted."""

from __future__ import annotations

from linnet.signals import INTERRUPTED, SAID, ended_at_once

with ended_at_once():
    import atexit
    import errno
    import gc
    import io
    import os
    import select
    import signal
    import sys
    from contextlib import suppress
    from types import FrameType
    from typing import TYPE_CHECKING

    import typer

    from linnet._native import Error, Panic, __commit__, __version__, record_room
    from linnet.cli.lazy import Root
    from linnet.cli.output import console, fail
    from linnet.extras import MissingExtra

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

TERMINATED = 143
"""Status after SIGTERM."""
STANDARD_OUTPUT = 1
"""Its descriptor."""
AGAIN_S = 0.01
"""A command is interrupted again after so long if the first exception was lost."""

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


def _terminate(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


def _raise_again(lost: UnraisableHookArgs) -> None:
    """Interrupts the command a little later, if the exception of a signal was lost.

    Python runs the handler of a signal between any two instructions of the main thread. Where these belong to a
    finaliser or to a callback, such as the one that forgets the lock of an imported module, what the handler raises is
    printed and dropped, and the command would go on as if nobody had asked it to end.
    """
    kind = lost.exc_type
    if not issubclass(kind, SystemExit | KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise SystemExit(TERMINATED) if issubclass(kind, SystemExit) else KeyboardInterrupt

    # By a timer: raised here, it would be lost as well.
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_S)


def _reader_left(error: Error) -> bool:
    """True for the engine's error of a standard output that nobody reads any more.

    The engine says what failed as text, and other pipes break as well: so standard output itself is asked.
    """
    if os.strerror(errno.EPIPE) not in str(error):
        return False
    state = select.poll()
    state.register(STANDARD_OUTPUT, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in state.poll(0))


def _drop_output() -> None:
    """Write what standard output still holds nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), STANDARD_OUTPUT)


def _flush() -> None:
    """Write what standard output still holds: at exit, an error could only be printed."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
        raise


def _run() -> None:
    try:
        app()
    except SystemExit as end:
        if not end.code:
            _flush()
        raise


def _prepare() -> None:
    """What holds for every command."""
    # What is imported stays until the end, so no collection need walk it, least of all the one at exit.
    gc.freeze()
    atexit.register(gc.freeze)
    # What is open is removed and put back, as after Ctrl-C. Commands that have more to end set their own handler.
    signal.signal(signal.SIGTERM, _terminate)
    sys.unraisablehook = _raise_again
    # A name that the terminal's encoding lacks is no reason to lose a result.
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _need_output() -> None:
    """Refuse to begin without standard output: a result would go nowhere, or into the first file that is opened."""
    if sys.stdout is None:
        if sys.stderr is not None:
            fail("standard output is closed; to drop the result, send it to /dev/null")
        sys.exit(1)


def main() -> None:
    """Run the command line; every failure is one line on standard error and a non-zero status."""
    _need_output()
    status: object = 0
    try:
        _prepare()
        _run()
    except SystemExit as end:
        status = end.code
        # The reader of our output left (`| head`), of which Typer and Rich make a failure: not an error of ours.
        if isinstance(end.__context__, BrokenPipeError):
            status = 0
        elif status in (INTERRUPTED, TERMINATED):
            fail(SAID)
    except KeyboardInterrupt:
        # Typer makes an exit of it only once a command is found.
        fail(SAID)
        status = INTERRUPTED
    except BrokenPipeError:
        status = 0
    except Panic as error:
        fail(f"a defect of linnet, please report it with the command: {error}")
        status = 1
    except Error as error:
        status = 0 if _reader_left(error) else 1
        if status:
            fail(str(error))
    except (MissingExtra, ValueError) as error:
        fail(str(error))
        status = 1
    except OverflowError as error:
        fail(f"a number is out of range: {error}")
        status = 1
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
        status = 1
    except MemoryError:
        _, limit = record_room() or (0, "the memory of this machine")
        fail(f"out of memory: what is held in it does not fit {limit}; `linnet trace convert` makes a part of a trace")
        status = 1
    with suppress(OSError):
        _flush()
    sys.exit(status if isinstance(status, int) else 0)
