# SPDX-License-Identifier: MIT OR Apache-2.0
"""Starts the command ``linnet`` many times for one import of what every start, or many a start, imports.

A process that has imported the command line, and has no thread, forks for each start. What it starts is a process of
its own with the standard output, status and signals of one; but for its imports it is as :func:`linnet.cli.main` finds
itself in a new interpreter. Tests that set limits, the environment or an input start a new interpreter instead.

Run as a program, it is that process, and its argument is the descriptor of its end of a socket.
"""

from __future__ import annotations

import gc
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

COMMAND = Path(sys.executable).with_name("linnet")
WHAT_EVERY_START_IMPORTS = ("linnet.cli", "linnet.cli.options", "typer.rich_utils", "typer._adapters", "rich.table")
WHAT_MANY_IMPORT = ("numpy",)


class Starter:
    """The process that forks; one start at a time."""

    def __init__(self) -> None:
        self.environment = _environment()
        self._busy = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            words = [sys.executable, __file__, str(theirs.fileno())]
            # Not a terminal, and not the files of pytest, which each start replaces.
            self._process = subprocess.Popen(
                words, pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )

    def run(self, words: list[str], timeout: float) -> subprocess.CompletedProcess[str] | None:
        """The start, with its output; nothing if another is running or the environment has changed."""
        if _environment() != self.environment or not self._busy.acquire(blocking=False):
            return None
        try:
            return self._run(words, timeout)
        finally:
            self._busy.release()

    def _run(self, words: list[str], timeout: float) -> subprocess.CompletedProcess[str]:
        out, err = os.pipe(), os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps([words, os.getcwd()]).encode()], [out[1], err[1]])
        finally:
            os.close(out[1])
            os.close(err[1])
        pid = int(self._socket.recv(100))
        late = threading.Timer(timeout, os.kill, (pid, signal.SIGKILL))
        late.start()
        found: list[bytes] = [b"", b""]

        def read(which: int, descriptor: int) -> None:
            with open(descriptor, "rb") as pipe:
                found[which] = pipe.read()

        reader = threading.Thread(target=read, args=(1, err[0]))
        reader.start()
        read(0, out[0])
        reader.join()
        status = int(self._socket.recv(100))
        late.cancel()
        texts = (io.TextIOWrapper(io.BytesIO(data)).read() for data in found)
        return subprocess.CompletedProcess([str(COMMAND), *words], status, *texts)

    def close(self) -> None:
        """End the process."""
        self._socket.close()
        self._process.wait()


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


def started(control: socket.socket) -> None:
    """Fork for every message, and return in the child, which then is as a start finds itself."""
    while True:
        message, files, _, _ = socket.recv_fds(control, 1 << 20, 2)
        if not message:
            os._exit(0)
        words, folder = json.loads(message)
        child = os.fork()
        if child == 0:
            control.close()
            for standard, file in zip((1, 2), files, strict=True):
                os.dup2(file, standard)
                os.close(file)
            os.chdir(folder)
            sys.argv = [str(COMMAND), *words]
            return
        for file in files:
            os.close(file)
        control.send(str(child).encode())
        control.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())


if __name__ == "__main__":
    sys.path[:] = [path for path in sys.path if path != str(Path(__file__).parent)]
    # Numpy's threads would not be there after a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for name in (*WHAT_EVERY_START_IMPORTS, *WHAT_MANY_IMPORT):
        try:
            __import__(name)
        except ImportError:
            # Of another release of Typer.
            continue
    # Else the collection at the end of each start would copy the pages of all that is shared with this process.
    gc.freeze()
    started(socket.socket(fileno=int(sys.argv[1])))
    sys.exit(sys.modules["linnet.cli"].main())
