# SPDX-License-Identifier: MIT OR Apache-2.0
"""Old names of modules and of what is in them. They lead to the new ones, with a :class:`DeprecationWarning`."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

MOVED = {
    "linnet.calibrate": "linnet.calibration.calibrate",
    "linnet.drift": "linnet.studies.drift",
    "linnet.grid": "linnet.studies.grid",
    "linnet.iocost": "linnet.calibration.iocost",
    "linnet.latency": "linnet.studies.latency",
    "linnet.loadcurve": "linnet.calibration.loadcurve",
    "linnet.place.baselines": "linnet.studies.place_baselines",
    "linnet.place.bound": "linnet.studies.packing_bound",
    "linnet.report.drift": "linnet.studies.drift_figure",
    "linnet.report.shapes": "linnet.studies.shapes_figure",
    "linnet.sensitivity": "linnet.studies.sensitivity",
    "linnet.shapes": "linnet.studies.shapes",
    "linnet.study": "linnet.studies.accuracy",
}
"""Modules by their old names."""

RENAMED = {
    "linnet": {"watched_rows": "inflight_rows"},
    "linnet.studies.accuracy": {"JUDGES": "EVALUATORS", "judged": "evaluated"},
    "linnet.whatif": {"judge": "assess"},
}
"""Of each module, its names by their old ones."""


class _Alias:
    """Finds a module by its old name. The import system asks it only after every other finder has failed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        return ModuleSpec(name, self) if name in MOVED else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """The default: a module that :meth:`exec_module` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the module of the new name in the place of the empty one."""
        old, new = module.__name__, MOVED[module.__name__]
        # The frames between this one and the importer's are the import system's own, which warnings skip.
        warnings.warn(f"{old} has moved to {new}", DeprecationWarning, stacklevel=2)
        sys.modules[old] = importlib.import_module(new)


def install() -> None:
    """Make the old names importable; a second call does nothing."""
    if not any(isinstance(finder, _Alias) for finder in sys.meta_path):
        sys.meta_path.append(_Alias())


def renamed(module: str, calls: int = 0) -> Callable[[str], Any]:
    """What a module takes for its ``__getattr__``: it finds what is asked for by an old name.

    ``calls`` is how many calls lie between the two, so that the warning names the line that asks.
    """

    def find(name: str) -> Any:
        if name not in RENAMED[module]:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        new = RENAMED[module][name]
        warnings.warn(f"{module}.{name} is now {module}.{new}", DeprecationWarning, stacklevel=2 + calls)
        return getattr(sys.modules[module], new)

    return find
