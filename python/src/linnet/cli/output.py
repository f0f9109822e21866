# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the commands print: tables for people, JSON for programs, progress on standard error."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment
from rich.text import Text

from linnet.progress import Progress as Stages

if TYPE_CHECKING:
    from rich.progress import Progress

# Controls of a terminal, other than line ends and tabs; characters that reorder text; bytes of a name that is no UTF-8.
_UNSAFE = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")

_NO_ASCII = re.compile("[^\\x00-\\x7f]+")
_SURROGATE = re.compile("[\\ud800-\\udfff]")


def plain(text: str) -> str:
    """Text from outside without what a terminal would obey: ``\\x1b`` for an escape."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


class Escaping(Console):
    """A console that shows what would control the terminal, and obeys none of it."""

    def render_str(self, text: str, **settings: Any) -> Text:
        """Turn a string into text; Rich itself would drop some of the characters that are made visible here."""
        return super().render_str(plain(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render, the one way to the screen; Rich's own control codes are segments apart."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else plain(segment.text)
            yield segment if text == segment.text else Segment(text, segment.style)


class Terminal(Escaping):
    """A console that takes text from anywhere: nothing in it is markup either.

    Markup of our own is printed with ``markup=True``, and ``escape`` around what comes from outside.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**({"highlight": False, "markup": False, "emoji": False} | settings))


console = Terminal(soft_wrap=True, width=1000)
errors = Terminal(stderr=True, soft_wrap=True)


def fail(message: str) -> None:
    """Say on standard error what went wrong and what to do."""
    errors.print(Text("linnet: ", style="bold red") + Text(plain(message)))


def warn(message: str) -> None:
    """Say on standard error what the user should know."""
    errors.print(Text("linnet: ", style="bold yellow") + Text(plain(message)))


def show_notes(notes: Iterable[str]) -> None:
    """Print below a result what must be known to read it."""
    for note in notes:
        console.print(f"[dim]note:[/] {escape(note)}", markup=True)


def print_json(value: Any) -> None:
    """Print a value as JSON in ASCII, with keys in the order given.

    Bytes of a name that are not UTF-8 are U+FFFD, as the engine has them: Python's own stand-ins are no valid JSON.
    """
    text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    print(_NO_ASCII.sub(lambda found: json.dumps(_SURROGATE.sub("\ufffd", found[0]))[1:-1], text), file=console.file)


def destination(path: Path | None) -> Path | None:
    """Callback of options that name a file to write, before any work: what cannot be written is refused.

    Where it is standard output, all else goes to standard error.
    """
    if path is None:
        return None
    if str(path) == "-":
        console.file = sys.stderr
        return path
    from linnet.files import check_target  # noqa: PLC0415

    check_target(path)
    return path


def appended(path: Path | None) -> Path | None:
    """Callback of options that name a file to append to. It checks nothing: who appends knows what may be there."""
    return path


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> None:
    """Print a table; the first ``left`` columns are text, the others numbers."""
    from rich.table import Table  # noqa: PLC0415

    if title:
        console.print(Text(plain(title), style="bold"))
    view = Table(box=None, pad_edge=False, header_style="dim")
    for i, name in enumerate(columns):
        view.add_column(name, justify="left" if i < left else "right", no_wrap=i == 0 or i >= left)
    for row in rows:
        view.add_row(*(cell if isinstance(cell, Text) else number(cell) for cell in row))
    # A table with numbers is never cut to fit: a line longer than the terminal wraps there.
    console.print(view, width=None if left < len(columns) else shutil.get_terminal_size().columns)


def number(value: Any) -> str:
    """A number with as many digits as carry meaning; text as it is; nothing as a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return plain(str(value))
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(value)
    # What rounds to zero has no sign.
    return f"{value:z,.0f}" if size >= 1000 else f"{value:z.1f}" if size >= 10 else f"{value:z.2f}"


def counted(count: int, noun: str) -> str:
    """A number of things: ``1 tenant``, ``2 tenants``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percent(value: float | None, digits: int = 1) -> str:
    """A share as a percentage."""
    return "-" if value is None else f"{100 * value:z.{digits}f} %"


class Bars(Stages):
    """Progress bars with rates on standard error; silent where it is not a terminal."""

    def __init__(self) -> None:
        self._view: Progress | None = None
        if errors.is_terminal:
            from linnet.cli.bars import bars  # noqa: PLC0415

            self._view = bars(errors)

    def __enter__(self) -> Bars:
        if self._view:
            self._view.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._view:
            self._view.stop()

    def stage(self, name: str, total: int) -> Callable[[int], None]:
        """Begin a bar of ``total`` steps."""
        view = self._view
        if view is None:
            return super().stage(name, total)
        for task in view.tasks:
            view.remove_task(task.id)
        bar = view.add_task(name, total=total)
        return lambda done: view.update(bar, completed=done)


def flatten(mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Rows of a two-column table, nested keys joined."""
    rows: list[tuple[str, Any]] = []
    for key, value in mapping.items():
        if isinstance(value, Mapping):
            rows += [(f"{key}.{inner}", shown) for inner, shown in flatten(value)]
        else:
            rows.append((key, value))
    return rows
