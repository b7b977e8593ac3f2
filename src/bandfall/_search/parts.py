"""Rows under every encoding, parts of them, and trials of several speeds on several parts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bandfall._models.metric import scaled
from bandfall._products import HOST, Backend, WeightedOperator, operator_over
from bandfall._search.candidates import Request, Trial
from bandfall._search.settings import Settings
from bandfall._targets.losses import Judge, evidence_weights, mean_and_error, mean_r2
from bandfall._typing import Weights
from bandfall.descent._krylov import never
from bandfall.descent._ladder import Climb, Ladder, Stages, Watch
from bandfall.descent._path import column_means, column_norms, column_units
from bandfall.tables import Table, TableEncoder


class Encoded:
    """Columns that do not depend on the target, and so not on the choice of held-out rows."""

    def __init__(self, Z: np.ndarray):
        self.Z = Z

    @property
    def variances(self) -> np.ndarray:
        """Variance of each column over all rows, shape (width,)."""
        return self.Z.var(axis=0, dtype=np.float64)

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and new rows."""
        return self.Z[train], self.Z[new]


class TargetEncoded(Encoded):
    """Columns of which some are mean targets, which are learned separately for every part.

    The encoder was fitted to all rows; Z is the result of its `fit_transform`.
    """

    def __init__(
        self, encoder: TableEncoder, table: Table, y: np.ndarray, weights: Weights, Z: np.ndarray
    ):
        super().__init__(Z)
        self._encoder, self._table = encoder, encoder.schema.check(table, warn=False)
        self._y, self._weights = y, weights
        self._known: dict[bytes, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def columns(self, train: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of Z, with mean targets learned from all rows that are not new.

        Levels with few rows need all of them, even if a search trains on some rows alone.
        """
        if not len(new):
            return super().columns(train, new)
        if new.tobytes() not in self._known:
            self._known[new.tobytes()] = self._learn(new)
        others, Z, Z_new = self._known[new.tobytes()]
        return Z[np.searchsorted(others, train)], Z_new

    def _learn(self, new: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        others = np.setdiff1d(np.arange(len(self._y)), new)
        Z, Z_new = super().columns(others, new)
        weights = None if self._weights is None else self._weights[others]
        for columns, encoded, encoded_new in self._encoder.relearned(
            self._table.take(others), self._y[others], weights, self._table.take(new)
        ):
            Z[:, columns], Z_new[:, columns] = encoded, encoded_new
        return others, Z, Z_new


@dataclass(frozen=True, eq=False)
class Rows:
    """All training rows."""

    views: Mapping[str, Encoded]  # by name of the encoding
    y: np.ndarray  # (n, k), float64: of zero mean and unit variance
    groups: np.ndarray  # (n,): 0, 1, …; rows of a group are held out together
    weights: np.ndarray | None = None  # (n,): in training, about of mean one
    backend: Backend = HOST
    strata: np.ndarray | None = None  # (n,): classes; every part gets its share of each
    leaf_rows: int = sys.maxsize  # largest final fit; more rows are divided into leaves
    settings: Settings = field(default_factory=Settings)
    ordered: bool = False  # whether groups are times: the last are held out

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def evidence(self) -> np.ndarray:
        """How much rows count where they are held out, shape (n,)."""
        return np.ones(len(self)) if self.weights is None else evidence_weights(self.weights)

    def n_columns(self, encoding: str) -> int:
        """Number of columns of an encoding."""
        return self.views[encoding].Z.shape[1]

    def final_share(self, n_rows: int) -> float:
        """Kernel entries of a final fit to `n_rows` rows, relative to those of one leaf."""
        if n_rows <= self.leaf_rows:
            return 1.0
        n_paths = self.settings.leaf_paths + float(n_rows < self.settings.again_rows)
        return n_paths * min(1.0, self.settings.overlapping * self.leaf_rows / n_rows)


@dataclass(frozen=True, eq=False)
class Part:
    """Some rows to train on, and others to judge by."""

    rows: Rows
    train: np.ndarray
    held_out: np.ndarray

    def __len__(self) -> int:
        """Number of training rows."""
        return len(self.train)

    @cached_property
    def y(self) -> np.ndarray:
        """Targets of the held-out rows, (m, k)."""
        return self.rows.y[self.held_out]

    @cached_property
    def evidence(self) -> np.ndarray:
        """How much the held-out rows count, (m,)."""
        return self.rows.evidence[self.held_out]

    @cached_property
    def train_weights(self) -> np.ndarray | None:
        """Weights of the training rows, (n,)."""
        return None if self.rows.weights is None else self.rows.weights[self.train]

    @cached_property
    def offset(self) -> np.ndarray:
        """Means of the training targets, (k,)."""
        return column_means(self.rows.y[self.train], self.train_weights)

    @cached_property
    def scale(self) -> np.ndarray:
        """Norms of the centred training targets, (k,); 0 where they are constant."""
        return column_norms(self.rows.y[self.train], self.offset, self.train_weights)

    @cached_property
    def _root_weights(self) -> np.ndarray:
        weights = self.train_weights
        return np.ones((len(self), 1)) if weights is None else np.sqrt(weights)[:, None]

    @cached_property
    def to_units(self) -> np.ndarray:
        """Factors from coefficients of `target` to those of y, shape (n, 1, k)."""
        units = np.where(self.scale > 0, column_units(self.scale), 0.0)  # rounding is no target
        return self._root_weights[:, None] * units

    @cached_property
    def target(self) -> np.ndarray:
        """Centred, weighted targets (n, k), of unit norm in all: these are trained."""
        units = np.where(self.scale > 0, column_units(self.scale), np.inf)
        return self._root_weights * (self.rows.y[self.train] - self.offset) / units

    def columns(self, encoding: str) -> tuple[np.ndarray, np.ndarray]:
        """Encoded training rows and held-out rows."""
        return self.rows.views[encoding].columns(self.train, self.held_out)

    def scaled(self, encoding: str, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Training rows and held-out rows in a metric."""
        X, X_new = self.columns(encoding)
        return scaled(X, root), scaled(X_new, root)


@dataclass(frozen=True)
class Outcome:
    """Paths of several speeds on one part, and their predictions for its held-out rows."""

    ladder: Ladder  # in the units of y
    predictions: np.ndarray  # (L + 1, m, V, k): before and after every stop
    losses: np.ndarray  # (L + 1, m, V): by the judge


@dataclass(frozen=True)
class Judged:
    """A request that was judged on several parts."""

    trials: list[Trial]  # of every speed
    best: Trial
    predictions: np.ndarray  # (m, k): of the best, for the held-out rows of all parts
    paths: list[Stages]  # of the best on every part, up to its stop


def judge_parts(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    judge: Judge,
    ended: Callable[[], bool] = never,
) -> Judged:
    """Train at all speeds of a request, and judge each at its best common stop of all parts."""
    outcomes = run_parts(parts, request, roots, judge, ended)
    tried = [trial_of(outcomes, parts, request, speed) for speed in range(len(request.speeds))]
    speed = min(range(len(tried)), key=lambda number: tried[number][0].loss)
    best, stops, predictions = tried[speed]
    pairs = zip(outcomes, stops, strict=True)
    paths = [one.ladder.until(speed, stop) for one, stop in pairs]
    return Judged([trial for trial, *_ in tried], best, predictions, paths)


def run_parts(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    judge: Judge,
    ended: Callable[[], bool] = never,
) -> list[Outcome]:
    """Train on every part, in the metric with one of the `roots`, while the loss improves.

    After its best stop, a slow path would spend most of its products on learning noise. A speed
    ends once its loss over all parts is clearly above its minimum so far.
    """
    rows = [
        part.scaled(request.candidate.encoding, root)
        for part, root in zip(parts, roots, strict=True)
    ]
    n_speeds, (_, n_outputs) = len(request.speeds), parts[0].y.shape
    backend, worse = parts[0].rows.backend, parts[0].rows.settings.worse
    crosses = [backend.cross(X_new, X, request.candidate.kernel) for X, X_new in rows]
    starts = [np.broadcast_to(one.offset, (len(one.y), n_speeds, n_outputs)) for one in parts]
    predictions = [[start.astype(np.float64)] for start in starts]  # (m, V, k), stop by stop
    pairs = zip(predictions, parts, strict=True)
    losses = [[judge.losses(known[0], part.y[:, None])] for known, part in pairs]  # (m, V)
    least = np.full(n_speeds, np.inf)

    def turned(bandwidth: float, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Judge more stops: contributions (S, n, V, k) to the scaled target of every part."""
        nonlocal least
        totals = np.zeros((len(coefficients[0]), n_speeds))
        for i, (part, cross, blocks) in enumerate(zip(parts, crosses, coefficients, strict=True)):
            n_stops, n_rows, *paths = blocks.shape
            columns = (blocks * part.to_units.astype(blocks.dtype)).swapaxes(0, 1)
            added = cross.product(bandwidth, columns.reshape(n_rows, -1))
            added = added.reshape(-1, n_stops, *paths).cumsum(axis=1, dtype=np.float64)
            stops = predictions[i][-1][:, None] + added
            more = judge.losses(stops, part.y[:, None, None])  # (m, S, V)
            predictions[i].extend(stops.swapaxes(0, 1))
            losses[i].extend(more.swapaxes(0, 1))
            totals += np.tensordot(part.evidence, more, 1)
        minima = np.minimum.accumulate(np.vstack([least, totals]))
        least = minima[-1]
        return np.any(totals > (1.0 + worse) * minima[1:], axis=0)

    ladders = train_parts(parts, request, [X for X, _ in rows], turned, ended)
    triples = zip(ladders, predictions, losses, strict=True)
    return [Outcome(ladder, np.stack(known), np.array(own)) for ladder, known, own in triples]


def train_parts(
    parts: Sequence[Part],
    request: Request,
    rows: Sequence[np.ndarray],
    watch: Watch | None = None,
    ended: Callable[[], bool] = never,
) -> list[Ladder]:
    """Train at several speeds on every part, side by side; `rows` are scaled by its metric."""
    backend, settings = parts[0].rows.backend, parts[0].rows.settings
    n_columns = len(request.speeds) * parts[0].rows.y.shape[1]
    with backend.threads(max(map(len, parts))), ExitStack() as held:
        held.enter_context(np.errstate(invalid="ignore"))  # see `fit_path`
        operators = []
        for part, X in zip(parts, rows, strict=True):
            operator = held.enter_context(
                operator_over(backend, X, request.candidate.kernel, n_columns=n_columns)
            )
            if part.train_weights is not None:
                operator = WeightedOperator(operator, part.train_weights.astype(X.dtype))
            operators.append(operator)
        ladders = Climb(
            operators,
            [part.target for part in parts],
            request.speeds,
            request.max_r2,
            settings.shrink,
            settings.tolerance,
            settings.max_dimension,
            watch,
            ended,
        ).ladders()
    return [
        replace(one, coefficients=one.coefficients * part.to_units.astype(one.coefficients.dtype))
        for one, part in zip(ladders, parts, strict=True)
    ]


def trial_of(
    outcomes: Sequence[Outcome], parts: Sequence[Part], request: Request, speed: int
) -> tuple[Trial, list[int], np.ndarray]:
    """The trial of one speed at the best common stop of all parts, the stops, and predictions."""
    weights, ladders = joined_weights(parts), [one.ladder for one in outcomes]
    n_stops = max(1, len(ladders[0].bandwidths))  # without stops, the start
    levels = np.unique(np.concatenate([one.r2[-n_stops:, speed] for one in ladders]))
    reached = [one.reached(speed, levels) for one in ladders]
    losses = [one.losses[stops, :, speed] for one, stops in zip(outcomes, reached, strict=True)]
    all_losses = np.concatenate(losses, axis=1)  # (levels, m)
    best = int(np.argmin(np.average(all_losses, axis=1, weights=weights)))
    mean, error = mean_and_error(all_losses[best], weights)
    stops = [int(one[best]) for one in reached]
    pairs = list(zip(outcomes, stops, strict=True))
    predictions = np.concatenate([one.predictions[stop, :, speed] for one, stop in pairs])
    trial = Trial(
        replace(request.candidate, min_speed=request.speeds[speed]),
        loss=mean,
        standard_error=error,
        score=mean_r2(predictions, joined_targets(parts), weights),
        max_r2=float(levels[best]),
        n_rows=len(parts[0]),
        train_r2=float(np.mean([one.ladder.r2[stop, speed] for one, stop in pairs])),
    )
    return trial, stops, predictions


def joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Weights of the held-out rows of all parts; None where all count alike."""
    if parts[0].rows.weights is None:
        return None
    return np.concatenate([part.evidence for part in parts])


def joined_targets(parts: Sequence[Part]) -> np.ndarray:
    """Targets of the held-out rows of all parts, shape (m, k)."""
    return np.concatenate([part.y for part in parts])
