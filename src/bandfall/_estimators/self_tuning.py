"""The base of the self-tuning estimators: parameters, `fit`, and what a fitted average can do."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from html import escape
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

import numpy as np
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from bandfall._checks import ShapeChecker, check_positions
from bandfall._estimators.base import Count, Jobs, Seed, Storable, count, estimator, number
from bandfall._estimators.input import new_table
from bandfall._estimators.progress import CallbackSupportMixin, with_callbacks
from bandfall._estimators.view import Story, text_of
from bandfall._models.average import Average
from bandfall._models.member import Member
from bandfall._products import Backend, resolve_backend
from bandfall._targets import Target
from bandfall._typing import ArrayLike, JsonDict, State
from bandfall.descent import Path
from bandfall.kernels._kernel import Kernel, KernelLike
from bandfall.tables import TableEncoder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from bandfall._search.averaging import Tuned
    from bandfall._search.clock import Clock
    from bandfall._search.rows import Rows
    from bandfall._search.settings import Settings


@estimator
class SelfTuning(CallbackSupportMixin, Storable):
    """Fits an average of paths that held-out rows choose; subclasses define the target."""

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
    device: Annotated[str | None, str, None] = "auto"
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

    @with_callbacks
    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        *,
        time: str | ArrayLike | None = None,
        checkpoint: str | PathLike[str] | None = None,
    ) -> Self:
        """Search for the best models and fit them to all rows.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
            May hold missing values; a frame may hold categories, text, dates and booleans.
        y : array-like of shape (n_samples,); for regression also (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts, relative to the others. A row that outweighs all others
            counts as a tenth of the held-out evidence, and in training 100 times that.
        groups : array-like of shape (n_samples,), optional
            The group (a patient, a site) of each row. Rows of a group are held out together, so
            that models are judged, and intervals are calibrated, on groups that they have not
            seen. Without groups, rows are held out one by one, even if they are equal.
        time : str or array-like of shape (n_samples,), optional
            When each row was observed: a column of X, or numbers or dates. The latest rows are
            held out, so that scores and intervals are those of later rows. A column of X remains a
            feature. Not with `groups`.
        checkpoint : path, optional
            A folder for trained leaves, for tables with more than `leaf_rows` rows. If a fit was
            interrupted, running it again repeats the search, but trains no leaf twice.

        Returns
        -------
        self
        """
        self._validate_params()
        from bandfall._estimators.training import train  # predictions need no search

        train(self, X, y, sample_weight, groups, time, checkpoint)
        return self

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        """Keep predictions for the held-out rows by models that had not seen them."""
        raise NotImplementedError

    @property
    def _settings(self) -> Settings:
        """The settings of the search and of the final fits."""
        from bandfall._search.settings import Settings

        settings = Settings(max_rounds=self.max_rounds, n_members=self.n_members)
        return settings.up_to(self.search_rows)

    @property
    def _clock(self) -> Clock:
        """The clock of a fit."""
        from bandfall._search.clock import Clock

        return Clock(self.max_seconds and max(self.max_seconds, self._shortest))

    def _fitted_state(self) -> State:
        """Fitted attributes, with which callbacks make a copy that predicts."""
        kept = {*self.get_params(), "_skl_callbacks"}
        return {name: value for name, value in vars(self).items() if name not in kept}

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

        The metric is that of the heaviest member with plain ("standard") columns, or of the
        heaviest member if none has plain columns. Other encodings clip values to the range of
        the training rows.
        """
        columns = self._columns(X)
        return self.average_.novelty(columns, backend=self._backend)

    def summary(self) -> str:
        """The fitted model in plain words, as ``print(model)`` shows it.

        They are the score on held-out rows, half the typical width of the 90 % band (for numbers),
        and the members of the average with their weights.
        """
        check_is_fitted(self)
        return f"{self!r}\n{text_of(self._story(), self.best_score_)}"

    def plot(self) -> Figure:
        """Draw one figure: held-out predictions, importances, and the heaviest member's path.

        Targets are drawn over their predictions, with the 90 % band; for classes, the figure
        shows how probable the predicted classes are. Needs matplotlib, and returns its figure.
        """
        check_is_fitted(self)
        figure: Figure = import_module("bandfall.plotting._summary").draw_summary(self)
        return figure

    def __str__(self) -> str:
        return self.summary() if self._described else repr(self)

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._summary_html

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._summary_html
        return bundle

    @property
    def _described(self) -> bool:
        """Whether `fit` has come to its end."""
        return "feature_importances_" in vars(self)

    @property
    def _summary_html(self) -> str:
        text = text_of(self._story(), self.best_score_) if self._described else ""
        return f"<pre>{escape(text)}</pre>" if text else ""

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

    def _answers(self, X: ArrayLike) -> np.ndarray:
        """Predictions or probabilities at new rows."""
        outputs = self._outputs(X)
        return self.average_.target.answer(outputs)

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
        shapes = ShapeChecker(d=self.n_features_in_)
        shapes("feature_importances_", self.feature_importances_, "d", allowed="any")
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
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
