"""Training several speeds on several parts of the rows, and their trials on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._models.metric import scaled
from bandfall._products import WeightedOperator, operator_over
from bandfall._search.candidates import Request, Trial
from bandfall._search.ladder import Ladder, Watch, train_ladders
from bandfall._search.rows import Rows
from bandfall._targets.losses import Judge, mean_and_error, mean_r2
from bandfall.descent._krylov import never
from bandfall.descent._path import column_means, column_norms, column_units


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
    def weights(self) -> np.ndarray | None:
        """Weights of the held-out rows as evidence, (m,)."""
        return None if self.rows.weights is None else self.rows.evidence[self.held_out]

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
    def target(self) -> np.ndarray:
        """What is trained: centred, weighted targets (n, k), of unit norm in all."""
        units = self._units
        root = 1.0 if self.train_weights is None else np.sqrt(self.train_weights)[:, None]
        inverse = np.divide(1.0, units, out=np.zeros_like(units), where=units > 0)
        return root * (self.rows.y[self.train] - self.offset) * inverse

    @cached_property
    def _units(self) -> np.ndarray:
        # Rounding in constant columns is no target.
        return np.where(self.scale > 0, column_units(self.scale), 0.0)

    @property
    def to_units(self) -> np.ndarray:
        """Factors from coefficients of `target` to those of y, shape (n, 1, k)."""
        weights = self.train_weights
        roots = np.ones(len(self)) if weights is None else np.sqrt(weights)
        return roots[:, None, None] * self._units

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
        held.enter_context(np.errstate(invalid="ignore"))  # see `resume_path`
        operators = []
        for part, X in zip(parts, rows, strict=True):
            operator = held.enter_context(
                operator_over(backend, X, request.kernel, n_columns=n_columns)
            )
            if part.train_weights is not None:
                operator = WeightedOperator(operator, part.train_weights.astype(X.dtype))
            operators.append(operator)
        ladders = train_ladders(
            operators,
            [part.target for part in parts],
            request.speeds,
            shrink=settings.shrink,
            max_r2=request.max_r2,
            tolerance=settings.tolerance,
            max_dimension=settings.max_dimension,
            watch=watch,
            ended=ended,
        )
    return [
        replace(one, coefficients=one.coefficients * part.to_units.astype(one.coefficients.dtype))
        for one, part in zip(ladders, parts, strict=True)
    ]


def train_ladder(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    ended: Callable[[], bool] = never,
) -> list[Ladder]:
    """Train on every part, in the metric with one of the `roots`, without looking at a loss."""
    pairs = zip(parts, roots, strict=True)
    rows = [part.scaled(request.encoding, root)[0] for part, root in pairs]
    return train_parts(parts, request, rows, ended=ended)


def run_parts(
    parts: Sequence[Part],
    request: Request,
    roots: Sequence[np.ndarray],
    judge: Judge,
    ended: Callable[[], bool] = never,
) -> list[Outcome]:
    """Train on every part, in the metric with one of the `roots`, while the loss improves."""
    pairs = zip(parts, roots, strict=True)
    rows = [part.scaled(request.encoding, root) for part, root in pairs]
    held_out = HeldOut(parts, request, rows, judge, ended)
    ladders = train_parts(parts, request, [X for X, _ in rows], held_out, ended)
    return [
        Outcome(ladder, np.stack(predictions), np.array(losses))
        for ladder, predictions, losses in zip(
            ladders, held_out.predictions, held_out.losses, strict=True
        )
    ]


class HeldOut:
    """Predictions for the held-out rows of several parts, stop by stop.

    After its best stop, a slow path would spend most of its products on learning noise. A speed has
    turned if its loss over all parts is clearly above its minimum so far. Once `ended` returns
    True, all speeds end. `predictions` and `losses` have a list for each part: arrays (m, V, k) and
    (m, V), before and after every stop.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        request: Request,
        rows: Sequence[tuple[np.ndarray, np.ndarray]],
        judge: Judge,
        ended: Callable[[], bool] = never,
    ):
        n_speeds, backend = len(request.speeds), parts[0].rows.backend
        self._parts = parts
        self._judge = judge
        self._ended = ended
        self._worse = parts[0].rows.settings.worse
        self._crosses = [backend.cross(X_new, X, request.kernel) for X, X_new in rows]
        self.predictions = [
            [np.broadcast_to(one.offset, (len(one.y), n_speeds, one.y.shape[1])).astype(np.float64)]
            for one in parts
        ]
        self.losses: list[list[np.ndarray]] = [[] for _ in parts]
        self._least = np.full(n_speeds, np.inf)
        self._turned([one[0][:, None] for one in self.predictions])
        self._least[:] = np.inf  # nothing is learned yet, and the first things may do harm

    def __call__(self, bandwidth: float, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Add stops at one bandwidth; return which speeds have turned, shape (V,).

        For each part, the coefficients (S, n, V, k) are the contributions at each stop, for its
        scaled target.
        """
        stops = []
        for part, cross, predictions, blocks in zip(
            self._parts, self._crosses, self.predictions, coefficients, strict=True
        ):
            n_stops, n_rows, *paths = blocks.shape
            columns = blocks * part.to_units.astype(blocks.dtype)
            columns = columns.swapaxes(0, 1).reshape(n_rows, -1)
            added = cross.product(bandwidth, columns).reshape(-1, n_stops, *paths)
            stops.append(predictions[-1][:, None] + np.cumsum(added, axis=1, dtype=np.float64))
            predictions.extend(stops[-1].swapaxes(0, 1))
        return self._turned(stops) | self._ended()

    def _turned(self, stops: Sequence[np.ndarray]) -> np.ndarray:
        """Judge more stops (m, S, V, k) of every part."""
        totals = np.zeros(stops[0].shape[1:3])
        for part, predictions, losses in zip(self._parts, stops, self.losses, strict=True):
            more = self._judge.losses(predictions, part.y[:, None, None])  # (m, S, V)
            losses.extend(more.swapaxes(0, 1))
            totals += (
                np.tensordot(part.weights, more, 1) if part.weights is not None else more.sum(0)
            )
        least = np.minimum.accumulate(np.vstack([self._least, totals]))
        self._least = least[-1]
        return np.any(totals > (1.0 + self._worse) * least[1:], axis=0)


def trials_of(request: Request, outcomes: Sequence[Outcome], parts: Sequence[Part]) -> list[Trial]:
    """The trial of each speed, at the best common stop of all parts."""
    return [_trial(request, number, outcomes, parts) for number in range(len(request.speeds))]


def at_stop(outcomes: Sequence[Outcome], speed: int, max_r2: float) -> np.ndarray:
    """Predictions of one speed for the held-out rows of all parts, shape (m, k)."""
    return np.concatenate(
        [one.predictions[one.ladder.reached(speed, max_r2), :, speed] for one in outcomes]
    )


def joined_weights(parts: Sequence[Part]) -> np.ndarray | None:
    """Weights of the held-out rows of all parts; None where all count alike."""
    weights = [part.weights for part in parts if part.weights is not None]
    return np.concatenate(weights) if weights else None


def joined_targets(parts: Sequence[Part]) -> np.ndarray:
    """Targets of the held-out rows of all parts, shape (m, k)."""
    return np.concatenate([part.y for part in parts])


def _trial(
    request: Request, speed: int, outcomes: Sequence[Outcome], parts: Sequence[Part]
) -> Trial:
    losses = [outcome.losses for outcome in outcomes]
    n_stops = max(1, len(losses[0]) - 1)  # without stops, the start
    levels = np.unique(np.concatenate([one.ladder.r2[-n_stops:, speed] for one in outcomes]))
    n_levels = min(len(levels), parts[0].rows.settings.max_stops)
    places = np.linspace(0, len(levels) - 1, n_levels).astype(int)
    levels = levels[places] if len(levels) else np.zeros(1)  # constant targets train nothing
    stops = [outcome.ladder.reached(speed, levels) for outcome in outcomes]
    sums = np.zeros(len(levels))
    for part, loss, reached in zip(parts, losses, stops, strict=True):
        own = np.ones(len(part.y)) if part.weights is None else part.weights
        sums += (loss[:, :, speed] @ own)[reached]
    best = int(np.argmin(sums))
    rows = [loss[reached[best], :, speed] for loss, reached in zip(losses, stops, strict=True)]
    weights = joined_weights(parts)
    mean, error = mean_and_error(np.concatenate(rows), weights)
    max_r2 = float(levels[best])
    score = mean_r2(at_stop(outcomes, speed, max_r2), joined_targets(parts), weights)
    reached_r2 = [
        one.ladder.r2[reached[best], speed] for one, reached in zip(outcomes, stops, strict=True)
    ]
    return Trial(
        request.candidate(request.speeds[speed]),
        loss=mean,
        standard_error=error,
        score=score,
        max_r2=max_r2,
        n_rows=len(parts[0]),
        train_r2=float(np.mean(reached_r2)),
    )
