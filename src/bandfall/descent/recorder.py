"""Collects stages and the log while a solver runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bandfall.descent.path import Log, Stage
from bandfall.operators import KernelOperator

Array = Any


class Recorder:
    """Grows a list of stages and a log, step by step.

    Steps of equal bandwidth and step size that follow each other form one stage.
    """

    def __init__(self, operator: KernelOperator):
        self._operator = operator
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
            self._close()
            self._key, self._start, self._duration = key, time, 0.0
            self._coefficients = coefficients
        else:
            self._coefficients += coefficients
        self._duration += duration

    def finish(self) -> tuple[list[Stage], Log]:
        """All stages and the log."""
        self._close()
        columns = np.array(self._rows, dtype=float).reshape(-1, 5).T
        return self._stages, Log(*columns)

    def _close(self) -> None:
        if self._key is None:
            return
        bandwidth, step_size = self._key
        coefficients = self._operator.numpy(self._coefficients)
        self._stages.append(Stage(bandwidth, coefficients, self._start, self._duration, step_size))
        self._key = None
