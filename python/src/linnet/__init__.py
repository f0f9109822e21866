# SPDX-License-Identifier: MIT OR Apache-2.0
"""Linnet: learn how flash storage behaves, and act on it.

The engine is Rust and C (``linnet._native``); this package is its front: traces as Arrow tables, models with
scikit-learn conventions, comparisons of admission policies on a modelled flash array, and reports.
"""

from linnet import _moved
from linnet._native import (
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
    trace_formats,
    training_rows,
    workloads,
)
from linnet.experiment import Experiment, Setup, compare
from linnet.learning import FitSettings, Fitted, InflectionPoint, evaluate, fit, inflection_point
from linnet.traces import read_trace, trace_from_table, write_trace

_moved.install()
__getattr__ = _moved.renamed(__name__)

__all__ = [
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
    "trace_formats",
    "trace_from_table",
    "training_rows",
    "workloads",
    "write_trace",
]
