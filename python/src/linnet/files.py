# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that are written whole or not at all, by the engine's writer (``crates/files``).

The writer keeps the mode of a file that was there, follows symbolic links, writes through pipes and character devices,
and refuses block devices, sockets and directories. ``-`` is standard output.

Files that are read whole have a limit, so that none without end is read.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from linnet import _native

GZIP = b"\x1f\x8b"
"""How a file begins that gzip compressed."""


@contextmanager
def whole_file(path: Path, follow: bool = True) -> Iterator[BinaryIO]:
    """Give a file that takes the place of ``path`` only when the block ends well. It is not seekable if it is a pipe.

    Without ``follow``, symbolic links and all that is no regular file are refused.
    """
    output = _native.Output(path, follow)
    try:
        with os.fdopen(output.fd(), "wb") as file:
            yield file
        output.commit()
    except OSError as error:
        # A full disk is reported without a name; say which file it is about.
        if error.filename is None:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        output.discard()


def check_target(path: Path) -> None:
    """Raise what :func:`whole_file` would raise, before the work whose result goes there. What is there stays.

    The writer begins and gives up, so the rules are its own. Where the file system has files without a name, none
    appears.
    """
    kind = path.stat().st_mode if path.exists() else 0
    if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind):
        # To open a pipe waits for its reader, who would see the end of it when it is closed.
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return
    _native.Output(path).discard()


def check_folder(path: Path) -> None:
    """Raise what making a folder, or a file in it, would raise, before the work whose results go there."""
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(there))


def read_bounded(path: Path, most: int, unpack: bool = False) -> bytes:
    """The bytes of a file of at most ``most``; with ``unpack`` of what it holds, if it is compressed by gzip.

    Raises :class:`OSError`, and what :mod:`gzip` does.
    """
    with path.open("rb") as file:
        data = file.read(most + 1)
    if unpack and data[:2] == GZIP and len(data) <= most:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as packed:
            data = packed.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"more than {most} bytes, the limit for files of this kind", str(path))
    return data


def write_whole(path: Path, data: bytes | str, follow: bool = True) -> None:
    """Write a file that appears whole or not at all."""
    with whole_file(path, follow) as file:
        file.write(data.encode() if isinstance(data, str) else data)
