# SPDX-License-Identifier: MIT OR Apache-2.0
"""The device-mapper target ``linnet`` from the operator's side: table lines, status words, and what guards the data."""

from linnet._native import Error


class DmError(Error):
    """A target cannot be set up, asked or removed."""
