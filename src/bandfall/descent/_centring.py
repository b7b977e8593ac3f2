"""Target columns: their means, norms and units, in float64 whatever the features are.

Targets that share a large offset are centred before anything is rounded.
"""

from __future__ import annotations

import math

import numpy as np

from bandfall._typing import Weights


def column_means(y: np.ndarray, weights: Weights = None) -> np.ndarray:
    """(Weighted) mean of each column of y (n, k), exact where a column is constant.

    Deviations from the first row are averaged, because sums of numbers with a large common offset
    lose digits (along columns, NumPy does not sum pairwise).
    """
    first = y[0].astype(np.float64)
    return first + np.average(y - first, axis=0, weights=weights)


def column_norms(y: np.ndarray, means: np.ndarray, weights: Weights = None) -> np.ndarray:
    """√Σ wᵢ(yᵢ − mean)² of each column, exactly zero where centring leaves only rounding."""
    centred = y - means
    weighted = centred if weights is None else np.sqrt(weights)[:, None] * centred
    peak = np.abs(weighted).max(axis=0)
    safe = np.where(peak > 0, peak, 1.0)
    norms = peak * np.linalg.norm(weighted / safe, axis=0)
    rounding = 4.0 * np.finfo(y.dtype).eps * np.abs(y).max(axis=0)
    return np.where(np.abs(centred).max(axis=0) <= rounding, 0.0, norms)


def column_units(scale: np.ndarray) -> np.ndarray:
    """Divisors of target columns of norms `scale` during training.

    Norm times √(number of columns that vary), so that ‖y‖² = 1 and the columns share R² equally.
    Constant columns stay zero.
    """
    return np.where(scale > 0, scale, 1.0) * math.sqrt(np.count_nonzero(scale))
