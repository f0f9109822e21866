# SPDX-License-Identifier: MIT OR Apache-2.0
"""Answers of the library as the JSON of the interface."""

from __future__ import annotations

from typing import Any

from linnet.place.rebalance import Advice
from linnet.place.whatif import WhatIf


def asked(answer: WhatIf) -> dict[str, Any]:
    """What a tenant would do, and to whom."""
    effects = [
        {
            "tenant": one.tenant,
            "newcomer": one.newcomer,
            "metric": one.metric,
            "before": one.before.shown(),
            "after": one.after.shown(),
            "change_percent": one.change_percent,
            "limit": one.limit,
            "confidence_percent": one.confidence_percent,
            "compared": one.compared,
            "broken": one.broken,
            "cause": one.cause,
            "cause_share": one.cause_share,
        }
        for one in answer.effects
    ]
    found = {"allowed": answer.allowed, "drive": answer.drive, "effects": effects, "reasons": answer.reasons}
    return {**found, "text": answer.text()}


def advised(found: Advice) -> dict[str, Any]:
    """Advice on moves as JSON."""
    moves = [
        {
            "tenant": move.tenant,
            "from": move.source,
            "to": move.target,
            "capacity_bytes": move.capacity_bytes,
            "reason": move.reason,
        }
        for move in found.moves
    ]
    broken = ("broken_before", "broken_after", "drives_observed_broken")
    names = ("bytes_moved", *broken, "drives_before", "drives_after", "complete")
    return {"moves": moves, **{name: getattr(found, name) for name in names}}
