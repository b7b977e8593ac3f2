"""Classes as columns of numbers, back from outputs to probabilities, and their log-loss.

A path trains on one-hot columns minus the prior: far from all rows its outputs are zero, which
stands for the prior. Two classes need only one column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bandfall._checks import check_number
from bandfall._typing import Weights

CLIP, SOFTMAX = "clip", "softmax"
LEAST = 1e-12  # probabilities are raised to this, so that the loss is finite
# Candidates: the smallest probability of a class relative to the prior, and divisors of outputs.
_FLOORS = tuple(np.geomspace(1e-3, 0.5, 9))
_TEMPERATURES = tuple(np.geomspace(0.01, 4.0, 27))
# Candidates in a search, for every stop of every path. Each temperature is half of the previous
# one, so that exp(g / temperature) is the square of the previous exponential.
_QUICK_FLOORS = _FLOORS[::3]
_QUICK_TEMPERATURES = tuple(2.56 / 2**i for i in range(9))
_CODE_LIMIT = 3.5  # of outputs, for codes within ±1: no exponential overflows
_STRAY_ROWS = 0.5  # randomly labelled rows that count in the choice of a link
_STRAY_SHARE = 0.01  # randomly labelled rows in predictions; too few to matter for a good model
_LEAST_STRAY = 1e-6  # smallest share that float32 resolves


def class_codes(labels: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """One-hot columns minus the prior, (n, c); with two classes, only the second column."""
    codes = np.eye(len(prior))[labels] - prior
    return codes[:, 1:] if len(prior) == 2 else codes


def class_shares(labels: np.ndarray, weights: Weights, n_classes: int) -> np.ndarray:
    """Weighted shares of the classes, shape (c,)."""
    counts = np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)
    return counts / counts.sum()


def all_columns(outputs: np.ndarray, n_classes: int) -> np.ndarray:
    """A column for every class, from codes or outputs (..., k)."""
    return np.concatenate([-outputs, outputs], axis=-1) if n_classes == 2 else outputs


@dataclass(frozen=True)
class Link:
    """Turns outputs g into probabilities; g = 0 gives the prior π.

    "clip" : p ∝ max(π + g, parameter · π), for outputs that are nearly probabilities.
    "softmax" : p ∝ π exp(g / parameter), for outputs that rank classes well but are too uncertain.

    Either is mixed with the prior, (1 − stray) p + stray · π, so that no class of the training rows
    has probability 0 or 1.
    """

    kind: str = CLIP
    parameter: float = 1e-3  # floor or temperature
    stray: float = 0.0  # share of rows whose class is drawn from the prior

    def __post_init__(self) -> None:
        if self.kind not in (CLIP, SOFTMAX):
            raise ValueError(f"kind={self.kind!r} is unknown")
        check_number("parameter", self.parameter, 1e-9, 1e9)
        check_number("stray", self.stray, 0.0, 1.0)

    def log_probabilities(self, outputs: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Log-probabilities for outputs (..., c), shape (..., c)."""
        if self.kind == CLIP:
            shares = np.maximum(prior + outputs, self.parameter * prior)
            logs = np.log(np.maximum(shares, LEAST))
        else:
            logs = outputs / self.parameter + np.log(np.maximum(prior, LEAST))
        logs = logs - logs.max(axis=-1, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=-1, keepdims=True))
        if self.stray == 0.0:
            return logs
        with np.errstate(divide="ignore"):  # classes whose rows all have weight zero
            return np.logaddexp(np.log1p(-self.stray) + logs, np.log(self.stray * prior))


LINKS = (
    *(Link(CLIP, float(floor)) for floor in _FLOORS),
    *(Link(SOFTMAX, float(temperature)) for temperature in _TEMPERATURES),
)
SOFTMAX_LINKS = tuple(link for link in LINKS if link.kind == SOFTMAX)
PLAIN = Link(SOFTMAX, 1.0)  # for outputs that are log-odds


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
        columns = np.clip(np.moveaxis(outputs, -1, 0), -_CODE_LIMIT, _CODE_LIMIT, order="C")
        index = true[None]
        shape = (-1, *(1,) * true.ndim)
        prior = self.prior.reshape(shape)
        own = np.take_along_axis(columns, index, axis=0)
        # Of p ∝ π exp(g / T), −log p is log(1 + Σ π_j exp((g_j − g) / T) / π) over other classes.
        powers = np.subtract(columns, own)
        powers /= _QUICK_TEMPERATURES[0]
        np.exp(powers, out=powers)
        np.put_along_axis(powers, index, 0.0, axis=0)
        own_prior = np.maximum(self.prior, LEAST)[true]
        for temperature in _QUICK_TEMPERATURES:
            if temperature < _QUICK_TEMPERATURES[0]:
                np.square(powers, out=powers)
            yield np.log1p(np.tensordot(self.prior, powers, 1) / own_prior)
        own_share = own[0] + self.prior[true]
        np.add(columns, prior, out=columns)
        for floor in _QUICK_FLOORS:  # rising
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
