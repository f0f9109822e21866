# SPDX-License-Identifier: MIT OR Apache-2.0
"""The file of a fitted placement model (``spec/place-model.md``)."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from linnet.files import read_bounded
from linnet.place import container
from linnet.place.answers import TARGETS
from linnet.place.confidence import BETWEEN
from linnet.place.fitted import FIGURES, MOST_LOG, NO_INTERVAL, PARTS, PlacementModel, assembled
from linnet.place.gaussian import ROUGHNESS
from linnet.place.models.open_loop import KERNEL, READS_LENGTH
from linnet.place.observations import Floats, Observations

COLUMNS = {
    "open-loop-1": ("all_read_pages", "all_write_pages", "achieved_write_pages", *FIGURES),
    "open-loop-2": (
        *("all_read_pages", "all_write_pages", "achieved_read_pages", "achieved_write_pages", "depth"),
        *FIGURES,
    ),
}
"""Columns before the outcomes by the form of a file: loads and rates in pages of 4 KiB per second. The last is written.
"""
FORM = list(COLUMNS)[-1]
READS_AT = [hyper.name for hyper in KERNEL.hypers].index(READS_LENGTH)
NO_FIGURE = -1.0
"""Stands in the file for a figure that a data sheet lacks, and for outstanding I/Os that are not known."""
NO_OUTCOME = -1e3
"""Stands in the file for the logarithm of a latency that was not measured; earlier readers refuse it."""
READ_SHARE = "read_share"
OWN_PAGES = "own_pages"
MOST_FACTOR = 1e6
"""Of a spread, for an interval. Older files of one drive have hundreds."""


def to_bytes(model: PlacementModel) -> bytes:
    """The file of a model."""
    known = model.latency.known
    names = sorted({(str(d), str(m)) for d, m in zip(known.labels["drive"], known.labels["model"], strict=True)})
    index = {drive: i for i, (drive, _) in enumerate(names)}
    inputs = {**known.inputs, **{f"achieved_{name}": values for name, values in known.achieved.items()}}
    columns = [
        np.array([float(index[str(name)]) for name in known.labels["drive"]]),
        *(np.nan_to_num(inputs[name], nan=NO_FIGURE) for name in COLUMNS[FORM] if name not in FIGURES),
        *(np.where(inputs[name] > 0, np.nan_to_num(inputs[name]), NO_FIGURE) for name in FIGURES),
        *np.nan_to_num(known.outcomes.T, nan=NO_OUTCOME),
    ]
    head: dict[str, Any] = {
        "form": FORM,
        "drives": [{"name": name, "model": kind} for name, kind in names],
        **({} if model.read_share is None else {READ_SHARE: float(np.nan_to_num(model.read_share, nan=NO_FIGURE))}),
        **({} if model.own_pages is None else {OWN_PAGES: list(model.own_pages)}),
        "targets": [
            {
                "name": target,
                "centre": float(np.nan_to_num(process.centre)),
                "roughness": process.roughness,
                "hyperparameters": [float(value) for value in process.theta],
                "known_factor": float(np.nan_to_num(model.known_factor[t], nan=NO_INTERVAL)),
                "new_factor": float(np.nan_to_num(model.new_factor[t], nan=NO_INTERVAL)),
                **{
                    name: [float(part) for part in parts[:, t]]
                    for name, parts in zip(PARTS, (model.known_parts, model.new_parts), strict=True)
                    if parts is not None
                },
            }
            for t, (target, process) in enumerate(zip(TARGETS, model.latency.processes, strict=True))
        ],
    }
    return container.pack(head, np.array(columns))


def read_model(path: Path) -> PlacementModel:
    """The model of a file. Raises ValueError, which names the file and what is wrong, and OSError."""
    try:
        data = read_bounded(path, container.MOST_BYTES)
        checksum = f"{int.from_bytes(data[-4:], 'little'):08x}"
        return replace(from_bytes(data), origin=(os.path.abspath(path), checksum))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def from_bytes(data: bytes) -> PlacementModel:
    """The model of a file's bytes. Raises ValueError, which says what is wrong."""
    try:
        return _from(*container.unpack(data))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"its head lacks or misuses a field: {error}") from None


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most


def _from(head: dict[str, Any], columns: Floats) -> PlacementModel:
    form = head["form"]
    if form not in COLUMNS:
        raise ValueError(f"form {form!r} is not known; this reader knows {', '.join(COLUMNS)}")
    if tuple(target["name"] for target in head["targets"]) != TARGETS:
        raise ValueError("targets: not those of this version, in their order")
    if len(columns) != 1 + len(COLUMNS[form]) + len(TARGETS) or not columns.shape[1]:
        raise ValueError(f"{len(columns)} columns of {columns.shape[1]} rows do not fit the targets")
    known = _known(head["drives"], COLUMNS[form], columns)
    for target in head["targets"]:
        if form == "open-loop-1":
            # All hyperparameters but the length of reads, which older models do not tell from writes.
            target["hyperparameters"].insert(READS_AT, float(KERNEL.usual[READS_AT]))
        _check(target)
    return assembled(known, head["targets"], *_measured_limits(head))


def _known(drives: Sequence[dict[str, Any]], names_of: Sequence[str], columns: Floats) -> Observations:
    """The loads of a file, on the drives that its head has."""
    names = [(drive["name"], drive["model"]) for drive in drives]
    if not all(isinstance(one, str) for pair in names for one in pair):
        raise ValueError("drives: a name and a model are texts")
    if not np.isin(columns[0], np.arange(len(names))).all():
        raise ValueError("a row names a drive that the head lacks")
    index = columns[0].astype(int)
    values = dict(zip(names_of, columns[1:], strict=False))
    outcomes = columns[1 + len(names_of) :].T.copy()
    outcomes[outcomes == NO_OUTCOME] = math.nan
    if any(np.any(values[name] < 0) for name in names_of if "pages" in name) or np.any(np.abs(outcomes) > MOST_LOG):
        raise ValueError("a load is negative, or an outcome is out of range")
    # Older files do not say what was outstanding, nor that reads were held back.
    values.setdefault("depth", np.full(len(index), NO_FIGURE))
    values.setdefault("achieved_read_pages", values["all_read_pages"])
    for name in ("depth", *FIGURES):
        given = values[name] > 0
        if np.any(~given & (values[name] != NO_FIGURE)):
            what = "outstanding I/Os are" if name == "depth" else "a figure of a data sheet is"
            raise ValueError(f"{name}: {what} neither above 0 nor {NO_FIGURE:.0f}")
        values[name] = np.where(given, values[name], math.nan)
    return Observations(
        "ssdiq",
        TARGETS,
        outcomes,
        {name: one for name, one in values.items() if not name.startswith("achieved_")},
        {
            "drive": np.array([names[i][0] for i in index], dtype=object),
            "model": np.array([names[i][1] for i in index], dtype=object),
        },
        {name: values[f"achieved_{name}"] for name in ("write_pages", "read_pages")},
    )


def _check(target: dict[str, Any]) -> None:
    """Refuses a target of the head whose numbers are out of range."""
    theta = target["hyperparameters"]
    factors = [target["known_factor"], target["new_factor"]]
    if len(theta) != len(KERNEL.hypers) or target["roughness"] not in ROUGHNESS:
        raise ValueError(f"{target['name']}: hyperparameters: {len(KERNEL.hypers)} and a known roughness are needed")
    if not all(_is_number(n, -MOST_LOG, MOST_LOG) for n in (*theta, target["centre"])):
        raise ValueError(f"{target['name']}: a number is out of range")
    if not all(_is_number(n, NO_INTERVAL, MOST_FACTOR) and (n > 0 or n == NO_INTERVAL) for n in factors):
        raise ValueError(
            f"{target['name']}: the factors of its intervals, {factors[0]} and {factors[1]}, are out of range: "
            f"above 0 to {MOST_FACTOR:.0f}, or {NO_INTERVAL:.0f}"
        )
    for parts in (target[name] for name in PARTS if name in target):
        steps = [0.0, *parts, 1.0]
        if len(parts) != len(BETWEEN) or not all(_is_number(n, 0, 1) for n in parts) or steps != sorted(steps):
            raise ValueError(f"{target['name']}: parts: {len(BETWEEN)} rising numbers from 0 to 1 are needed")


def _measured_limits(head: dict[str, Any]) -> tuple[float | None, tuple[float, float] | None]:
    """The largest share of reads and the sizes that were measured, where the head says them."""
    share = head.get(READ_SHARE)
    if READ_SHARE in head and share != NO_FIGURE and not _is_number(share, 0, sys.float_info.max):
        raise ValueError(f"{READ_SHARE} {share!r} is out of range: from 0, or {NO_FIGURE:.0f}")
    if share is not None:
        share = math.nan if share == NO_FIGURE else float(share)
    if OWN_PAGES not in head:
        return share, None
    pages = head[OWN_PAGES]
    if len(pages) != 2 or not all(_is_number(n, 0, sys.float_info.max) for n in pages) or not 0 < pages[0] <= pages[1]:
        raise ValueError(f"{OWN_PAGES} {pages!r} is out of range: two rising numbers above 0")
    return share, (float(pages[0]), float(pages[1]))
