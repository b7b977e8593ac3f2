"""Weights of training rows: warned of where they are small, resolved where they differ."""

from __future__ import annotations

import numpy as np

from bandfall.estimators._base import TrainingData
from bandfall.warning import warn_caller

_MIN_MEAN_WEIGHT = 0.1
_FLOAT32_WEIGHTS = 1e6  # largest over smallest weight: beyond, float32 loses the light rows


class WeightWarning(UserWarning):
    """Weights so small that training ends long before it has used the rows."""


def wide_enough(data: TrainingData) -> TrainingData:
    """The training data in a dtype that resolves their weights, which are warned of if small."""
    weights = data.weights
    if weights is None:
        return data
    n, total = len(weights), float(weights.sum())
    if total < _MIN_MEAN_WEIGHT * n:
        warn_caller(
            f"sample_weight sums to {total:.3g} over {n} rows. A row of weight w counts as w rows, "
            f"so this trains as on {total:.3g} rows. If only the ratios of weights matter, pass "
            " sample_weight * len(sample_weight) / sample_weight.sum()",
            WeightWarning,
        )
    if weights.max() > _FLOAT32_WEIGHTS * weights.min():
        return data._replace(X=data.X.astype(np.float64, copy=False))
    return data
