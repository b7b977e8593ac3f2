"""Distances kept once, and the last K(σ) evaluated from them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from bandfall._products.base import HostArraysMixin, group_rows, group_sums
from bandfall._products.loops import Loops
from bandfall._threads import for_each_block
from bandfall._typing import Array


class KeptMatrix:
    """K(σ) for the last bandwidth; products at an unchanged bandwidth evaluate nothing.

    `distances` are raised to the kernel's power and of any shape; ``evaluate(distances, bandwidth,
    out)`` computes K(σ) into `entries`, an array like them.
    """

    def __init__(
        self, distances: Array, entries: Array, evaluate: Callable[[Array, float, Array], object]
    ):
        self.distances = distances
        self.n_evaluations = 0
        self._evaluate = evaluate
        self._entries = entries
        self._bandwidth = math.nan

    def at(self, bandwidth: float) -> Array:
        """K(bandwidth), as a view that the next bandwidth overwrites."""
        if bandwidth != self._bandwidth:
            self._bandwidth = math.nan  # an interrupted pass must not pass for a finished one
            self._evaluate(self.distances, bandwidth, self._entries)
            self.n_evaluations += math.prod(self.distances.shape)
            self._bandwidth = bandwidth
        return self._entries


def evaluate_with(loops: Loops, parallel: bool) -> Callable[[np.ndarray, float, np.ndarray], None]:
    """The `evaluate` of a `KeptMatrix` on the host: by blocks, with or without threads."""

    def evaluate(distances: np.ndarray, bandwidth: float, out: np.ndarray) -> None:
        flat, entries = distances.reshape(-1), out.reshape(-1)

        def part(block: slice) -> None:
            loops.evaluate(flat[block], bandwidth, entries[block])

        for_each_block(part, len(flat), loops.block_entries, parallel)

    return evaluate


class KeptOperator(HostArraysMixin, ABC):
    """Base class of operators that keep all distances, and the last K(σ), in memory.

    Subclasses set `_rows`, the rows in the form of the loops, and `_kept`, whose diagonal has n
    entries.
    """

    _rows: np.ndarray
    _kept: KeptMatrix

    def max_distance(self) -> float:
        """Largest distance between two rows."""
        return float(self._kept.distances.max()) ** (1.0 / self.kernel.power)

    def product(self, bandwidth: float, block: np.ndarray) -> np.ndarray:
        """K(bandwidth) @ block."""
        if bandwidth == 0.0:
            return group_sums(*self._groups, block)
        return self._times(self._kept.at(bandwidth), block)

    @abstractmethod
    def _times(self, entries: np.ndarray, block: np.ndarray) -> np.ndarray:
        """K @ block, from the entries of K."""

    @property
    def n_evaluations(self) -> int:
        """Kernel entries evaluated so far."""
        return self._kept.n_evaluations

    @cached_property
    def _groups(self) -> tuple[np.ndarray, int]:
        n, distances = self.n_rows, self._kept.distances
        if np.count_nonzero(distances) == distances.size - n:  # quicker to see than by sorting
            return np.arange(n), n
        return group_rows(self._rows)
