# SPDX-License-Identifier: MIT OR Apache-2.0
"""Gaussian processes whose kernel is a list of terms, some of which hold only between points with equal labels.

Such a kernel is a hierarchy: a curve that all drives share, what a model adds to it, and what a drive adds to that
(Rasmussen and Williams, *Gaussian Processes for Machine Learning*, 2006: equation 2.25 for mean and variance, 5.8 for
the likelihood). Libraries offer no kernels over labels; the rest is linear algebra.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Points = Mapping[str, NDArray[Any]]
"""Columns of n points: numbers for shapes, labels for ``same``."""
JITTER = 1e-8
"""Added to the diagonal; far below any noise, and enough for the factorisation."""
MOST = 160
"""Hyperparameters are fitted on so many points, at most. Predictions are conditioned on all points."""
LOG_NOISE_LEAST = math.log(1e-3)
ROUGHNESS = (0.5, 1.5)
"""Orders of the Matérn kernel that are tried: curves with kinks, and curves with a slope everywhere."""


@dataclass(frozen=True)
class Term:
    """One summand of a kernel: ``amplitude``^2 times its shape, between points whose ``same`` labels are equal."""

    amplitude: str | float
    """Name of a hyperparameter, or a fixed value."""
    shape: Literal["constant", "matern", "linear"]
    over: tuple[tuple[str, str], ...] = ()
    """Columns, and the hyperparameter that is the length of each. A linear shape uses its one column alone."""
    same: tuple[str, ...] = ()
    gate: str | None = None
    """A column of 0 and 1: the term is between points that both have 1."""


@dataclass(frozen=True)
class Hyper:
    """A positive hyperparameter and its log-normal prior."""

    name: str
    median: float
    spread: float
    """Standard deviation of its logarithm."""


@dataclass(frozen=True)
class Kernel:
    """Terms and the hyperparameters they name. The last hyperparameter is the noise's standard deviation."""

    terms: tuple[Term, ...]
    hypers: tuple[Hyper, ...]

    @property
    def usual(self) -> Floats:
        """Logarithms of the hyperparameters before anything is learned: the medians of their priors."""
        return np.log([hyper.median for hyper in self.hypers])

    def matrix(self, theta: Floats, roughness: float, a: Points, b: Points) -> Floats:
        """Covariance of points (n) and others (m), without noise: (n, m). ``theta`` are logarithms."""
        value = {hyper.name: math.exp(log) for hyper, log in zip(self.hypers, theta, strict=True)}
        return sum(_matrix(term, value, roughness, a, b) for term in self.terms)  # type: ignore[return-value]

    def variance(self, theta: Floats, points: Points) -> Floats:
        """Prior variance of each point, without noise."""
        value = {hyper.name: math.exp(log) for hyper, log in zip(self.hypers, theta, strict=True)}
        total = np.zeros(len(next(iter(points.values()))))
        for term in self.terms:
            own = np.full(len(total), _amplitude(term, value) ** 2)
            if term.shape == "linear":
                own = own * points[term.over[0][0]] ** 2
            total = total + (own * points[term.gate] if term.gate else own)
        return total


def _amplitude(term: Term, value: Mapping[str, float]) -> float:
    return value[term.amplitude] if isinstance(term.amplitude, str) else term.amplitude


def _matrix(term: Term, value: Mapping[str, float], roughness: float, a: Points, b: Points) -> Floats:
    one: Floats = np.full((len(next(iter(a.values()))), len(next(iter(b.values())))), _amplitude(term, value) ** 2)
    if term.shape == "linear":
        column = term.over[0][0]
        one = one * np.outer(a[column], b[column])
    elif term.shape == "matern":
        square = sum(((a[c][:, None] - b[c][None]) / value[length]) ** 2 for c, length in term.over)
        distance = np.sqrt(square)
        one = one * (
            np.exp(-distance) if roughness == 0.5 else (1 + math.sqrt(3) * distance) * np.exp(-math.sqrt(3) * distance)
        )
    for label in term.same:
        one = one * (a[label][:, None] == b[label][None])
    if term.gate:
        one = one * np.outer(a[term.gate], b[term.gate])
    return one


@dataclass(frozen=True)
class Process:
    """A fitted process: hyperparameters, and the points that it is conditioned on."""

    kernel: Kernel
    theta: Floats
    roughness: float
    centre: float
    points: dict[str, NDArray[Any]]
    values: Floats
    noise: Floats
    """(n,): standard deviation of each point's noise, in addition to the kernel's."""
    first: Process | None = None
    """Conditioned on the first of these points, with the same covariance of them: its factor is extended."""

    def given(self, points: Points, values: Floats, noise: Floats, first: Process | None = None) -> Process:
        """The same hyperparameters, conditioned on these points, those whose value is known.

        ``noise`` is as in the class. Where no value is, means are NaN. ``first`` has the same hyperparameters; if its
        points are the first of these, most of the time is saved.
        """
        known = np.isfinite(values)
        columns = {name: np.asarray(column)[known] for name, column in points.items()}
        centre = self.centre if known.any() else math.nan
        if first and not first.begins(columns, noise[known]):
            first = None
        return replace(self, centre=centre, points=columns, values=values[known], noise=noise[known], first=first)

    def begins(self, points: Points, noise: Floats) -> bool:
        """Whether the points of this process are the first of these."""
        size = len(self.noise)
        return np.array_equal(self.noise, noise[:size]) and all(
            np.array_equal(own, points[name][:size]) for name, own in self.points.items()
        )

    def predict(self, points: Points) -> tuple[Floats, Floats]:
        """Mean and standard deviation at points, both (n,); the deviation includes the kernel's noise."""
        root, weights = self._solved
        cross = self.kernel.matrix(self.theta, self.roughness, points, self.points)
        explained = ((root @ cross.T) ** 2).sum(axis=0)
        own_noise = math.exp(2 * self.theta[-1])
        variance = np.maximum(self.kernel.variance(self.theta, points) - explained, 0.0) + own_noise
        return self.centre + cross @ weights, np.sqrt(variance)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats]:
        """The inverse of the lower Cholesky factor of the known points' covariance, and the weights of their values."""
        above = self.first.root if self.first else np.zeros((0, 0))
        size = len(above)
        rest = {name: column[size:] for name, column in self.points.items()}
        # [A B'; B C] has the factor [L 0; M N] with M = B L^-T and N N' = C - M M'; its inverse is that of blocks.
        known = self.kernel.matrix(self.theta, self.roughness, rest, self.points)
        own = known[:, size:].copy()
        own[np.diag_indices_from(own)] += math.exp(2 * self.theta[-1]) + self.noise[size:] ** 2 + JITTER
        beside = known[:, :size] @ above.T
        below = np.linalg.inv(np.linalg.cholesky(own - beside @ beside.T))
        root = np.block([[above, np.zeros((size, len(own)))], [-below @ beside @ above, below]])
        return root, root.T @ (root @ (self.values - self.centre))

    @property
    def root(self) -> Floats:
        """The inverse of the lower Cholesky factor of the known points' covariance."""
        return self._solved[0]


def fit(
    kernel: Kernel,
    points: Points,
    values: Floats,
    start: Process | None = None,
    orders: Sequence[float] = ROUGHNESS,
) -> Process:
    """The process whose hyperparameters, with the roughness, have the largest posterior density.

    ``values`` is (n,); points whose value is NaN do not count, and without any the hyperparameters are the usual ones.
    ``orders`` are the roughnesses that are tried. With ``start``, a process of similar points, its
    roughness is kept and a few steps are made from its hyperparameters. Deterministic: of more than MOST points, evenly
    spaced ones in the order of :func:`by_content` decide the hyperparameters.
    """
    known = np.isfinite(values)
    if not known.any():
        none = {name: np.asarray(column)[known] for name, column in points.items()}
        return Process(kernel, kernel.usual, orders[0], math.nan, none, values[known], np.zeros(0))
    points, values = {name: np.asarray(column)[known] for name, column in points.items()}, values[known]
    order = by_content(points, values)
    columns = {name: np.asarray(column)[order] for name, column in points.items()}
    values = values[order]
    some = np.unique(np.linspace(0, len(values) - 1, min(len(values), MOST)).astype(int))
    fewer = {name: column[some] for name, column in columns.items()}
    centre = float(values.mean())
    if start:
        tried = [(start.roughness, *_optimise(kernel, fewer, values[some] - centre, start.roughness, start.theta))]
    else:
        tried = [(rough, *_optimise(kernel, fewer, values[some] - centre, rough, None)) for rough in orders]
    roughness, theta, _ = min(tried, key=lambda found: found[2])
    return Process(kernel, theta, roughness, centre, columns, values, np.zeros(len(values)))


def by_content(points: Points, values: Floats) -> NDArray[np.intp]:
    """An order of points that depends neither on the order in which they come nor on what labels are called.

    Points of one label lie together, by the labels with the fewest groups first, and groups by the medians of their
    values; then points by their numbers.
    """
    labels: list[tuple[int, Floats]] = []
    numbers: list[Floats] = []
    for column in points.values():
        if column.dtype != object:
            numbers.append(column)
            continue
        names, member = np.unique(column.astype(str), return_inverse=True)
        medians = np.array([np.median(values[member == group]) for group in range(len(names))])
        labels.append((len(names), medians[member]))
    labels.sort(key=lambda one: one[0])
    # The last key counts first.
    return np.lexsort([values, *reversed(numbers), *(column for _, column in reversed(labels))])


def _optimise(
    kernel: Kernel, points: Points, centred: Floats, roughness: float, start: Floats | None
) -> tuple[Floats, float]:
    from scipy.optimize import minimize

    median = kernel.usual
    spread = np.array([hyper.spread for hyper in kernel.hypers])
    bounds = [(m - 4 * s, m + 4 * s) for m, s in zip(median, spread, strict=True)]
    bounds[-1] = (max(bounds[-1][0], LOG_NOISE_LEAST), bounds[-1][1])
    slopes = Slopes(kernel, points, roughness)

    def cost(theta: Floats) -> tuple[float, Floats]:
        covariance, slope = slopes.at(theta)
        try:
            lower = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return 1e12, np.zeros_like(theta)
        white = np.linalg.solve(lower, centred)
        inverse = np.linalg.inv(lower)
        inverse = inverse.T @ inverse
        weight = inverse @ centred
        off = (theta - median) / spread
        density = 0.5 * float(white @ white) + float(np.log(np.diag(lower)).sum()) + 0.5 * float((off**2).sum())
        residue = inverse - np.outer(weight, weight)
        return density, np.array([0.5 * float((residue * one).sum()) for one in slope]) + off / spread

    steps = {"maxiter": 40 if start is None else 8}
    done = minimize(cost, median if start is None else start, jac=True, method="L-BFGS-B", bounds=bounds, options=steps)
    return np.asarray(done.x, float), float(done.fun)


class Slopes:
    """Covariance of fixed points with its noise, and its derivatives by the logarithms of the hyperparameters."""

    def __init__(self, kernel: Kernel, points: Points, roughness: float) -> None:
        self._names = [hyper.name for hyper in kernel.hypers]
        self._roughness = roughness
        self._terms = []
        for term in kernel.terms:
            fixed = replace(term, amplitude=1.0, shape="constant" if term.shape == "matern" else term.shape)
            mask = _matrix(fixed, {}, roughness, points, points)
            squares: dict[str, Floats] = {}
            if term.shape == "matern":
                for column, length in term.over:
                    square = (points[column][:, None] - points[column][None]) ** 2
                    squares[length] = squares[length] + square if length in squares else square
            self._terms.append((term, mask, squares))

    def at(self, theta: Floats) -> tuple[Floats, list[Floats]]:
        """The matrix (n, n), and one such matrix for each hyperparameter."""
        value = dict(zip(self._names, np.exp(theta), strict=True))
        size = self._terms[0][1].shape
        slope = {name: np.zeros(size) for name in self._names}
        total = np.zeros(size)
        for term, mask, squares in self._terms:
            level = _amplitude(term, value) ** 2
            one = level * mask
            if squares:
                scaled = {length: square / value[length] ** 2 for length, square in squares.items()}
                distance = np.sqrt(sum(scaled.values()))
                if self._roughness == 0.5:
                    decay = np.exp(-distance)
                    steep, one = one * decay / np.maximum(distance, 1e-12), one * decay
                else:
                    decay = np.exp(-math.sqrt(3) * distance)
                    steep, one = one * 3 * decay, one * (1 + math.sqrt(3) * distance) * decay
                for length, square in scaled.items():
                    slope[length] += steep * square
            if isinstance(term.amplitude, str):
                slope[term.amplitude] += 2 * one
            total += one
        noise = value[self._names[-1]] ** 2
        total[np.diag_indices_from(total)] += noise + JITTER
        slope[self._names[-1]] = 2 * noise * np.eye(size[0])
        return total, [slope[name] for name in self._names]
