"""The regressor that tunes itself, and what it shares with the classifier."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bandfall._checks import ShapeChecker, check_instance, check_positions, check_sizes, warn_caller
from bandfall._estimators.base import (
    Count,
    Device,
    Jobs,
    NumbersRegressor,
    Seed,
    Storable,
    count,
    estimator,
    number,
)
from bandfall._estimators.input import new_table
from bandfall._estimators.view import Story, text_of
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Member
from bandfall._products import Backend, resolve_backend
from bandfall._targets import Numbers, Target
from bandfall._typing import ArrayLike, JsonDict
from bandfall.descent import Path
from bandfall.kernels._kernel import Kernel, KernelLike
from bandfall.tables import TableEncoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bandfall._search.averaging import Tuned
    from bandfall._search.clock import Clock
    from bandfall._search.parts import Rows
    from bandfall._search.settings import Settings


@estimator
class SelfTuning(Storable):
    """Fits an average of paths that held-out rows choose; `target_kind` says what is predicted."""

    target_kind: ClassVar[type[Target]]
    _shortest: ClassVar[float] = 0.5  # seconds

    kernels: Annotated[
        str | Kernel | Sequence[KernelLike] | None, "array-like", str, Kernel, None
    ] = None
    max_rounds: Annotated[int, count(0)] = 10
    n_members: Count = 4
    search_rows: Annotated[int, count(10)] = 10_000
    leaf_rows: Annotated[int, count(10)] = 10_000
    max_seconds: Annotated[float | None, number(0, closed="neither"), None] = None
    missing: Annotated[str | Sequence[str] | None, str, "array-like", None] = None
    random_state: Seed = 0
    memory_budget: Count = 2**30
    device: Device = "auto"
    n_jobs: Jobs = None
    verbose: Annotated[int | bool, "verbose"] = 0

    average_: Average[Target] = field(init=False)
    best_score_: float = field(init=False)
    held_out_rows_: np.ndarray = field(init=False)
    selection_: dict[str, np.ndarray] = field(init=False)
    skipped_: list[str] = field(init=False)
    leaks_: dict[str, str] = field(init=False)
    feature_importances_: np.ndarray = field(init=False)  # `fit` sets it last
    _dtype: np.dtype = field(init=False)  # of the features
    # Indices of the rows that were used; None for all.
    _used_rows: np.ndarray | None = field(init=False, default=None)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        time: str | ArrayLike | None = None,
    ) -> Self:
        """Search for the best models and fit them to all rows.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
            May hold missing values; frames may hold categories, text, dates and booleans.
        y : array-like of shape (n_samples,); for regression also (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts, relative to the others. A row that outweighs all others
            counts as a tenth of the held-out evidence, and in training 100 times that.
        groups : array-like of shape (n_samples,), optional
            The group (a patient, a site) of each row. Rows of a group are held out together, so
            that models are judged, and intervals calibrated, on groups that they have not seen.
            Without groups, rows are held out one by one, even if they are equal.
        time : str or array-like of shape (n_samples,), optional
            When each row was observed: a column of X, or numbers or dates. The latest rows are
            held out, so that scores and intervals are those of later rows. A column of X remains a
            feature. Not with `groups`.
        """
        self._validate_params()
        from bandfall._estimators.training import train  # predictions need no search

        train(self, X, y, sample_weight, groups, time)
        return self

    @property
    def given_up_(self) -> list[str]:
        """The old name of `skipped_`, for one version."""
        skipped = self.skipped_
        warn_caller("given_up_ is now skipped_", DeprecationWarning)
        return skipped

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        """Keep predictions for the held-out rows by models that had not seen them."""
        raise NotImplementedError

    @property
    def _settings(self) -> Settings:
        """The settings of the search and of the final fits."""
        from bandfall._search.settings import Settings

        return Settings(max_rounds=self.max_rounds, n_members=self.n_members).up_to(
            self.search_rows
        )

    @property
    def _clock(self) -> Clock:
        """The clock of a fit."""
        from bandfall._search.clock import Clock

        return Clock(self.max_seconds and max(self.max_seconds, self._shortest))

    @property
    def members_(self) -> list[Member]:
        """The models that are averaged, heaviest first."""
        return list(self.average_.members)

    @members_.setter
    def members_(self, members: Sequence[Member]) -> None:
        self.average_ = replace(self.average_, members=tuple(members))

    @property
    def encoders_(self) -> dict[str, TableEncoder]:
        """How columns are encoded for the members, by name."""
        return dict(self.average_.encoders)

    @property
    def path_(self) -> Path:
        """Path of the heaviest member."""
        return self.average_.heaviest.path

    @property
    def metric_(self) -> np.ndarray:
        """Root of the heaviest member's metric, which multiplies encoded columns."""
        return self.average_.heaviest.root

    @property
    def best_params_(self) -> JsonDict:
        """Configuration of the heaviest member."""
        best = self.average_.heaviest
        return {**best.candidate.summary(), "max_r2": best.max_r2}

    def novelty(self, X: ArrayLike) -> np.ndarray:
        """How far rows are from the training rows, in a metric that the model has learned.

        This is the distance to the nearest training row, shape (n_samples,), scaled so that 99 % of
        rows like the training rows are below 1. Predictions for rows well above 1 are guesses: they
        approach the mean, or stay as at the edge of the data if columns are steps or quantiles.
        """
        columns = self._columns(X)
        return self.average_.novelty(columns, backend=self._backend)

    def summary(self) -> str:
        """The fitted model in plain words: score, 90 % band, members; ``print(model)`` shows it."""
        check_is_fitted(self)
        return f"{self!r}\n{text_of(self._story(), self.best_score_)}"

    def __str__(self) -> str:
        return self.summary() if "feature_importances_" in vars(self) else repr(self)

    def plot(self) -> Figure:
        """Draw held-out predictions, importances and the path of the heaviest member."""
        check_is_fitted(self)
        figure: Figure = import_module("bandfall.plotting._summary").draw_summary(self)
        return figure

    def _story(self) -> Story:
        """See `story_of`."""
        return Story(
            average=self.average_,
            target=self.average_.target,
            dtype=self._dtype,
            path=self.path_,
            selection=self.selection_,
            skipped=self.skipped_,
            leaks=self.leaks_,
            held_out_rows=self.held_out_rows_,
        )

    def _compressed(self, tolerance: float) -> Self:
        """A copy whose members have as few bandwidths as `tolerance` allows."""
        light = copy.copy(self)
        light.average_ = self.average_.with_paths(lambda path: path.compress(tolerance))
        return light

    @property
    def _backend(self) -> Backend:
        return resolve_backend(self.device, self.memory_budget, len(self.average_))

    def _columns(self, X: ArrayLike) -> dict[str, np.ndarray]:
        """New rows under the encoding of every member."""
        table = new_table(self, X)  # raises NotFittedError; `average_` would raise AttributeError
        return self.average_.encode(table)

    def _outputs(self, X: ArrayLike) -> np.ndarray:
        """Outputs of the average at new rows, shape (m, k)."""
        columns = self._columns(X)
        return self.average_.evaluate(columns, backend=self._backend)

    def _staged_answers(self, X: ArrayLike) -> Iterator[np.ndarray]:
        """Answers after every stage of training."""
        columns = self._columns(X)
        staged = self.average_.staged(columns, backend=self._backend)
        return map(self.average_.target.answer, staged)

    def _model_rows(self, X: ArrayLike) -> np.ndarray:
        """New rows in the coordinates of `path_`, for theory and displays."""
        return self.average_.rows_of(self.average_.heaviest, self._columns(X))

    def _numbers_given(self, rows: np.ndarray) -> np.ndarray:
        """Convert indices of used rows to indices of the rows given to `fit`."""
        return rows if self._used_rows is None else self._used_rows[rows]

    def _check_loaded(self) -> None:
        """Raise unless fitted attributes from a file fit together."""
        average = self.average_
        if average.schema.width != self.n_features_in_:
            raise ValueError("an encoder does not fit n_features_in_")
        names, known = getattr(self, "feature_names_in_", None), average.schema.names
        if names is not None and known is not None and known != names.tolist():
            raise ValueError("an encoder does not fit feature_names_in_")
        self._check_rows(average.n_rows)
        check_shapes = ShapeChecker(d=self.n_features_in_)
        check_shapes("feature_importances_", self.feature_importances_, "d", allowed="any")
        for name, column in self.selection_.items():
            if column.ndim != 1:
                raise ValueError(f"selection_[{name!r}] must be a column")
        if len({len(column) for column in self.selection_.values()}) > 1:
            raise ValueError("the columns of selection_ differ in length")

    def _check_rows(self, n_rows: int) -> None:
        rows, used = self.held_out_rows_, self._used_rows
        check_positions("held_out_rows_", rows)
        if used is not None and (
            used.dtype.kind != "i" or used.shape != (n_rows,) or np.any(np.diff(used) <= 0)
        ):
            raise ValueError("_used_rows must hold the indices of the used rows, in order")
        known = (rows >= 0) & (rows < n_rows) if used is None else np.isin(rows, used)
        if not np.all(known):
            raise ValueError("held_out_rows_ points outside the training rows")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "average_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.allow_nan = inputs.categorical = inputs.string = True
        tags.target_tags.multi_output = self.target_kind is Numbers
        return tags


class BandfallRegressor(NumbersRegressor, SelfTuning):
    """Kernel regression with nothing to tune.

    Trains with a falling bandwidth, as `KernelDescentRegressor` does, and uses held-out rows to
    choose everything else: how columns are encoded, how much each direction counts (a metric), the
    kernel, how fast the bandwidth falls and when to stop. The model is a weighted average of the
    best candidates. Accepts raw tables with categories, dates and missing values; see the guide.

    Parameters
    ----------
    kernels : str or sequence of str, optional
        Kernels to try under every encoding. By default each encoding has its own: the Gaussian,
        exp(−u^1.4), and Laplace kernels in the 1-norm and 1.25-norm.
    max_rounds : int >= 0, default=10
        Maximum number of rounds of learning the metric; with 0 all columns count alike.
    n_members : int >= 1, default=4
        Maximum number of models to average.
    search_rows : int, default=10000
        Maximum number of rows that candidates are trained on. The chosen ones are trained on all.
    leaf_rows : int, default=10000
        Maximum number of rows to train on at a time. A larger table is divided into leaves, each
        with its own model and metric, and neighbouring leaves are blended.
    max_seconds : float > 0, optional
        Time limit for the whole fit, at least half a second. A fit may exceed it by about a second
        or a fifth, whichever is longer. Time in which other programs use the processor does not
        count, up to half of the limit, and work that has begun is completed. Rows, encodings,
        trials or members that do not fit are left out; `skipped_` lists them.
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
    members_, encoders_ : list of Member, dict of str to TableEncoder
        The models that are averaged, heaviest first, and how columns are encoded for them.
    path_, metric_ : Path, ndarray
        Path of the heaviest member, over its encoded, scaled columns and for the target in standard
        deviations, and root of its metric.
    best_params_ : dict
        Encoding, n_rounds, kernel, min_speed and max_r2 of the heaviest member.
    best_score_ : float
        R² of the average on held-out rows.
    held_out_rows_, held_out_predictions_, held_out_residuals_ : ndarray
        Row numbers of the held-out rows in X (a row may occur twice), predictions for them by
        models that had not seen them, and y minus these predictions, in the units of y.
    interval_ : dict
        How `predict_interval` works: method ("constant", or what the size of errors depends on),
        bandwidth (of the smoother of sizes), gain over constant widths, n_rows (held out).
    selection_ : dict of str to ndarray
        Everything tried, one entry per trial, as in ``pandas.DataFrame(selection_)``. The loss,
        the mean of ``|error|^1.5`` in standard deviations, decides; `max_r2` is the stop.
    skipped_ : list of str
        Trials, members or rows that were left out because of `max_seconds` or Ctrl-C.
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
        outputs = self._outputs(X)
        return self.average_.target.answer(outputs)

    def predict_interval(self, X: ArrayLike, coverage: ArrayLike = 0.9) -> np.ndarray:
        """Intervals that contain the target of a new row with a promised probability.

        This is conformal prediction from the errors on held-out rows (see `interval_`). The promise
        holds on average over new rows from the same source as the training rows.

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
        ends = self._intervals.quantiles(self.average_, columns, offsets, backend=self._backend)
        return ends[..., 0] if np.ndim(levels) == 0 else ends

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
        columns, target = self.average_.encode(table), self.average_.target
        gradient = target.scale * self.average_.gradient(table, columns, backend=self._backend)
        return gradient[..., 0] if target.ndim == 1 else gradient

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
        evidence = rows.y, rows.evidence, rows.groups, rows.backend
        self._intervals = Intervals.learned(
            self.average_, tuned.held_out, tuned.predictions, *evidence
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
