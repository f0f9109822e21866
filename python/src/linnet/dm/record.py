# SPDX-License-Identifier: MIT OR Apache-2.0
"""Turns the target's trace events into one trace per replica. ``crates/trace`` parses the text."""

from __future__ import annotations

import os
import select
import shlex
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from linnet._native import Trace
from linnet.dm import DmError
from linnet.dm.host import Host
from linnet.progress import Progress

INSTANCE = "linnet-export"
IO = "events/linnet/linnet_io"
DECISION = "events/linnet/linnet_decision"
BUFFER_KIB = 16384
"""Of each CPU: some 100,000 events, a second of what one CPU can do."""
REPLICAS = 16
"""``linnet-ftrace`` numbers devices ``minor * 16 + replica`` (spec/trace-record.md)."""


def events(decisions: bool) -> list[str]:
    """The events that are recorded."""
    return [IO, DECISION] if decisions else [IO]


def commands(host: Host, seconds: float, decisions: bool = False) -> list[str]:
    """What recording does, as shell commands."""
    base = shlex.quote(str(host.tracing / "instances" / INSTANCE))
    return [
        f"mkdir {base}",
        f"echo {BUFFER_KIB} > {base}/buffer_size_kb",
        *(f"echo 1 > {base}/{event}/enable" for event in events(decisions)),
        f"timeout {seconds:g} cat {base}/trace_pipe > saved.txt",
        f"rmdir {base}",
    ]


def record(host: Host, seconds: float, directory: Path, progress: Progress, decisions: bool = False) -> BinaryIO:
    """Record for so long; the text, in a file without a name that the caller closes."""
    if not (host.tracing / "events").exists():
        raise DmError(f"{host.tracing}: no tracefs; mount it with: mount -t tracefs nodev {host.tracing}")
    if not (host.tracing / IO).exists():
        raise DmError("the kernel has no event linnet:linnet_io; load the module: modprobe dm-linnet")
    base = host.tracing / "instances" / INSTANCE
    # Without a name: in a directory of another user nobody can put a link in its way.
    text = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 -- the caller closes it
    try:
        base.mkdir()
    except OSError as error:
        text.close()
        if not isinstance(error, FileExistsError):
            raise
        raise DmError(
            f"{base} exists: another export is running, or one was killed; if none is running, remove it with rmdir"
        ) from error
    try:
        (base / "buffer_size_kb").write_text(str(BUFFER_KIB))
        for event in events(decisions):
            (base / event / "enable").write_text("1")
        _copy(base / "trace_pipe", text, seconds, progress)
        if not text.tell():
            raise DmError(f"no volume of linnet had an I/O in {seconds:g} s; record while it is used, or longer")
    except BaseException:
        text.close()
        raise
    finally:
        for event in events(decisions):
            with suppress(OSError):
                (base / event / "enable").write_text("0")
        with suppress(OSError):
            base.rmdir()
    text.flush()
    return text


def _copy(pipe: Path, out: BinaryIO, seconds: float, progress: Progress) -> None:
    """Copy the pipe until time is up, and then what is still in it."""
    step = progress.stage("recording", int(seconds))
    begun = time.monotonic()
    handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        while True:
            elapsed = time.monotonic() - begun
            step(min(int(elapsed), int(seconds)))
            try:
                piece = os.read(handle, 1 << 16)
            except BlockingIOError:
                piece = b""
            out.write(piece)
            if not piece:
                if elapsed >= seconds:
                    return
                select.select([handle], [], [], min(0.2, seconds - elapsed))
            elif elapsed >= seconds + 5:
                return  # load that does not pause: what came meanwhile is beyond the time asked for
    finally:
        os.close(handle)


def minor(host: Host, name: str) -> int:
    """The minor number of a device-mapper device."""
    answer = host.run(["dmsetup", "info", "--columns", "--noheadings", "-o", "minor", name]).strip()
    if not answer.isdigit():
        raise DmError(f"{name}: dmsetup gives no minor number: {answer!r}")
    return int(answer)


def minor_in(trace: Trace, host: Host, name: str) -> int:
    """The minor number of a device whose events are in a saved trace, which may be of another machine.

    The trace has numbers and no names, so this machine is asked. Where it does not know the name, the trace must be of
    one device.
    """
    try:
        return minor(host, name)
    except DmError as error:
        found = {number // REPLICAS for number in trace.devices}
        if len(found) == 1:
            return found.pop()
        raise DmError(f"{error}; the trace is of {len(found)} devices: without a name, each is written") from error


def split(trace: Trace, only: int | None, name: str | None, out: Path) -> list[tuple[Path, int]]:
    """Write one Parquet file for each replica, on one clock; the files and their records.

    ``only`` is the minor number of the device wanted. Files are called ``NAME.REPLICA.parquet``, or after the minor
    number.
    """
    import numpy as np  # noqa: PLC0415  # most commands of `linnet dm` need none

    columns = trace.columns()
    device = columns["device"]
    found = [int(number) for number in np.unique(device) if only is None or number // REPLICAS == only]
    if not found:
        raise DmError(f"{trace.name}: no I/O of {name or 'any device'} in the trace")
    written = []
    for number in found:
        mask = device == number
        chosen = {key: values[mask] for key, values in columns.items()}
        chosen["device"] = np.full(int(mask.sum()), number % REPLICAS, np.uint32)
        path = out / f"{name or f'dm-{number // REPLICAS}'}.{number % REPLICAS}.parquet"
        Trace.from_columns(trace.name, **chosen).write(path, follow=False)
        written.append((path, int(mask.sum())))
    return written
