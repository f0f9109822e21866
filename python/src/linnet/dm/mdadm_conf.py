# SPDX-License-Identifier: MIT OR Apache-2.0
"""What mdadm.conf says: which arrays it names, and which devices udev may give to mdadm."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from linnet.dm.host import Host
from linnet.dm.md import text_of

ARRAY = re.compile(r"(?im)^arr\w*[ \t]+(?:/dev/)?(?:md/?)?(\d+)(?=\s|$)")
"""Keywords may be cut short to three letters; a line that begins with a blank continues another."""
DEVICE = re.compile(r"(?im)^dev\w*[ \t]([^\n]*(?:\n[ \t][^\n]*)*)")
COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")


def _files(host: Host) -> list[Path]:
    found = []
    for where in ("etc/mdadm", "etc"):
        directory = host.root / where
        found += [directory / "mdadm.conf", *sorted((directory / "mdadm.conf.d").glob("*.conf"))]
    return found


def free_array(host: Host) -> str:
    """The first number that no array has, now or by the configuration of mdadm."""
    configured = {int(number) for path in _files(host) for number in ARRAY.findall(text_of(path))}
    k = 0
    while k in configured or (host.root / f"sys/block/md{k}").exists():
        k += 1
    return f"md{k}"


def barred(host: Host, legs: list[str], line: str) -> list[str]:
    """Why mdadm would not take these devices of device-mapper from udev, with the ``line`` that lets it.

    Without a line ``DEVICE`` it takes all.
    """
    said = {path: COMMENT.sub("", text_of(path)) for path in _files(host)}
    patterns = {path: " ".join(DEVICE.findall(text)).split() for path, text in said.items()}
    words = [word for some in patterns.values() for word in some]
    if not words or "partitions" in map(str.lower, words):
        return []
    kept = [leg for leg in legs if not any(_names(pattern, leg) for pattern in words)]
    if not kept:
        return []
    where = ", ".join(str(path) for path, some in patterns.items() if some)
    return [
        f"{where}: its DEVICE lines keep mdadm from {', '.join(kept)}, so the array would not start at boot; add the "
        f"line: {line}"
    ]


def _names(pattern: str, leg: str) -> bool:
    """Does a pattern of a line ``DEVICE`` match one of the names that udev tells mdadm?"""
    # The number of the last is not known before: only a pattern with a wildcard matches it.
    names = (f"/dev/mapper/{leg}", f"/dev/disk/by-id/dm-name-{leg}", "/dev/dm-1048575")
    return pattern.startswith("/") and any(PurePosixPath(name).match(pattern) for name in names)
