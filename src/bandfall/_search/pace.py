"""Estimates of training time, from a few measured products."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from bandfall._models.member import Candidate, Family
from bandfall._products import operator_over
from bandfall._products.kept import symmetric_bytes
from bandfall._search.clock import Clock, coarse, work
from bandfall._search.metrics import roots_of
from bandfall._search.parts import Part, Rows
from bandfall._search.settings import Settings
from bandfall._search.trials import first_request, run_parts
from bandfall._targets.losses import Judge
from bandfall.kernels._kernel import Kernel


def member_seconds(
    rows: Rows, candidate: Candidate, now: Callable[[], float]
) -> Callable[[int, int], float]:
    """Seconds to fit a member, by its rows and the most rows of a leaf, from a few products.

    The pace of a search does not predict this: its paths end early. K is kept between products if
    it fits the memory budget, and evaluated for each otherwise.
    """
    n_probed = min(len(rows), rows.settings.quick_rows)
    some = np.linspace(0, len(rows) - 1, n_probed).astype(int)
    X, _ = rows.views[candidate.encoding].columns(some, np.arange(0))
    backend, y, measured = rows.backend, rows.y[some], []
    for _ in range(3):
        times = [now()]
        with (
            operator_over(backend, X, candidate.kernel, n_columns=y.shape[1]) as operator,
            backend.threads(n_probed),
        ):
            bandwidth, columns = operator.max_distance(), operator.array(y)
            for fraction in (1.0, 0.5, 0.5):
                operator.numpy(operator.product(fraction * bandwidth, columns))
                times.append(now())
        measured.append(np.diff(times))
    once, evaluated, repeated = np.min(measured, axis=0)  # other programs disturb few rows most
    n_bandwidths, n_products = rows.settings.usual_path

    def seconds(n_rows: int, leaf_rows: int) -> float:
        kept = symmetric_bytes(min(n_rows, leaf_rows), X.dtype) <= backend.budget
        products = n_products * (repeated if kept else evaluated)
        path = float(once + n_bandwidths * evaluated + products) / n_probed**2
        return max(replace(rows, leaf_rows=leaf_rows).final_share(n_rows) * path * n_rows**2, 1e-9)

    return seconds


def affordable_settings(
    rows: Rows, families: Iterable[Family], judge: Judge, clock: Clock
) -> Settings:
    """The settings, with fewer rows if the first ladder would take too much of the time.

    The pace is that of one kernel of every norm.
    """
    settings = rows.settings
    if not clock.bounded:
        return settings
    wanted = min(len(rows), settings.rung_rows[0])
    n_rows = min(wanted, settings.quick_rows // (2 if clock.limit > 2.0 else 4))
    by_norm = {one.kernel.geometry: one.kernel for one in families}.values()
    pace = np.mean([_ladder_pace(rows, kernel, judge, n_rows, clock) for kernel in by_norm])
    affordable = coarse(clock.limit / max(float(pace), 1e-15))  # entries
    clock.pace = clock.limit / affordable if affordable else math.inf
    n_first = max(settings.fewest_rows, math.isqrt(int(settings.first_share * affordable)))
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


def _ladder_pace(rows: Rows, kernel: Kernel, judge: Judge, n_rows: int, clock: Clock) -> float:
    """Seconds for each entry of a ladder over two thirds of `n_rows` rows."""
    now = clock.stopwatch
    request = first_request(Family(next(iter(rows.views)), kernel), rows.settings)
    some = np.linspace(0, len(rows) - 1, n_rows).astype(int)

    def seconds(some: np.ndarray) -> float:
        held_out = np.arange(len(some)) % 3 == 0
        part = Part(rows, some[~held_out], some[held_out])
        start = now()
        run_parts([part], request, roots_of({}, request.candidate.metric, [part]), judge)
        return now() - start

    with clock.uncounted():
        seconds(some[:6])
    return min(seconds(some), seconds(some)) / work(n_rows - math.ceil(n_rows / 3))
