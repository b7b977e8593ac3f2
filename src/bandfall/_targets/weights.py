"""Weights of rows in training and as held-out evidence."""

from __future__ import annotations

import math

import numpy as np

_LARGEST_SHARE = 0.1  # of all evidence, for one row
_FEWEST = 2  # rows that decide, however few there are
# Largest weight in training, in units of the largest weight as evidence. Heavier rows are fitted
# anyway, and if a few rows have nearly all of the variance, a training R² near one says nothing
# about the others.
_HEAVIEST = 100.0
_LIGHTEST = 1e-30  # relative to the heaviest row; smaller weights would underflow


def evidence_weights(weights: np.ndarray) -> np.ndarray:
    """Weights of rows as evidence: no row counts for more than a tenth of all.

    Otherwise one very heavy row could decide alone.

    Examples
    --------
    >>> evidence_weights(np.append(np.ones(90), 1e8))[-1]
    np.float64(10.0)
    """
    share = max(_LARGEST_SHARE, _FEWEST / len(weights))
    rising = np.sort(weights)
    sums, bound = np.cumsum(rising), np.inf
    for n_bounded in range(min(len(rising), math.ceil(1.0 / share - 1e-9))):
        # Rows that count `bound` each: share × (n_bounded × bound + rest) = bound.
        bound = share * sums[-1 - n_bounded] / (1.0 - share * n_bounded)
        if bound >= rising[-1 - n_bounded]:
            break
    return np.minimum(weights, bound)


def training_weights(weights: np.ndarray) -> np.ndarray | None:
    """Positive weights in units of their mean as evidence; None if all are equal.

    Training speeds are then comparable, whether or not one row outweighs all others.
    """
    weights = np.maximum(weights / weights.max(), _LIGHTEST)
    evidence = evidence_weights(weights)
    weights = np.minimum(weights, _HEAVIEST * evidence.max()) / evidence.max()
    weights /= (evidence / evidence.max()).mean()
    return None if np.ptp(weights) == 0 else weights
