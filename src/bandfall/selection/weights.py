"""Weights of rows: how much each counts in training, and as evidence."""

from __future__ import annotations

import math

import numpy as np

_LARGEST_SHARE = 0.1  # of all evidence, that one row may be
_FEWEST = 2  # rows that decide, however few there are
# Times that share, in training: heavier rows are met anyway, and where a few of them are nearly all
# of the variance, a training R² of almost one says nothing about the others.
_HEAVIEST = 100.0
_LIGHTEST = 1e-30  # of the heaviest: lighter rows count nothing, and their weights would underflow


def evidence_weights(weights: np.ndarray) -> np.ndarray:
    """Weights of rows as evidence: no row is more than a tenth of it, however heavy.

    Held-out errors weighted by one row that outweighs all others would say nothing about a model
    but how it does there.

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
    """Positive weights in units of their mean as evidence; None where all are equal.

    Speeds of training then mean the same whether or not one row outweighs all others.
    """
    weights = np.maximum(weights / weights.max(), _LIGHTEST)
    evidence = evidence_weights(weights)
    weights = np.minimum(weights, _HEAVIEST * evidence.max()) / evidence.max()
    weights /= (evidence / evidence.max()).mean()
    return None if np.ptp(weights) == 0 else weights
