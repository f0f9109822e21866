# SPDX-License-Identifier: MIT OR Apache-2.0
"""Print the results of effect-md.sh as the tables of docs/results/dm-md-effect.md, in microseconds of the drives' time.

All rounds of a peer count as one sample. Its ratio to plain md has a 95 % interval: rounds are drawn with replacement,
the same ones for both, and the quantiles are of all reads of the rounds drawn. The rows are written to
DIR/dm-md-effect.json.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from effect_table import a_row_a_line, latencies, load, print_places

QUANTILES = {"mean": None, "p50": 0.5, "p99": 0.99, "p999": 0.999}
RATIOS = ("mean", "p50", "p99", "p999")
HEAD = [
    "peer",
    "mean",
    "p50",
    "p99",
    "p99.9",
    *(f"{name} / md" for name in ("mean", "p50", "p99", "p99.9")),
    "second reads",
]
DRAWS = 1000


def figure(sample: Any, share: float | None) -> float:
    """The mean, or an exact quantile by nearest rank."""
    return float(sample.mean() if share is None else np.quantile(sample, share, method="inverted_cdf"))


def row_of(rounds: list[Any], plain: list[Any], counts: list[dict[str, Any]]) -> dict[str, Any]:
    """Figures of a peer over all rounds, and ratios to plain md with intervals."""
    row: dict[str, Any] = {key: counts[0][key] for key in ("where", "policy")}
    row |= {key: sum(one[key] for one in counts) for key in ("reads", "failed", "copies", "steered")}
    whole = np.concatenate(rounds)
    row |= {f"{name}_us": figure(whole, share) for name, share in QUANTILES.items()}
    chance = np.random.default_rng(1)
    drawn = [chance.integers(0, len(rounds), len(rounds)) for _ in range(DRAWS)]
    for name in RATIOS:
        share = QUANTILES[name]
        found = [
            figure(np.concatenate([rounds[i] for i in one]), share)
            / figure(np.concatenate([plain[i] for i in one]), share)
            for one in drawn
        ]
        row[name] = [figure(whole, share) / figure(np.concatenate(plain), share), *np.quantile(found, (0.025, 0.975))]
    return row


def cells_of(row: dict[str, Any]) -> list[str]:
    """The cells below HEAD."""
    times = [f"{row[f'{name}_us']:,.0f}" for name in QUANTILES]
    ratios = ["{:.2f} ({:.2f} to {:.2f})".format(*row[name]) if row["policy"] != "md" else "" for name in RATIOS]
    share = f"{100 * row['copies'] / row['reads']:.2f} %" if "+hedge" in row["policy"] else "-"
    return [row["policy"], *times, *ratios, share]


def main() -> int:
    """Print a table for each load."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path, nargs="+", help="where effect-md.sh has left its results")
    parser.add_argument("--kernel", required=True)
    parser.add_argument("--scale", type=float, required=True)
    args = parser.parse_args()
    rows = []
    for directory in args.directory:
        found: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for one in load(directory / "results.jsonl"):
            found.setdefault((one["where"], one["policy"]), []).append(one)
        samples = {
            key: [
                np.array(latencies(directory / "reads" / f"{key[0]}.{key[1]}.{one['round']}.csv")) / 1000 / args.scale
                for one in sorted(counts, key=lambda one: one["round"])
            ]
            for key, counts in found.items()
        }
        for (where, policy), counts in found.items():
            plain = samples[where, "md"]
            if len(samples[where, policy]) == len(plain):
                rows.append(row_of(samples[where, policy], plain, counts))
    out = {"kernel": args.kernel, "time_scale": args.scale, "rows": rows}
    (args.directory[0] / "dm-md-effect.json").write_text(a_row_a_line(out))
    print_places(rows, args.kernel, HEAD, lambda row, _: cells_of(row))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
