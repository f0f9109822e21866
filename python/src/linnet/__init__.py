# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linnet: learn how flash storage behaves, and act on it.

The engine is Rust and C (``linnet._native``); this package is its front: traces as Arrow tables, models with
scikit-learn conventions, comparisons of admission policies on a modelled flash array, and reports.

What needs numpy is imported when it is first asked for, because most commands do without.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from linnet import _moved
from linnet._native import (
    Array,
    DeviceError,
    Error,
    FloatNetwork,
    Forest,
    LearnError,
    Model,
    ModelError,
    Network,
    PolicyError,
    TenantError,
    TenantProfile,
    Trace,
    TraceError,
    Tree,
    __version__,
    inflight_rows,
    policies,
    presets,
    synth,
    trace_formats,
    training_rows,
    workloads,
)

if TYPE_CHECKING:
    from linnet import experiment as experiment
    from linnet import extras as extras
    from linnet import learning as learning
    from linnet import traces as traces
    from linnet.experiment import Experiment, Setup, compare
    from linnet.learning import FitSettings, Fitted, InflectionPoint, evaluate, fit, inflection_point
    from linnet.traces import read_trace, trace_from_table, write_trace

_moved.install()
_renamed = _moved.renamed(__name__, calls=1)

_LATER = {
    "experiment": ("Experiment", "Setup", "compare"),
    "extras": (),
    "learning": ("FitSettings", "Fitted", "InflectionPoint", "evaluate", "fit", "inflection_point"),
    "traces": ("read_trace", "trace_from_table", "write_trace"),
}
"""Modules that are attributes without an import of their own, and what this package has of each."""


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name == module:
            return import_module(f"linnet.{module}")
        if name in names:
            found = globals()[name] = getattr(import_module(f"linnet.{module}"), name)
            return found
    return _renamed(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_LATER})


__all__ = [
    "Array",
    "DeviceError",
    "Error",
    "Experiment",
    "FitSettings",
    "Fitted",
    "FloatNetwork",
    "Forest",
    "InflectionPoint",
    "LearnError",
    "Model",
    "ModelError",
    "Network",
    "PolicyError",
    "Setup",
    "TenantError",
    "TenantProfile",
    "Trace",
    "TraceError",
    "Tree",
    "__version__",
    "compare",
    "evaluate",
    "fit",
    "inflection_point",
    "inflight_rows",
    "policies",
    "presets",
    "read_trace",
    "synth",
    "trace_formats",
    "trace_from_table",
    "training_rows",
    "workloads",
    "write_trace",
]
