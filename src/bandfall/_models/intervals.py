"""Conformal intervals for an average of numbers, from its errors at held-out rows.

Each of n + 1 exchangeable errors is equally likely to be the r-th smallest. So the
⌈level (n + 1)⌉-th smallest of the n known errors exceeds the next error with a probability of at
least `level`, whatever their distribution. Errors are divided by an expected size, which may depend
on the row. The coverage stays exact as long as the size does not depend on the error itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bandfall._checks import ShapeChecker, check_choice, check_number, check_positions
from bandfall._models.average import Average, Columns
from bandfall._products import HOST, Backend
from bandfall._targets import Numbers
from bandfall._typing import Array, JsonDict, Values, Weights
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import get_kernel

METHODS = ("constant", "prediction", "metric")
SIDED_ROWS = 400  # from here on, each tail has its own quantile: 99 % needs 199 rows per tail
_ROUNDING = 1e-9  # rounding error of a rank: 0.9 · 10 is nine
_N_BANDWIDTHS = 7
PRIOR_ROWS = 3.0  # weight of the overall size, in rows
_JUDGED_AT = (0.5, 0.8, 0.9, 0.95)  # coverages
_WORTH = 0.01  # relative improvement of the score that justifies sizes that depend on the row
_WORSE = 1.1  # ratio of errors by which a model must be worse than the models before it


def conformal_quantile(
    scores: np.ndarray, levels: np.ndarray, weights: Weights = None
) -> np.ndarray:
    """Upper bounds on a new score (m, k) that hold with probability `level` or more, shape (c, k).

    The smallest score q with Σ_{scores ≤ q} w ≥ level · (Σ w + 1): the new row has weight one. It
    is ∞ if there are too few rows for the level.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    order = np.argsort(scores, axis=0)
    total = np.cumsum(weights[order], axis=0)
    needed = np.asarray(levels) * (weights.sum() + 1.0) - _ROUNDING * (1.0 + len(scores))
    sorted_scores = np.concatenate(
        [np.take_along_axis(scores, order, axis=0), np.full((1, scores.shape[1]), np.inf)]
    )
    ranks = [np.searchsorted(total[:, j], needed) for j in range(scores.shape[1])]
    return np.take_along_axis(sorted_scores, np.stack(ranks, axis=1), axis=0)


def score_quantiles(scores: np.ndarray, levels: np.ndarray, weights: Weights = None) -> np.ndarray:
    """Conservative quantiles of signed scores, shape (c, k).

    With at least `SIDED_ROWS` rows, the tails are treated separately. With fewer, both tails are
    pooled and the quantiles are symmetric about zero.
    """
    levels = np.asarray(levels, dtype=float)
    n_rows = len(scores) if weights is None else weights.sum()
    above = (levels >= 0.5)[:, None]
    if n_rows < SIDED_ROWS:
        size = conformal_quantile(np.abs(scores), np.abs(2.0 * levels - 1.0), weights)
        size = np.where((levels == 0.5)[:, None], 0.0, size)
        return np.where(above, size, -size)
    outer = np.maximum(levels, 1.0 - levels)
    upper = conformal_quantile(scores, outer, weights)
    lower = -conformal_quantile(-scores, outer, weights)
    return np.where(above, upper, lower)


def interval_score(
    lower: np.ndarray, upper: np.ndarray, y: np.ndarray, coverage: float
) -> np.ndarray:
    """Width plus 2 / (1 − coverage) times the distance of y (Gneiting and Raftery, 2007).

    Smaller is better. The central quantiles minimise the expected score.
    """
    outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
    return (upper - lower) + 2.0 / (1.0 - coverage) * outside


@dataclass(frozen=True)
class Sizes:
    """Expected size of errors near x: a kernel smoother of the errors at held-out rows.

        s(x) = (Σ_i w_i k(‖x − x_i‖ / h) |e_i| + c ē) / (Σ_i w_i k(‖x − x_i‖ / h) + c),

    with ē the overall mean, which is the limit far from all rows, and c its weight, `PRIOR_ROWS`.
    """

    coordinates: np.ndarray  # (m, d): of the held-out rows
    errors: np.ndarray  # (m, k): in standard deviations of the target
    weights: np.ndarray  # (m,)
    rows: np.ndarray  # (m,): numbers of rows or groups; those of one number never judge each other

    @property
    def overall(self) -> np.ndarray:
        """Mean |error|, shape (k,)."""
        return np.average(np.abs(self.errors), axis=0, weights=self.weights)

    def bandwidths(self) -> np.ndarray:
        """Candidates, downwards from the root mean square distance; none if all rows are equal."""
        spread = np.sqrt(2.0 * np.var(self.coordinates.astype(np.float64), axis=0).sum())
        return spread * 0.5 ** np.arange(_N_BANDWIDTHS) if spread > 0 else np.zeros(0)

    def at(self, coordinates: np.ndarray, bandwidth: float) -> np.ndarray:
        """s at new rows, shape (m_new, k); computed in float32, which is precise enough."""
        sums = self.as_sum([bandwidth], np.float32).evaluate(coordinates).astype(np.float64)
        return smoothed(sums[:, :-1], sums[:, -1:], self.overall)

    def left_out(self, bandwidths: np.ndarray) -> np.ndarray:
        """s at each held-out row, without that row, shape (len(bandwidths), m, k)."""
        total = self.as_sum(bandwidths)
        sums = np.diff(total.evaluate_staged(self.coordinates), axis=0, prepend=0.0)
        own = np.zeros((self.rows.max() + 1, sums.shape[2]))
        np.add.at(own, self.rows, total.coefficients[0])
        sums = np.maximum(sums - own[self.rows], 0.0)
        return smoothed(sums[..., :-1], sums[..., -1:], self.overall)

    def as_sum(self, bandwidths: Values, dtype: type[np.floating] = np.float64) -> KernelSum:
        """Outputs Σ_i w_i k |e_i| for every target and Σ_i w_i k; one stage per bandwidth."""
        each = np.column_stack([np.abs(self.errors), np.ones(len(self.errors))])
        terms = (self.weights[:, None] * each).astype(dtype)
        return KernelSum(
            self.coordinates,
            get_kernel("gaussian"),
            np.asarray(bandwidths),
            np.broadcast_to(terms, (len(bandwidths), *terms.shape)),
            np.zeros(terms.shape[1], dtype),
        )


class Calibration(NamedTuple):
    """How errors are scaled before their quantiles are taken."""

    method: str  # name of the coordinates that sizes depend on, or "constant"
    bandwidth: float  # of the smoother; 0 for constant sizes
    sizes: np.ndarray  # (m, k): at the held-out rows, each computed from the others
    gain: float  # relative improvement of the interval score over constant sizes


def smoothed(above: Array, below: Array, overall: np.ndarray) -> Array:
    """Σ w k |e| over Σ w k, with the overall mean as `PRIOR_ROWS` more rows; see `Sizes`."""
    return (above + PRIOR_ROWS * overall) / (below + PRIOR_ROWS)


def widened(sizes: Array, novelty: Array) -> Array:
    """Sizes (m, k) of errors, enlarged for rows of novelty (m, 1) unlike the training rows.

    They grow up to a standard deviation of the target, which is the error of predicting the mean.
    """
    return np.minimum(sizes * np.maximum(novelty, 1.0), np.maximum(sizes, 1.0))


def at_least(errors: np.ndarray, residual: np.ndarray) -> np.ndarray:
    """Held-out errors (m, k), raised to the residual (m, k) of the final model if it is worse.

    If half or nine tenths of the rows lie within larger errors in training than held out, the final
    model differs from those that predicted the held-out rows. Its errors at new rows are then at
    least those in training.
    """
    known, own = np.abs(errors), np.abs(residual)
    shares = (0.5, 0.9)
    worse = np.quantile(own, shares, axis=0) > _WORSE * np.quantile(known, shares, axis=0)
    return np.where(worse.any(axis=0) & (own > known), np.copysign(own, errors), errors)


def calibrate(candidates: dict[str, Sizes], errors: np.ndarray, novelty: np.ndarray) -> Calibration:
    """The sizes whose intervals score best on the held-out rows; constant sizes unless others win.

    `errors` (m, k) are those of a new model, `novelty` (m,) is that of the held-out rows.
    """
    first, novelty = next(iter(candidates.values())), novelty[:, None]
    weights = first.weights
    overall = np.where(first.overall > 0, first.overall, 1.0)
    constant = widened(np.broadcast_to(overall, errors.shape), novelty)
    reference = _mean_score(errors, constant, weights)
    best = Calibration("constant", 0.0, constant, 0.0)
    if reference == 0.0 or weights.sum() < 2 * PRIOR_ROWS:
        return best
    for name, candidate in candidates.items():
        bandwidths = candidate.bandwidths()
        smooth = candidate.left_out(bandwidths) if len(bandwidths) else ()
        for bandwidth, sizes in zip(bandwidths, smooth, strict=True):
            sizes = widened(np.where(first.overall > 0, sizes, 1.0), novelty)
            gain = 1.0 - _mean_score(errors, sizes, weights) / reference
            if gain > max(best.gain, _WORTH):
                best = Calibration(name, float(bandwidth), sizes, float(gain))
    return best


def _mean_score(errors: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> float:
    """Interval score over rows, targets and several coverages, in units of the mean |error|."""
    scores = errors / sizes
    unit = np.average(np.abs(errors), axis=0, weights=weights)
    total = 0.0
    for coverage in _JUDGED_AT:
        tail = 0.5 * (1.0 - coverage)
        # Finite for any number of rows: this only compares candidates.
        lower, upper = score_quantiles(scores, np.array([tail, 1.0 - tail]), weights)
        largest = np.abs(scores).max(axis=0)
        lower, upper = np.maximum(lower, -largest), np.minimum(upper, largest)
        rows = interval_score(sizes * lower, sizes * upper, errors, coverage)
        share = np.divide(rows, unit, out=np.zeros_like(rows), where=unit > 0)
        total += (1.0 - coverage) * float(np.average(share.mean(axis=1), weights=weights))
    return total


@dataclass(frozen=True, eq=False)
class Intervals:
    """Errors at held-out rows, and how the size of errors depends on the row."""

    # (m,): positions of the held-out rows among the training rows; a row may occur twice.
    rows: np.ndarray
    # (m,) or (m, k), in the units and the shape of y, from models that had not seen these rows.
    predictions: np.ndarray
    residuals: np.ndarray
    weights: np.ndarray  # (m,): how much each row counts
    scores: np.ndarray  # (m, k): errors of a new model divided by their expected sizes
    method: str = "constant"  # or what sizes depend on: "prediction", "metric"
    bandwidth: float = 0.0  # of the smoother; 0 for constant sizes
    gain: float = 0.0  # relative improvement of the interval score over constant sizes

    def __post_init__(self) -> None:
        check_positions("rows", self.rows)
        shapes = ShapeChecker(m=len(self.rows))
        shapes("scores", self.scores, "m k")
        wanted = "m" if np.ndim(self.predictions) == 1 else "m k"
        shapes("predictions", self.predictions, wanted, allowed="any")
        shapes("residuals", self.residuals, wanted)
        shapes("weights", self.weights, "m")
        check_choice("method", self.method, *METHODS)
        check_number("bandwidth", self.bandwidth, 0.0, 1e300)
        check_number("gain", self.gain, -1e300, 1.0)
        smooth = self.method != "constant"
        if np.any(self.weights <= 0) or (smooth and not (self.bandwidth > 0 and len(self.rows))):
            raise ValueError("intervals need positive weights, and smoothed sizes a bandwidth")

    @classmethod
    def learned(
        cls,
        average: Average[Numbers],
        held_out: np.ndarray,
        outputs: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        groups: np.ndarray,
        backend: Backend = HOST,
    ) -> Intervals:
        """Calibrate with outputs (m, k) of models that had not seen the held-out rows.

        Codes (n, k), weights (n,) and groups (n,) are those of all training rows. Errors are those
        of the average if it is worse than these models.
        """
        target = average.target
        if not len(held_out) and not np.any(codes):  # constant target: every prediction is exact
            held_out, outputs = np.arange(len(codes)), codes
        codes = codes[held_out]
        predictions = target.answer(np.broadcast_to(outputs, codes.shape))
        outputs = target.outputs(predictions)  # rounded as the predictions are
        errors = codes - outputs
        residuals, none = target.residuals(outputs, codes), np.zeros_like(errors)
        found = cls(held_out, predictions, residuals, weights[held_out], none)
        if not len(errors):
            return found
        # Rows of a group resemble each other: they must not judge each other.
        groups = groups[held_out]
        candidates = found._candidates(average)
        candidates = {name: replace(sizes, rows=groups) for name, sizes in candidates.items()}
        if average.residual is not None:
            errors = at_least(errors, average.residual[held_out])
        novelty = average.novelty_among(held_out, backend=backend)
        method, bandwidth, sizes, gain = calibrate(candidates, errors, novelty)
        return replace(found, scores=errors / sizes, method=method, bandwidth=bandwidth, gain=gain)

    @property
    def n_rows(self) -> int:
        """Number of distinct held-out rows."""
        return len(np.unique(self.rows))

    @property
    def facts(self) -> JsonDict:
        """The public summary, `interval_`."""
        names = ("method", "bandwidth", "gain", "n_rows")
        return {name: getattr(self, name) for name in names}

    def offsets(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles of errors in units of their sizes, shape (c, k); infinite for too few rows."""
        return score_quantiles(self.scores, levels, self._shares)

    def quantiles(
        self,
        average: Average[Numbers],
        columns: Columns,
        offsets: np.ndarray,
        *,
        backend: Backend = HOST,
    ) -> np.ndarray:
        """Quantiles at encoded rows: the shape of predictions plus a last axis of size c."""
        outputs = average.evaluate(columns, backend=backend)
        overall, smoother = self.size_rule(average)
        sizes = np.broadcast_to(overall, outputs.shape)
        if smoother is not None:
            along = self.method == "prediction"
            places = outputs if along else average.rows_of(average.heaviest, columns)
            sizes = smoother.at(places, self.bandwidth)
        novelty = average.novelty(columns, backend=backend)[:, None]
        sizes = widened(np.where(overall > 0, sizes, 1.0), novelty)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.where(offsets.T == 0, 0.0, sizes[..., None] * offsets.T)
        values = average.target.answer(np.moveaxis(outputs[..., None] + steps, -1, 0))
        return np.moveaxis(values, 0, -1)

    def size_rule(self, average: Average[Numbers]) -> tuple[np.ndarray, Sizes | None]:
        """Mean size of errors (k,), and the smoother of sizes if they depend on the row."""
        candidates = self._candidates(average)
        overall = candidates["prediction"].overall if len(self.rows) else np.ones(1)
        return overall, candidates.get(self.method)

    def _candidates(self, average: Average[Numbers]) -> dict[str, Sizes]:
        target = average.target
        outputs = target.outputs(self.predictions)
        errors = self.residuals.reshape(outputs.shape) / target.scale
        rest = (errors, self._shares, self.rows)
        candidates = {"prediction": Sizes(outputs, *rest)}
        if average.complete:
            candidates["metric"] = Sizes(average.heaviest.path.X[self.rows], *rest)
        return candidates

    @cached_property
    def _shares(self) -> np.ndarray:
        """Weights of mean one; a row that was held out twice counts one half each time."""
        _, places, counts = np.unique(self.rows, return_inverse=True, return_counts=True)
        weights = self.weights / counts[places]
        return weights * (len(counts) / weights.sum()) if len(weights) else weights
