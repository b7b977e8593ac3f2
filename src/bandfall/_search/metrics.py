"""How metrics are learned: a root for every part, from slopes of a path or by likelihood."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._models.metric import learned_root, mean_root, normalised, scaled
from bandfall._search.candidates import Request, Trial
from bandfall._search.ladder import Ladder
from bandfall._search.parts import Part
from bandfall._targets.losses import evidence_weights
from bandfall.descent._krylov import never
from bandfall.descent._sum import KernelSum
from bandfall.rivals import relevance

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
    ladder: Ladder,
    root: np.ndarray,
    scout: Trial,
    speed: int,
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


def likely_root(
    part: Part, key: MetricKey, root: np.ndarray, ended: Callable[[], bool] = never
) -> np.ndarray:
    """The root whose directions are those of `root`, scaled anew by marginal likelihood.

    Slopes say which directions matter; likelihood says how far apart rows have to be along each.
    The prior is around the scales of `root`.
    """
    settings, X = part.rows.settings, part.columns(key.encoding)[0]
    rows = np.arange(len(X))
    if len(X) > settings.likelihood_rows:
        rows = np.sort(np.random.RandomState(0).permutation(rows)[: settings.likelihood_rows])
    weights = part.train_weights
    if weights is not None:
        weights = evidence_weights(weights[rows])
    Z = scaled(X[rows].astype(np.float64), root)
    with part.rows.backend.threads(len(rows)):
        sizes, directions = (root, None) if root.ndim == 1 else np.linalg.eigh(root)
        if directions is not None:
            Z = Z @ directions
        scales = relevance(
            Z,
            part.rows.y[part.train[rows]],
            "gaussian" if key.mixes else "laplace-1",
            prior=settings.likelihood_prior,
            units=np.ones(len(sizes)),
            weights=weights,
            max_evaluations=settings.likelihood_steps,
            ended=ended,
        ).scales
    sizes = normalised(scales * sizes)
    return sizes if directions is None else (directions * sizes) @ directions.T


def complete(
    metrics: Metrics,
    key: MetricKey,
    scouts: Mapping[MetricKey, Trial],
    parts: Sequence[Part],
    train: Train,
) -> Metrics:
    """The metrics, with all rounds up to `key` learned on all parts, each with its scout."""
    result = dict(metrics)
    if len(result.get(key, ())) == len(parts):
        return result
    if key.likelihood:
        rounds = key.after(key.n_rounds)
        result |= complete(result, rounds, scouts, parts, train)
        known, before = result.get(key, ()), roots_of(result, rounds, parts)
        lacking = list(zip(parts, before, strict=True))[len(known) :]
        result[key] = known + tuple(likely_root(part, key, root) for part, root in lacking)
        return result
    for n_rounds in range(1, key.n_rounds + 1):
        own, last = key.after(n_rounds), result.get(key, ())
        known = result.get(own, ())
        missing = slice(max(len(known), len(last)), len(parts))  # the last alone is enough
        if missing.start >= missing.stop:
            continue
        scout = scouts[key.after(n_rounds - 1)]
        before = roots_of(result, key.after(n_rounds - 1), parts)[missing]
        request = scout.request([scout.candidate.min_speed], scout.max_r2)
        ladders = train(range(len(parts))[missing], request, before)
        triples = zip(parts[missing], ladders, before, strict=True)
        result[own] = known + tuple(next_root(*one, scout, 0) for one in triples)
    return result


def common_root(roots: Roots) -> np.ndarray:
    """The metric of all rows: the mean of those of all parts."""
    return roots[0] if len(roots) == 1 else mean_root(roots)
