"""Classes as columns of numbers, and back from outputs to probabilities.

A path trains on one-hot columns minus the prior: far from all rows its outputs are zero, which
stands for the prior. Two classes need only one column.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bandfall._checks import check_real
from bandfall._typing import Weights

CLIP, SOFTMAX = "clip", "softmax"
LEAST = 1e-12  # probabilities are raised to this, so that the loss is finite
# Candidates: the smallest probability of a class relative to the prior, and divisors of outputs.
_FLOORS = tuple(np.geomspace(1e-3, 0.5, 9))
_TEMPERATURES = tuple(np.geomspace(0.01, 4.0, 27))
# Candidates in a search, for every stop of every path. Each temperature is half of the previous
# one, so that exp(g / temperature) is the square of the previous exponential.
QUICK_FLOORS = _FLOORS[::3]
QUICK_TEMPERATURES = tuple(2.56 / 2**i for i in range(9))
CODE_LIMIT = 3.5  # of outputs, for codes within ±1: no exponential overflows


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
        check_real("parameter", self.parameter, 1e-9, 1e9)
        check_real("stray", self.stray, 0.0, 1.0)

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
