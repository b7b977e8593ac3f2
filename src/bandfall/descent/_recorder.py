"""Collects stages and the log while a solver runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bandfall._products import KernelOperator
from bandfall._typing import Array
from bandfall.descent._front import TrainingFront
from bandfall.descent._path import Log, Path, Stage


@dataclass(frozen=True)
class Snapshot:
    """The progress of a run, for watchers."""

    time: float
    bandwidth: float
    r2: float
    n_products: int  # kernel products so far
    path: Callable[[], Path]  # builds the current model


# Called after every stage; True ends training.
Watcher = Callable[[Snapshot], bool]


class Recorder:
    """Grows a list of stages and a log, step by step.

    Consecutive steps of equal bandwidth and step size form one stage. `assemble` makes a
    Path of the record, for the watcher.
    """

    def __init__(
        self,
        operator: KernelOperator,
        watcher: Watcher | None = None,
        assemble: Callable[[Recorder, TrainingFront], Path] | None = None,
    ):
        self._operator = operator
        self._watcher = watcher
        self._assemble = assemble
        self._n_started = self._n_reported = 0
        self._stages: list[Stage] = []
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._key: tuple[float, float | None] | None = None
        self._coefficients: Array = None
        self._start = 0.0
        self._duration = 0.0

    def step(
        self,
        *,
        time: float,
        bandwidth: float,
        r2: float,
        speed: float,
        duration: float,
        coefficients: Array,
        step_size: float | None = None,
    ) -> None:
        """Record a step that starts at `time` and adds k_bandwidth(·, X) @ coefficients.

        `coefficients` is kept; `step_size` is the Euler step, None for exact flow.
        """
        self._rows.append((time, bandwidth, r2, speed, duration))
        key = (bandwidth, step_size)
        if key != self._key:
            self._stages += self._current()
            self._n_started += 1
            self._key, self._start, self._duration = key, time, 0.0
            self._coefficients = coefficients
        else:
            self._coefficients += coefficients
        self._duration += duration

    def interrupted(self, front: TrainingFront) -> bool:
        """Report a new stage to the watcher; True if training should stop."""
        if self._watcher is None or self._n_reported == self._n_started:
            return False
        self._n_reported = self._n_started
        # The next steps, which an interrupt may leave half done, do not change these.
        record, state, assemble = self._copy(), copy.copy(front), self._assemble
        progress = Snapshot(
            front.time,
            front.bandwidth,
            front.r2,
            front.n_products,
            lambda: assemble(record, state),  # type: ignore[misc]
        )
        return bool(self._watcher(progress))

    def _copy(self) -> Recorder:
        record = copy.copy(self)
        record._stages, record._rows = [*self._stages, *self._current()], list(self._rows)
        record._key = None
        return record

    def result(self) -> tuple[list[Stage], Log]:
        """All stages so far, including the current one, and the log."""
        columns = np.array(self._rows, dtype=float).reshape(-1, 5).T
        return [*self._stages, *self._current()], Log(*columns)

    def _current(self) -> list[Stage]:
        if self._key is None:
            return []
        bandwidth, step_size = self._key
        coefficients = self._operator.numpy(self._coefficients).copy()
        return [Stage(bandwidth, coefficients, self._start, self._duration, step_size)]
