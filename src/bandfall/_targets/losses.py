"""Losses of predictions, which judge candidates; `links` has the log-loss of classes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bandfall.descent._centring import column_means


class Judge(Protocol):
    """Computes losses of predictions."""

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Losses of predictions (m, ..., k) for targets (m, ..., k), shape (m, ...)."""
        ...


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
