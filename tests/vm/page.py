# SPDX-License-Identifier: MIT OR Apache-2.0
"""Run the `shell-session` blocks of a page in a machine and compare the output: `page.py PAGE [--show]`.

Lines that begin with `$ ` are commands; the lines up to the next command are their output, stdout and stderr together.
Numbers and blanks may differ; a line `...` matches any lines. A command with the comment `# refused` must fail, all
others must succeed. `--show` prints the output without comparing. Loading Python's packages takes long in an emulated
machine, so they are loaded once, and each `linnet` command runs in a fork of this process. Packages that `linnet dm`
does not use (for figures and comparison models) are replaced by mocks.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from itertools import zip_longest
from pathlib import Path
from unittest.mock import MagicMock

BLOCK = re.compile(r"^```shell-session\n(.*?)^```", re.MULTILINE | re.DOTALL)
REFUSED = "  # refused"
SHELL = set("|&;<>$`(")


UNUSED = {"matplotlib", "scipy", "sklearn", "pyarrow"}


class LeftOut(MetaPathFinder, Loader):
    """Imports mocks for the unused packages."""

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """Handle only the unused packages."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in UNUSED else None

    def create_module(self, spec: ModuleSpec) -> MagicMock:
        """A mock that accepts any use."""
        return MagicMock(name=spec.name)

    def exec_module(self, module: object) -> None:
        """Nothing to run."""


def steps(page: str) -> list[tuple[str, list[str]]]:
    """Commands and the output shown for each."""
    found: list[tuple[str, list[str]]] = []
    for block in BLOCK.findall(page):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], []))
            elif line.strip():
                found[-1][1].append(line)
    return found


def plain(line: str) -> str:
    """A line without the parts that differ from run to run."""
    return re.sub(r"\d[\d,.:]*", "N", " ".join(line.split()))


def agrees(shown: list[str], real: list[str]) -> bool:
    """Whether the real output matches what the page shows."""
    if not shown:
        return not real
    if shown[0] == "...":
        return any(agrees(shown[1:], real[i:]) for i in range(len(real) + 1))
    return bool(real) and plain(shown[0]) == plain(real[0]) and agrees(shown[1:], real[1:])


def in_a_copy(words: list[str]) -> tuple[int, str]:
    """Run the command line in a fork of this process; return its status and output."""
    from linnet.cli import main as linnet  # noqa: PLC0415

    with tempfile.TemporaryFile("w+") as output:
        sys.stdout.flush()  # or the fork prints it again
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            sys.argv = words
            status = 1
            try:
                linnet()
            except SystemExit as end:
                status = end.code if isinstance(end.code, int) else 0
            finally:
                sys.stdout.flush()
                os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return status, output.read()


def run(command: str) -> tuple[int, str]:
    """Run a command; return its status and output."""
    if command.startswith("linnet ") and not SHELL & set(command):
        return in_a_copy(shlex.split(command))
    done = subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    return done.returncode, done.stdout


def main() -> int:
    """Run every command of the page in order."""
    sys.meta_path.insert(0, LeftOut())
    show = "--show" in sys.argv
    wrong = 0
    for command, shown in steps(Path(sys.argv[1]).read_text()):
        must_fail = command.endswith(REFUSED)
        status, output = run(command.removesuffix(REFUSED))
        real = [line.rstrip() for line in output.splitlines() if line.strip()]
        print(f"$ {command}", *(real if show else []), sep="\n", flush=True)
        if (status != 0) != must_fail:
            print(f"failed: status {status}", *real, sep="\n")
            wrong += 1
        elif not show and not agrees(shown, real):
            print("failed: the page shows | the machine says")
            for left, right in zip_longest(shown, real, fillvalue=""):
                print(f"  {left} | {right}")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
