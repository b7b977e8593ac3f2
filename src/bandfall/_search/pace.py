"""Estimates of training time, from a few measured products."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from bandfall._models.member import Candidate
from bandfall._products import operator_over
from bandfall._products.kept import symmetric_bytes
from bandfall._search.candidates import Request
from bandfall._search.clock import Clock, coarse, work
from bandfall._search.metrics import roots_of
from bandfall._search.parts import Part, run_parts
from bandfall._search.rows import Rows
from bandfall._search.settings import Settings
from bandfall._targets.losses import Judge
from bandfall.kernels._kernel import Kernel

Now: TypeAlias = Callable[[], float]  # seconds


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
        n_bandwidths, n_products = rows.settings.usual_path
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


def affordable_settings(
    rows: Rows, kernels: Iterable[Kernel], judge: Judge, clock: Clock
) -> Settings:
    """The settings, with fewer rows if the first ladder would take too much of the time.

    The pace is that of one kernel of every norm.
    """
    settings = rows.settings
    if not clock.bounded:
        return settings
    wanted = min(len(rows), settings.rung_rows[0])
    n_rows = min(wanted, settings.quick_rows // (2 if clock.limit > 2.0 else 4))
    requests = {
        kernel.geometry: Request(
            next(iter(rows.views)), 0, kernel, settings.first_speeds, settings.first_max_r2
        )
        for kernel in kernels
    }
    measured = [_ladder_seconds(rows, one, judge, n_rows, clock) for one in requests.values()]
    seconds, entries = (float(np.mean(values)) for values in zip(*measured, strict=True))
    affordable = coarse(clock.limit * entries / max(seconds, 1e-9))
    clock.afford(affordable)
    n_first = math.isqrt(int(settings.first_share * affordable))
    n_first = max(settings.fewest_rows, n_first)
    if n_first >= wanted:
        return settings
    clock.skip(f"searched on {n_first:,} rows instead of {wanted:,}")
    return replace(
        settings,
        rung_rows=(n_first, min(settings.rung_rows[-1], 2 * n_first)),
        held_out_rows=min(settings.held_out_rows, n_first),
        fold_rows=0,
        class_rows=0,
    )


def _ladder_seconds(
    rows: Rows, request: Request, judge: Judge, n_rows: int, clock: Clock
) -> tuple[float, float]:
    """Seconds and entries of a ladder over two thirds of `n_rows` rows, judged by the others."""
    now = clock.stopwatch

    def train(some: np.ndarray) -> float:
        held_out = np.arange(len(some)) % 3 == 0
        part = Part(rows, some[~held_out], some[held_out])
        start = now()
        run_parts([part], request, roots_of({}, request.metric, [part]), judge)
        return now() - start

    some = np.linspace(0, len(rows) - 1, n_rows).astype(int)
    with clock.uncounted():
        train(some[:6])
    seconds = min(train(some) for _ in range(2))
    return seconds, work(n_rows - math.ceil(n_rows / 3))


def _seconds(
    rows: Rows, encoding: str, kernel: Kernel, n_rows: int, n_speeds: int, now: Now
) -> tuple[float, float, float]:
    """Seconds for preparation, for a product at a new bandwidth, and for one more product there.

    The least of a few measurements on few rows, where other programs disturb most.
    """
    some = np.linspace(0, len(rows) - 1, n_rows).astype(int)
    X, _ = rows.views[encoding].columns(some, np.arange(0))
    n_columns = n_speeds * rows.y.shape[1]
    measured = []
    for _ in range(3 if n_rows <= rows.settings.quick_rows else 1):
        times = [now()]
        with operator_over(rows.backend, X, kernel, n_columns=n_columns) as operator:
            bandwidth = operator.max_distance()
            columns = operator.array(np.tile(rows.y[some], (1, n_speeds)))
            with rows.backend.threads(n_rows):
                for fraction in (1.0, 0.5, 0.5):
                    operator.numpy(operator.product(fraction * bandwidth, columns))
                    times.append(now())
        measured.append(np.diff(times))
    once, evaluated, repeated = np.min(measured, axis=0)
    return float(once), float(evaluated), float(repeated)
