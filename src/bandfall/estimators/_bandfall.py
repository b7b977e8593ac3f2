"""The regressor that tunes itself."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import numpy as np

from bandfall.estimators._base import check_variation, prediction_dtype
from bandfall.estimators._intervals import IntervalRegressor
from bandfall.metric import scaled
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned

_ROUNDING = 8.0 * np.finfo(np.float64).eps  # of the mean: a target that varies less is constant


class BandfallRegressor(IntervalRegressor):
    """Kernel regression with nothing to tune.

    Trains with a falling bandwidth, as `KernelDescentRegressor` does, and uses held-out rows to
    choose everything else: how columns are encoded, how much each direction counts (a metric
    learned from the gradients of the fit itself), the kernel, how fast the bandwidth falls and
    when to stop. The model is a weighted average of the best few. `selection_` lists everything
    that was tried.

    Takes tables as they are, with categories, dates and missing values; see the guide.

    Parameters
    ----------
    kernels : str or sequence of str, optional
        Kernels to try under every encoding. By default each encoding has its own: the Gaussian,
        exp(−u^1.4), and Laplace kernels in the 1-norm and 1.25-norm.
    max_rounds : int >= 0, default=10
        Maximum number of rounds of learning the metric; with 0 all columns count alike.
    n_members : int >= 1, default=4
        Maximum number of models to average; 1 keeps a single one.
    search_rows : int, default=15000
        Maximum number of rows that candidates are trained on. The chosen ones get all rows.
    leaf_rows : int, default=10000
        Maximum number of rows to train on at a time. A larger table is divided into leaves, each
        with a model and a metric of its own, which are blended where they meet.
    max_seconds : float > 0, optional
        Time limit for the whole fit, kept to about a second, or a fifth where that is longer.
        What there is no time for is left out: rows, encodings, trials, members; `given_up_` says
        what. Limits below half a second count as half a second.
    missing : str or list of str, optional
        Words that stand for a missing value in columns of text. The usual ones ("n/a", "?"), and
        a few words among many numbers, are found without.
    random_state : int, RandomState or None, default=0
        Seed for choosing the held-out rows. The same seed gives the same model.
    memory_budget : int, default=2**30
        Bytes for kernel matrices.
    device : {"auto", None, "cpu", "cuda", "cuda:N", "dask"} or address, default="auto"
        Where to compute: None for NumPy, otherwise torch on that device. "auto" uses a GPU, if
        there is one, for more than 2,000 rows. "dask" uses the workers of the current Dask
        client, "tcp://host:8786" those of the scheduler there.
    n_jobs : int, optional
        Number of encodings to work on at a time; by default one per core if that is faster.
        The model does not depend on it.
    verbose : int or bool, default=0
        1 prints to standard error whenever something better is found, 2 prints all trials.

    Attributes
    ----------
    members_ : list of Member
        The models that are averaged, heaviest first: candidate, root, path, weight.
    encoders_ : dict of str to TableEncoder
        How the columns are encoded for the members.
    path_, metric_ : Path, ndarray
        Of the heaviest member: a path over its encoded, scaled columns, for the target in
        standard deviations.
    best_params_ : dict
        Encoding, n_rounds, kernel, min_speed and max_r2 of the heaviest member.
    best_score_ : float
        R² of the average on held-out rows.
    held_out_rows_, held_out_predictions_, held_out_residuals_ : ndarray
        Row numbers of the held-out rows in X (a row may occur twice), what models that had not
        seen them predicted, and y minus these predictions, in the units of y.
    interval_ : dict
        How `predict_interval` works: method ("constant", or what the size of errors depends on:
        "prediction", "metric"), the smoother's bandwidth, its gain (share by which the interval
        score on held-out rows is below that of constant widths), n_rows (held out).
    selection_ : dict of str to ndarray
        Everything tried, one entry per trial: encoding, n_rounds, kernel, min_speed; loss (mean
        of ``|error|^1.5`` in standard deviations, which decides), its standard_error, score
        (R²), max_r2 (the stop, as a level of training R²), n_rows, train_r2 (reached there, mean
        over folds). ``pandas.DataFrame(selection_)`` makes a table.
    given_up_ : list of str
        What was left out because of `max_seconds` or because a callback ended the search:
        trials, members, rows. Otherwise empty.
    feature_importances_ : ndarray of shape (n_features,)
        Root mean square of the prediction's change along each feature, in standard deviations
        of its encoded columns; sums to 1.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from bandfall import BandfallRegressor
    >>> X, y = make_friedman1(200, n_features=7, random_state=0)
    >>> model = BandfallRegressor().fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.9)
    True
    """

    _target_checks = MappingProxyType({"multi_output": True, "y_numeric": True})

    def predict(self, X: Any) -> np.ndarray:
        """Predict.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        return self._in_units(self._average(self._encoded(self._new_table(X))))

    def staged_predict(self, X: Any) -> Iterator[np.ndarray]:
        """Predictions along training, from simple to final.

        The member with the most stages sets the pace; the others keep step.
        """
        for total in self._staged(X):
            yield self._in_units(total)

    def gradient(self, X: Any) -> np.ndarray:
        """∂f̂/∂x at rows of X, in the units of the features.

        NaN for columns that are not numbers or times.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        """
        table = self._new_table(X)
        columns = self._encoded(table)
        total = np.zeros((len(table), self.n_features_in_, len(self._y_scale)))
        for member in self.members_:
            encoder = self.encoders_[member.candidate.encoding]
            inner = member.path.gradient(
                scaled(columns[member.candidate.encoding], member.root),
                backend=self._backend(len(member.path.X)),
            ).astype(np.float64)
            inner = scaled(inner.swapaxes(1, 2), member.root).swapaxes(1, 2)
            inner *= encoder.jacobian(table)[:, :, None]
            for column, source in enumerate(encoder.sources):
                total[:, source] += member.weight * inner[:, column]
        total *= self._y_scale
        return total[..., 0] if self._y_ndim == 1 else total

    def _read_by(self, reader: Any) -> Any:
        """See `bandfall.estimators._reading.Reader`."""
        return reader.average(self)

    def _read_target(self, y: Any) -> np.ndarray:
        """Columns of numbers, (n, k) in float64."""
        y = _checked_target(y)
        self._y_ndim = y.ndim
        return y.reshape(len(y), -1)

    def _codes(self, y: Any, weights: Any) -> np.ndarray:
        """Targets of zero mean and unit variance."""
        self._prediction_dtype = prediction_dtype(y, self._dtype)
        self._y_offset, self._y_scale = _standard_units(y, weights)
        with np.errstate(over="ignore"):
            return (y - self._y_offset) / self._y_scale

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        self.held_out_predictions_ = self._in_units(tuned.predictions)
        self.best_score_ = tuned.score
        self._calibrate(rows)


def _standard_units(y: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every target, 1 for constant ones, safe for huge values."""
    largest = np.abs(y).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    shares = y / unit
    mean = np.average(shares, axis=0, weights=weights)
    deviation = np.sqrt(np.average((shares - mean) ** 2, axis=0, weights=weights))
    constant = deviation <= _ROUNDING * np.abs(mean)
    return mean * unit, np.where(constant, 1.0, deviation) * np.where(constant, 1.0, unit)


def _checked_target(y: Any) -> np.ndarray:
    y = np.asarray(y)
    if y.dtype.kind in "mM":
        raise ValueError(
            "y holds dates or durations, and a target must be a number, such as that of days"
        )
    if y.dtype.kind not in "biuf":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("y must hold numbers only") from None
    y = y.astype(np.float64, copy=False)
    if y.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions; got shape {y.shape}")
    if not np.all(np.isfinite(y)):
        raise ValueError("Input y contains NaN or infinite values")
    check_variation(y, len(y) * float(np.finfo(np.float64).tiny), np.float64)
    return y
