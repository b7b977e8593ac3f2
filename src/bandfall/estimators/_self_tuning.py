"""What the estimators that tune themselves share: tables in, a search, an average of paths out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from bandfall.backends import Backend, resolve_backend
from bandfall.descent import Path
from bandfall.encoding import Table, TableEncoder, encode_all, prepare_table
from bandfall.estimators._arrays import InKindMixin
from bandfall.estimators._base import SaveMixin
from bandfall.estimators._callbacks import CallbackSupportMixin, Reports, with_callbacks
from bandfall.estimators._constraints import COUNT, JOBS, RANDOM, chosen_kernels, count, number
from bandfall.estimators._groups import warn_of_copies
from bandfall.estimators._html import MembersHTMLMixin
from bandfall.estimators._progress import Progress
from bandfall.estimators._reading import Story
from bandfall.estimators._tables import TableInputMixin
from bandfall.estimators._views import ENCODINGS, affordable_rows, encoded_views
from bandfall.interrupts import Interrupt
from bandfall.kernels import Kernel
from bandfall.metric import scaled, slopes
from bandfall.novelty import nearest_distances, novelty_scale
from bandfall.operators.rows import blas_threads_for
from bandfall.selection.candidates import Budget, Judge, trial_table
from bandfall.selection.deadline import AFTERWARDS, Deadline
from bandfall.selection.members import Member, default_choice, expected_seconds, fit_members
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned, tune
from bandfall.selection.weights import evidence_weights
from bandfall.selection.work import SUMMARY

# From so many rows on everything is computed in float32.
_FLOAT32_ROWS = 500
_FEWEST = 4  # rows to choose by
_SHORTEST = 0.5  # seconds: in less there is no model worth having


class SelfTuning(
    MembersHTMLMixin, CallbackSupportMixin, SaveMixin, TableInputMixin, InKindMixin, BaseEstimator
):
    """Fits a weighted average of paths that are chosen by held-out rows.

    Subclasses define the target: they read it (`_read_target`), turn it into columns of zero mean
    (`_codes`), may bring a judge, strata and a search, and keep the evidence (`_keep_evidence`).
    """

    members_: list[Member]
    encoders_: dict[str, TableEncoder]
    held_out_rows_: np.ndarray
    _n_rows: int
    _tune = staticmethod(tune)
    _measure = "R²"  # metric shown in progress messages

    _parameter_constraints = {  # noqa: RUF012
        "kernels": ["array-like", str, Kernel, None],
        "max_rounds": [count(0)],
        "n_members": COUNT,
        "search_rows": [count(10)],
        "leaf_rows": [count(10)],
        "max_seconds": [number(0, closed="neither"), None],
        "missing": [str, "array-like", None],
        "random_state": RANDOM,
        "memory_budget": COUNT,
        "device": [str, None],
        "n_jobs": JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        *,
        kernels: Any = None,
        max_rounds: int = 10,
        n_members: int = 4,
        search_rows: int = 15000,
        leaf_rows: int = 10_000,
        max_seconds: float | None = None,
        missing: Any = None,
        random_state: Any = 0,
        memory_budget: int = 2**30,
        device: str | None = "auto",
        n_jobs: int | None = None,
        verbose: Any = 0,
    ) -> None:
        self.kernels = kernels
        self.max_rounds = max_rounds
        self.n_members = n_members
        self.search_rows = search_rows
        self.leaf_rows = leaf_rows
        self.max_seconds = max_seconds
        self.missing = missing
        self.random_state = random_state
        self.memory_budget = memory_budget
        self.device = device
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Choose what to average and fit it to all rows.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)
            May hold missing values; a frame may hold categories, text, dates and booleans.
        y : array-like of shape (n_samples,); for regression also (n_samples, n_outputs)
        sample_weight : array-like of shape (n_samples,), optional
            How much each row counts, relative to the others. A row that outweighs all others
            counts as a tenth of the held-out evidence, and in training 100 times that.
        groups : array-like of shape (n_samples,), optional
            The group (a patient, a site) that each row belongs to. Rows of a group are held out
            together, so that models are judged, and intervals are measured, on groups that they
            have not seen. Without groups, rows are held out one by one, equal ones too.

        Returns
        -------
        self
        """
        self._validate_params()
        kernels = chosen_kernels(self.kernels)
        deadline = Deadline(self.max_seconds and max(self.max_seconds, _SHORTEST))
        reports = Reports(self, X, y)
        progress = Progress(reports, self.verbose, self._measure, deadline)
        table, y, weights, groups = self._training_table(X, y, sample_weight, groups)
        # Throughout: idle BLAS threads busy-wait.
        with blas_threads_for(len(y)), Interrupt(deadline.end), progress:
            some = affordable_rows(table, deadline)
            if some is not None:
                table, y, weights, groups = self._only(some, table, y, weights, groups)
            rows = self._rows(table, y, weights, groups, deadline)
            fewest = _FEWEST if groups is None else 2
            self._choose_and_fit(rows, kernels, fewest, deadline, progress)
        progress.ended(self.given_up_)
        reports.finish(self._fitted_state)
        return self

    def _choose_and_fit(
        self,
        rows: Rows,
        kernels: tuple[Kernel, ...] | None,
        fewest: int,
        deadline: Deadline,
        progress: Progress,
    ) -> None:
        """Search if there are at least `fewest` groups, and fit what was chosen to all rows."""
        tuned = default_choice(len(rows))
        if rows.groups.max() + 1 >= fewest and np.any(rows.y):
            seconds = partial(expected_seconds, rows, self._budget.n_members)
            progress.begins(len(rows), seconds, deadline.bounded)
            tuned = self._tune(
                rows,
                budget=self._budget,
                judge=self._judge(),
                kernels=kernels,
                random=check_random_state(self.random_state),
                interrupted=progress.tried,
                deadline=deadline,
                n_jobs=self.n_jobs,
            )
        progress.chosen(tuned, len(rows))
        self.members_, tuned = fit_members(rows, tuned, deadline, progress.interrupted)
        self.given_up_ = deadline.given_up
        with deadline.work.task(SUMMARY, AFTERWARDS * len(rows) ** 2):
            self._summarise(rows, tuned, deadline)

    def _summarise(self, rows: Rows, tuned: Tuned, deadline: Deadline) -> None:
        """Keep what was found beside the members."""
        used = {member.candidate.encoding for member in self.members_}
        self.encoders_ = {name: self.encoders_[name] for name in ENCODINGS if name in used}
        self._n_rows = len(rows)
        self.held_out_rows_ = self._numbers_given(tuned.held_out)
        self.selection_ = trial_table(tuned.trials)
        self._keep_evidence(rows, tuned)
        self.feature_importances_ = self._importances(rows, partial(getattr, deadline, "over"))

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
        return {**best.candidate.summary(), "max_r2": best.max_r2}

    def _story(self) -> Story:
        """See `story_of`."""
        return Story(
            path=self.path_,
            members=self.members_,
            selection=self.selection_,
            given_up=getattr(self, "given_up_", ()),  # files of old have none
            encoders=self.encoders_,
            held_out_rows=self.held_out_rows_,
        )

    def _compressed(self, tolerance: float) -> Self:
        """A copy whose members have as few bandwidths as `tolerance` allows."""
        light = copy.copy(self)
        light.members_ = [
            replace(member, path=member.path.compress(tolerance)) for member in self.members_
        ]
        return light

    def novelty(self, X: Any) -> np.ndarray:
        """How far rows are from the training rows, in a metric that the model has learned.

        The metric is that of the heaviest member with plain ("standard") columns, or of the
        heaviest of all if there is none. Other encodings treat values beyond the range seen in
        training like the nearest one inside it.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
            Distance to the nearest training row; 1 is what 99 % of rows like those in training stay
            within. Predictions of rows well above 1 revert to the mean.
        """
        return self._novelty(self._encoded(self._new_table(X)))

    def _rows(self, table: Table, y: Any, weights: Any, groups: Any, deadline: Deadline) -> Rows:
        """What the search sees: encoded columns, and columns of the target of zero mean."""
        dtype = np.dtype(np.float32 if len(y) >= _FLOAT32_ROWS else np.float64)
        evidence = None if weights is None else evidence_weights(weights)
        codes, table = self._codes(y, evidence), prepare_table(table, missing=self.missing)
        self.encoders_, views = encoded_views(table, codes, evidence, dtype, deadline)
        if groups is None:
            # New rows repeat old ones as often as old ones repeat each other.
            groups = np.arange(len(y))
            warn_of_copies(views["standard"].Z, codes)
        backend, strata = self._backend(len(y)), self._strata(y)
        return Rows(views, codes, groups, weights, backend, strata, self.leaf_rows)

    def _judge(self) -> Judge | None:
        """What candidates are judged by; None for the search's own."""
        return None

    def _strata(self, y: Any) -> np.ndarray | None:
        """Classes that held-out rows are to hold in equal shares; None where there are none."""
        return None

    def _encoded(self, table: Table) -> dict[str, np.ndarray]:
        """Columns under the encoding of every member."""
        return encode_all(self.encoders_, table)

    def _model_rows(self, X: Any) -> np.ndarray:
        """Rows of features as rows of `path_`."""
        encoder = self.encoders_[self.members_[0].candidate.encoding]
        return scaled(encoder.transform(self._new_table(X)), self.metric_)

    def _coordinates(self, columns: Any) -> np.ndarray:
        """Encoded columns as rows of `path_`."""
        return scaled(columns[self.members_[0].candidate.encoding], self.metric_)

    def _average(self, columns: Any) -> np.ndarray:
        """Of all members, in the columns that they were trained on, shape (m, k)."""
        outputs = [
            member.weight * self._evaluate(member, columns).astype(np.float64)
            for member in self.members_
        ]
        return np.sum(outputs, axis=0)

    def _staged(self, X: Any) -> Iterator[Any]:
        """The same after every stage; the member with the most stages sets the pace."""
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
            yield sum(
                member.weight * stages[-(-stage * len(stages) // n_stages) - 1].astype(np.float64)
                for member, stages in zip(self.members_, staged, strict=True)
            )

    def _evaluate(self, member: Member, columns: Any) -> np.ndarray:
        rows = scaled(columns[member.candidate.encoding], member.root)
        return member.path.evaluate(rows, backend=self._backend(len(member.path.X)))

    def _importances(self, rows: Rows, ended: Callable[[], bool]) -> np.ndarray:
        shares = np.zeros(self.n_features_in_)
        for member in self.members_:
            encoding = member.candidate.encoding
            path = member.path
            steepness = slopes(
                path.model, path.scale, member.root, backend=rows.backend, ended=ended
            )
            view = rows.views[encoding]
            Z, _ = view.columns(np.arange(len(rows)), np.arange(0))
            variances = Z.var(axis=0, dtype=np.float64)[view.places]
            squares = steepness**2 * variances
            shares += member.weight * np.bincount(
                self.encoders_[encoding].sources, weights=squares, minlength=self.n_features_in_
            )
        sizes = np.sqrt(shares)
        return sizes / sizes.sum() if sizes.sum() > 0 else sizes

    def _held_out_novelty(self) -> np.ndarray:
        """Measure the unit of novelty; the novelty of held-out rows among all others."""
        X, rows = self._plainest.path.X, self._held_out
        geometry = self._plainest.path.kernel.geometry
        backend = self._backend(len(X))
        self._novelty_scale = novelty_scale(X, geometry=geometry, backend=backend)
        if len(X) < 2 or not self._all_rows:
            return np.zeros(len(rows))
        nearest = nearest_distances(X[rows], X, own=rows, geometry=geometry, backend=backend)
        return nearest / self._novelty_scale

    def _novelty(self, columns: Any, enough: float | None = None) -> np.ndarray:
        """Of rows; where it is at most `enough`, anything up to that may come out."""
        member, scale = self._plainest, self._novelty_scale
        rows = scaled(columns[member.candidate.encoding], member.root)
        nearest = nearest_distances(
            rows,
            member.path.X,
            enough=None if enough is None else enough * scale,
            geometry=member.path.kernel.geometry,
            backend=self._backend(len(member.path.X)),
        )
        return nearest / scale

    def _numbers_given(self, rows: np.ndarray) -> np.ndarray:
        """Numbers among the rows given to `fit`, of some of those that count."""
        return rows if self._used_rows is None else self._used_rows[rows]

    @property
    def _held_out(self) -> np.ndarray:
        """Numbers of the held-out rows among those that count."""
        if self._used_rows is None:
            return self.held_out_rows_
        return np.searchsorted(self._used_rows, self.held_out_rows_)

    @property
    def _all_rows(self) -> bool:
        """Whether members rest on all training rows, not on those alone that there was time for."""
        return not len(self.held_out_rows_) or self._n_rows == len(self.path_.X)

    @property
    def _plainest(self) -> Member:
        """The heaviest member that can tell how far out a value is."""
        plain = [one for one in self.members_ if one.candidate.encoding == "standard"]
        return (plain or self.members_)[0]

    @property
    def _budget(self) -> Budget:
        budget = Budget(max_rounds=self.max_rounds, n_members=self.n_members)
        return budget.up_to(self.search_rows)

    def _backend(self, n_rows: int) -> Backend:
        """Where to compute on a model of so many rows, and in how much memory."""
        return resolve_backend(self.device, self.memory_budget, n_rows)

    def _fitted_state(self) -> Any:
        """What makes a copy of the estimator predict, for callbacks."""
        kept = {*self.get_params(), "_skl_callbacks"}
        return {name: value for name, value in vars(self).items() if name not in kept}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags
