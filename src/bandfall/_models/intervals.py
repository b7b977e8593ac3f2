"""Conformal intervals for an average of numbers, from its errors at held-out rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bandfall._checks import ShapeChecker, check_positions, check_real
from bandfall._models.average import Average, Columns
from bandfall._models.conformal import Sizes, at_least, calibrate, score_quantiles, widened
from bandfall._products import HOST, Backend
from bandfall._targets import Numbers
from bandfall._typing import JsonDict

METHODS = ("constant", "prediction", "metric")


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
        if np.any(self.weights <= 0):
            raise ValueError("weights must be positive")
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} is unknown")
        check_real("bandwidth", self.bandwidth, 0.0, 1e300)
        check_real("gain", self.gain, -1e300, 1.0)
        if self.method != "constant" and not (self.bandwidth > 0 and len(self.rows)):
            raise ValueError("smoothed sizes need rows and a bandwidth")

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
        found = cls(
            held_out,
            predictions,
            target.residuals(outputs, codes),
            weights[held_out],
            np.zeros_like(errors),
        )
        if not len(errors):
            return found
        # Rows of a group resemble each other: they must not judge each other.
        groups = groups[held_out]
        candidates = found._candidates(average).items()
        if average.residual is not None:
            errors = at_least(errors, average.residual[held_out])
        chosen = calibrate(
            {name: replace(sizes, rows=groups) for name, sizes in candidates},
            errors,
            average.novelty_among(held_out, backend=backend),
        )
        return replace(
            found,
            scores=errors / chosen.sizes,
            method=chosen.method,
            bandwidth=chosen.bandwidth,
            gain=chosen.gain,
        )

    @property
    def n_rows(self) -> int:
        """Number of distinct held-out rows."""
        return len(np.unique(self.rows))

    @property
    def facts(self) -> JsonDict:
        """The public summary, `interval_`."""
        return {
            "method": self.method,
            "bandwidth": self.bandwidth,
            "gain": self.gain,
            "n_rows": self.n_rows,
        }

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
        sizes = self._sizes(average, outputs, columns, backend)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.where(offsets.T == 0, 0.0, sizes[..., None] * offsets.T)
        values = average.target.quantile(np.moveaxis(outputs[..., None] + steps, -1, 0))
        return np.moveaxis(values, 0, -1)

    def size_rule(self, average: Average[Numbers]) -> tuple[np.ndarray, Sizes | None]:
        """Mean size of errors (k,), and the smoother of sizes if they depend on the row."""
        candidates = self._candidates(average)
        overall = candidates["prediction"].overall if len(self.rows) else np.ones(1)
        return overall, candidates.get(self.method)

    def _sizes(
        self, average: Average[Numbers], outputs: np.ndarray, columns: Columns, backend: Backend
    ) -> np.ndarray:
        """Expected sizes of errors at new rows, larger if these are novel, shape (m, k)."""
        overall, smoother = self.size_rule(average)
        sizes = np.broadcast_to(overall, outputs.shape)
        if smoother is not None:
            along = self.method == "prediction"
            places = outputs if along else average.rows_of(average.heaviest, columns)
            sizes = smoother.at(places, self.bandwidth)
        sizes = np.where(overall > 0, sizes, 1.0)
        return widened(sizes, average.novelty(columns, enough=1.0, backend=backend))

    def _candidates(self, average: Average[Numbers]) -> dict[str, Sizes]:
        target = average.target
        outputs = target.outputs(self.predictions)
        rest = (target.errors(self.predictions, self.residuals), self._shares, self.rows)
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
