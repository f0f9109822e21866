# SPDX-License-Identifier: MIT OR Apache-2.0
"""Optional parts of an installation, and the error when a missing one is needed."""

from __future__ import annotations

from importlib.util import find_spec

from linnet import _native

NEEDS = {
    "arrow": {"pyarrow": "pyarrow"},
    "place": {"pyarrow": "pyarrow", "scipy": "scipy", "sklearn": "scikit-learn"},
    "ray": {"ray": "ray"},
    "report": {"matplotlib": "matplotlib"},
    "serve": {
        "fastapi": "fastapi",
        "prometheus_client": "prometheus-client",
        "pydantic": "pydantic",
        "uvicorn": "uvicorn",
    },
    "study": {
        "ortools": "ortools",
        "scipy": "scipy",
        "sklearn": "scikit-learn",
        "threadpoolctl": "threadpoolctl",
    },
}
"""Extras of the package: modules that each brings, and the distributions that they are in."""


GUIDE = "docs/guide/install.md"
"""The page of the source tree that says how to make the wheel."""


class MissingExtra(ImportError):
    """What was asked for needs an extra that is not installed. The message says which, and how to install it."""


def lacking(extra: str) -> list[str]:
    """Distributions of an extra that are not installed. Imports nothing."""
    return [distribution for module, distribution in NEEDS[extra].items() if not _is_there(module)]


def require(extra: str, what: str) -> None:
    """Raise :class:`MissingExtra` unless ``what`` can run. Commands ask before their work, not after it."""
    missing = lacking(extra)
    if missing:
        raise MissingExtra(f"{what} needs {' and '.join(missing)}; {advice(extra)}")


def advice(extra: str) -> str:
    """How to install an extra. The package is on no index, so a requirement by its name would get somebody else's."""
    return f"install it with: pip install 'WHEEL[{extra}]', where WHEEL is the path of Linnet's wheel ({GUIDE})"


def require_bench(what: str) -> None:
    """Raise unless the engine was compiled with its benches, which the wheel leaves out."""
    if not hasattr(_native, "bench_decide"):
        raise MissingExtra(
            f"{what} needs an engine with its benches, and this build has none; "
            "run `make build` in the source tree and use .venv/bin/linnet"
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        # A module that something else has blocked counts as missing.
        return False
