"""The regressor that tunes itself."""

from __future__ import annotations

from dataclasses import asdict, fields
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bandfall.backends import Backend, resolve_backend
from bandfall.descent import Path
from bandfall.encoding import Table, TableEncoder, is_frame, prepare_table, read_table
from bandfall.estimators._base import KernelRegressor, prediction_dtype
from bandfall.estimators._callbacks import CallbackSupportMixin, Reports, with_callbacks
from bandfall.kernels import get_kernel
from bandfall.metric import gradient_outer_product, scaled, slopes
from bandfall.operators.base import group_rows
from bandfall.selection.candidates import KERNELS, Budget, Candidate, Trial
from bandfall.selection.deadline import Deadline
from bandfall.selection.members import Member, default_choice, fit_members
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned, tune
from bandfall.selection.views import Encoded, TargetEncoded

# "target" where there is a category that a mean target can stand for.
ENCODINGS = {
    "standard": {},
    "steps": {"numbers": "steps"},
    "quantile": {"numbers": "quantile"},
    "target": {"categories": "target"},
}
# From so many rows on everything is computed in float32.
_FLOAT32_ROWS = 500
_ROUNDING = 8.0 * np.finfo(np.float64).eps  # of the mean: a target that varies less is constant
_FEWEST = 4  # different rows to choose by


class BandfallRegressor(CallbackSupportMixin, KernelRegressor):
    """Kernel regression with nothing to tune.

    Trains with a falling bandwidth (`KernelDescentRegressor`) and chooses by held-out rows what
    the paper's rule leaves open: how columns are encoded, how much each direction counts (a
    metric learned from the gradients of the fit itself), the kernel, how fast the bandwidth
    falls and when to stop. The model is a weighted average of the few best. Everything tried is
    in `selection_`.

    Takes tables as they are: categories, dates, missing values; see the guide.

    Parameters
    ----------
    kernels : sequence of str, optional
        Kernels to choose from; by default "gaussian" and "matern12".
    max_rounds : int >= 0, default=10
        Most rounds of learning the metric; 0 counts all columns alike.
    n_members : int >= 1, default=4
        Most models to average; 1 for a single one.
    search_rows : int, default=5000
        Most rows that candidates are trained on; the chosen ones are trained on all.
    max_seconds : float > 0, optional
        Time for the whole fit: the search ends while there is time for the final fits. Where it
        does not suffice for all of them, `given_up_` says what was left out. The first trials
        and a final fit of 2,000 rows take as long as they take.
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
    members_ : list of Member
        The models that are averaged, heaviest first: candidate, root, path, weight.
    encoders_ : dict of str to TableEncoder
        How columns are encoded for the members.
    path_, metric_ : Path, ndarray
        Of the heaviest member: a path over its encoded, scaled columns, for the target in
        standard deviations.
    best_params_ : dict
        Encoding, n_rounds, kernel, min_speed and max_r2 of the heaviest member.
    best_score_ : float
        R² of the average on held-out rows.
    held_out_rows_, held_out_predictions_ : ndarray
        Row numbers of the evidence, and what models that had not seen them predicted, in the
        units of y.
    selection_ : dict of str to ndarray
        Everything tried, one entry a trial: encoding, n_rounds, kernel, min_speed; loss (mean
        of ``|error|^1.5`` in standard deviations, which decides), its standard_error, score
        (R²), max_r2, n_rows. ``pandas.DataFrame(selection_)`` makes a table.
    given_up_ : list of str
        What was left out to be in time (`max_seconds`) or because a callback ended the search:
        trials, members, rows. Empty otherwise.
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

    _parameter_constraints = {  # noqa: RUF012
        "kernels": ["array-like", None],
        "max_rounds": [Interval(Integral, 0, None, closed="left")],
        "n_members": [Interval(Integral, 1, None, closed="left")],
        "search_rows": [Interval(Integral, 10, None, closed="left")],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "random_state": ["random_state"],
        "memory_budget": [Interval(Integral, 1, None, closed="left")],
        "device": [str, None],
        "n_jobs": [Integral, None],
    }

    def __init__(
        self,
        *,
        kernels=None,
        max_rounds=10,
        n_members=4,
        search_rows=5000,
        max_seconds=None,
        random_state=0,
        memory_budget=2**30,
        device="auto",
        n_jobs=None,
    ):
        self.kernels = kernels
        self.max_rounds = max_rounds
        self.n_members = n_members
        self.search_rows = search_rows
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.device = device
        self.n_jobs = n_jobs

    @with_callbacks
    def fit(self, X, y, sample_weight=None):
        """Choose what to average and fit it to all rows.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
            May hold missing values; a frame may hold categories, text, dates and booleans.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            How much rows count, relative to each other.

        Returns
        -------
        self
        """
        self._validate_params()
        kernels = self._checked_kernels()
        deadline = Deadline(self.max_seconds)
        reports = Reports(self, X, y)
        table, y, weights = self._training_table(X, y, sample_weight)
        rows = self._rows(table, y, weights)
        tuned = default_choice(len(rows))
        if rows.groups.max() + 1 >= _FEWEST and np.any(rows.y):
            tuned = tune(
                rows,
                budget=self._budget,
                kernels=kernels,
                random=check_random_state(self.random_state),
                interrupted=lambda: reports.task("trial"),
                deadline=deadline,
                n_jobs=self.n_jobs,
            )
        self.members_, tuned = fit_members(rows, tuned, deadline)
        self.given_up_ = deadline.given_up
        used = {member.candidate.encoding for member in self.members_}
        self.encoders_ = {name: self.encoders_[name] for name in ENCODINGS if name in used}
        self._keep_evidence(tuned)
        self.feature_importances_ = self._importances(rows)
        reports.finish(self._fitted_state)
        return self

    @property
    def path_(self) -> Path:
        """Path of the heaviest member."""
        return self.members_[0].path

    @property
    def metric_(self) -> np.ndarray:
        """What the heaviest member multiplies encoded columns with."""
        return self.members_[0].root

    @property
    def best_params_(self) -> dict[str, Any]:
        """Configuration of the heaviest member."""
        best = self.members_[0]
        return {**asdict(best.candidate), "max_r2": best.max_r2}

    def predict(self, X):
        """Predict.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
        """
        columns = self._encoded(self._new_table(X))
        total = sum(
            member.weight * self._evaluate(member, columns).astype(np.float64)
            for member in self.members_
        )
        return self._in_units(total)

    def staged_predict(self, X):
        """Predictions along training, from simple to final.

        The member with the most stages sets the pace; the others keep step.
        """
        columns = self._encoded(self._new_table(X))
        staged = [
            member.path.evaluate_staged(
                scaled(columns[member.candidate.encoding], member.root),
                backend=self._backend(len(member.path.X)),
            )
            for member in self.members_
        ]
        n_stages = max(map(len, staged), default=0)
        for stage in range(1, n_stages + 1):
            total = sum(
                member.weight * stages[-(-stage * len(stages) // n_stages) - 1].astype(np.float64)
                for member, stages in zip(self.members_, staged, strict=True)
            )
            yield self._in_units(total)

    def gradient(self, X):
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

    def _training_table(self, X, y, sample_weight):
        """Validated rows: a Table, y (n, k) in float64, weights of mean one or None."""
        if is_frame(X):
            table = self._named(X, reset=True)
            y = _checked_target(y, len(table))
            self._dtype = np.dtype(np.float64)
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
            table, self._dtype = read_table(X), X.dtype
        self._y_ndim = np.ndim(y)
        y = np.asarray(y, dtype=np.float64).reshape(len(y), -1)
        self._prediction_dtype = prediction_dtype(y, self._dtype)
        if sample_weight is None:
            return table, y, None
        weights = _check_sample_weight(sample_weight, y, ensure_non_negative=True)
        used = np.flatnonzero(weights > 0)  # a row of weight zero is no row
        if not len(used):
            raise ValueError("sample_weight must be positive for at least one row")
        weights = weights[used] / weights[used].max()
        weights /= weights.mean()
        return table.take(used), y[used], None if np.ptp(weights) == 0 else weights

    def _new_table(self, X) -> Table:
        check_is_fitted(self)
        if is_frame(X):
            return self._named(X, reset=False)
        X = validate_data(
            self, X, reset=False, dtype=(np.float64, np.float32), ensure_all_finite="allow-nan"
        )
        return read_table(X)

    def _named(self, X, *, reset) -> Table:
        """The table of a frame; names are kept, and told where they differ."""
        table = read_table(X)
        if hasattr(X, "__dataframe__"):
            validate_data(self, X, reset=reset, skip_check_array=True)
        elif reset:
            self.n_features_in_ = table.width
            self.feature_names_in_ = np.asarray(table.names, dtype=object)
        return table

    def _rows(self, table: Table, y, weights) -> Rows:
        """What the search sees: encoded columns, and targets of zero mean and unit variance."""
        dtype = np.dtype(np.float32 if len(y) >= _FLOAT32_ROWS else np.float64)
        self._y_offset, self._y_scale = _standard_units(y, weights)
        with np.errstate(over="ignore"):
            units = (y - self._y_offset) / self._y_scale
        table = prepare_table(table)
        self.encoders_, views = {}, {}
        for name, settings in ENCODINGS.items():
            encoder = TableEncoder(**settings)
            Z = encoder.fit_transform(table, units, weights, dtype, warn=False)
            if encoder.uses_target:
                view = TargetEncoded(encoder, table, units, weights, Z)
            elif not any(np.array_equal(Z, other.Z) for other in views.values()):
                view = Encoded(Z)
            else:
                continue
            self.encoders_[name], views[name] = encoder, view
        groups, _ = group_rows(views["standard"].Z)
        return Rows(views, units, groups, weights, self._backend(len(y)))

    def _encoded(self, table: Table) -> dict[str, np.ndarray]:
        """Columns under the encoding of every member; what is odd is told once."""
        encoders = self.encoders_.items()
        return {
            name: encoder.transform(table, warn=number == 0)
            for number, (name, encoder) in enumerate(encoders)
        }

    def _model_rows(self, X) -> np.ndarray:
        """Rows of features as rows of `path_`."""
        encoder = self.encoders_[self.members_[0].candidate.encoding]
        return scaled(encoder.transform(self._new_table(X)), self.metric_)

    def _evaluate(self, member: Member, columns) -> np.ndarray:
        rows = scaled(columns[member.candidate.encoding], member.root)
        return member.path.evaluate(rows, backend=self._backend(len(member.path.X)))

    def _in_units(self, predictions: np.ndarray) -> np.ndarray:
        return self._shaped(predictions * self._y_scale + self._y_offset)

    def _keep_evidence(self, tuned: Tuned) -> None:
        self.held_out_rows_ = tuned.held_out
        self.held_out_predictions_ = self._in_units(tuned.predictions)
        self.best_score_ = tuned.score
        self.selection_ = _table_of(tuned.trials)

    def _importances(self, rows: Rows) -> np.ndarray:
        shares = np.zeros(self.n_features_in_)
        for member in self.members_:
            encoding = member.candidate.encoding
            product = gradient_outer_product(member.path, backend=rows.backend)
            Z, _ = rows.views[encoding].columns(np.arange(len(rows)), np.arange(0))
            squares = slopes(product, member.root) ** 2 * Z.var(axis=0, dtype=np.float64)
            shares += member.weight * np.bincount(
                self.encoders_[encoding].sources, weights=squares, minlength=self.n_features_in_
            )
        sizes = np.sqrt(shares)
        return sizes / sizes.sum() if sizes.sum() > 0 else sizes

    @property
    def _budget(self) -> Budget:
        budget = Budget()
        return Budget(
            first_rows=min(budget.first_rows, self.search_rows),
            second_rows=self.search_rows,
            max_rounds=self.max_rounds,
            n_members=self.n_members,
        )

    def _backend(self, n_rows: int) -> Backend:
        """Where to compute on a model of so many rows, and in how much memory."""
        return resolve_backend(self.device, self.memory_budget, n_rows)

    def _fitted_state(self):
        """What makes a copy of the estimator predict, for callbacks."""
        kept = {*self.get_params(), "_skl_callbacks"}
        return {name: value for name, value in vars(self).items() if name not in kept}

    def _checked_kernels(self) -> tuple[str, ...]:
        if self.kernels is None:
            return KERNELS
        if isinstance(self.kernels, str):
            raise ValueError(f"kernels={self.kernels!r} must be a sequence: ({self.kernels!r},)")
        kernels = tuple(dict.fromkeys(get_kernel(kernel).name for kernel in self.kernels))
        if not kernels:
            raise ValueError("kernels=() leaves nothing to choose from; None takes the default")
        return kernels

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


def _standard_units(y, weights) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every target, 1 for constant ones, safe for huge values."""
    largest = np.abs(y).max(axis=0)
    unit = np.where(largest > 0, largest, 1.0)
    shares = y / unit
    mean = np.average(shares, axis=0, weights=weights)
    deviation = np.sqrt(np.average((shares - mean) ** 2, axis=0, weights=weights))
    constant = deviation <= _ROUNDING * np.abs(mean)
    return mean * unit, np.where(constant, 1.0, deviation) * np.where(constant, 1.0, unit)


def _checked_target(y, n_rows) -> np.ndarray:
    y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        try:
            y = y.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError("y must hold numbers only") from None
    y = y.astype(np.float64, copy=False)
    if y.ndim not in (1, 2) or len(y) != n_rows:
        raise ValueError(f"y of shape {y.shape} does not fit X with {n_rows} rows")
    if not np.all(np.isfinite(y)):
        raise ValueError("Input y contains NaN or infinite values")
    return y


def _table_of(trials: list[Trial]) -> dict[str, np.ndarray]:
    """One entry a trial, by columns."""
    keys = [field.name for field in fields(Candidate)]
    names = [field.name for field in fields(Trial) if field.name != "candidate"]
    return {
        **{key: np.array([getattr(trial.candidate, key) for trial in trials]) for key in keys},
        **{name: np.array([getattr(trial, name) for trial in trials]) for name in names},
    }
