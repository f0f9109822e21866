# SPDX-License-Identifier: MIT OR Apache-2.0
"""One experiment: train on the first part of the traces of a flash array in virtual time, and test on the rest.

The order is that of a deployment. The baseline policy runs the training part, and each device's I/Os are logged. Then a
model is fitted per device from its own log. Then every policy runs the test part, from the same preconditioned devices
or, if the set-up says so, after it has run the training part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from linnet import _native
from linnet._native import FAILOVER_NS, Array, Trace, policies
from linnet.caveats import folded
from linnet.learning import FitSettings, Fitted, fit, require_settings
from linnet.progress import Progress
from linnet.streams import spread, together
from linnet.threads import Threads
from linnet.traces import as_traces

if TYPE_CHECKING:
    import pyarrow as pa

LEARNED = frozenset(_native.learned_policies())
"""Policies that ask a model."""
ORACLE = "oracle"
"""The policy that needs drives with foresight: it asks for answers in advance."""
LEAST_GAIN = 0.005
"""If the oracle gains less than this share of the baseline's figure, nothing is said of the possible gain."""
FEW_READS = 100
"""A device with more of them has some to learn from, unless it answers none before the last one arrives."""
DEPLOYED = frozenset(_native.deployed_policies())
"""Rules of other systems, which :func:`overview` leaves out."""


@dataclass(frozen=True)
class Setup:
    """Everything that decides a result, besides the traces."""

    preset: str = "consumer-deep"
    """SSD model preset (see :func:`linnet.presets`), or a parameter file of either engine (``.toml``).

    As many as there are replicas, separated by commas, give each device its own; all are of one engine.
    """
    replicas: int = 3
    """Devices in the array; a read may go to any of them."""
    seed: int = 0
    """Decides devices, training and every random choice. Device i has this seed plus i, so seeds that are less far
    apart than ``replicas`` have devices in common: an interval over them is too narrow."""
    device_wide_share: float | None = None
    """Share of internal work done as device-wide bursts, 0 to 1; ``None`` keeps the preset's."""
    failover_ns: int = FAILOVER_NS
    """Cost of a revoked read before it reaches the next replica."""
    writes_to_all: bool = False
    """Send writes to every replica instead of the stream's own device (the paper's set-up)."""
    continued: bool = False
    """The test part follows the training part in one run, of which only the test part is measured: the policy's
    averages and the devices' queues are those of a system that runs. Otherwise each part starts with preconditioned
    devices, and with averages and queues that are empty."""
    stalls_per_minute: float = 0.0
    """How often each device answers nothing for 50 ms to a second, at random times, from the first I/O on."""
    rebuilt: int = 0
    """So many devices, the last, have their data as after a rebuild: written once, in order. The others have been
    overwritten at random for long."""
    closed_loop: int | None = None
    """Keep so many I/Os in flight, in the order of the traces, whose times have no other meaning then. Rows tell
    ``ios_per_s``. ``None``: I/Os arrive at their times."""
    hedge_bytes_max: int | None = None
    """The largest read that ``linnet-best``, ``ewma-hedged`` and ``linnet-expected`` hedge; 0: none, ``None``: any."""
    fit: FitSettings = field(default_factory=FitSettings)
    """Training; its ``train_share`` is a share of each trace's time, so that devices that run together are cut
    together."""


UNANSWERED = ("reads_failed", "writes_failed", "timeouts")
"""Counts of a row: what no device answered, and answers that a device did not give in time."""
READ_LIMIT_S = _native.READ_TIMEOUT_NS / 1e9
"""Time limit of a read on one device."""

T = TypeVar("T")


def overview() -> list[str]:
    """The policies of a page for one reader: LinnOS's baselines, its forms, ours with and without model, the oracle."""
    return [name for name in policies() if name not in DEPLOYED and name not in ("trees-only", "linnet-expected")]


class Outcome(NamedTuple):
    """What one policy did."""

    row: dict[str, Any]
    """The comparison row: latencies in us, counts and shares.

    ``extra_io_share``, ``false_submit`` and ``false_revoke`` are numbers a read; the last may exceed 1
    (:func:`linnet.verdict.false_share`).

    On the queued engine it also has the name of the engine and what garbage collection did, and no false revokes.
    """
    latency_ns: NDArray[np.uint64]
    """Latency of every read, sorted."""


class Experiment:
    """An array, its traces, and what was learned of it.

    ``traces`` has one trace for each device; with fewer traces than replicas each is cut into equal time slices, as
    many as are needed. Each is split by time into a training and a test part, unless ``test`` has traces of another
    period for testing. Trees that devices share are then fitted to slices after a tested one, too; to train on the past
    alone, split the trace (``trace.split(0.5)``) and give the second part as ``test``.

    Traces are :class:`linnet.Trace` or tables of :func:`linnet.read_trace`; :class:`TypeError` is raised for anything
    else, and for a ``setup`` that is none. Traces of a common clock keep their times to each other
    (:mod:`linnet.streams`).
    """

    def __init__(
        self,
        traces: Trace | pa.Table | Sequence[Trace | pa.Table],
        setup: Setup,
        name: str | None = None,
        progress: Progress | None = None,
        test: Trace | pa.Table | Sequence[Trace | pa.Table] | None = None,
    ):
        if not isinstance(setup, Setup):
            raise TypeError(f"setup is a {type(setup).__name__}; give a linnet.Setup")
        require_settings(setup.fit, "setup.fit")
        devices = as_traces(traces)
        # The search for the inflection points fails over as the array does.
        search = replace(setup.fit, replicas=max(2, setup.replicas), failover_ns=setup.failover_ns)
        self.setup = setup = replace(setup, fit=search)
        beside = together(devices, setup.replicas)
        self.streams = beside.traces
        self.note = beside.note if test is None else None
        """Why the traces may lie beside each other otherwise than on the devices, if so."""
        self.name = name or "+".join(t.name for t in devices)
        self.progress = progress or Progress()
        self.array = Array(
            setup.preset,
            setup.replicas,
            setup.seed,
            setup.device_wide_share,
            setup.stalls_per_minute,
            setup.rebuilt,
        )
        if test is None:
            parts = beside.split(setup.fit.train_share)
            self.train_part = [first for first, _ in parts]
            self.test_part = [second for _, second in parts]
        else:
            self.train_part = self.streams
            self.test_part = spread(as_traces(test), setup.replicas)
        self.warm_up_ns = 0
        self.run_part = self.test_part
        """What a policy runs; what arrives before ``warm_up_ns`` is not measured."""
        if setup.continued:
            self.run_part, self.warm_up_ns = joined(self.train_part, self.test_part)
        self.fitted: list[Fitted | None] = []
        """Of each device; ``None`` where there is no model for it."""
        self.profile_latency_ns: list[NDArray[np.uint64]] = []
        self._stop = threading.Event()

    def learn(self) -> list[Fitted | None]:
        """Fit each device's model to its log of the training part, and test it on its log of the test part.

        Devices of one preset share their trees. Those of different presets have their own, which all predict the same:
        a latency above the geometric mean of the inflection points. Both logs are those of the baseline policy, so
        every read is tested, whether a policy would revoke it or not.

        A device of which a log has no read to learn from, or to test on, gets the model of the first one of its preset
        that has, as an operator would load it; its report names that one as ``of_device``. If its preset has none, it
        has no model (``None``), and policies do without, as the kernel target does (``spec/decision.md``).
        """
        if self.setup.continued:
            (run,) = self._at_once("profiling", [(partial(self._profile, self.run_part), self.run_part)])
            begin_ns = run.measured_ns[0] if self.setup.closed_loop is not None else self.warm_up_ns
            halves = [log.split_at(begin_ns) for log in run.logs()]
            logs, later = [first for first, _ in halves], [second for _, second in halves]
        else:
            parts = (self.train_part, self.test_part)
            runs = self._at_once("profiling", [(partial(self._profile, part), part) for part in parts])
            logs, later = (run.logs() for run in runs)
        self.profile_latency_ns = [np.sort(log.read_latencies()) for log in logs]
        without = _native.without_rows(logs, later)
        own = [device for device in range(len(logs)) if device not in without]
        if not own:
            most = max(min(len(log.read_latencies()) for log in parts) for parts in zip(logs, later, strict=True))
            if most > FEW_READS:
                raise _native.LearnError(
                    f"{self.name}: none of {most:,} reads of a device is answered while others still arrive, so there "
                    f"is nothing to learn from: the drives ({self.setup.preset}) are too slow for this load; lower "
                    "--rerate, or choose others with --preset"
                )
            raise _native.LearnError(
                f"{self.name}: no device has reads to learn from and to test on, apart from the first few, in "
                f"{sum(map(len, logs)):,} records of training and {sum(map(len, later)):,} of testing: give a longer "
                "trace, or one with more reads"
            )
        step = self.progress.stage(f"{self.name}: fitting", len(own) * self.setup.fit.epochs * 2)
        shared = "," not in self.setup.preset
        found = fit(
            [logs[device] for device in own],
            self.setup.seed,
            self.setup.fit,
            lambda done, total, loss: step(done),
            unbiased=True,
            shared_trees=shared,
            mean_slow=not shared,
            test=[later[device] for device in own],
        )
        fitted = dict(zip(own, found, strict=True))
        presets = self.setup.preset.split(",") if not shared else [self.setup.preset] * self.setup.replicas
        lender = {presets[device]: device for device in reversed(own)}

        def model_of(device: int) -> Fitted | None:
            of_device = device if device in own else lender.get(presets[device])
            if of_device is None:
                return None
            return fitted[device] if of_device == device else borrowed(fitted[of_device], of_device)

        self.fitted = [model_of(device) for device in range(len(logs))]
        return self.fitted

    @cached_property
    def folded(self) -> str:
        """How many I/Os of both parts lie beyond the end of the drives, as a sentence; empty for none.

        Those of Table 1's workloads, which are drawn for a drive of any size, are not told.
        """
        drives = self.array.parameters()
        capacity = min(drive["capacity_bytes"] for drive in drives.get("devices", [drives]))
        recorded = [t for t in (*self.train_part, *self.test_part) if t.name not in _native.workloads()]
        return folded(recorded, capacity)

    def models(self) -> list[_native.Model | None]:
        """What the policies have, by device; empty before :meth:`learn`."""
        return [one.model if one else None for one in self.fitted]

    def reports(self) -> list[dict[str, Any] | None]:
        """What :meth:`learn` found, by device."""
        return [one.report if one else None for one in self.fitted]

    def _profile(self, part: Sequence[Trace], step: Callable[[int], None]) -> _native.Run:
        """A run with a log in which every read goes to its own device."""
        return self.array.run(part, "baseline", [], log=True, progress=self._guard(step), **self.run_settings())

    def run(self, policy: str, step: Callable[[int], None] | None = None) -> Outcome:
        """Run the test part under ``policy``, after the training part if the set-up is ``continued``."""
        run = self.array.run(self.run_part, policy, self.models(), progress=self._guard(step), **self.run_settings())
        latency = run.latency_ns()
        latency.sort()
        row = {"trace": self.name, "preset": self.setup.preset, "policy": policy, "seed": self.setup.seed}
        if self.array.engine == "queued":
            row |= {"engine": "queued"} | collection(run.device_stats())
        if self.setup.closed_loop is not None:
            row["ios_per_s"] = rate(run)
        counts = run.counters()
        return Outcome(row | run.row() | {name: counts[name] for name in UNANSWERED}, latency)

    def probe(self, policy: str, probe_share: float) -> _native.Run:
        """Run like :meth:`run` with this probability of a sampled probe; ``probing()`` of the run has the estimates."""
        return self.array.run(self.run_part, policy, self.models(), probe_share=probe_share, **self.run_settings())

    def compare(self, chosen: Sequence[str] | None = None, workers: int = 2) -> list[Outcome]:
        """Run every policy of ``chosen`` (all by default), in the order given, except those of :meth:`left_out`."""
        if chosen is not None and not len(chosen):
            raise ValueError("chosen is empty: name a policy, or give None for all")
        absent = self.left_out()
        names = [name for name in (policies() if chosen is None else chosen) if name not in absent]
        if not names:
            raise _native.PolicyError(f"{', '.join(absent)}: {absent[ORACLE]}")
        if not self.fitted:
            self.learn()
        jobs = [(partial(self.run, name), self.run_part) for name in names]
        return self._at_once(f"{len(names)} policies", jobs, workers)

    def _at_once(
        self,
        stage: str,
        jobs: Sequence[tuple[Callable[[Callable[[int], None]], T], Sequence[Trace]]],
        workers: int = 2,
    ) -> list[T]:
        """Run jobs on several CPUs under one progress bar; each has the traces that it runs. Results in order."""
        step = self.progress.stage(f"{self.name}: {stage}", sum(len(t) for _, traces in jobs for t in traces))
        done = [0] * len(jobs)

        def one(index: int) -> T:
            def count(n: int) -> None:
                done[index] = n
                step(sum(done))

            return jobs[index][0](count)

        return Threads(workers, self._stop.set).in_order(one, range(len(jobs)))

    def left_out(self) -> dict[str, str]:
        """Policies that cannot run on these drives, and why."""
        if self.array.foresight:
            return {}
        return {ORACLE: "on the queued engine an answer depends on later I/Os, so it cannot be known in advance"}

    def _guard(self, step: Callable[[int], None] | None) -> Callable[[int], bool]:
        """A native progress callback: ``False`` stops the run."""

        def report(done: int) -> bool:
            if step is not None:
                step(done)
            return not self._stop.is_set()

        return report

    def run_settings(self) -> dict[str, Any]:
        """How :attr:`run_part` is run, as arguments of :meth:`linnet.Array.run`."""
        setup = self.setup
        settings: dict[str, Any] = {"failover_ns": setup.failover_ns, "writes_to_all": setup.writes_to_all}
        settings |= {"seed": setup.seed, "warm_up_ns": self.warm_up_ns}
        limits = {"closed_loop": setup.closed_loop, "hedge_bytes_max": setup.hedge_bytes_max}
        return settings | {name: limit for name, limit in limits.items() if limit is not None}

    def parameters(self) -> dict[str, Any]:
        """The set-up and the statistics of the traces, to be stored with every result."""
        absent = {"left_out": self.left_out() | {"false_revoke": "needs answers in advance"}} if self.left_out() else {}
        return (
            asdict(self.setup)
            | absent
            | {
                "trace": self.name,
                "engine_commit": _native.__commit__,
                "streams": [{"name": s.name, "records": len(s)} for s in self.streams],
                "device": self.array.parameters(),
            }
        )


def rate(run: _native.Run) -> float:
    """Requests a second in the measured part of a run."""
    counters, (begin_ns, end_ns) = run.counters(), run.measured_ns
    return 1e9 * ((counters["reads"] or 0) + (counters["writes"] or 0)) / max(end_ns - begin_ns, 1)


def share_of_gain(base: float | None, own: float, limit: float | None) -> float | None:
    """The gain over the baseline's figure, divided by the oracle's gain; ``None`` where that is unknown or too small.

    0 at the baseline, 1 at the oracle, negative if worse than the baseline, above 1 if better than the (greedy) oracle.
    """
    if base is None or limit is None or base - limit <= LEAST_GAIN * base:
        return None
    return (base - own) / (base - limit)


def borrowed(fitted: Fitted, device: int) -> Fitted:
    """The model of ``device`` for another one."""
    return replace(fitted, report=fitted.report | {"of_device": device})


def own_models(reports: Sequence[dict[str, Any] | None]) -> dict[int, dict[str, Any]]:
    """The reports of the devices that have a model of their own, by device."""
    return {device: report for device, report in enumerate(reports) if report and "of_device" not in report}


def borrowings(reports: Sequence[dict[str, Any] | None]) -> list[str]:
    """A sentence for each device that has no model of its own. ``reports`` has the report of each device's model."""
    return [
        f"device {device} has no read to learn from, "
        + (
            f"so it has the model of device {report['of_device']}"
            if report
            else "nor has another of its preset: no model"
        )
        for device, report in enumerate(reports)
        if report is None or "of_device" in report
    ]


def collection(drives: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What garbage collection did in one run on queued drives, all together."""
    total = {key: sum(drive[key] for drive in drives) for key in drives[0] if key != "waf"}
    host = total["host_programs"]
    return {
        "waf": (host + total["gc_programs"]) / host if host else None,
        "gc_runs": total["gc_runs"],
        "gc_reads": total["gc_reads"],
        "reads_behind_gc": total["reads_behind_gc"],
    }


def periods(name: str, seconds: float, setup: Setup) -> tuple[list[Trace], list[Trace]]:
    """Two busy periods of a Table 1 workload: one for training, one for testing.

    As in LinnOS, section 5.1, which trains on the busiest hour and tests on slices of other busy hours. Each period has
    the workload's peak. They are drawn independently, each half of ``seconds`` long.
    """
    half = seconds / 2
    train = _native.synth(name, seconds=half, devices=setup.replicas, seed=2 * setup.seed)
    test = _native.synth(name, seconds=half, devices=setup.replicas, seed=2 * setup.seed + 1)
    return train, test


def joined(first: Sequence[Trace], second: Sequence[Trace]) -> tuple[list[Trace], int]:
    """Each stream of one period followed by its stream of the next, and when that begins, in ns."""
    lengths = (int(trace.columns()["arrive_ns"][-1]) for trace in first if len(trace))
    begin_ns = max(lengths, default=0) + 1
    return [own.followed_by(later, begin_ns) for own, later in zip(first, second, strict=True)], begin_ns


def compare(
    traces: Trace | pa.Table | Sequence[Trace | pa.Table],
    setup: Setup | None = None,
    chosen: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Compare admission policies on one array and give one row for each policy (see :class:`Experiment`)."""
    return [outcome.row for outcome in Experiment(traces, setup or Setup(), progress=progress).compare(chosen)]
