"""How metrics are learned: a root for every part, from the slopes of a path."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._models.metric import learned_root, mean_root, scaled
from bandfall._search.candidates import Request, Trial
from bandfall._search.ladder import Ladder
from bandfall._search.parts import Part, never
from bandfall.descent._sum import KernelSum

Roots: TypeAlias = tuple[np.ndarray, ...]
"""The root of a metric for each part."""

Metrics: TypeAlias = Mapping[MetricKey, Roots]
"""All metrics that have been learned; some roots may be of fewer parts than there are."""

Train: TypeAlias = Callable[[Sequence[int], Request, Sequence[np.ndarray]], list[Ladder]]
"""Trains a request on the parts with these numbers, with their roots."""


def roots_of(metrics: Metrics, key: MetricKey, parts: Sequence[Part]) -> Roots:
    """The roots of a metric; that of no round leaves columns as they are."""
    if key.learned:
        return metrics[key]
    none = np.arange(0)
    X, _ = parts[0].rows.views[key.encoding].columns(none, none)
    return (np.ones(X.shape[1]),) * len(parts)


def next_root(
    part: Part,
    scout: Trial,
    ladder: Ladder,
    speed: int,
    root: np.ndarray,
    ended: Callable[[], bool] = never,
) -> np.ndarray:
    """The root after one more round, from the slopes of the scout's path at its stop.

    `root` is that of the scout, and `speed` the number of its speed in the ladder.
    """
    kernel, key, backend = scout.candidate.kernel, scout.candidate.metric, part.rows.backend
    X, _ = part.columns(key.encoding)
    n_stops = ladder.reached(speed, scout.max_r2)
    bandwidths, coefficients = ladder.until(speed, n_stops)
    n_stops, n_rows, *targets = coefficients.shape  # no stop at all: -1 would not do
    columns = coefficients.reshape(n_stops, n_rows, math.prod(targets))
    path = KernelSum(scaled(X, root), kernel, bandwidths, columns, np.zeros(columns.shape[2]))
    with backend.threads(len(X)):
        return learned_root(
            path, part.scale, root, diagonal=not key.mixes, backend=backend, ended=ended
        )


def complete(
    metrics: Metrics,
    key: MetricKey,
    scouts: Mapping[MetricKey, Trial],
    parts: Sequence[Part],
    train: Train,
    ended: Callable[[], bool] = never,
) -> Metrics:
    """The metrics, with all rounds up to `key` learned on all parts, each with its scout."""
    result = dict(metrics)
    for n_rounds in range(1, key.n_rounds + 1):
        own, last = key.after(n_rounds), result.get(key, ())
        known = result.get(own, ())
        missing = range(max(len(known), len(last)), len(parts))  # the last alone is enough
        if not missing:
            continue
        scout = scouts[key.after(n_rounds - 1)]
        before = roots_of(result, key.after(n_rounds - 1), parts)
        request = scout.request([scout.candidate.min_speed], scout.max_r2)
        ladders = train(missing, request, [before[number] for number in missing])
        result[own] = known + tuple(
            next_root(parts[number], scout, ladder, 0, before[number], ended)
            for number, ladder in zip(missing, ladders, strict=True)
        )
    return result


def common_root(roots: Roots) -> np.ndarray:
    """The metric of all rows: the mean of those of all parts."""
    return roots[0] if len(roots) == 1 else mean_root(roots)
