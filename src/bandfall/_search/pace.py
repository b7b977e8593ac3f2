"""Estimates of training time, from a few measured products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from bandfall._models.member import Candidate
from bandfall._products import operator_over
from bandfall._products.kept import symmetric_bytes
from bandfall._search.candidates import Budget
from bandfall._search.clock import Clock
from bandfall._search.parts import Rows
from bandfall.kernels._kernel import Kernel

Now: TypeAlias = Callable[[], float]  # seconds

_PROBED_ROWS = 1000
_USUAL_PATH = (15, 550)  # bandwidths and products of a typical path
_USUAL_LADDER = (15, 150)  # of a typical ladder, which trains all speeds together
_ENOUGH = 2.0  # seconds left that allow a more careful measurement
_N_SPEEDS = 7
_FIRST_SHARE = 0.1  # of all time, for the first ladder of speeds
_FEWEST_ROWS = 100  # for a search, however short the time


@dataclass(frozen=True)
class PathSeconds:
    """Seconds that a path over some rows takes.

    The pace of a search does not predict this: its paths end early, and its matrices are kept.
    """

    kept: float  # seconds if the kernel matrix is kept between products
    recomputed: float  # seconds if it is evaluated for every product
    most_kept: int  # number of rows up to which it is kept

    @classmethod
    def measured(
        cls, rows: Rows, candidate: Candidate, n_rows: int, now: Now = time.monotonic
    ) -> PathSeconds:
        """Measured with a few products over `n_rows` of the rows."""
        once, evaluated, repeated = _seconds(
            rows, candidate.encoding, candidate.kernel, n_rows, 1, now
        )
        n_bandwidths, n_products = _USUAL_PATH
        first = np.arange(1)
        dtype = rows.views[candidate.encoding].columns(first, first[:0])[0].dtype
        most = math.isqrt(rows.backend.budget // dtype.itemsize)
        while symmetric_bytes(most, dtype) > rows.backend.budget:
            most -= 1
        return cls(
            once + n_bandwidths * evaluated + n_products * repeated,
            once + (n_bandwidths + n_products) * evaluated,
            most,
        )

    def of(self, n_rows: int) -> float:
        """Seconds at the pace of a path over `n_rows` rows."""
        return self.kept if n_rows <= self.most_kept else self.recomputed


def affordable_budget(rows: Rows, kernel: Kernel, budget: Budget, clock: Clock) -> Budget:
    """The budget, with fewer rows if the first ladder would take more than a tenth of the time."""
    if not clock.bounded:
        return budget
    wanted = min(len(rows), budget.stage_rows[0])
    n_rows = min(wanted, _PROBED_ROWS if clock.left > _ENOUGH else _PROBED_ROWS // 2)
    once, evaluated, repeated = _seconds(
        rows, next(iter(rows.views)), kernel, n_rows, _N_SPEEDS, clock.now
    )
    n_bandwidths, n_products = _USUAL_LADDER
    needed = once + n_bandwidths * evaluated + n_products * repeated
    needed *= (wanted / n_rows) ** 2
    allowed = _FIRST_SHARE * max(clock.left, 0.0)
    if needed <= allowed:
        return budget
    n_first = max(_FEWEST_ROWS, int(wanted * math.sqrt(allowed / needed)))
    if n_first >= wanted:
        return budget
    clock.skip(f"searched on {n_first:,} rows instead of {wanted:,}")
    return replace(
        budget,
        stage_rows=(n_first, min(budget.stage_rows[-1], 2 * n_first)),
        held_out_rows=min(budget.held_out_rows, n_first),
        fold_rows=0,
        class_rows=0,
    )


def _seconds(
    rows: Rows, encoding: str, kernel: Kernel, n_rows: int, n_speeds: int, now: Now
) -> tuple[float, float, float]:
    """Seconds for preparation, for a product at a new bandwidth, and for one more product there."""
    some = np.linspace(0, len(rows) - 1, n_rows).astype(int)
    X, _ = rows.views[encoding].columns(some, np.arange(0))
    times = [now()]
    n_columns = n_speeds * rows.y.shape[1]
    with operator_over(rows.backend, X, kernel, n_columns=n_columns) as operator:
        bandwidth = operator.max_distance()
        columns = operator.array(np.tile(rows.y[some], (1, n_speeds)))
        with rows.backend.threads(n_rows):
            for fraction in (1.0, 0.5, 0.5):
                operator.numpy(operator.product(fraction * bandwidth, columns))
                times.append(now())
    once, evaluated, repeated = np.diff(times)
    return float(once), float(evaluated), float(repeated)
