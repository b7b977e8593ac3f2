"""The classifier that tunes itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from bandfall.estimators._arrays import as_numpy
from bandfall.estimators._reading import Story
from bandfall.estimators._self_tuning import SelfTuning
from bandfall.selection.class_loss import tune_classes
from bandfall.selection.classes import Link, LogLoss, all_columns, class_codes, class_shares
from bandfall.selection.parts import Rows
from bandfall.selection.tuning import Tuned


class BandfallClassifier(SelfTuning, ClassifierMixin, BaseEstimator):
    """Kernel classification with nothing to tune.

    Uses the search of `BandfallRegressor`, judged by log-loss. Paths with a falling bandwidth train
    on one column for every class, whose zero is the class's share of the training rows. Far from
    all data these shares are the prediction. The outputs become probabilities by clipping or by a
    softmax with a temperature, whichever suits the held-out rows better.

    Takes tables as they are, with categories, dates and missing values; see the guide.

    Parameters
    ----------
    kernels, max_rounds, n_members, search_rows, leaf_rows, max_seconds, missing, random_state, \
memory_budget, device, n_jobs, verbose
        As in `BandfallRegressor`.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of a class count, times `sample_weight`; with "balanced" all classes
        count alike. The probabilities are then those under these weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    prior_ : ndarray of shape (n_classes,)
        Weighted shares of the classes in the training rows, predicted far from them.
    members_, encoders_, path_, metric_, best_params_, feature_importances_
        As in `BandfallRegressor`.
    link_ : Link
        How outputs become probabilities: its kind ("clip" or "softmax") and parameter.
    best_score_ : float
        Minus the log-loss of the average on held-out rows.
    held_out_rows_, held_out_probabilities_ : ndarray
        Row numbers of the held-out rows in X, and the probabilities given by models that had
        not seen them.
    selection_ : dict of str to ndarray
        Everything tried, one entry per trial, as in `BandfallRegressor`; the loss is the log-loss.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from bandfall import BandfallClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BandfallClassifier(max_rounds=1).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.9)
    True
    """

    _tune = staticmethod(tune_classes)
    _measure = "log-loss"
    _parameter_constraints = {  # noqa: RUF012
        **SelfTuning._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
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
        class_weight: Any = None,
    ) -> None:
        super().__init__(
            kernels=kernels,
            max_rounds=max_rounds,
            n_members=n_members,
            search_rows=search_rows,
            leaf_rows=leaf_rows,
            max_seconds=max_seconds,
            missing=missing,
            random_state=random_state,
            memory_budget=memory_budget,
            device=device,
            n_jobs=n_jobs,
            verbose=verbose,
        )
        self.class_weight = class_weight

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        best = self._log_probabilities(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities of the classes, in the order of `classes_`.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return self._probabilities(self._log_probabilities(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the probabilities."""
        return self._log_probabilities(X).astype(self._dtype, copy=False)

    def decision_function(self, X: Any) -> np.ndarray:
        """Log-odds of the second of two classes; with more, logarithms of all probabilities.

        Parameters
        ----------
        X : array-like, frame or dict of columns of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_classes)
        """
        logs = self._log_probabilities(X)
        values = logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs
        return values.astype(self._dtype, copy=False)

    def staged_predict_proba(self, X: Any) -> Iterator[np.ndarray]:
        """Probabilities during training, from the simplest model to the final one.

        The member with the most stages sets the pace; the others keep step.
        """
        for total in self._staged(X):
            yield self._probabilities(self._linked(total))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), optional
        """
        return super().score(X, y, sample_weight)

    def _story(self) -> Story:
        """See `story_of`."""
        return replace(super()._story(), held_out_outputs=self.held_out_probabilities_)

    def _read_by(self, reader: Any) -> Any:
        """See `bandfall.estimators._reading.Reader`."""
        return reader.classes(self)

    def _read_target(self, y: Any) -> np.ndarray:
        """Numbers of the classes, shape (n,)."""
        y = column_or_1d(as_numpy(y), warn=True)
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        return labels

    def _row_weights(self, sample_weight: Any, labels: Any) -> Any:
        if self.class_weight is None:
            return super()._row_weights(sample_weight, labels)
        weights = _check_sample_weight(sample_weight, labels, ensure_non_negative=True)
        return weights * compute_sample_weight(self.class_weight, self.classes_[labels])

    def _codes(self, labels: Any, weights: Any) -> np.ndarray:
        self.prior_ = class_shares(labels, weights, len(self.classes_))
        return class_codes(labels, self.prior_)

    def _strata(self, labels: Any) -> np.ndarray:
        return labels

    def _judge(self) -> LogLoss:
        return LogLoss(self.prior_)

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        self.link_, loss = Link(), np.nan
        held_out = tuned.held_out
        if len(held_out):
            log_odds = tuned.members[0][0].candidate.penalty > 0
            self.link_, loss = LogLoss(self.prior_, log_odds).best_link(
                tuned.predictions,
                rows.y[held_out],
                rows.evidence[held_out],
                len(np.unique(held_out)),
            )
        self.best_score_ = -loss
        outputs = np.broadcast_to(tuned.predictions, (len(held_out), rows.y.shape[1]))
        self.held_out_probabilities_ = self._probabilities(self._linked(outputs))
        self._held_out_novelty()

    def _log_probabilities(self, X: Any) -> np.ndarray:
        return self._linked(self._average(self._encoded(self._new_table(X))))

    def _linked(self, outputs: np.ndarray) -> np.ndarray:
        columns = all_columns(outputs, len(self.classes_))
        return self.link_.log_probabilities(columns, self.prior_)

    def _probabilities(self, logs: np.ndarray) -> np.ndarray:
        return np.exp(logs).astype(self._dtype, copy=False)
