"""How metrics are learned: a root for every part, from slopes of a path or by likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._models.metric import learned_root, normalised, scaled
from bandfall._search.parts import Part
from bandfall._search.trials import Request, Trial, train_parts
from bandfall._targets.losses import evidence_weights
from bandfall.descent._krylov import never
from bandfall.descent._ladder import Stages
from bandfall.descent._sum import KernelSum
from bandfall.rivals import relevance

Roots: TypeAlias = tuple[np.ndarray, ...]
"""The root of a metric for each part."""

Metrics: TypeAlias = Mapping[MetricKey, Roots]
"""All metrics that have been learned; some roots may be of fewer parts than there are."""


def roots_of(metrics: Metrics, key: MetricKey, parts: Sequence[Part]) -> Roots:
    """The roots of a metric; that of no round leaves columns as they are."""
    if key.learned:
        return metrics[key]
    return (np.ones(parts[0].rows.n_columns(key.encoding)),) * len(parts)


def next_root(
    part: Part, root: np.ndarray, scout: Trial, path: Stages, ended: Callable[[], bool] = never
) -> np.ndarray:
    """The root after one more round, from the slopes of the scout's path on a part."""
    kernel, (bandwidths, coefficients) = scout.candidate.kernel, path
    X, _ = part.scaled(scout.candidate.encoding, root)
    model = KernelSum(X, kernel, bandwidths, coefficients, np.zeros(coefficients.shape[2]))
    backend, diagonal = part.rows.backend, not kernel.geometry.rotates
    with backend.threads(len(X)):
        return learned_root(
            model, part.scale, root, diagonal=diagonal, backend=backend, ended=ended
        )


def likely_root(
    part: Part, root: np.ndarray, key: MetricKey, ended: Callable[[], bool] = never
) -> np.ndarray:
    """The root whose directions are those of `root`, scaled by marginal likelihood.

    Slopes say which directions matter; likelihood says how far apart rows have to be along each.
    The prior is around the scales of `root`.
    """
    settings, weights = part.rows.settings, part.train_weights
    X, _ = part.columns(key.encoding)
    rows = np.sort(np.random.RandomState(0).permutation(len(X))[: settings.likelihood_rows])
    sizes, directions = (root, root) if root.ndim == 1 else np.linalg.eigh(root)
    Z = scaled(X[rows].astype(np.float64), root)
    with part.rows.backend.threads(len(rows)):
        scales = relevance(
            Z if root.ndim == 1 else Z @ directions,
            part.rows.y[part.train[rows]],
            "gaussian" if key.mixes else "laplace-1",
            prior=settings.likelihood_prior,
            units=np.ones(len(sizes)),
            weights=None if weights is None else evidence_weights(weights[rows]),
            max_evaluations=settings.likelihood_steps,
            ended=ended,
        ).scales
    sizes = normalised(scales * sizes)
    return sizes if root.ndim == 1 else (directions * sizes) @ directions.T


def completed(
    parts: Sequence[Part],
    metrics: Metrics,
    keys: Sequence[MetricKey],
    scouts: Mapping[MetricKey, Trial],
    paths: Sequence[Stages] | None = None,
    ended: Callable[[], bool] = never,
) -> Metrics:
    """The metrics with these keys on all parts: every round is learned as its scout teaches it.

    `paths` are those of the scout of the last round; where they are not known, they are trained.
    """
    result = dict(metrics)
    for key in keys:
        rounds = [key.after(number) for number in range(1, key.n_rounds + 1)]
        for step in [*rounds, key] if key.likelihood else rounds:
            known = result.get(step, ())
            lacking = parts[len(known) :]
            if not lacking:
                continue
            before = step.after(step.n_rounds if step.likelihood else step.n_rounds - 1)
            roots = roots_of(result, before, parts)[len(known) :]
            pairs = list(zip(lacking, roots, strict=True))
            if step.likelihood:
                new = [likely_root(*pair, step, ended) for pair in pairs]
            else:
                scout = scouts[before]
                taught = paths or trained_paths(lacking, roots, scout, ended)
                triples = zip(pairs, taught, strict=True)
                new = [next_root(*pair, scout, path, ended) for pair, path in triples]
            result[step] = known + tuple(new)
    return result


def trained_paths(
    parts: Sequence[Part], roots: Roots, scout: Trial, ended: Callable[[], bool]
) -> list[Stages]:
    """The path of a scout on every part, up to its stop."""
    request = Request(scout.candidate, [scout.candidate.min_speed], scout.max_r2)
    pairs = zip(parts, roots, strict=True)
    rows = [part.scaled(scout.candidate.encoding, root)[0] for part, root in pairs]
    ladders = train_parts(parts, request, rows, ended=ended)
    return [one.until(0, one.reached(0, scout.max_r2)) for one in ladders]
