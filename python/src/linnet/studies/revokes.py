# SPDX-License-Identifier: MIT OR Apache-2.0
"""False revokes asked for and had: where the trees' score is cut, instead of at even odds.

A threshold of the score is the lowest at which the share of reads that are fast, and would be revoked, does not exceed
the share asked for on reads whose outcome is known. Which reads these are decides whether the rate holds later: on
reads that the trees were fitted to, slow and fast ones look easier to separate than they are on later reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet._native import Trace, inflight_rows
from linnet.learning import FitSettings, fit

ASKED = (0.005, 0.01, 0.02, 0.05)
"""False revokes as shares of all reads."""
FITTED_ON = 0.375
"""Share of the reads that the trees are fitted to where later ones choose the threshold."""
TREE_ONE = 1024
"""What the trees count a logarithm of odds in (``LINNET_TREE_ONE`` of the core)."""
TRAINED_ON = 0.5
"""Share of the reads that are known; the rest is for testing."""


def threshold_at(score: NDArray[np.int32], slow: NDArray[np.bool_], asked: float) -> int:
    """The lowest score above which at most ``asked`` of these reads are fast. A read above it would be revoked."""
    fast = np.sort(score[~slow])[::-1]
    most = int(asked * len(score))
    # Above the score of the fast read that comes next there are at most as many as allowed.
    return int(fast[most]) if most < len(fast) else int(score.min()) - 1


def figures(score: NDArray[np.int32], slow: NDArray[np.bool_], threshold: int) -> dict[str, float]:
    """Shares of all reads: fast and above the threshold, slow and not above it, above it."""
    above = score > threshold
    return {
        "false_revoke": float((above & ~slow).mean()),
        "false_submit": float((~above & slow).mean()),
        "revoked": float(above.mean()),
    }


def revoke_rates(trace: Trace, seed: int = 0, schema: str = "linnet-1") -> list[dict[str, Any]]:
    """Rates on the later half of a device's I/Os with latencies, for thresholds chosen on the earlier half.

    One row for even odds (``asked`` is ``None``), then one for each of :data:`ASKED` and each way to choose:
    ``fitted``, on the rows that the trees were fitted to, or ``later``, on the last quarter of the earlier half, which
    these trees have not seen. ``asked`` and the rates are shares of all reads; ``threshold`` is in natural log-odds.
    """
    rows: list[dict[str, Any]] = []
    for chosen_on, share in (("fitted", TRAINED_ON), ("later", FITTED_ON)):
        model = fit([trace], seed, FitSettings(epochs=1, train_share=share, schema=schema))[0].model
        features, slow, _ = inflight_rows(trace, model.inflection_ns, schema)
        score = model.scores(features)
        cut, known = round(share * len(score)), round(TRAINED_ON * len(score))
        held = slice(0, known) if chosen_on == "fitted" else slice(cut, known)
        if chosen_on == "fitted":
            rows.append({"chosen_on": None, "asked": None, "threshold": 0.0} | figures(score[known:], slow[known:], 0))
        for asked in ASKED:
            threshold = threshold_at(score[held], slow[held], asked)
            own = {"chosen_on": chosen_on, "asked": asked, "threshold": threshold / TREE_ONE}
            rows.append(own | figures(score[known:], slow[known:], threshold))
    return [{"trace": trace.name} | row for row in rows]
