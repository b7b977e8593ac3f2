"""The regressor that tunes itself."""

from __future__ import annotations

import time
from dataclasses import asdict, replace

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall.backends import resolve_backend
from bandfall.estimators._base import KernelRegressor, check_number
from bandfall.estimators._callbacks import CallbackSupportMixin, Reports, with_callbacks
from bandfall.estimators._front import FeatureFront, heavy_tailed
from bandfall.kernels import get_kernel
from bandfall.metric import gradient_outer_product, scaled, slopes
from bandfall.selection.tuning import (
    KERNELS,
    MAX_R2,
    Candidate,
    HeldOut,
    Search,
    Trial,
    fit_candidate,
    search,
)

# Beyond this many rows everything is computed in float32; the search from fewer on.
_FLOAT32_ROWS = 2000
_FLOAT32_SEARCH = 500
# Below this many rows each is held out once (cross-validation); above, one part is enough.
_CROSS_VALIDATION_ROWS = 1500
_FOLDS = 5
_SMALL = 300  # rows: below, two rounds of folds, because one is a coin toss
_FIRST_RUNG = 2500  # rows the whole search runs on; its winners then meet on more
_SECOND_RUNG = 8000
_DEVICE_RUNG = 50_000  # the same on a GPU
# There, of the best: most further rounds of the metric, and most halvings of the speed.
_MAX_FURTHER = 2
_MAX_HALVINGS = 5


class BandfallRegressor(CallbackSupportMixin, KernelRegressor):
    """Kernel regression with nothing to tune.

    Trains with a falling bandwidth (`KernelDescentRegressor`) and chooses by held-out rows what
    the paper's rule leaves open: how fast the bandwidth falls, how much each feature counts (a
    metric learned from the gradients of the fit itself), the kernel, whether to tame heavy
    tails, and when to stop. Everything tried is in `selection_`.

    Takes tables as they are: features are standardised inside, constant ones dropped, missing
    values imputed and marked, categories of a DataFrame encoded.

    Parameters
    ----------
    kernels : sequence of str, optional
        Kernels to choose from; all five by default.
    max_rounds : int >= 0, default=10
        Most rounds of learning the metric; 0 counts all features alike.
    max_seconds : float > 0, optional
        Time after which the best configuration so far is taken. One final fit comes on top.
    random_state : int, RandomState or None, default=0
        Chooses the held-out rows. The same seed gives the same model.
    memory_budget : int, default=2**30
        Bytes for kernel matrices.
    device : {"auto", None, "cpu", "cuda", "cuda:N"}, default="auto"
        Where to compute: None for NumPy, else torch there. "auto" takes a GPU, if there is one,
        for more than 2,000 rows.
    n_jobs : int, optional
        Parts that are held out in turn (below 1,500 rows) to work on at a time.

    Attributes
    ----------
    path_ : Path
        The fitted model over the encoded, scaled features.
    metric_ : ndarray of shape (n_columns, n_columns) or (n_columns,)
        Symmetric matrix, or scales, that the encoded columns are multiplied with before
        distances are taken.
    best_params_ : dict
        Chosen kernel, min_speed, n_rounds, transform and max_r2.
    best_score_ : float
        R² on held-out rows.
    selection_ : dict of str to ndarray
        Everything tried, one entry a trial: kernel, min_speed, n_rounds, transform; loss (mean
        of ``|error|^1.5`` in standard deviations, which decides), its standard_error against the
        first trial, score (R²), max_r2, n_rows. ``pandas.DataFrame(selection_)`` makes a table.
    feature_importances_ : ndarray of shape (n_features,)
        Root mean square of the prediction's change along each (standardised) feature; sums
        to 1. The columns of a category count together.
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

    def __init__(
        self,
        *,
        kernels=None,
        max_rounds=10,
        max_seconds=None,
        random_state=0,
        memory_budget=2**30,
        device="auto",
        n_jobs=None,
    ):
        self.kernels = kernels
        self.max_rounds = max_rounds
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.device = device
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Choose a configuration and fit it to all rows.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)
            May hold NaN; a DataFrame may hold categories, text and booleans.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight w counts as w equal rows.

        Returns
        -------
        self
        """
        self._check_parameters()
        deadline = np.inf if self.max_seconds is None else time.monotonic() + self.max_seconds
        reports = Reports(self, X, y)
        X, y, weights = self._table(X, y, sample_weight)
        views = self._fit_fronts(X)
        trials: list[Trial] = []
        if len(y) >= 4 and np.any(np.ptp(y, axis=0) > 0):
            chosen, scout, roots = self._choose(
                views,
                y,
                weights,
                trials,
                lambda: reports.task("trial") or time.monotonic() > deadline,
            )
        else:
            chosen = Trial(Candidate(), *3 * [np.nan], MAX_R2, len(y))
            scout, roots = chosen.candidate, {}
        self._refit(chosen, scout, roots, views, y, weights)
        self.best_score_ = chosen.score
        self.best_params_ = {**asdict(chosen.candidate), "max_r2": self._max_r2}
        self.selection_ = _table_of(trials)
        reports.finish(self._fitted_state)
        return self

    def predict(self, X):
        """Predict.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        rows = self._encoded(X)
        predictions = self.path_.evaluate(rows, **self._resources(len(self.path_.X)))
        return self._shaped(predictions.astype(self._dtype, copy=False))

    def staged_predict(self, X):
        """Predictions after each stage of training, from simple to final."""
        rows = self._encoded(X)
        for staged in self.path_.evaluate_staged(rows, **self._resources(len(self.path_.X))):
            yield self._shaped(staged.astype(self._dtype, copy=False))

    def gradient(self, X):
        """∂f̂/∂x at rows of X, in the units of the features.

        NaN for columns that are not numeric, and everywhere after a quantile transform.

        Returns
        -------
        ndarray of shape (n_samples, n_features) or (n_samples, n_features, n_outputs)
        """
        inner = self.path_.gradient(self._encoded(X), **self._resources(len(self.path_.X)))
        inner = scaled(inner.swapaxes(1, 2), self.metric_).swapaxes(1, 2)
        units = self._front.numeric_slopes(self.n_features_in_)
        gradient = np.full((len(inner), self.n_features_in_, inner.shape[2]), np.nan)
        numeric = np.flatnonzero(np.isfinite(units))
        gradient[:, self._front.sources[numeric]] = inner[:, numeric] * units[numeric, None]
        return gradient[..., 0] if self._y_ndim == 1 else gradient

    def _table(self, X, y, sample_weight):
        """Validated rows: X as it came (checked), y (n, k), weights or None."""
        if hasattr(X, "dtypes") and hasattr(X, "columns"):
            _, y = validate_data(self, X, y, skip_check_array=True), y
            X, y = _checked_frame(X), _checked_target(y, len(X))
        else:
            X, y = validate_data(
                self,
                X,
                y,
                multi_output=True,
                y_numeric=True,
                dtype=(np.float64, np.float32),
                ensure_all_finite="allow-nan",
            )
            _refuse_infinity(X)
        self._y_ndim = np.ndim(y)
        self._dtype = np.dtype(getattr(X, "dtype", np.float64))
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        if sample_weight is None:
            return X, y, None
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        used = np.flatnonzero(weights > 0)
        if not len(used):
            raise ValueError("sample_weight must be positive for at least one row")
        X = X.iloc[used] if hasattr(X, "iloc") else X[used]
        weights = weights[used]
        return X, y[used], None if np.all(weights == 1.0) else weights

    def _encoded(self, X):
        check_is_fitted(self)
        if hasattr(X, "dtypes") and hasattr(X, "columns"):
            validate_data(self, X, reset=False, skip_check_array=True)
            X = _checked_frame(X)
        else:
            X = validate_data(
                self, X, reset=False, dtype=(np.float64, np.float32), ensure_all_finite="allow-nan"
            )
            _refuse_infinity(X)
        return scaled(self._front.transform(X), self.metric_)

    def _fit_fronts(self, X):
        """Encoded features under each transform worth a trial."""
        dtype = np.float32 if len(X) > _FLOAT32_ROWS else np.float64
        self._fronts = {"standard": FeatureFront("standard").fit(X, dtype)}
        views = {"standard": self._fronts["standard"].transform(X)}
        if len(X) >= 100 and heavy_tailed(views["standard"]):
            self._fronts["quantile"] = FeatureFront("quantile").fit(X, dtype)
            views["quantile"] = self._fronts["quantile"].transform(X)
        return views

    def _choose(self, views, y, weights, trials, out_of_time):
        """The trial to trust, what its metric was learned with, and metrics to be used again."""
        n = len(y)
        if n >= _FLOAT32_SEARCH:
            views = {name: X.astype(np.float32, copy=False) for name, X in views.items()}
        random = check_random_state(self.random_state)
        options = {
            "kernels": KERNELS if self.kernels is None else tuple(self.kernels),
            "max_rounds": self.max_rounds if views["standard"].shape[1] > 1 else 0,
            "transforms": tuple(views),
            "out_of_time": out_of_time,
            "n_jobs": self.n_jobs,
        }
        splits = _splits(n, random, _FIRST_RUNG)
        tried = search(
            [self._held_out(views, y, weights, *split) for split in splits], trials, **options
        )
        if n * 5 // 6 > _FIRST_RUNG and not out_of_time():
            _, held_out = splits[0]
            others = np.setdiff1d(np.arange(n), held_out)
            on_host = getattr(self._resources(n)["backend"], "device", "cpu") == "cpu"
            most = _SECOND_RUNG if on_host else _DEVICE_RUNG
            more = random.choice(others, min(len(others), most), replace=False)
            rows = self._held_out(views, y, weights, more, held_out)
            tried = self._second_rung(tried, rows, trials, out_of_time)
        best, first = tried.best, tried.first
        thin = first.loss - best.loss < best.standard_error
        chosen = first if thin and n < _CROSS_VALIDATION_ROWS else best
        # Learned on a part of many rows, a metric needs no more; on folds, it is learned anew.
        return chosen, tried.scout, tried.splits[0].roots if len(tried.splits) == 1 else {}

    def _second_rung(self, tried: Search, split: HeldOut, trials, out_of_time) -> Search:
        """The winners on more rows, where a better metric and slower speeds may pay."""
        winners = [trial.candidate for trial in tried.ranked[:3]]
        again = Search([split], trials, out_of_time)
        again.scout = tried.scout
        learn = {candidate.n_rounds for candidate in winners}  # anew: their last round only
        known = tried.splits[0].roots
        split.roots.update({key: root for key, root in known.items() if key[1] not in learn})
        for candidate in winners:
            again.run(candidate)
        again.climb(lambda c: replace(c, n_rounds=c.n_rounds + 1), self._more_rounds(again))
        again.climb(lambda c: replace(c, min_speed=c.min_speed / 2), _MAX_HALVINGS)
        return again

    def _more_rounds(self, tried: Search) -> int:
        """How many rounds may follow those of the best trial."""
        n_rounds = tried.best.candidate.n_rounds
        return min(_MAX_FURTHER, self.max_rounds - n_rounds) if n_rounds else 0

    def _refit(self, chosen: Trial, scout: Candidate, roots, views, y, weights):
        """Fit the chosen configuration to all rows."""
        candidate = chosen.candidate
        everything = np.arange(len(y))
        rows = self._held_out(views, y, weights, everything, everything[:0])
        rows.roots.update(roots)
        self._front = self._fronts[candidate.transform]
        del self._fronts
        self.metric_ = rows.root(candidate.transform, candidate.n_rounds, scout)
        self._max_r2 = min(max(chosen.max_r2, 1e-3), MAX_R2)
        self.path_ = fit_candidate(
            scaled(views[candidate.transform], self.metric_),
            rows.y,
            candidate,
            max_r2=self._max_r2,
            weights=rows.weights,
            **self._resources(len(y)),
        )
        product = gradient_outer_product(self.path_, backend=rows.backend)
        squares = slopes(product, self.metric_) ** 2
        shares = np.bincount(self._front.sources, weights=squares, minlength=self.n_features_in_)
        total = np.sqrt(shares).sum()
        self.feature_importances_ = np.sqrt(shares) / total if total > 0 else shares

    def _held_out(self, views, y, weights, train, held_out) -> HeldOut:
        dtype = views["standard"].dtype
        return HeldOut(
            {name: (X[train], X[held_out]) for name, X in views.items()},
            y[train].astype(dtype),
            y[held_out].astype(dtype),
            None if weights is None else weights[train].astype(dtype),
            None if weights is None else weights[held_out].astype(dtype),
            **self._resources(len(y)),
        )

    def _resources(self, n_rows):
        """Where to compute on a model of so many rows, and in how much memory."""
        return {"backend": resolve_backend(self.device, self.memory_budget, n_rows)}

    def _fitted_state(self):
        """What makes a copy of the estimator predict, for callbacks."""
        kept = {*self.get_params(), "_skl_callbacks"}
        return {name: value for name, value in vars(self).items() if name not in kept}

    def _check_parameters(self):
        for kernel in self.kernels or ():
            get_kernel(kernel)
        check_number("max_rounds", self.max_rounds, low=0)
        check_number("max_seconds", self.max_seconds, low=0, low_open=True, allow_none=True)
        check_number("memory_budget", self.memory_budget, low=1)
        self._resources(0)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _splits(n, random, max_rows):
    """(train, held-out) row numbers: folds for few rows, one part for many."""
    if n >= _CROSS_VALIDATION_ROWS:
        order = random.permutation(n)
        n_held_out = min(n // 6, 5000)
        return [(order[n_held_out:][:max_rows], order[:n_held_out])]
    splits = []
    for _ in range(2 if n < _SMALL else 1):
        parts = np.array_split(random.permutation(n), min(_FOLDS, n // 2))
        splits += [
            (np.concatenate([p for j, p in enumerate(parts) if j != i]), part)
            for i, part in enumerate(parts)
        ]
    return splits


def _table_of(trials: list[Trial]) -> dict[str, np.ndarray]:
    names = ("loss", "standard_error", "score", "max_r2", "n_rows")
    columns = {name: np.array([getattr(trial, name) for trial in trials]) for name in names}
    parts = [asdict(trial.candidate) for trial in trials]
    keys = ("kernel", "min_speed", "n_rounds", "transform")
    return {**{key: np.array([part[key] for part in parts]) for key in keys}, **columns}


def _checked_frame(X):
    """A DataFrame whose numeric columns are finite or missing, on at least one row."""
    if len(X) == 0:
        raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
    numeric = X.select_dtypes("number")
    for name in numeric.columns:
        if np.isinf(np.asarray(numeric[name], dtype=float)).any():
            raise ValueError(f"X[{name!r}] holds infinite values")
    return X


def _checked_target(y, n_rows):
    y = np.asarray(y, dtype=float)
    if y.ndim not in (1, 2) or len(y) != n_rows:
        raise ValueError(f"y of shape {y.shape} does not fit X with {n_rows} rows")
    if not np.all(np.isfinite(y)):
        raise ValueError("y holds NaN or infinite values")
    return y


def _refuse_infinity(X):
    if np.isinf(X).any():
        raise ValueError("Input X contains infinity or a value too large.")
