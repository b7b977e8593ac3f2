"""Losses that judge candidates, and weights of rows; `links` has the log-loss of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bandfall.descent._path import column_means

_LARGEST_SHARE = 0.1  # one row has at most this share of all evidence
_FEWEST = 2  # rows that decide, however few there are
# Largest weight in training, in units of the largest weight as evidence. Heavier rows are fitted
# anyway, and if a few rows have nearly all of the variance, a training R² near one says nothing
# about the others.
_HEAVIEST = 100.0
_LIGHTEST = 1e-30  # relative to the heaviest row; smaller weights would underflow


class Judge(Protocol):
    """Judges predictions (m, ..., k)."""

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Losses for targets (m, ..., k), shape (m, ...)."""


@dataclass(frozen=True)
class PowerLoss:
    """Mean of |error|^power over targets of unit variance.

    With a power below 2, a few outliers among the held-out rows have less influence.
    """

    power: float = 1.5

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """|prediction − y|^power, averaged over targets."""
        errors = np.abs(predictions - y)
        losses = errors * np.sqrt(errors) if self.power == 1.5 else errors**self.power
        return losses[..., 0] if losses.shape[-1] == 1 else losses.mean(axis=-1)


def mean_and_error(losses: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """Weighted mean of losses (m,), and its standard error."""
    weights = np.ones(len(losses)) if weights is None else weights
    mean = float(np.average(losses, weights=weights))
    deviation = (losses - mean) * weights / weights.mean()
    return mean, float(deviation.std()) / math.sqrt(len(deviation))


def mean_r2(predictions: np.ndarray, y: np.ndarray, weights: np.ndarray | None) -> float:
    """R² averaged over targets that vary; NaN if none does."""
    mean = column_means(y, weights)
    variance = np.average((y - mean) ** 2, axis=0, weights=weights)
    error = np.average((predictions - y) ** 2, axis=0, weights=weights)
    varies = variance > 0
    return float(np.mean(1.0 - error[varies] / variance[varies])) if varies.any() else math.nan


def evidence_weights(weights: np.ndarray) -> np.ndarray:
    """Weights of rows as evidence: no row counts for more than a tenth of all."""
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
