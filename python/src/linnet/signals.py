# SPDX-License-Identifier: MIT OR Apache-2.0
"""The signals that end a command."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

INTERRUPTED = 130
"""Status after Ctrl-C, as shells count it."""
SAID = "interrupted; no incomplete file was left"
"""What a command says when a signal has ended it."""


def ends() -> list[signal.Signals]:
    """The signals that ask a command to end in order, besides Ctrl-C.

    SIGHUP comes when the terminal goes, unless nohup has it ignored.
    """
    return [signal.SIGTERM] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGTERM, signal.SIGHUP]


def _end(number: int, frame: FrameType | None) -> None:
    with suppress(OSError):
        os.write(2, f"linnet: {SAID}\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def ended_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process while a command imports what it needs, before there is anything to put back.

    ``KeyboardInterrupt`` would be a traceback, or lost in a callback of the imports. A handler of somebody else stays.
    """
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    try:
        if ours:
            signal.signal(signal.SIGINT, _end)
    except ValueError:
        # Only the main thread has handlers.
        ours = False
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
