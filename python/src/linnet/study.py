# SPDX-License-Identifier: MIT OR Apache-2.0
"""How well can slow reads be told from fast ones? Our models beside baselines and a ceiling, on the same rows.

Each trace is cut in time: the inflection point and every model come from the first half, the second half judges,
unfiltered. A row needs four completed reads before it for LinnOS, so its models judge a few reads fewer than `linnet`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from linnet._native import Trace, training_rows, watched_rows
from linnet.learning import FitSettings, fit

MODELS = ("always-fast", "logistic", "trees-linnos", "trees-all", "linnos", "linnet")
"""``logistic`` and ``trees-linnos`` (scikit-learn) see LinnOS's nine numbers; ``trees-all`` sees what ``linnet`` sees
and those nine: a ceiling for the features. ``linnos`` and ``linnet`` are what the core runs."""


def numbers(digits: NDArray[np.uint8]) -> NDArray[np.float64]:
    """LinnOS's nine numbers out of its 31 digits: five page counts, four latencies in us."""
    hundreds = digits[:, :15].reshape(-1, 5, 3) @ np.array([100, 10, 1])
    thousands = digits[:, 15:].reshape(-1, 4, 4) @ np.array([1000, 100, 10, 1])
    return np.hstack([hundreds, thousands]).astype(float)


def judged(slow: NDArray[np.bool_], revoke: NDArray[np.bool_], score: NDArray[np.float64] | None) -> dict[str, Any]:
    """Figures of one model on its judged rows."""
    fast = ~slow
    both = 0 < slow.sum() < len(slow)
    halves = [float((revoke == slow)[part].mean()) for part in (fast, slow) if part.any()]
    return {
        "rows": len(slow),
        "base_rate": float(fast.mean()),
        "accuracy": float((revoke == slow).mean()),
        "balanced_accuracy": float(np.mean(halves)),
        "roc_auc": float(roc_auc_score(slow, score)) if both and score is not None else (0.5 if both else None),
        "false_submit": float((slow & ~revoke).mean()),
        "false_revoke": float((fast & revoke).mean()),
    }


def accuracy(trace: Trace, models: Sequence[str], seed: int = 0) -> list[dict[str, Any]]:
    """One row for each model on a trace with latencies."""
    fitted = fit([trace], seed, FitSettings())[0]
    inflection_ns = fitted.model.inflection_ns
    digits, slow = training_rows(trace, inflection_ns)
    watched, _, _ = watched_rows(trace, inflection_ns)
    seen = numbers(digits)
    everything = np.hstack([watched[len(watched) - len(seen) :], seen])
    cut = len(seen) // 2
    rows = []
    for name in models:
        if name == "always-fast":
            found = judged(slow[cut:], np.zeros(len(slow) - cut, bool), None)
        elif name == "linnos":
            found = fitted.report["biased"]
        elif name == "linnet":
            found = fitted.report["linnet"]
        else:
            x = everything if name == "trees-all" else seen
            model = (
                make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
                if name == "logistic"
                else HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, random_state=seed)
            )
            if len(np.unique(slow[:cut])) < 2:
                continue
            model.fit(x[:cut], slow[:cut])
            score = model.predict_proba(x[cut:])[:, 1]
            found = judged(slow[cut:], score > 0.5, score)
        kept = ("rows", "base_rate", "accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke")
        rows.append({"trace": trace.name, "model": name} | {k: found[k] for k in kept})
    return rows
