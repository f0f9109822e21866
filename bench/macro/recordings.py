# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the scripts of this folder find real traces."""

from __future__ import annotations

import argparse
import os
from pathlib import Path


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Add ``--traces``, a folder of real traces. A driver says what it skips where the folder is not there."""
    folder = Path(os.environ.get("LINNET_SHARED", "shared")) / "traces"
    parser.add_argument("--traces", type=Path, default=folder, help="folder of real traces ($LINNET_SHARED/traces)")
