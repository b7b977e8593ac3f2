"""How sure a self-tuning regressor is: intervals and quantiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bandfall.estimators._base import ValidatedRegressor
from bandfall.estimators._reading import Story
from bandfall.estimators._self_tuning import SelfTuning
from bandfall.selection.conformal import Sizes, calibrate, score_quantiles, widened
from bandfall.selection.parts import Rows
from bandfall.warning import warn_caller


class _Evidence(NamedTuple):
    """Held-out rows as calibration sees them; errors in standard deviations of the target."""

    rows: np.ndarray
    predictions: np.ndarray
    errors: np.ndarray
    weights: np.ndarray


class IntervalRegressor(SelfTuning, ValidatedRegressor):
    """A self-tuning regressor that tells from errors at held-out rows how sure it is."""

    held_out_predictions_: np.ndarray
    held_out_residuals_: np.ndarray
    interval_: dict[str, Any]
    _y_offset: np.ndarray
    _y_scale: np.ndarray

    def _story(self) -> Story:
        """See `story_of`."""
        held_out = self.held_out_predictions_
        return replace(super()._story(), interval=self.interval_, held_out_outputs=held_out)

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> np.ndarray:
        """Intervals that contain the target of a new row with a promised probability.

        This is conformal prediction from the errors on held-out rows (see `interval_`). The promise
        holds on average over new rows that come from the same source as the training rows.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
        coverage : float in (0, 1) or sequence of c of them, default=0.9

        Returns
        -------
        ndarray of shape (n_samples, 2), or (n_samples, 2, c) for a sequence
            Lower and upper ends; with several targets (n_samples, n_outputs, 2[, c]). If there
            are too few held-out rows for a coverage, they are infinite, with a warning.
        """
        coverages = _checked_levels("coverage", coverage)
        tails = 0.5 - 0.5 * coverages
        ends = self.predict_quantiles(X, np.concatenate([tails, 0.5 + 0.5 * coverages]))
        ends = ends.reshape(*ends.shape[:-1], 2, len(coverages))
        return ends[..., 0] if np.ndim(coverage) == 0 else ends

    def predict_quantiles(self, X: Any, levels: Any) -> np.ndarray:
        """Quantiles of the target at new rows, each erring away from the median.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
        levels : float in (0, 1) or sequence of c of them

        Returns
        -------
        ndarray in the shape of `predict`, with a last axis of size c for a sequence
        """
        check_is_fitted(self)
        given = _checked_levels("levels", levels)
        evidence = self._evidence()
        offsets = self._offsets(given, evidence)
        if not np.all(np.isfinite(offsets)):
            warn_caller(
                f"{self.interval_['n_rows']:,} held-out rows are too few for the levels asked for; "
                "some ends are infinite",
            )
        table = self._new_table(X)
        columns = self._encoded(table)
        total = self._average(columns)
        sizes = self._sizes(evidence, total, columns)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.where(offsets.T == 0, 0.0, sizes[..., None] * offsets.T)
        quantiles = self._in_units(np.moveaxis(total[..., None] + steps, -1, 0))
        quantiles = np.moveaxis(quantiles, 0, -1)
        return quantiles[..., 0] if np.ndim(levels) == 0 else quantiles

    def _calibrate(self, rows: Rows) -> None:
        """Learn from the held-out rows how large errors are."""
        y = rows.y
        predictions = self._in_deviations(self.held_out_predictions_)
        errors = y[self._held_out] - predictions
        if not len(errors) and not np.any(y):  # a constant target: any row left out is met
            self.held_out_rows_ = self._numbers_given(np.arange(len(y)))
            self.held_out_predictions_ = self._in_units(y)
            errors = y
        self.held_out_residuals_ = self._shaped(errors * self._y_scale)
        self._scores = np.zeros_like(errors)
        self._held_out_weights = rows.evidence[self._held_out]
        evidence = self._evidence()
        novelty = self._held_out_novelty()
        self.interval_ = {
            "method": "constant",
            "bandwidth": 0.0,
            "gain": 0.0,
            "n_rows": len(np.unique(evidence.rows)),
        }
        if len(errors):
            # Rows of a group share what is special about it: they do not judge each other.
            groups = rows.groups[self._held_out]
            candidates = self._candidates(evidence).items()
            chosen = calibrate({name: replace(s, rows=groups) for name, s in candidates}, novelty)
            self._scores = errors / chosen.sizes
            self.interval_ |= {
                "method": chosen.method,
                "bandwidth": chosen.bandwidth,
                "gain": chosen.gain,
            }

    def _offsets(self, levels: np.ndarray, evidence: _Evidence) -> np.ndarray:
        """Quantiles in units of the sizes of errors, shape (c, k)."""
        return score_quantiles(self._scores, levels, evidence.weights)

    def _evidence(self) -> _Evidence:
        """The held-out rows; a row that was held out twice counts half each time."""
        rows = self._held_out
        _, places, counts = np.unique(rows, return_inverse=True, return_counts=True)
        weights = self._held_out_weights / counts[places]
        if len(rows):
            weights = weights * (len(counts) / weights.sum())
        predictions = self._in_deviations(self.held_out_predictions_)
        errors = self.held_out_residuals_.reshape(-1, len(self._y_scale)) / self._y_scale
        return _Evidence(rows, predictions, errors, weights)

    def _candidates(self, evidence: _Evidence) -> dict[str, Sizes]:
        rest = (evidence.errors, evidence.weights, evidence.rows)
        candidates = {"prediction": Sizes(evidence.predictions, *rest)}
        if self._all_rows:
            candidates["metric"] = Sizes(self.path_.X[evidence.rows], *rest)
        return candidates

    def _sizes(
        self, evidence: _Evidence, predictions: np.ndarray, columns: dict[str, np.ndarray]
    ) -> np.ndarray:
        """Of errors at new rows, wider where these are novel, shape (m, k)."""
        overall, smoother = self._size_rule(evidence)
        sizes = np.broadcast_to(overall, predictions.shape)
        if smoother is not None:
            along = self.interval_["method"] == "prediction"
            places = predictions if along else self._coordinates(columns)
            sizes = smoother.at(places, self.interval_["bandwidth"])
        sizes = np.where(overall > 0, sizes, 1.0)
        return widened(sizes, self._novelty(columns, enough=1.0))

    def _size_rule(self, evidence: _Evidence) -> tuple[np.ndarray, Sizes | None]:
        """Mean size of errors (k,), and what says how it depends on the place, if it does."""
        candidates = self._candidates(evidence)
        overall = candidates["prediction"].overall if len(evidence.rows) else np.ones(1)
        return overall, candidates.get(self.interval_["method"])

    def _in_units(self, predictions: np.ndarray) -> np.ndarray:
        return self._shaped(predictions * self._y_scale + self._y_offset)

    def _in_deviations(self, values: np.ndarray) -> np.ndarray:
        """Values in the units of y as standard deviations from the mean, (m, k) in float64."""
        values = values.reshape(-1, len(self._y_scale)).astype(np.float64)
        return (values - self._y_offset) / self._y_scale


def _checked_levels(name: str, levels: Any) -> np.ndarray:
    values = np.asarray(levels, dtype=float).reshape(-1)
    if np.ndim(levels) > 1 or not len(values) or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"{name}={levels!r} must lie between 0 and 1, or be a sequence of such")
    return values
