"""Training paths of many speeds at once.

Paths that differ only in their minimum speed pass through the same bandwidths. On a common
grid each K(σ) is evaluated once for all of them, and their products are one matrix product,
so a whole ladder of speeds costs little more than its slowest path.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from bandfall._products import KernelOperator
from bandfall._products.base import LanczosSteps, OperatorAround
from bandfall._typing import Array, Times
from bandfall.descent._flow import train_pass
from bandfall.descent._front import speed_ceilings
from bandfall.descent._krylov import KrylovSpace, never
from bandfall.descent._stopping import STALL_SPEED

_MAX_PASSES = 6  # spaces at one bandwidth; the rest is left to the next bandwidth
_NARROWEST = 1e-7  # relative to the start bandwidth; narrower ones become 0
_LOG_FALL = math.log(2 / 3)
_MAX_STOPS = 6  # a pass
# Dimensions of a space at which its errors are checked: a check of many paths costs as much as
# several products. The first is relative to the dimension of the pass before.
_FIRST_CHECK = 0.6
_GROWTH = 0.4


Stages: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Bandwidths (S,) and coefficients (S, n, k) of one path."""


@dataclass(frozen=True)
class Ladder:
    """Paths of several speeds over one grid; long training at one bandwidth has several stops."""

    bandwidths: np.ndarray  # (L,): non-increasing, one entry per stop
    coefficients: np.ndarray  # (L, n, V, k): contribution of each path at each stop, or zero
    r2: np.ndarray  # (L + 1, V): on training rows, before and after every stop

    def reached(self, speed: int, levels: Times) -> Times:
        """Number of stops until a path reaches each level of R²; at least one if there are any."""
        n_needed = np.searchsorted(self.r2[:, speed], np.asarray(levels) - 1e-9)
        return np.clip(n_needed, min(1, len(self.bandwidths)), len(self.bandwidths))

    def until(self, speed: int, n_stops: int) -> Stages:
        """One path after some stops: only distinct bandwidths at which it was trained."""
        bandwidths, starts = np.unique(-self.bandwidths[:n_stops], return_index=True)
        coefficients = self.coefficients[:n_stops, :, speed]
        if len(starts):
            coefficients = np.add.reduceat(coefficients, starts, axis=0)
        used = np.any(coefficients, axis=(1, 2))
        return -bandwidths[used], coefficients[used]


# Observes paths during training: which speeds may end, (V,), given a bandwidth and the stops
# (S, n, V, k) of every set of rows.
Watch: TypeAlias = Callable[[float, Sequence[np.ndarray]], np.ndarray]


class _Together(OperatorAround):
    """Several operators as one: each has its own columns of a block, padded to equal rows.

    With few rows, most of the time is overhead, which is the same for one set of rows and for many.
    """

    def __init__(self, operators: Sequence[KernelOperator], columns: Sequence[np.ndarray]):
        n_rows = max(operator.n_rows for operator in operators)
        super().__init__(operators[0], n_rows, max(operator.trace for operator in operators))
        self.operators, self.columns = operators, columns
        self.vector_bytes = min(operator.vector_bytes for operator in operators)

    def take(self, columns: np.ndarray) -> _Together:
        """The operator for blocks of some of the columns."""
        borders = np.searchsorted(columns, [one[0] for one in self.columns[1:]])
        return _Together(self.operators, np.split(np.arange(len(columns)), borders))

    def product(self, bandwidth: float, block: Array) -> Array:
        """K(bandwidth) @ block, every column with its own K."""
        if len(self.operators) == 1:
            return self.operators[0].product(bandwidth, block)
        result = self.zeros(block.shape[::-1]).T  # columns in one piece, as solvers keep them
        for operator, own in self._used():
            n = operator.n_rows
            result[:n, own] = operator.product(bandwidth, block[:n, own])
        return result

    def extends(self, bandwidth: float, n_columns: int) -> bool:
        pairs = zip(self.operators, self.columns, strict=True)
        return all(operator.extends(bandwidth, len(columns)) for operator, columns in pairs)

    def extend(self, bandwidth: float, steps: LanczosSteps) -> None:
        for operator, own in self._used():
            part = steps.of(own)
            operator.extend(bandwidth, part)
            steps.alpha[:, own], steps.beta[:, own] = part.alpha, part.beta

    def _used(self) -> Iterator[tuple[KernelOperator, slice]]:
        """Operators that have columns, and these columns."""
        for operator, columns in zip(self.operators, self.columns, strict=True):
            if len(columns):
                yield operator, slice(columns[0], columns[-1] + 1)


@dataclass
class Climb:
    """Trains a path for each speed on each of several sets of rows, at common bandwidths.

    Each path is that of `Flow` with this tolerance and dimension and of `MinimumSpeed`, from the
    largest distance in any set; each bandwidth is the one before divided by 1 + shrink. With a
    `width` above 0, the bandwidth stays at this share of the largest distance. The operators have
    one kernel, dtype and device; each has its target (n, k), centred, of unit norm in all. `watch`
    is called after every pass, `ended` every few products: True ends all paths.
    """

    operators: Sequence[KernelOperator]
    targets: Sequence[np.ndarray]
    speeds: Sequence[float]
    max_r2: float
    shrink: float
    tolerance: float
    max_dimension: int
    watch: Watch | None = None
    ended: Callable[[], bool] = never
    width: float = 0.0

    def __post_init__(self) -> None:
        self._n_outputs = self.targets[0].shape[1]
        n_columns = len(self.speeds) * self._n_outputs
        columns = np.arange(len(self.operators) * n_columns).reshape(-1, n_columns)
        self._operator = _Together(self.operators, list(columns))
        self._speeds = np.tile(self.speeds, len(self.operators))  # of every path
        target = np.zeros((self._operator.n_rows, columns.size))
        for one, own in zip(self.targets, columns, strict=True):
            target[: len(one), own] = np.tile(one, (1, len(self.speeds)))
        self._residual = self._operator.array(target)  # the columns of each path side by side
        self._squares = self._per_path((self._residual * self._residual).sum(0))
        self._bandwidths: list[float] = []
        self._blocks: list[np.ndarray] = []
        self._r2 = [1.0 - self._squares]
        self._turned = np.zeros(len(self._speeds), dtype=bool)
        self._dimension = 0  # neighbouring passes need spaces of about the same dimension

    def ladders(self) -> list[Ladder]:
        """Train all paths, and return the ladder of each set of rows."""
        start = max(operator.max_distance() for operator in self.operators)
        bandwidth = start = start * (self.width or 1.0)
        while not self._finished.all():
            moved = self._train(bandwidth, centred=0.0 < bandwidth < start)
            if bandwidth == 0.0 or self.width or self.ended():
                break
            bandwidth /= 1.0 + self.shrink
            if bandwidth < _NARROWEST * start or not (moved or self._can_learn(bandwidth)):
                bandwidth = 0.0
        bandwidths = np.array(self._bandwidths)
        r2 = np.split(np.stack(self._r2), len(self.targets), axis=1)
        pairs = zip(self._split(self._blocks), r2, strict=True)
        return [Ladder(bandwidths, coefficients, own) for coefficients, own in pairs]

    @property
    def _finished(self) -> np.ndarray:
        """Whether a path has turned or learned enough."""
        return self._turned | (self._squares <= 1.01 * (1.0 - self.max_r2))

    def _split(self, blocks: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Coefficients at some stops as an array (S, n, V, k) for each set of rows."""
        stacked = np.array(blocks, dtype=self._operator.dtype)
        stacked = stacked.reshape(len(blocks), *self._residual.shape)
        return [
            stacked[:, : len(one), columns].reshape(-1, len(one), len(self.speeds), self._n_outputs)
            for one, columns in zip(self.targets, self._operator.columns, strict=True)
        ]

    def _train(self, bandwidth: float, centred: bool) -> bool:
        """Train every path that is fast enough until this bandwidth is too slow for it."""
        at_floor = bandwidth == 0.0
        thresholds = np.full_like(self._speeds, 0.5 * STALL_SPEED) if at_floor else self._speeds
        elapsed, left = np.zeros_like(self._speeds), np.full_like(self._speeds, math.inf)
        todo = np.flatnonzero(~self._finished)
        for number in range(_MAX_PASSES):
            operator = self._operator.take(self._columns(todo))
            residual = self._residual[:, self._columns(todo)]
            velocity = operator.product(bandwidth, residual)
            speed = 2.0 * self._per_path((residual * velocity).sum(0))
            going = (speed >= thresholds[todo]) | np.isfinite(left[todo])
            if not going.all():
                kept, todo = self._columns(np.flatnonzero(going)), todo[going]
                residual, velocity = residual[:, kept], velocity[:, kept]
                operator = self._operator.take(self._columns(todo))
            if not len(todo):
                return number > 0
            most = self.max_dimension
            space = KrylovSpace(operator, bandwidth, residual, velocity, most, len(todo))
            done = train_pass(
                space,
                elapsed=elapsed[todo],
                left=left[todo],
                centred=centred,
                at_floor=at_floor,
                threshold=thresholds[todo],
                goal=1.0 - self.max_r2,
                tolerance=self.tolerance,
                first_check=int(_FIRST_CHECK * self._dimension),
                growth=_GROWTH,
                ended=self.ended,
            )
            self._dimension = space.dimension
            elapsed[todo] += done.times
            left[todo] = done.left - done.times
            n_before = len(self._blocks)
            self._advance(space, todo, bandwidth, done.times)
            if self.watch is not None:
                turned = self.watch(bandwidth, self._split(self._blocks[n_before:]))
                self._turned |= np.tile(turned, len(self.targets))
            todo = todo[~done.complete & ~self._turned[todo]]
            if not len(todo) or self.ended():
                break
        return True

    def _can_learn(self, bandwidth: float) -> bool:
        """Whether this or a narrower bandwidth may be fast enough for some path."""
        ceilings = self._per_path(speed_ceilings(self._operator, bandwidth, self._residual))
        return bool(np.any(~self._finished & (ceilings >= self._speeds)))

    def _advance(
        self, space: KrylovSpace, paths: np.ndarray, bandwidth: float, times: np.ndarray
    ) -> None:
        """Train, and record stops at the end and on the way.

        A slow path learns much at one bandwidth. Between two stops the squared residual falls to
        two thirds at least, so that some stop is near the best one.
        """
        squares = space.squared_norm
        start = squares.at(0.0)
        fall = np.maximum(squares.at(times) / np.maximum(start, 1e-300), 1e-12)
        n_stops = int(np.clip(np.ceil(np.log(fall.min()) / _LOG_FALL), 1, _MAX_STOPS))
        columns = self._columns(paths)
        before = self._operator.zeros((self._residual.shape[0], len(columns)))
        for stop in range(1, n_stops + 1):
            until = times
            if stop < n_stops:
                level = start * fall ** (stop / n_stops)
                until = np.minimum(squares.first_below(level, times), times)
            coefficients, residual = space.advance(until)
            block = self._operator.zeros(self._residual.shape)
            block[:, columns] = coefficients - before
            before = coefficients
            self._residual[:, columns] = residual
            self._bandwidths.append(bandwidth)
            self._blocks.append(self._operator.numpy(block))
            self._squares = self._per_path((self._residual * self._residual).sum(0))
            # Rounding and tolerance may lower it a little; levels are looked up in order.
            self._r2.append(np.maximum(1.0 - self._squares, self._r2[-1]))

    def _columns(self, paths: np.ndarray) -> np.ndarray:
        """Columns of the residual that belong to some paths."""
        return (paths[:, None] * self._n_outputs + np.arange(self._n_outputs)).reshape(-1)

    def _per_path(self, columns: Array) -> np.ndarray:
        columns = np.asarray(self._operator.numpy(columns), dtype=np.float64)
        return columns.reshape(-1, self._n_outputs).sum(axis=1)
