# SPDX-License-Identifier: MIT OR Apache-2.0
"""Inflection point, fit and evaluation: the front of the Rust crate ``linnet-learn``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linnet import _native
from linnet._native import FAILOVER_NS, LearnError, Model, Trace
from linnet.traces import as_traces

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int, float], None]
"""Called with the epochs done, the epochs in all and the loss."""


SCHEMAS = ("linnet-1", "linnet-2")
"""Schemas of the trees' features (``spec/features-linnet.md``)."""


class InflectionPoint(NamedTuple):
    """The latency that separates fast from slow on one device, and how it was found."""

    percentile: float
    """Where the point lies on the device's own latency distribution, 0 to 100."""
    latency_ns: int
    """The threshold: a read at or below it is fast."""
    boost: NDArray[np.float64]
    """The boost curve, shape (candidates, 3): percentile, latency in ns, mean latency saved per I/O in ns."""


def inflection_point(
    latencies_ns_per_device: Sequence[ArrayLike],
    device: int = 0,
    replicas: int = 3,
    seed: int = 0,
    failover_ns: int = FAILOVER_NS,
) -> InflectionPoint:
    """Find the inflection point of ``device`` by the algorithm of LinnOS (section 4.2.1).

    ``latencies_ns_per_device`` holds one array of read latencies in ns for each device. A million simulated reads draw
    from them; a read above the candidate is revoked and drawn again from another random device. With one device the
    replicas draw from its own distribution. Raises :class:`linnet.LearnError` for no or too few latencies, and
    :class:`ValueError` for one that is no whole number of 64 bits (negative, a fraction, not finite) or is masked.
    """
    if isinstance(latencies_ns_per_device, np.ndarray) and latencies_ns_per_device.ndim < 2:
        raise ValueError("latencies_ns_per_device is one array; give a list of arrays, one for each device")
    columns = [whole_ns(x, f"latencies of device {i}") for i, x in enumerate(latencies_ns_per_device)]
    percentile, latency_ns, boost = _native.inflection_point(columns, device, replicas, seed, failover_ns)
    return InflectionPoint(percentile, latency_ns, boost)


def unmasked(values: ArrayLike, name: str) -> ArrayLike:
    """The same values; a masked array with masked values is refused, for a conversion would uncover them."""
    if np.ma.is_masked(values):
        raise ValueError(f"{name}: an array with masked values; fill them or leave them out")
    return values


def whole_ns(values: ArrayLike, name: str) -> NDArray[np.uint64]:
    """Times in ns as integers; what a conversion would change is refused."""
    unmasked(values, name)
    given = np.asarray(values)
    if given.dtype.kind not in "iuf":
        raise TypeError(f"{name}: an array of {given.dtype} where numbers of ns are needed")
    if given.ndim != 1:
        raise ValueError(f"{name}: an array of shape {given.shape}, not a column (n,)")
    fits = given >= 0
    if given.dtype.kind == "f":
        # NaN compares as false.
        fits &= (given.astype(np.float64) < 2.0**64) & (given == np.floor(given))
    if not fits.all():
        at = int(np.flatnonzero(~fits)[0])
        raise ValueError(f"{name}: {given.flat[at]} at index {at} is no whole number of ns from 0 to 2^64 - 1")
    return np.ascontiguousarray(given, dtype=np.uint64)


def require_one_device(traces: Sequence[Trace]) -> None:
    """Raise :class:`linnet.LearnError` for a trace with I/Os of several devices, which no device has in flight."""
    for trace in traces:
        if len(devices := trace.devices) > 1:
            some = ", ".join(map(str, devices[:8])) + (", ..." if len(devices) > 8 else "")
            raise LearnError(
                f"{trace.name} has I/Os of {len(devices):,} devices ({some}), and a model is that of one: read one of "
                "them (--device N; device= of Trace.read), or say that they are volumes of one drive (--device all; "
                "Trace.as_one_device)"
            )


def as_learned(given: Trace | pa.Table | Sequence[Trace | pa.Table], seed: int) -> list[Trace]:
    """The traces, each of one device, with I/Os that arrive at one time in an order that tells nothing of their end."""
    traces = as_traces(given)
    require_one_device(traces)
    return [trace.without_ties(seed) for trace in traces]


@dataclass(frozen=True)
class FitSettings:
    """How a LinnOS model is trained. The defaults are the paper's where it gives them."""

    epochs: int = 8
    """Passes over the training rows, 1 to 1,000,000."""
    batch: int = 128
    """Rows per optimiser step, at least 1."""
    false_submit_weight: float = 5.0
    """Weight of a row that is slow and would be submitted; 1 is unbiased training."""
    train_share: float = 0.5
    """The first share of each trace's reads, in the order of arrival, is trained on; the rest is for evaluation. An
    :class:`linnet.Experiment` cuts at this share of the time instead, because its devices run on one clock. The network
    has no rows of the first few reads, so its part reaches a little further, and the trees are tested after it too."""
    replicas: int = 3
    """Replicas in the search for the inflection point."""
    failover_ns: int = FAILOVER_NS
    """Cost of a revoked read."""
    max_rows: int | None = None
    """Train the network on at most this many rows, taken evenly over time. The trees take all."""
    schema: str = "linnet-1"
    """Features of the trees. ``linnet-2`` also counts reads in flight that begin on the same page; releases of the
    kernel module before it refuse such a file."""
    false_revoke: float | None = None
    """The share of reads that are fast and that the trees may call slow, which costs them a revoke; above 0, below 1.
    The score for it is found on the last quarter of the training rows. By default reads at more than even odds are
    slow. The choice among replicas does not depend on it; releases of the kernel module before it refuse such a
    file."""


def require_settings(settings: object, name: str) -> None:
    """Raise :class:`TypeError` for an argument that is no :class:`FitSettings`."""
    if not isinstance(settings, FitSettings):
        raise TypeError(f"{name} is a {type(settings).__name__}; give a linnet.FitSettings")


@dataclass(frozen=True)
class Fitted:
    """A fitted model and its figures on the held-out part."""

    model: Model
    """What runs: network and trees as integers, with the thresholds of their device."""
    report: dict[str, Any]
    """Inflection point, rows, evaluation on the held-out part with and without bias and of the trees (``linnet``), how
    well the predicted latencies held (``latencies``), quantisation loss. Under ``of_device`` the device
    whose model it is, if it is another one's."""


def fit(
    traces: Trace | pa.Table | Sequence[Trace | pa.Table],
    seed: int = 0,
    settings: FitSettings | None = None,
    progress: Progress | None = None,
    unbiased: bool = False,
    pooled: bool = False,
    shared_trees: bool = False,
    mean_slow: bool = False,
    slow_ns: int | None = None,
    test: Trace | pa.Table | Sequence[Trace | pa.Table] | None = None,
) -> list[Fitted]:
    """Fit one model for each device, a LinnOS network and linnet's trees together.

    ``traces[i]`` are the I/Os of device ``i`` with their latencies, as a :class:`linnet.Trace` or as a table of
    :func:`linnet.read_trace`; a single one may stand for itself. Those that arrive at one time are taken in an order
    drawn by a hash of ``seed`` (:meth:`linnet.Trace.without_ties`).

    The first ``settings.train_share`` of each trace's reads is for training and the rest for testing. If ``test`` has
    another period of each device, all of ``traces`` is for training and ``test`` for testing.

    ``pooled`` fits one model for all the devices instead, labelled by one inflection point of their latencies together.
    ``shared_trees`` gives each device its own network and inflection point, but the same trees, fitted to the rows of
    all devices: for devices of one type among which a policy chooses.
    ``unbiased`` also trains without the false-submit weight, to show its effect.

    To the trees a read is slow above the inflection point of its device. With ``mean_slow`` it is slow above the
    geometric mean of all devices' inflection points: for devices of different types among which a policy chooses, since
    odds of one event can be compared. ``slow_ns`` is that latency for devices that are fitted one by one.

    Raises :class:`linnet.LearnError` when a trace has no latencies, too few reads, I/Os of several devices, or
    latencies of which most are 0, :class:`TypeError` for what is no trace, and :class:`ValueError` for ``pooled`` with
    ``shared_trees``, for ``mean_slow`` with ``slow_ns`` and for a number out of its range. Ctrl-C raises
    :class:`KeyboardInterrupt` within 100 ms, and so does a ``progress`` that returns ``False``; the step of the work
    that is being done ends unseen, on another thread. Same traces, settings and seed: same bytes.
    """
    if pooled and shared_trees:
        raise ValueError("pooled, shared_trees: one model for all devices, or one for each with common trees; not both")
    if mean_slow and slow_ns is not None:
        raise ValueError("mean_slow, slow_ns: the latency of a slow read is computed or given; not both")
    s = FitSettings() if settings is None else settings
    require_settings(s, "settings")
    fitted = _native.fit(
        as_learned(traces, seed),
        None if test is None else as_learned(test, seed),
        seed=seed,
        epochs=s.epochs,
        batch=s.batch,
        false_submit_weight=s.false_submit_weight,
        train_share=s.train_share,
        replicas=s.replicas,
        failover_ns=s.failover_ns,
        max_rows=s.max_rows,
        unbiased=unbiased,
        pooled=pooled,
        shared_trees=shared_trees,
        mean_slow=mean_slow,
        slow_ns=slow_ns,
        schema=s.schema,
        false_revoke=s.false_revoke,
        progress=progress,
    )
    return [Fitted(model, report) for model, report in fitted]


def is_better_than_base_rate(figures: Mapping[str, Any]) -> bool | None:
    """Whether a model does better than one constant answer; ``None`` where reads of one class cannot tell.

    ``figures`` are those of :func:`evaluate`, or of a part of a fit's report. A constant answer has a balanced accuracy
    of one half, and a ROC-AUC of one half, from which chance strays by its standard error (that of the Mann-Whitney
    statistic); two of these are not enough. Accuracy does not count: a bias against false submits costs some of it.
    """
    auc = figures["roc_auc"]
    if auc is None:
        return None
    fast = round(figures["rows"] * figures["base_rate"])
    slow = figures["rows"] - fast
    error = math.sqrt((fast + slow + 1) / (12 * fast * slow))
    return bool(auc > 0.5 + 2 * error and figures["balanced_accuracy"] > 0.5)


def dominant_reads(latencies_ns: ArrayLike) -> tuple[int, float]:
    """How many of the highest latencies are looked at, one in 10,000 but at least one, and their share of the sum.

    The inflection point minimises a mean. A read that pays failovers and then meets one of those latencies, on the last
    replica, which may not revoke it, costs more than the tail that the others have, so few records can move the point.
    """
    column = np.asarray(latencies_ns)
    if not len(column):
        return 0, 0.0
    most = max(1, len(column) // 10_000)
    total = float(column.sum(dtype=np.float64))
    highest = np.partition(column, len(column) - most)[len(column) - most :]
    return most, float(highest.sum(dtype=np.float64)) / total if total else 0.0


def evaluate(
    model: Model,
    traces: Trace | pa.Table | Sequence[Trace | pa.Table],
    test_share: float = 1.0,
    slow_ns: int | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """Test ``model`` on the last ``test_share`` of each trace's reads, in the order of arrival; no row is filtered.

    As in :func:`fit`, each trace is of one device, and ``seed`` draws the order of I/Os that arrive at one time; give
    that of the fit to test on what it held out. Network and trees are tested on the same reads, those that arrive after
    four others are complete. Raises :class:`linnet.LearnError` with the name of a trace of several devices, without
    latencies or without a read to test on, and :class:`TypeError` for what is no trace. Ctrl-C raises as in
    :func:`fit`.

    Returns rows, base_rate (the accuracy of always submitting), accuracy, balanced_accuracy, roc_auc (``None`` if only
    one class occurs), and false_submit and false_revoke as shares of all rows. Slow is a latency above the model's own
    inflection point; to the trees above ``slow_ns``, if it is given. The figures are those of the model's network, or
    of its trees if it has no network; ``model`` says which. Under ``linnet`` are those of its trees (``None`` if it has
    none).

    ``latencies`` has for each predicted quantile its ``share``, the share of reads ``covered`` by it, its mean pinball
    loss, and the loss of a constant prediction for these reads, the best one in hindsight.
    """
    return _native.evaluate(model, as_learned(traces, seed), test_share, slow_ns)
