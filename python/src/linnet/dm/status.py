# SPDX-License-Identifier: MIT OR Apache-2.0
"""The status line of ``spec/dm-target.md``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from linnet.dm import DmError

VERSION = 1
STATES = {"A": "in service", "D": "out of service", "U": "through md"}
BUCKET_0_US = 64
"""Upper end of the first latency bucket; it doubles with each further bucket, and the last has none."""
COUNTERS = ("reads", "writes", "decisions", "revokes", "forced", "failovers", "probes", "untracked")
HEDGES = ("hedges", "hedge_wins", "discarded", "unhedged")
"""Counters of a device that hedges."""
MEASURES = ("inflight", "reads", "writes", "errors", "ewma_us")
"""Of each replica."""
TRUST = ("trust", "why", "generation", "identified", "short", "failed", "unknown")
"""Of each leg of a volume above md."""
QUANTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999}


def quantile_below_us(buckets: list[int], q: float) -> int | None:
    """The upper end of the bucket that holds a quantile; ``None`` for no reads or for the last bucket."""
    total = sum(buckets)
    reached = 0
    for i, count in enumerate(buckets[:-1]):
        reached += count
        if total and reached >= q * total:
            return BUCKET_0_US << i
    return None


def _value(key: str, text: str) -> Any:
    if key == "lat":
        return [int(count) for count in text.split(",")]
    if key in ("dev", "policy", "model", "state", "md", "trust", "why"):
        return text
    return int(text)


def _complete(found: dict[str, Any], needed: Sequence[str], line: str) -> None:
    """Raise ``DmError`` for the first of these words that is not there."""
    for word in needed:
        if word not in found:
            raise DmError(f"a status without `{word}`; use a module and a command of the same release: {line}")


def parse(line: str) -> dict[str, Any]:
    """One status line, ``<start> <length> linnet <words>``, as a dictionary with a list of replicas.

    Raises ``DmError`` for a line of another kind or version, or without a word that is shown.
    """
    words = line.split()
    if len(words) < 4 or words[2] != "linnet":
        raise DmError(f"not a status of the target linnet: {line}")
    pairs = words[3:]
    if len(pairs) % 2 or pairs[:2] != ["version", str(VERSION)]:
        raise DmError(
            f"a status of another version than {VERSION}; use a module and a command of the same release: {line}"
        )
    result: dict[str, Any] = {"sectors": int(words[1])}
    replicas: list[dict[str, Any]] = []
    target = result
    try:
        for key, text in zip(pairs[::2], pairs[1::2], strict=True):
            if key == "dev":
                target = {}
                replicas.append(target)
            target[key] = _value(key, text)
    except ValueError as error:
        raise DmError(f"a status word that should be a number is not: {line}") from error
    if result.pop("replicas", None) != len(replicas):
        raise DmError(f"a status that lists {len(replicas)} replicas but gives another number: {line}")
    _complete(result, ("policy", "model", "on", "revoke", *COUNTERS), line)
    _complete(result, ("hedge_us", *HEDGES) if result.get("hedge") else (), line)
    for replica in replicas:
        _complete(replica, ("state", *MEASURES, "lat", *(TRUST if "md" in result else ())), line)
        for name, q in QUANTILES.items():
            replica[f"{name}_us_below"] = quantile_below_us(replica["lat"], q)
    result["replicas"] = replicas
    return result


def per_device(output: str, name: str | None) -> dict[str, str]:
    """Lines of ``dmsetup status`` or ``dmsetup table`` by device; for a single device dmsetup omits the name."""
    found = {}
    for line in output.splitlines():
        # Of a device alone the line begins with its start. No model or device name, and no start, has ": " behind it.
        before, colon, after = line.partition(": ")
        if colon:
            found[before] = after
        elif name is not None and line.strip():
            found[name] = line
    return found
