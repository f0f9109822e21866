# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where the scripts of this folder find real traces."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path


def add_traces(parser: argparse.ArgumentParser) -> None:
    """Add ``--traces``, a folder of real traces. A driver says what it skips where the folder is not there."""
    beside = Path(__file__).resolve().parents[3] / "shared"
    folder = Path(os.environ.get("LINNET_SHARED") or beside) / "traces"
    parser.add_argument(
        "--traces",
        type=Path,
        default=folder,
        help="folder of real traces ($LINNET_SHARED/traces, or beside the checkout)",
    )


def parse_or_skip(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the arguments; exit with status 77, for skipped, where the folder of traces is missing."""
    args = parser.parse_args()
    if not args.traces.is_dir():
        print(f"skipped: no directory {args.traces}", file=sys.stderr)
        sys.exit(77)
    return args
