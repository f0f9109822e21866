# SPDX-License-Identifier: MIT OR Apache-2.0
"""Starts the command ``linnet`` many times for one import of what every start, or many a start, imports.

A process that has imported the command line, and has no thread, forks for each start. What it starts is a process of
its own with the standard output, status and signals of one; but for its imports it is as :func:`linnet.cli.main` finds
itself in a new interpreter. Tests that set limits, the environment or an input start a new interpreter instead.

Run as a program, it is that process, and its arguments are the descriptor of its end of a socket and further
modules to import.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from pathlib import Path

NUMBER = struct.Struct("i")
COMMAND = Path(sys.executable).with_name("linnet")
WHAT_EVERY_START_IMPORTS = ("linnet.cli", "linnet.cli.options", "typer.rich_utils", "typer._adapters", "rich.table")
WHAT_MANY_IMPORT = ("numpy",)
WHAT_THE_SERVICE_IMPORTS = ("linnet.cli.place_service", "linnet.place.service.operations", "linnet.place.service.serve")


class Started:
    """A command that runs, with what :class:`subprocess.Popen` has of it."""

    def __init__(self, words: list[str], out: int, err: int, status: int) -> None:
        self.words = words
        self.stdout = os.fdopen(out)
        self.stderr = os.fdopen(err)
        self._status = os.fdopen(status, "rb", buffering=0)
        self.pid = self._number()
        self.returncode: int | None = None

    def _number(self) -> int:
        return int(NUMBER.unpack(self._status.read(NUMBER.size))[0])

    def wait(self, timeout: float | None = None) -> int:
        """The status, as :class:`subprocess.Popen` counts it."""
        if self.returncode is None:
            if not self._ends_within(timeout):
                raise subprocess.TimeoutExpired(self.words, timeout or 0.0)
            self.returncode = self._number()
            self._status.close()
        return self.returncode

    def _ends_within(self, timeout: float | None) -> bool:
        return bool(select.select([self._status], [], [], timeout)[0])

    def _send(self, number: signal.Signals) -> None:
        """After its end the number of the process may be another's."""
        if self.returncode is None and not self._ends_within(0):
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        self._send(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """All of its output; it is killed after ``timeout`` seconds."""
        late = threading.Timer(timeout, self.kill) if timeout else None
        if late:
            late.start()
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(self.stderr.read()))
        reader.start()
        output = self.stdout.read()
        reader.join()
        self.wait()
        if late:
            late.cancel()
        self.stdout.close()
        self.stderr.close()
        return output, errors[0]


class Starter:
    """The process that forks.

    What it has imported costs each start that ends by itself, too, since the interpreter then takes it apart. So the
    service, of which most starts are killed, has a process of its own; the command that changes its drives imports as
    much.
    """

    def __init__(self, modules: tuple[str, ...]) -> None:
        self.environment = _environment()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, __file__, str(theirs.fileno()), *modules]
            # Not a terminal, and not the files of pytest, which each start replaces.
            self._process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def start(self, words: list[str]) -> Started | None:
        """The command, running; nothing if the environment has changed."""
        if _environment() != self.environment:
            return None
        pipes = [os.pipe() for _ in ("output", "errors", "status")]
        try:
            socket.send_fds(self._socket, [json.dumps([words, os.getcwd()]).encode()], [end for _, end in pipes])
        finally:
            for _, end in pipes:
                os.close(end)
        return Started([str(COMMAND), *words], *(end for end, _ in pipes))

    def run(self, words: list[str], timeout: float) -> subprocess.CompletedProcess[str] | None:
        """The command after its end, with its output; nothing if the environment has changed."""
        started = self.start(words)
        if started is None:
            return None
        output, errors = started.communicate(timeout)
        return subprocess.CompletedProcess(started.words, started.wait(), output, errors)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()


_made: dict[tuple[str, ...], Starter] = {}


def starter(words: list[str]) -> Starter:
    """The one of this run of tests that is for this command, from its first use on."""
    modules = WHAT_THE_SERVICE_IMPORTS if words[:2] in (["place", "serve"], ["place", "drives"]) else ()
    if modules not in _made:
        _made[modules] = Starter(modules)
    return _made[modules]


def close() -> None:
    """End those that were made."""
    for one in _made.values():
        one.close()
    _made.clear()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def fork_for_each(control: socket.socket) -> None:
    """Fork for every message, and return in the child, which then is as a start finds itself."""
    between: set[int] = set()
    while True:
        message, files, _, _ = socket.recv_fds(control, 1 << 20, 3)
        # Waited for, so that the time that they took counts as that of the tests.
        between -= {pid for pid in between if os.waitpid(pid, os.WNOHANG if message else 0)[0]}
        if not message:
            os._exit(0)
        words, folder = json.loads(message)
        between.add(os.fork())
        if 0 in between:
            control.close()
            if become_or_report(*files):
                os.chdir(folder)
                sys.argv = [str(COMMAND), *words]
                return
        for file in files:
            os.close(file)


def become_or_report(out: int, err: int, status: int) -> bool:
    """True in a child with these outputs; its parent writes its number and its status and ends."""
    child = os.fork()
    if child == 0:
        os.close(status)
        for standard, file in ((1, out), (2, err)):
            os.dup2(file, standard)
            os.close(file)
        return True
    for file in (out, err):
        os.close(file)
    os.write(status, NUMBER.pack(child))
    os.write(status, NUMBER.pack(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
    os._exit(0)


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
    # Numpy's threads would not be there after a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*WHAT_EVERY_START_IMPORTS, *WHAT_MANY_IMPORT, *sys.argv[2:]):
        try:
            __import__(name)
        except ImportError:
            # Of another release of Typer.
            continue
    # Else the collection at the end of each start would copy the pages of all that is shared with this process.
    gc.freeze()
    fork_for_each(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(sys.modules["linnet.cli"].main())
