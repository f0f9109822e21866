# SPDX-License-Identifier: MIT OR Apache-2.0
"""The operator's side of the device-mapper target ``linnet``: table lines, status words, and checks that guard data."""

from linnet._native import Error


class DmError(Error):
    """A target cannot be set up, queried or removed."""


class NotABlockDeviceError(DmError):
    """What a path names is there, and can hold no replica."""
