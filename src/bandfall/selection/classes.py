"""Classes as columns of numbers, and back from outputs to probabilities.

A path trains on one-hot columns minus the prior: far from all rows its outputs are zero, which
stands for the prior. Two classes need one column alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bandfall.checks import check_real

CLIP, SOFTMAX = "clip", "softmax"
_STRAY_ROWS = 0.5  # that count when a link is chosen
_STRAY_SHARE = 0.01  # of a row: too few to cost anything where a model is right
_LEAST_STRAY = 1e-6  # float32 tells from none
LEAST = 1e-12  # probability: a finite loss
# What is tried: to which share of the prior a class may fall, and what outputs are divided by.
_FLOORS = tuple(np.geomspace(1e-3, 0.5, 9))
_TEMPERATURES = tuple(np.geomspace(0.01, 4.0, 27))
# What a search tries for every stop of every path. Each temperature is half of the one before:
# exp(g / temperature) is the square of the exponential before.
_QUICK_FLOORS = _FLOORS[::3]
_QUICK_TEMPERATURES = tuple(2.56 / 2**i for i in range(9))
_CODE_LIMIT = 3.5  # of outputs, for codes within ±1: no exponential overflows


def class_codes(labels: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """One-hot columns minus the prior, (n, c); of two classes the second column alone."""
    codes = np.eye(len(prior))[labels] - prior
    return codes[:, 1:] if len(prior) == 2 else codes


def class_shares(labels: np.ndarray, weights: np.ndarray | None, n_classes: int) -> np.ndarray:
    """Weighted shares of the classes, shape (c,)."""
    counts = np.bincount(labels, weights=weights, minlength=n_classes).astype(np.float64)
    return counts / counts.sum()


def all_columns(outputs: np.ndarray, n_classes: int) -> np.ndarray:
    """A column for every class, from codes or outputs (..., k)."""
    return np.concatenate([-outputs, outputs], axis=-1) if n_classes == 2 else outputs


@dataclass(frozen=True)
class Link:
    """From outputs g to probabilities; of g = 0 the prior π.

    "clip" : p ∝ max(π + g, parameter · π), for outputs that are probabilities nearly as they are.
    "softmax" : p ∝ π exp(g / parameter), where they order classes well but are not sure enough.

    Either is mixed with the prior, (1 − stray) p + stray · π: no class of the training rows is
    ever impossible or certain.

    Attributes
    ----------
    kind : str
    parameter : float
        Floor or temperature.
    stray : float
        Share of rows whose class is drawn from the prior.
    """

    kind: str = CLIP
    parameter: float = 1e-3
    stray: float = 0.0

    def __post_init__(self) -> None:
        if self.kind not in (CLIP, SOFTMAX):
            raise ValueError(f"kind={self.kind!r} is unknown")
        check_real("parameter", self.parameter, 1e-9, 1e9)
        check_real("stray", self.stray, 0.0, 1.0)

    def log_probabilities(self, outputs: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """Of outputs (..., c) for every class, shape (..., c)."""
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
    """−log of the probability given to the true class, with the link that suits best."""

    prior: np.ndarray  # (c,)
    # Whether outputs are log-odds, of models that minimise the log-loss; codes of classes else.
    log_odds: bool = False

    def losses(self, predictions: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Of outputs (m, ..., k) for codes (m, ..., k), each by the best of a few links."""
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
        """Losses (m, ...) of outputs (m, ..., c) by one link after the other, as `_with` has them.

        A search spends a good part of its time here, so that classes come first: NumPy adds up
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
        weights: np.ndarray,
        n_rows: int,
        links: Sequence[Link] = (),
    ) -> tuple[Link, float]:
        """The link of least log-loss over held-out rows, and that loss; log-odds stay as they are.

        Half a row that was labelled by the prior at random counts with them: few rows that are
        all right do not make a model certain. A hundredth of a row is the stray share of the link.
        `n_rows` of the held-out rows are different; `links` are tried in place of all that suit.
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
