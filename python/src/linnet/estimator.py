# SPDX-License-Identifier: MIT OR Apache-2.0
"""The LinnOS network as a scikit-learn classifier, for your own rows and splits: ``linnet[study]``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from linnet import _native
from linnet.extras import require
from linnet.learning import unmasked

require("study", "linnet.estimator")
# Without the extra the line above says what to install, so these come after it.
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.utils import Tags  # noqa: E402
from sklearn.utils.multiclass import type_of_target  # noqa: E402
from sklearn.utils.validation import assert_all_finite, check_is_fitted, column_or_1d, validate_data  # noqa: E402


class LinnosClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A dense network on decimal digits, trained in the core and quantised to integers.

    Rows are decimal digits (n, width), 0 to 9, as :func:`linnet.training_rows` gives them; the class 1 is slow
    (revoke). Raises :class:`ValueError` for other numbers and for masked arrays. Predictions are those of the quantised
    network, bit for bit what a device would run.
    """

    def __init__(
        self,
        hidden: tuple[int, ...] = (256,),
        epochs: int = 8,
        batch: int = 128,
        false_submit_weight: float = 5.0,
        seed: int = 0,
    ):
        self.hidden = hidden
        self.epochs = epochs
        self.batch = batch
        self.false_submit_weight = false_submit_weight
        self.seed = seed

    def fit(self, X: ArrayLike, y: ArrayLike) -> LinnosClassifier:
        """Train on digit rows ``X`` (n, width) and labels ``y`` (n,); two classes, the larger one is slow.

        Raises :class:`ValueError` for labels of another shape or length, of other than two classes, for fractions, NaN
        and infinity among them, and for no epochs; :class:`TypeError` for ``hidden`` that is no sequence of sizes.
        """
        labels = column_or_1d(unmasked(y, "labels"), warn=True)
        assert_all_finite(labels, input_name="labels")
        if labels.dtype == object and not all(isinstance(label, str) for label in labels):
            raise ValueError("Unknown label type: objects of several types; give numbers or strings")
        kind = type_of_target(labels, input_name="labels", raise_unknown=True)
        if kind != "binary":
            # Here and for negative rows the words are those that scikit-learn's own checks look for.
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        rows = self._rows(X, reset=True)
        if len(rows) != len(labels):
            raise ValueError(f"{len(rows)} rows but {len(labels)} labels")
        self.classes_, slow = np.unique(labels, return_inverse=True)
        if len(self.classes_) != 2:
            raise ValueError("all labels are of 1 class; a fast/slow network needs 2")
        self.network_ = _native.train_network(
            rows,
            slow.astype(bool),
            hidden=self.hidden,
            epochs=self.epochs,
            batch=self.batch,
            false_submit_weight=self.false_submit_weight,
            seed=self.seed,
        )
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Score of each row: the revoke output minus the submit output; above 0 revokes."""
        check_is_fitted(self, "network_")
        scores: NDArray[np.int64] = self.network_.scores(self._rows(X, reset=False))
        return scores.astype(np.float64)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Class of each row."""
        check_is_fitted(self, "network_")
        classes: NDArray[Any] = self.classes_[self.network_.decide(self._rows(X, reset=False))]
        return classes

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.positive_only = True
        return tags

    def _rows(self, rows: ArrayLike, reset: bool) -> NDArray[np.uint8]:
        checked = validate_data(self, unmasked(rows, "rows"), reset=reset, dtype=None, ensure_2d=True)
        digits = np.asarray(checked)
        if not np.issubdtype(digits.dtype, np.number):
            raise ValueError(f"rows hold digits: an array of {digits.dtype} has no numbers")
        digit = (digits >= 0) & (digits <= 9) & (digits == np.floor(digits))
        if not digit.all():
            row, column = (int(at) for at in np.argwhere(~digit)[0])
            odd = digits[row, column]
            why = "Negative values in data: " if odd < 0 else ""
            raise ValueError(f"{why}rows hold digits, 0 to 9: number {column} of row {row} is {odd}")
        return np.ascontiguousarray(digits, dtype=np.uint8)
