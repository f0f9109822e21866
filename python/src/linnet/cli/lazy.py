# SPDX-License-Identifier: MIT OR Apache-2.0
"""Groups that import a command when it is called. Help and completion of a group need only its table of commands."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from linnet.cli.commands import COMMANDS
from linnet.cli.output import Escaping, appended, destination


class Listed(TyperCommand):
    """A command that has not been imported: its name and one line of help."""

    def __init__(self, name: str, target: str, text: str):
        super().__init__(name, help=text)
        self._target = target

    def load(self) -> Any:
        """Import the command."""
        collects = gc.isenabled()
        # Imports leave next to no garbage, and a collection takes longer than some of them.
        gc.disable()
        try:
            return self._loaded()
        finally:
            if collects:
                gc.enable()

    def _loaded(self) -> Any:
        module, _, attribute = self._target.partition(":")
        holder = typer.Typer(rich_markup_mode="rich")
        if module:
            holder.command(self.name, cls=Checked)(getattr(importlib.import_module(module), attribute))
        else:
            holder.add_typer(typer.Typer(), name=self.name, help=self.help, cls=Commands, no_args_is_help=True)
        return get_group(holder).commands[str(self.name)]


LEAVING_OUT = ("device", "lenient")
"""Options with which a trace that is made from another may have fewer records."""


class Checked(TyperCommand):
    """A command that refuses words which no command can use: an empty path, and text that is no UTF-8. And it refuses
    to write a file over one that it reads.

    ``Path("")`` would be the current directory. Names of files are bytes; all other text is UTF-8 to the engine and in
    what is written.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments; flags without a type, which help would show."""
        return _plain_flags(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Look at the words as they were given, then parse them."""
        if not ctx.resilient_parsing:
            given, _, _ = self.make_parser(ctx).parse_args([*args])
            hints = get_type_hints(inspect.unwrap(self.callback)) if self.callback else {}
            parameters: list[Any] = self.get_params(ctx)
            files: list[tuple[Any, str]] = []
            for parameter in parameters:
                is_path = _mentions(hints.get(str(parameter.name)), Path)
                for word in _words(given.get(str(parameter.name))):
                    if is_path and not word:
                        raise typer.BadParameter("the path is empty", ctx, parameter)
                    if not is_path and not _is_utf8(word):
                        raise typer.BadParameter(f"{word!r} is not UTF-8", ctx, parameter)
                    if is_path:
                        files.append((parameter, word))
                    elif parameter.name == "preset":
                        files += [(parameter, name) for name in word.split(",") if name.endswith(".toml")]
            _refuse_inputs(ctx, files, [option for option in LEAVING_OUT if given.get(option)])
        return super().parse_args(ctx, args)


def _refuse_inputs(ctx: Any, files: list[tuple[Any, str]], leaving_out: list[str]) -> None:
    """Refuse an output that is another parameter's file, by whatever name: its content would be lost.

    A trace may be written in the place of the one that it is made from, which is the argument ``FILE``, unless one of
    the options ``leaving_out`` is given.
    """
    # They load the engine's names, which help does without.
    from linnet.cli.options import latency_destination, picture_destination, trace_destination  # noqa: PLC0415

    writes = (destination, appended, trace_destination, latency_destination, picture_destination)
    for output, word in files:
        role = _role(output)
        if role not in writes or word == "-":
            continue
        for other, name in files:
            made_from = role is trace_destination and other.name == "file"
            if other is output or (made_from and not leaving_out) or not _same(word, name, _role(other) in writes):
                continue
            if made_from:
                lost = f"the input, and what --{leaving_out[0]} leaves out of it"
            elif other.param_type_name == "argument":
                lost = "an input, which"
            else:
                lost = f"the {'output' if _role(other) in writes else 'input'} {other.opts[0]}, which"
            raise typer.BadParameter(f"{word} is also {lost} would be lost; write another", ctx, output)


def _plain_flags(parameters: list[Any]) -> list[Any]:
    """The same parameters; flags take no value, so none has ``<bool>`` in help."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _role(option: Any) -> Any:
    """The callback of an option, as it was written."""
    return inspect.unwrap(option.callback) if option.callback else None


def _same(word: str, name: str, both_written: bool) -> bool:
    """Whether two words name one file, or one that is not there yet if both are written.

    What is no regular file, such as a terminal, keeps nothing.
    """
    if os.path.isfile(word) and os.path.isfile(name):
        return os.path.samefile(word, name)
    return both_written and not os.path.exists(word) and os.path.realpath(word) == os.path.realpath(name)


def _words(value: Any) -> list[str]:
    """What was given for a parameter: a word, words, or nothing but a flag."""
    if isinstance(value, list | tuple):
        return [word for one in value for word in _words(one)]
    return [value] if isinstance(value, str) else []


def _mentions(hint: Any, kind: type) -> bool:
    """Whether a type is this one, or made of it, as ``list[Path] | None``."""
    return hint is kind or any(_mentions(part, kind) for part in get_args(hint))


def _is_utf8(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True


class Commands(TyperGroup):
    """A group whose commands are those of :data:`COMMANDS` under its name."""

    def __init__(self, **settings: Any):
        super().__init__(**settings)
        for name, (target, text) in COMMANDS.get(str(self.name), {}).items():
            self.commands[name] = Listed(name, target, text)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options of the group, which are all flags: those of Typer, too, get a default that is one."""
        found = _plain_flags(super().get_params(ctx))
        for option in found:
            # Typer reads a missing value by pydantic, whose import is half of what a short command costs.
            if option.default is None:
                option.default = False
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is called, or whose words are completed: imported, unlike those of ``get_command``."""
        name, command, rest = super().resolve_command(ctx, args)
        if isinstance(command, Listed):
            command = self.commands[str(command.name)] = command.load()
        return name, command, rest


class Root(Commands):
    """The group above all others. Its usage errors repeat what was given, so they are shown by :class:`Escaping`."""

    def make_context(self, *given: Any, **settings: Any) -> Any:
        """Parse the options before the first command."""
        with _escaped():
            return super().make_context(*given, **settings)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the command."""
        with _escaped():
            return super().invoke(ctx)


@contextmanager
def _escaped() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if hasattr(error, "format_message"):
            # Typer imports this module to show the error. It loads much of Rich, so nothing else here imports it.
            from typer import rich_utils  # noqa: PLC0415

            rich_utils.Console = Escaping  # type: ignore[attr-defined]
        raise
