"""Losses of predictions, which judge candidates: powers of errors, and the log-loss of classes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from bandfall._targets.links import (
    CODE_LIMIT,
    LEAST,
    LINKS,
    PLAIN,
    QUICK_FLOORS,
    QUICK_TEMPERATURES,
    Link,
    all_columns,
)
from bandfall._typing import Weights
from bandfall.descent._centring import column_means

_STRAY_ROWS = 0.5  # randomly labelled rows that count in the choice of a link
_STRAY_SHARE = 0.01  # randomly labelled rows in predictions; too few to matter for a good model
_LEAST_STRAY = 1e-6  # smallest share that float32 resolves


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


@dataclass(frozen=True)
class LogLoss:
    """−log of the probability of the true class, with the best link."""

    prior: np.ndarray  # (c,)
    # Whether outputs are log-odds (of models that minimise the log-loss) or codes of classes.
    log_odds: bool = False

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Losses of outputs (m, ..., k) for codes (m, ..., k), with the best of a few links."""
        outputs, true = self._outputs_and_true(predictions, y)
        if self.log_odds:
            return self._with(PLAIN, outputs, true)
        best, least = np.empty(0), np.full(outputs.shape[1:-1], np.inf)
        for losses in self._quick_losses(outputs, np.broadcast_to(true, outputs.shape[:-1])):
            means = losses.mean(axis=0)
            best = np.where(means < least, losses, best) if len(best) else losses
            least = np.minimum(means, least)
        return best

    def _quick_losses(self, outputs: np.ndarray, true: np.ndarray) -> Iterator[np.ndarray]:
        """Losses (m, ...) of outputs (m, ..., c) for each link in turn, equal to those of `_with`.

        A search spends much of its time here. Classes are the first axis, because NumPy sums
        many short rows slowly.
        """
        columns = np.clip(np.moveaxis(outputs, -1, 0), -CODE_LIMIT, CODE_LIMIT, order="C")
        index = true[None]
        shape = (-1, *(1,) * true.ndim)
        prior = self.prior.reshape(shape)
        own = np.take_along_axis(columns, index, axis=0)
        # Of p ∝ π exp(g / T), −log p is log(1 + Σ π_j exp((g_j − g) / T) / π) over other classes.
        powers = np.subtract(columns, own)
        powers /= QUICK_TEMPERATURES[0]
        np.exp(powers, out=powers)
        np.put_along_axis(powers, index, 0.0, axis=0)
        own_prior = np.maximum(self.prior, LEAST)[true]
        for temperature in QUICK_TEMPERATURES:
            if temperature < QUICK_TEMPERATURES[0]:
                np.square(powers, out=powers)
            yield np.log1p(np.tensordot(self.prior, powers, 1) / own_prior)
        own_share = own[0] + self.prior[true]
        np.add(columns, prior, out=columns)
        for floor in QUICK_FLOORS:  # rising
            np.maximum(columns, floor * prior, out=columns)
            own_clipped = np.maximum(own_share, np.maximum(floor * self.prior, LEAST)[true])
            yield np.log(columns.sum(axis=0)) - np.log(own_clipped)

    def codes(self, log_odds: np.ndarray) -> np.ndarray:
        """The codes that models with squared error would predict, (m, k)."""
        n_classes = len(self.prior)
        logs = PLAIN.log_probabilities(all_columns(log_odds, n_classes), self.prior)
        codes = np.exp(logs) - self.prior
        return codes[:, 1:] if n_classes == 2 else codes

    def best_link(
        self,
        outputs: np.ndarray,
        codes: np.ndarray,
        weights: Weights,
        n_rows: int,
        links: Sequence[Link] = (),
    ) -> tuple[Link, float]:
        """The link with the smallest log-loss on held-out rows, and that loss.

        The choice includes half a row with a random label from the prior, so that a few correct
        rows do not make a model certain. The stray share of the link is a hundredth of a row.
        `n_rows` is the number of distinct held-out rows; `links` replace the default candidates.
        """
        columns, true = self._outputs_and_true(outputs, codes)
        best, least = LINKS[0], math.inf
        stray_share = max(_STRAY_SHARE / n_rows, _LEAST_STRAY)
        for link in links or ((PLAIN,) if self.log_odds else LINKS):
            logs = link.log_probabilities(columns, self.prior)
            losses = -np.take_along_axis(logs, true[:, None], axis=1)[:, 0]
            stray = np.average(-logs @ self.prior, weights=weights)
            total = np.average(losses, weights=weights) + _STRAY_ROWS / n_rows * stray
            if total < least:
                best, least = replace(link, stray=stray_share), float(total)
        return best, float(np.average(self._with(best, columns, true), weights=weights))

    def _outputs_and_true(
        self, outputs: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        n_classes = len(self.prior)
        return all_columns(outputs, n_classes), all_columns(y, n_classes).argmax(axis=-1)

    def _with(self, link: Link, outputs: np.ndarray, true: np.ndarray) -> np.ndarray:
        logs = link.log_probabilities(outputs, self.prior)
        index = np.broadcast_to(true, logs.shape[:-1])[..., None]
        return -np.take_along_axis(logs, index, axis=-1)[..., 0]


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
