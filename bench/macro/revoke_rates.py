# SPDX-License-Identifier: MIT OR Apache-2.0
"""False revokes asked for and had on the later half of recordings that have latencies of real SSDs.

.venv/bin/python bench/macro/revoke_rates.py [--traces DIR] [--seed N] [--schema linnet-2] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from linnet import Trace
from linnet.studies.revokes import revoke_rates

sys.path.insert(0, str(Path(__file__).parent))
from real_accuracy import FILES
from recordings import add_traces, parse_or_skip


def main() -> int:
    """Print one row per recording and threshold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_traces(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--schema", default="linnet-1")
    parser.add_argument("--json", action="store_true")
    args = parse_or_skip(parser)
    rows = []
    for file in FILES:
        name = file.removesuffix(".zst").split("per_50k.")[-1]
        rows += revoke_rates(Trace.read(args.traces / file).named(name), args.seed, args.schema)
    if args.json:
        print(json.dumps(rows, indent=1))
        return 0
    print("| trace | threshold chosen on | asked | had | false submits | revoked | threshold, log-odds |")
    print("|---" * 7 + "|")
    for row in rows:
        asked = "even odds" if row["asked"] is None else f"{100 * row['asked']:g} %"
        shares = [f"{100 * row[key]:.2f} %" for key in ("false_revoke", "false_submit", "revoked")]
        print(
            f"| {row['trace']} | {row['chosen_on'] or '-'} | {asked} | {' | '.join(shares)} | {row['threshold']:.2f} |"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
