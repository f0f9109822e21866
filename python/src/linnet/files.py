# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files that are written whole or not at all, by the engine's writer (``crates/files``).

The writer keeps the mode of a file that was there, follows symbolic links, writes through pipes and character devices,
and refuses block devices, sockets and directories. ``-`` is standard output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from linnet import _native


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


def write_whole(path: Path, data: bytes | str, follow: bool = True) -> None:
    """Write a file that appears whole or not at all."""
    with whole_file(path, follow) as file:
        file.write(data.encode() if isinstance(data, str) else data)
