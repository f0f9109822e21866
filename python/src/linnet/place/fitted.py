# SPDX-License-Identifier: MIT OR Apache-2.0
"""A fitted placement model: trained on measured drives, asked about tenants that share a drive.

``fitted_file`` keeps it in a file.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet.place import moments
from linnet.place.answers import BANDWIDTHS, ROUNDING, TARGETS, answers, depths_of, page_us, pages_of
from linnet.place.curve import Curve
from linnet.place.gaussian import Process
from linnet.place.models.capacity import capacities
from linnet.place.models.model import hidden
from linnet.place.models.open_loop import KERNEL, OpenLoop, coordinates, learned
from linnet.place.observations import PAGE, Floats, Observations
from linnet.place.words import OPS, Drive, Prediction, Profile

FIGURES = ("rnd_read_iops", "rnd_write_iops")
"""Figures of a data sheet."""
PARTS = ("known_parts", "new_parts")
DENSE = 12
"""Loads of a drive from which its intervals are those of drives that are known: all held-out loads had so many."""
NO_INTERVAL = -1.0
"""Stands in the file, and among what was fitted, for a factor that too few drives tell: there are no intervals then."""
MOST_LOG = 50.0
"""Hyperparameters beyond e^50 are not of a fit; an interval that reaches e^50 times its value spans all latencies."""


@dataclass(frozen=True)
class PlacementModel:
    """See the module; :class:`linnet.place.words.Interference`."""

    latency: OpenLoop
    known_factor: Floats
    """What the spread is multiplied by for a 90 % interval on a drive of the training data, (targets,); NaN where there
    are no intervals, as of one drive."""
    new_factor: Floats
    """The same on a drive model that was not; NaN if all are of one model."""
    known_parts: Floats | None = None
    """What the intervals of lower confidences take of that half width, [BETWEEN, targets]; None in old files."""
    new_parts: Floats | None = None
    """The same on a drive model that was not in the training data."""
    read_share: float | None = None
    """See :func:`read_share`; None in old files, whose models answer up to the sheet's rate of random reads."""
    own_pages: tuple[float, float] | None = None
    """Least and most pages of 4 KiB of an I/O whose latency was learned; None in old files, which answer for any."""
    origin: tuple[str, str] | None = None
    """Path of the file that it was read from, and its checksum, 8 hexadecimal digits."""

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of what it predicts. Latencies are us, bandwidths bytes/s."""
        return (*TARGETS, *BANDWIDTHS)

    @property
    def drives(self) -> dict[str, Drive]:
        """Drives of the training data, by name, and another of each model, with its sheet, by the model's name."""
        another = {one.model: Drive("", one.model, one.sheet) for one in reversed(self._measured.values())}
        return {**another, **self._measured}

    @cached_property
    def _measured(self) -> dict[str, Drive]:
        known = self.latency.known
        found: dict[str, Drive] = {}
        for i, name in enumerate(map(str, known.labels["drive"])):
            sheet = {figure: float(known.inputs[figure][i]) for figure in FIGURES}
            found.setdefault(name, Drive(name, str(known.labels["model"][i]), sheet))
        return found

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        """Predict each tenant beside its neighbours on its drive; a metric of an operation it lacks is NaN.

        Neighbours' I/Os count by the pages of 4 KiB that they touch; how far that holds was not measured. A tenant's
        own are answered for sizes that were measured alone, with the time in which more than the least is transferred.
        """
        own = moments.rows(tenants)
        total = self.sums(own)
        for i, beside in enumerate(neighbours):
            total[i] += self.sums(moments.rows(beside)).sum(axis=0)
        found = self.predict_sums(drives, np.arange(len(tenants)), own, total)
        return [
            {name: Prediction(*map(float, one)) for name, one in zip(self.metrics, answer, strict=True)}
            for answer in found
        ]

    def sums(self, features: Floats) -> Floats:
        """Reads and writes per second in pages of 4 KiB, and the most outstanding I/Os, [n, 3], of tenants [n, 27].

        An I/O with an unaligned offset touches one page more. A tenant has no more outstanding than arrive in the
        longest mean latency that was measured.
        """
        rates = features[:, moments.RATE]
        sizes = np.where(features[:, moments.SIZE] > 0, features[:, moments.SIZE], float(PAGE))
        pages = rates * (np.ceil(sizes / PAGE) + features[:, moments.UNALIGNED])
        outstanding = np.minimum(depths_of(features), rates.sum(axis=1) * self._longest_s)
        return np.stack([pages[:, :2].sum(axis=1), pages[:, 2:].sum(axis=1), outstanding], axis=1)

    @cached_property
    def _longest_s(self) -> float:
        """Longest mean latency that was measured, of reads or of writes."""
        means = [TARGETS.index(f"{op}_latency_mean_us") for op in OPS]
        return math.exp(float(np.nanmax(self.latency.known.outcomes[:, means]))) / 1e6

    @cached_property
    def most_outstanding(self) -> float:
        """Most I/Os that the tenants of a row had outstanding; NaN of old files, which do not say it."""
        depth = self.latency.known.inputs["depth"]
        return float(np.max(depth[~np.isnan(depth)], initial=0.0)) or math.nan

    def predict_sums(self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats, total: Floats) -> Floats:
        """See :class:`linnet.place.batch.SumModel`.

        NaN on a drive whose capacity nothing tells: it was not measured, and its sheet has no random writes. NaN also
        where the tenants ask for more reads than :meth:`most_reads`, where they fill the drive and have more I/Os
        outstanding than :attr:`most_outstanding`, and for I/Os of another size than ``own_pages``: the training data
        have none. The ends are NaN where :attr:`known_factor` or :attr:`new_factor` is.
        """
        mean = np.zeros((len(own), len(TARGETS)))
        width = mean.copy()
        # All tenants of a drive see one load, so few loads are asked about.
        key, member = np.unique(np.column_stack([which, total]), axis=0, return_inverse=True)
        member = member.reshape(-1)
        for index in np.unique(key[:, 0]).astype(int):
            drive, mine, rows = drives[index], key[:, 0] == index, which == index
            if not self.knows(drive) and not math.isfinite(drive.sheet.get("rnd_write_iops", math.nan)):
                mean[rows] = width[rows] = math.nan
                continue
            curves = np.zeros((2, len(key), len(TARGETS)))
            curve = self.curve(drive)
            curves[:, mine] = curve.at(key[mine, 1], key[mine, 2], key[mine, 3])
            mean[rows] = curves[0, member[rows]]
            width[rows] = np.minimum(curves[1, member[rows]] * self._factor(drive), MOST_LOG)
            queue = curve.full(total[:, 0], total[:, 1]) & _more(total[:, 2], self.most_outstanding)
            beyond = rows & (_more(total[:, 0], self.most_reads(drive)) | queue)
            mean[beyond] = width[beyond] = math.nan
        return answers(own, mean, width, self._transfer_us(drives, which, own))

    def _transfer_us(self, drives: Sequence[Drive], which: NDArray[np.intp], own: Floats) -> Floats:
        """What pages beyond the least measured add to a read and a write, [n, 2]; NaN for sizes not measured."""
        least, most = self.own_pages or (1.0, math.inf)
        each = np.array([[page_us(drive, op) for op in OPS] for drive in drives])
        pages = pages_of(own)
        found = np.maximum(pages - least, 0.0) * each[which]
        found[(pages > 0) & ((pages < least) | (pages > most))] = math.nan
        return np.asarray(found, float)

    def parts(self, drive: Drive) -> Floats | None:
        """See :class:`linnet.place.confidence.GradedModel`. Bandwidths have the parts of the mean latency that bounds
        them: where the bound does not bind at a level, this asks for more than needed, never for less.
        """
        if self.known_parts is None or self.new_parts is None:
            return None
        known = np.where(self._as_new(drive), self.new_parts, self.known_parts)
        return np.column_stack([known, *(known[:, TARGETS.index(f"{op}_latency_mean_us")] for op in OPS)])

    def curve(self, drive: Drive) -> Curve:
        """The answers for a drive; drives that were not measured and have one sheet share theirs."""
        name = ""
        if self.knows(drive):
            drive = self._measured[drive.name]
            name = drive.name
        reads, writes = (float(drive.sheet.get(figure, math.nan)) for figure in FIGURES)
        key = (name, drive.model, str(reads), str(writes))
        if key not in self._curves:
            self._curves[key] = Curve(self.latency, _row_of(name, drive))
        return self._curves[key]

    def knows(self, drive: Drive) -> bool:
        """Whether this very drive was measured: name, model and the figures that both sheets have are the same.

        Another one of its model may differ from it, and so may another host's drive of the same name.
        """
        if drive.name not in self._measured:
            return False
        known = self._measured[drive.name]
        figures = ((drive.sheet.get(name, math.nan), value) for name, value in known.sheet.items())
        same = all(math.isclose(one, other) or math.isnan(one) or math.isnan(other) for one, other in figures)
        return same and drive.model in ("", known.model)

    def _as_new(self, drive: Drive) -> NDArray[np.bool_]:
        """Which targets have the intervals of a drive that was not measured, (targets,).

        The factor of known drives is of loads that were left out of drives with many, and that of new drives is of
        models that were not measured. A drive of few loads, and another drive of a measured model, are neither, and
        have the larger of the two, or no interval where either is lacking.
        """
        if self.knows(drive) and self._loads[drive.name] >= DENSE:
            return np.zeros(len(TARGETS), bool)
        if not self.knows(drive) and drive.model not in self._models:
            return np.ones(len(TARGETS), bool)
        return np.asarray(~(self.new_factor <= self.known_factor))

    def _factor(self, drive: Drive) -> Floats:
        return np.where(self._as_new(drive), self.new_factor, self.known_factor)

    @cached_property
    def _models(self) -> frozenset[str]:
        return frozenset(one.model for one in self._measured.values())

    @cached_property
    def _loads(self) -> Counter[str]:
        """Loads at which each drive was measured."""
        return Counter(map(str, self.latency.known.labels["drive"]))

    @cached_property
    def _curves(self) -> dict[tuple[str, ...], Curve]:
        return {}

    def reads(self, tenants: Sequence[Profile]) -> float:
        """Pages of 4 KiB per second that tenants read."""
        return float(self.sums(moments.rows(tenants))[:, 0].sum())

    def most_reads(self, drive: Drive) -> float:
        """Pages of 4 KiB per second up to which reads were measured on drives like this; NaN where nothing tells."""
        figure = float(drive.sheet.get("rnd_read_iops", math.nan))
        if self.read_share is None:
            return figure
        measured = self.read_share * figure
        return measured if math.isfinite(measured) else float(self.latency.known.inputs["all_read_pages"].max())

    def unmeasured(self, drive: Drive, tenants: Sequence[Profile]) -> str | None:
        """See :class:`linnet.place.words.Measured`."""
        if not self.knows(drive) and not math.isfinite(drive.sheet.get("rnd_write_iops", math.nan)):
            other = self._measured.get(drive.name)
            named = f" (another of that name was, of model {other.model})" if other else ""
            return f"{drive.name} of model {drive.model} was not measured{named}, and its sheet lacks rnd_write_iops"
        reads, most = self.reads(tenants), self.most_reads(drive)
        if _more(reads, most):
            return (
                f"{reads:,.0f} pages of 4 KiB are read a second, and nothing was measured beyond {most:,.0f} on a "
                f"drive like {drive.name or drive.model}"
            )
        total = self.sums(moments.rows(tenants)).sum(axis=0)
        if self.curve(drive).full(total[0], total[1]) and _more(total[2], self.most_outstanding):
            return (
                f"they ask for more than {drive.name or drive.model} sustains, with {total[2]:,.0f} I/Os outstanding, "
                f"and no more than {self.most_outstanding:,.0f} were measured"
            )
        least, largest = self.own_pages or (1.0, math.inf)
        pages = pages_of(moments.rows(tenants))
        for column, op in enumerate(OPS):
            known = self.latency.known.outcomes[:, [name.startswith(op) for name in TARGETS]]
            if (pages[:, column] > 0).any() and not np.isfinite(known).any():
                return f"no latency of {op}s was measured"
        for index, column in zip(*np.nonzero((pages > 0) & ((pages < least) | (pages > largest))), strict=True):
            measured = f"{least:,.0f}" if least == largest else f"{least:,.0f} to {largest:,.0f}"
            return (
                f"{OPS[column]}s of {tenants[index].name} are of {pages[index, column]:,.0f} pages of 4 KiB, and the "
                f"latency of {measured} was measured"
            )
        return None

    def load(self, drive: Drive, tenants: Sequence[Profile]) -> float:
        """Share of what the drive sustains that tenants ask for, reads and writes; above 1 they are held back."""
        reads, writes, _ = self.sums(moments.rows(tenants)).sum(axis=0)
        return float(self.curve(drive).capacity.share(reads, writes))


def _more(sums: Any, most: float) -> Any:
    """Whether sums are more than that; not if nothing tells the most, since comparisons with NaN are false."""
    return sums > most * (1 + ROUNDING)


def read_share(known: Observations) -> float:
    """Largest share of their drives' random reads, by the data sheet, that known rows read; NaN if no sheet has any."""
    share = known.inputs["all_read_pages"] / known.inputs["rnd_read_iops"]
    return float(np.max(share[np.isfinite(share)])) if np.isfinite(share).any() else math.nan


def own_pages(known: Observations) -> tuple[float, float]:
    """Least and most pages of an I/O of the tenant whose latency is learned."""
    pages = np.ceil(known.inputs["size_bytes"] / PAGE)
    return float(pages.min()), float(pages.max())


def _row_of(name: str, drive: Drive) -> Observations:
    """A drive as one row without a load."""
    sheet = {figure: np.array([drive.sheet.get(figure, math.nan)]) for figure in FIGURES}
    labels = {"drive": np.array([name], dtype=object), "model": np.array([drive.model], dtype=object)}
    return Observations("ssdiq", TARGETS, np.full((1, len(TARGETS)), math.nan), sheet, labels)


def assembled(
    known: Observations, targets: Sequence[dict[str, Any]], share: float | None, pages: tuple[float, float] | None
) -> PlacementModel:
    """The model of fitted targets, in the order of TARGETS, each with the fields that the file's head has of it."""
    latency = OpenLoop()
    latency.known = known
    latency.noise = np.zeros(len(known))
    points = coordinates(hidden(known), capacities(known))
    values = learned(known, points)
    latency.processes = [
        Process(
            KERNEL,
            np.array(target["hyperparameters"], float),
            target["roughness"],
            float(target["centre"]),
            points,
            values[:, t],
            latency.noise,
        ).given(points, values[:, t], latency.noise)
        for t, target in enumerate(targets)
    ]
    known_factor, new_factor = (
        np.where(factors == NO_INTERVAL, math.nan, factors)
        for factors in (np.array([one[name] for one in targets], float) for name in ("known_factor", "new_factor"))
    )
    if not all(name in target for target in targets for name in PARTS):
        return PlacementModel(latency, known_factor, new_factor, read_share=share, own_pages=pages)
    known_parts, new_parts = (np.array([target[name] for target in targets], float).T for name in PARTS)
    return PlacementModel(latency, known_factor, new_factor, known_parts, new_parts, share, pages)
