"""Sums of decaying exponentials: R² and speed at every time of a run at constant bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_MAX_STEPS = 200  # a scale of rates takes a few
_ROUNDING = 2e-13


@dataclass(frozen=True)
class Decay:
    """f(t) = Σ weights · e^{−t·rates}, for weights and rates that are not negative."""

    rates: np.ndarray
    weights: np.ndarray

    def __call__(self, times: np.ndarray | float) -> np.ndarray:
        """f at each of `times`."""
        return np.exp(-np.multiply.outer(times, self.rates)) @ self.weights

    def at(self, time: float) -> float:
        """f at one time."""
        return float(self(time))

    def first_below(self, level: float, limit: float) -> float:
        """When f first falls to `level`; ∞ if not before `limit`.

        log f is convex: Newton's steps from the left approach the root without passing it.
        """
        value = float(self.weights.sum())
        if value <= level:
            return 0.0
        if level <= 0.0 or self.at(limit) > level:
            return math.inf
        time = 0.0
        terms = self.weights
        for _ in range(_MAX_STEPS):
            step = math.log(value / level) * value / float(self.rates @ terms)
            time += step
            if step <= _ROUNDING * time:
                break
            terms = self.weights * np.exp(-time * self.rates)
            value = float(terms.sum())
            if value <= level:
                break
        return min(time * (1.0 + _ROUNDING), limit)  # from the far side
