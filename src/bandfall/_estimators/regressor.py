"""The regressor that tunes itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bandfall._checks import ShapeChecker, check_instance, check_sizes
from bandfall._estimators.base import NumbersRegressor
from bandfall._estimators.input import new_table
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._estimators.view import Story
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._targets import Numbers
from bandfall._typing import ArrayLike, JsonDict
from bandfall._warnings import warn_caller

if TYPE_CHECKING:
    from bandfall._search.averaging import Tuned
    from bandfall._search.rows import Rows


class BandfallRegressor(NumbersRegressor, SelfTuning):
    """Kernel regression with nothing to tune.

    Trains with a falling bandwidth, as `KernelDescentRegressor` does, and uses held-out rows to
    choose everything else: how columns are encoded, how much each direction counts (a metric
    learned from the gradients of the fit itself), the kernel, how fast the bandwidth falls and
    when to stop. The model is a weighted average of the best candidates. `selection_` lists all
    trials.

    Accepts raw tables with categories, dates and missing values; see the guide.

    Parameters
    ----------
    kernels : str or sequence of str, optional
        Kernels to try under every encoding. By default each encoding has its own: the Gaussian,
        exp(−u^1.4), and Laplace kernels in the 1-norm and 1.25-norm.
    max_rounds : int >= 0, default=10
        Maximum number of rounds of learning the metric; with 0 all columns count alike.
    n_members : int >= 1, default=4
        Maximum number of models to average; 1 keeps a single one.
    search_rows : int, default=10000
        Maximum number of rows that candidates are trained on. The chosen ones are trained on all.
    leaf_rows : int, default=10000
        Maximum number of rows to train on at a time. A larger table is divided into leaves. Each
        leaf has its own model and metric, and neighbouring leaves are blended.
    max_seconds : float > 0, optional
        Time limit for the whole fit. A fit may exceed it by about a second or a fifth, whichever
        is longer. Time in which other programs use the processor does not count, up to half of
        the limit, and work that has begun is completed. Rows, encodings, trials or members that do
        not fit are left out; `skipped_` lists them. Limits below half a second count as half a
        second.
    missing : str or list of str, optional
        Words that stand for a missing value in columns of text. The usual ones ("n/a", "?"), and
        a few words among many numbers, are recognised anyway.
    random_state : int, RandomState or None, default=0
        Seed for choosing the held-out rows. The same seed gives the same model.
    memory_budget : int, default=2**30
        Bytes for kernel matrices.
    device : {"auto", None, "cpu", "cuda", "cuda:N", "dask"} or address, default="auto"
        Where to compute. None and "cpu" use NumPy, "cuda" torch on a GPU. "auto" uses a GPU, if
        there is one, for more than 2,000 rows. "dask" uses the workers of the current Dask
        client, "tcp://host:8786" those of the scheduler there.
    n_jobs : int, optional
        Number of models to train at a time; by default one per core if that is faster.
        The model does not depend on it.
    verbose : int or bool, default=0
        1 prints to standard error whenever something better is found, 2 prints all trials.

    Attributes
    ----------
    average_ : bandfall._models.average.Average
        The fitted model: members, encoders and target.
    members_ : list of Member
        The models that are averaged, heaviest first: candidate, root, path, weight.
    encoders_ : dict of str to TableEncoder
        How the columns are encoded for the members.
    path_, metric_ : Path, ndarray
        Path and metric of the heaviest member. The path is over its encoded, scaled columns, for
        the target in standard deviations.
    best_params_ : dict
        Encoding, n_rounds, kernel, min_speed and max_r2 of the heaviest member.
    best_score_ : float
        R² of the average on held-out rows.
    held_out_rows_, held_out_predictions_, held_out_residuals_ : ndarray
        Row numbers of the held-out rows in X (a row may occur twice), predictions for them by
        models that had not seen them, and y minus these predictions, in the units of y.
    interval_ : dict
        How `predict_interval` works: method ("constant", or what the size of errors depends on:
        "prediction", "metric"), bandwidth (of the smoother of sizes), gain (relative improvement
        of the interval score on held-out rows over constant widths), n_rows (held out).
    selection_ : dict of str to ndarray
        Everything tried, one entry per trial: encoding, n_rounds, kernel, min_speed; loss (mean
        of ``|error|^1.5`` in standard deviations, which decides), its standard_error, score
        (R²), max_r2 (the stop, as a level of training R²), n_rows, train_r2 (reached there, mean
        over folds). ``pandas.DataFrame(selection_)`` makes a table.
    skipped_ : list of str
        Trials, members or rows that were left out because of `max_seconds` or because a callback
        ended the search; empty otherwise.
    leaks_ : dict of str to str
        Features that predict held-out rows almost alone, each with a sentence that `fit` warns of.
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

    average_: Average[Numbers]
    target_kind = Numbers
    _intervals: Intervals

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Predictions at rows of X, in the shape of y."""
        return self._answers(X)

    def predict_interval(self, X: ArrayLike, coverage: ArrayLike = 0.9) -> np.ndarray:
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

    def predict_quantiles(self, X: ArrayLike, levels: ArrayLike) -> np.ndarray:
        """Conservative quantiles of the target at new rows: they err away from the median.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
        levels : float in (0, 1) or sequence of c of them

        Returns
        -------
        ndarray in the shape of `predict`, with a last axis of size c for a sequence
        """
        columns = self._columns(X)
        offsets = self._intervals.offsets(_checked_levels("levels", levels))
        if not np.all(np.isfinite(offsets)):
            warn_caller(
                f"{self._intervals.n_rows:,} held-out rows are too few for this coverage; "
                "some ends are infinite"
            )
        quantiles = self._intervals.quantiles(
            self.average_, columns, offsets, backend=self._backend
        )
        return quantiles[..., 0] if np.ndim(levels) == 0 else quantiles

    def staged_predict(self, X: ArrayLike) -> Iterator[np.ndarray]:
        """Predictions during training, from the simplest model to the final one.

        The member with the most stages sets the pace; the stages of the others are spread evenly.
        """
        yield from self._staged_answers(X)

    def gradient(self, X: ArrayLike) -> np.ndarray:
        """∂f̂/∂x at rows of X, in the units of the features; NaN except for numbers and times.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        """
        table = new_table(self, X)
        columns, backend = self.average_.encode(table), self._backend
        gradient = self.average_.gradient(table, columns, backend=backend)
        outputs = partial(self.average_.evaluate, columns, backend=backend)
        slopes = np.atleast_2d(self.average_.target.slopes(outputs))
        gradient *= slopes[:, None]
        return gradient[..., 0] if self.average_.target.ndim == 1 else gradient

    @property
    def held_out_predictions_(self) -> np.ndarray:
        """Predictions for the held-out rows by models that had not seen them."""
        return self._intervals.predictions

    @property
    def held_out_residuals_(self) -> np.ndarray:
        """y minus these predictions."""
        return self._intervals.residuals

    @property
    def interval_(self) -> JsonDict:
        """How `predict_interval` computes intervals."""
        return self._intervals.facts

    def _story(self) -> Story:
        held_out = self._intervals.predictions
        return replace(super()._story(), intervals=self._intervals, held_out_answers=held_out)

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        self._intervals = Intervals.learned(
            self.average_,
            tuned.held_out,
            tuned.predictions,
            rows.y,
            rows.evidence,
            rows.groups,
            rows.backend,
        )
        self.held_out_rows_ = self._numbers_given(self._intervals.rows)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        average, intervals = self.average_, self._intervals
        check_instance("target", average.target, Numbers)
        shapes = ShapeChecker(k=average.target.n_columns)
        shapes("scores", intervals.scores, "m k")
        scale = average.target.scale
        check_sizes("one over scale", 1.0 / scale, 1.0)
        check_sizes("residuals", intervals.residuals / scale)
        check_sizes("weights", intervals.weights)
        if np.ndim(intervals.predictions) != average.target.ndim:
            raise ValueError("predictions do not have the shape of the target")
        if not np.array_equal(self._numbers_given(intervals.rows), self.held_out_rows_):
            raise ValueError("the rows of intervals are not held_out_rows_")
        if intervals.method == "metric" and not average.complete:
            raise ValueError("intervals depend on missing rows")


def _checked_levels(name: str, levels: ArrayLike) -> np.ndarray:
    values = np.asarray(levels, dtype=float).reshape(-1)
    if np.ndim(levels) > 1 or not len(values) or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"{name}={levels!r} must be a number between 0 and 1, or a list of them")
    return values
