# SPDX-License-Identifier: MIT OR Apache-2.0
"""How well can slow reads be told from fast ones? Compares our models, published ones, baselines and a ceiling.

Every model is trained on the same reads and tested on the same later reads by the same labels: slow is above the
inflection point of the training part. The split follows time and no test read is filtered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from linnet import _moved
from linnet._native import LearnError, Study, Trace
from linnet.extras import require
from linnet.studies.ceiling import ceiling_scores

__getattr__ = _moved.renamed(__name__)

MODELS = ("always-fast", "logistic", "trees", "linnos", "heimdall", "linnet")
"""``logistic`` (scikit-learn) sees LinnOS's nine numbers. ``trees`` (scikit-learn's boosting) sees those, Heimdall's
eleven and what ``linnet`` sees: a ceiling for the features. The others are what the core runs, in integers."""
CEILING = "ceiling"
MORE_MODELS = ("linnet-2", CEILING, "trees-linnos", "heimdall-cutoff", "heimdall-p3", "heimdall-p9")
"""``linnet`` on the features of ``linnet-2``; the wide ceiling, boosted on some two hundred numbers; the ceiling of
LinnOS's nine numbers; Heimdall's features and network trained on the labels of all; Heimdall deciding on three or nine
reads at once."""
FIGURES = ("rows", "base_rate", "accuracy", "balanced_accuracy", "roc_auc", "false_submit", "false_revoke")
"""Figures of each model. ``base_rate`` is the accuracy of always submitting."""

Part = tuple[dict[str, NDArray[Any]], NDArray[np.bool_]]


def numbers(digits: NDArray[np.uint8]) -> NDArray[np.float64]:
    """LinnOS's nine numbers out of its 31 digits: five page counts, four latencies in us."""
    hundreds = digits[:, :15].reshape(-1, 5, 3) @ np.array([100, 10, 1])
    thousands = digits[:, 15:].reshape(-1, 4, 4) @ np.array([1000, 100, 10, 1])
    return np.hstack([hundreds, thousands]).astype(float)


def evaluated(slow: NDArray[np.bool_], revoke: NDArray[np.bool_], score: NDArray[np.float64] | None) -> dict[str, Any]:
    """Figures of one model on its test rows."""
    require("study", "the area under a curve")
    from sklearn.metrics import roc_auc_score

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


def _always_fast(study: Study, name: str, seed: int) -> dict[str, Any]:
    _, slow = study.test()
    return evaluated(slow, np.zeros(len(slow), bool), None)


def _heimdall(study: Study, name: str, seed: int) -> dict[str, Any]:
    found = study.heimdall(int(name.partition("-p")[2] or 1))
    own = {f"own_{key}": found["own"][key] for key in ("base_rate", "accuracy", "balanced_accuracy", "roc_auc")}
    return found | own


def _scikit(study: Study, name: str, seed: int) -> dict[str, Any]:
    """A classifier of scikit-learn's, on one thread; always fast where there is one class to learn."""
    require("study", f"the model {name!r}")
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    def columns(part: Part) -> NDArray[np.float64]:
        features, _ = part
        nine = numbers(features["linnos"])
        return np.hstack([features["linnet"], features["heimdall"], nine]) if name == "trees" else nine

    train, test = study.train(), study.test()
    if len(np.unique(train[1])) < 2:
        return _always_fast(study, name, seed)
    model = (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        if name == "logistic"
        else HistGradientBoostingClassifier(max_iter=150, learning_rate=0.08, random_state=seed)
    )
    with threadpool_limits(limits=1):
        score = model.fit(columns(train), train[1]).predict_proba(columns(test))[:, 1]
    return evaluated(test[1], score > 0.5, score)


def _ceiling(study: Study, trace: Trace, test: Trace | None, seed: int) -> dict[str, Any]:
    score = ceiling_scores(study, trace, test, seed)
    if score is None:
        return _always_fast(study, CEILING, seed)
    return evaluated(study.test()[1], score > 0.5, score)


EVALUATORS: dict[str, Callable[[Study, str, int], dict[str, Any]]] = {
    "always-fast": _always_fast,
    "logistic": _scikit,
    "trees": _scikit,
    "trees-linnos": _scikit,
    "linnos": lambda study, name, seed: study.linnos(),
    "linnet": lambda study, name, seed: study.linnet(),
    "linnet-2": lambda study, name, seed: study.linnet2(),
    "heimdall": _heimdall,
    "heimdall-cutoff": lambda study, name, seed: study.heimdall_by_cutoff(),
    "heimdall-p3": _heimdall,
    "heimdall-p9": _heimdall,
}


def accuracy(
    trace: Trace,
    models: Sequence[str] = MODELS,
    seed: int = 0,
    test: Trace | None = None,
    defects: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """One row for each model on a device's I/Os with latencies.

    The second half is for testing, or ``test``, another period. ``defects`` names published defects to reproduce, of
    those in :func:`linnet._native.defects`. Heimdall's rows also have ``own_...``: the same decisions by the labels
    that it was trained on.
    """
    if CEILING in models and defects:
        raise LearnError("the model 'ceiling' has no published defects: leave out --defect, or the model")
    study = Study(trace, test, seed=seed, defects=defects)
    point = {
        "inflection_percentile": study.inflection_percentile,
        "inflection_us": study.inflection_ns / 1000,
    }
    rows = []
    for name in models:
        found = _ceiling(study, trace, test, seed) if name == CEILING else EVALUATORS[name](study, name, seed)
        own = {key: value for key, value in found.items() if key.startswith("own_")}
        rows.append({"trace": trace.name, "model": name} | point | {k: found[k] for k in FIGURES} | own)
    return rows
