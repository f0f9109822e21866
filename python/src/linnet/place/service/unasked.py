# SPDX-License-Identifier: MIT OR Apache-2.0
"""What stands in for the model where a command works on the books alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from linnet.place.confidence import BETWEEN
from linnet.place.moments import Floats
from linnet.place.service.state import State
from linnet.place.words import METRICS, Drive, Prediction, Profile


class Unasked:
    """Knows every promise that a state has, by whichever model it was made, and predicts nothing."""

    def __init__(self, state: State) -> None:
        promised = {slo.metric for tenant, _, _ in state.tenants() for slo in tenant.slos}
        self.metrics = tuple(dict.fromkeys([*METRICS, *sorted(promised)]))

    def predict(
        self, drives: Sequence[Drive], tenants: Sequence[Profile], neighbours: Sequence[Sequence[Profile]]
    ) -> list[dict[str, Prediction]]:
        """See :class:`linnet.place.words.Interference`: NaN."""
        return [dict.fromkeys(self.metrics, Prediction(math.nan, math.nan, math.nan)) for _ in tenants]

    def parts(self, drive: Drive) -> Floats:
        """See :class:`linnet.place.confidence.GradedModel`."""
        return np.zeros((len(BETWEEN), len(self.metrics)))
