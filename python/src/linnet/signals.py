# SPDX-License-Identifier: MIT OR Apache-2.0
"""The signals that end a command."""

from __future__ import annotations

import signal


def ends() -> list[signal.Signals]:
    """The signals that ask a command to end in order, besides Ctrl-C.

    SIGHUP comes when the terminal goes, unless nohup has it ignored.
    """
    return [signal.SIGTERM] if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else [signal.SIGTERM, signal.SIGHUP]
