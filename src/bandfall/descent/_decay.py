"""Sums of decaying exponentials: R² and speed at every time of a run at constant bandwidth."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bandfall._typing import FloatT, Times

_MAX_STEPS = 200  # a scale of rates takes a few
_ROUNDING = 2e-13
_COARSE = 1e-4  # the last of many steps at once: the one before left its square


@dataclass(frozen=True)
class Decay:
    """f(t) = Σ weights · e^{−t·rates}, for non-negative weights and rates of shape (m,).

    Or V sums at once: weights and rates of shape (V, m).
    """

    rates: np.ndarray
    weights: np.ndarray

    def at(self, time: Times) -> Times:
        """f at one time or several times; of V sums, each at its own time."""
        if self.rates.ndim > 1:
            return (self.weights * np.exp(-np.reshape(time, (-1, 1)) * self.rates)).sum(axis=1)
        return np.exp(-np.multiply.outer(time, self.rates)) @ self.weights

    def first_below(self, level: Times, limit: Times) -> Times:
        """The first time at which f falls to `level`; ∞ if not before `limit`.

        For V sums, levels, limits and times have shape (V,).
        """
        if self.rates.ndim > 1:
            return self._all_first_below(np.asarray(level), np.asarray(limit))
        # In Python floats: with arrays, fits of few rows take a fifth longer.
        value = float(self.weights.sum())
        if value <= level:
            return 0.0
        if level <= 0.0 or self.at(limit) > level:
            return math.inf
        time = 0.0
        terms = self.weights
        for _ in range(_MAX_STEPS):
            slope = float(self.rates @ terms)
            if slope <= 0.0:  # no term falls any more: f is at the level up to rounding
                break
            step = _newton_step(math.log(value / level), value, slope)
            time += step
            if step <= _ROUNDING * time:
                break
            terms = self.weights * np.exp(-time * self.rates)
            value = float(terms.sum())
            if value <= level:
                break
        return min(time * (1.0 + _ROUNDING), limit)  # from the far side

    def _all_first_below(self, levels: np.ndarray, limits: np.ndarray) -> np.ndarray:
        """`first_below` of V sums, to a relative accuracy of about 1e-8."""
        start = self.weights.sum(axis=1)
        levels, limits = (np.broadcast_to(given, start.shape) for given in (levels, limits))
        times = np.where(start <= levels, 0.0, math.inf)
        falling = (start > levels) & (levels > 0.0) & (self.at(limits) <= levels)
        if not falling.any():
            return times
        given = (self.rates, self.weights, levels, start, limits)
        rates, weights, levels, values, limits = (array[falling] for array in given)
        terms, roots = weights, np.zeros(len(levels))
        for _ in range(_MAX_STEPS):
            slopes = (rates * terms).sum(axis=1)
            slopes[slopes <= 0.0] = math.inf  # no step
            steps = _newton_step(np.log(values / levels), values, slopes)
            roots += steps
            if np.all(steps <= _COARSE * roots):
                break
            terms = weights * np.exp(-roots[:, None] * rates)
            values = terms.sum(axis=1)
        times[falling] = np.minimum(roots, limits)
        return times


def _newton_step(excess: FloatT, value: FloatT, slope: FloatT) -> FloatT:
    """A Newton step towards f = level, with log f − log level = `excess` and f′ = −`slope`.

    log f is convex, so steps from the left approach the root without passing it.
    """
    return excess * value / slope
