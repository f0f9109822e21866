# SPDX-License-Identifier: MIT OR Apache-2.0
"""Tables of the co-location scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from linnet.place.words import METRICS
from linnet.studies.colocation import MODELS

Scores = Sequence[dict[str, Any]]
REFERENCE = "gray-box"
"""The paper's normalised MAE is relative to this model's."""


def means(scores: Scores) -> list[dict[str, Any]]:
    """A row for each drive, split, metric and model: means over the shuffles, and the MAE over that of the gray-box
    forest in the same shuffle.
    """
    by: dict[tuple[Any, ...], dict[int, dict[str, Any]]] = {}
    for one in scores:
        by.setdefault(tuple(one[name] for name in ("drive", "split", "metric", "model")), {})[one["shuffle"]] = one
    found = []
    for (drive, split, metric, model), shuffles in by.items():
        reference = by.get((drive, split, metric, REFERENCE), {})
        ratios = [one["mae"] / reference[n]["mae"] for n, one in shuffles.items() if n in reference]
        own = list(shuffles.values())
        row: dict[str, Any] = {"drive": drive, "split": split, "metric": metric, "model": model}
        row |= {name: round(float(np.mean([one[name] for one in own])), 4) for name in ("r2", "mae_of_mean")}
        row["mae_of_graybox"] = round(float(np.mean(ratios)), 3) if ratios else None
        found.append(row | {"n": own[0]["n"], "train": own[0]["train"], "shuffles": len(own)})
    return found


def page_of(scores: Scores) -> str:
    """R2, and MAE relative to the gray-box forest's, by drive and split, as Markdown."""
    rows = means(scores)
    lines: list[str] = []
    for drive in dict.fromkeys(row["drive"] for row in rows):
        for split in dict.fromkeys(row["split"] for row in rows if row["drive"] == drive):
            own = {(row["metric"], row["model"]): row for row in rows if (row["drive"], row["split"]) == (drive, split)}
            models = [model for model in MODELS if any(key[1] == model for key in own)]
            lines += [f"### {drive}, {split}", ""]
            lines += ["| metric | trained on | tried | " + " | ".join(models) + " |"]
            lines += ["|---|---|---|" + "---|" * len(models)]
            for metric in METRICS:
                cells = [own.get((metric, model)) for model in models]
                shown = next((cell for cell in cells if cell), None)
                if shown is not None:
                    texts = [_cell(cell) for cell in cells]
                    lines += [f"| `{metric}` | {shown['train']:,} | {shown['n']:,} | " + " | ".join(texts) + " |"]
            lines.append("")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return f"{row['r2']:.2f}" + ("" if row["mae_of_graybox"] is None else f", {row['mae_of_graybox']:.2f}")


def summary(scores: Scores) -> list[dict[str, Any]]:
    """By drive, split and model: median R2 over the metrics, the least and the most MAE relative to the forest's."""
    rows = means(scores)
    found = []
    for drive, split, model in dict.fromkeys((row["drive"], row["split"], row["model"]) for row in rows):
        own = [row for row in rows if (row["drive"], row["split"], row["model"]) == (drive, split, model)]
        ratios = [row["mae_of_graybox"] for row in own if row["mae_of_graybox"] is not None]
        found.append(
            {
                **{"drive": drive, "split": split, "model": model, "metrics": len(own)},
                "r2_median": round(float(np.median([row["r2"] for row in own])), 3),
                "r2_least": round(min(row["r2"] for row in own), 3),
                "mae_of_graybox_least": min(ratios, default=None),
                "mae_of_graybox_most": max(ratios, default=None),
            }
        )
    return found
