"""The classifier that tunes itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions

from bandfall._checks import ShapeChecker, check_instance
from bandfall._estimators.base import estimator
from bandfall._estimators.input import as_numpy
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._estimators.view import Story
from bandfall._models.average import Average
from bandfall._targets import Classes
from bandfall._targets.links import Link
from bandfall._typing import ArrayLike

if TYPE_CHECKING:
    from bandfall._search.averaging import Tuned
    from bandfall._search.parts import Rows


@estimator
class BandfallClassifier(ClassifierMixin, SelfTuning):
    """Kernel classification with nothing to tune.

    Uses the search of `BandfallRegressor`, judged by log-loss, and accepts the same tables. Paths
    with a falling bandwidth train on one column per class: its indicator minus its share of the
    training rows. Far from all data these shares are the prediction, unless columns are steps or
    quantiles, which keep the prediction at the edge of the data. The outputs become probabilities
    by clipping or by a softmax with a temperature, whichever has the smaller log-loss on held-out
    rows.

    Parameters
    ----------
    kernels, max_rounds, n_members, search_rows, leaf_rows, max_seconds, missing, random_state, \
memory_budget, device, n_jobs, verbose
        As in `BandfallRegressor`.
    class_weight : dict, "balanced" or None, default=None
        How much the rows of a class count, times `sample_weight`; with "balanced" all classes
        count alike. Probabilities then refer to the weighted rows.

    Attributes
    ----------
    average_ : bandfall._models.average.Average
        The fitted model: members, encoders, and the target with classes, prior and link.
    classes_ : ndarray of shape (n_classes,)
    prior_ : ndarray of shape (n_classes,)
        Weighted shares of the classes in the training rows, predicted far from them.
    members_, encoders_, path_, metric_, best_params_, feature_importances_, leaks_
        As in `BandfallRegressor`.
    link_ : Link
        How outputs become probabilities: its kind ("clip" or "softmax") and parameter.
    best_score_ : float
        Minus the log-loss of the average on held-out rows.
    held_out_rows_, held_out_probabilities_ : ndarray
        Row numbers of the held-out rows in X, and probabilities by models that had not seen them.
    selection_ : dict of str to ndarray
        Everything tried, as in `BandfallRegressor`; the loss is the log-loss.
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

    class_weight: Annotated[
        dict[object, float] | str | None, dict, StrOptions({"balanced"}), None
    ] = None
    average_: Average[Classes] = field(init=False)
    held_out_probabilities_: np.ndarray = field(init=False)

    target_kind = Classes

    def predict(self, X: ArrayLike) -> np.ndarray:
        """The most probable class of each row, shape (n_samples,)."""
        best = self._log_probabilities(X).argmax(axis=1)
        return self.classes_[best]

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Probabilities in the order of `classes_`, shape (n_samples, n_classes)."""
        outputs = self._outputs(X)
        return self.average_.target.answer(outputs)

    def predict_log_proba(self, X: ArrayLike) -> np.ndarray:
        """Logarithms of the probabilities."""
        return self._log_probabilities(X).astype(self._dtype, copy=False)

    def decision_function(self, X: ArrayLike) -> np.ndarray:
        """Log-odds of the second of two classes; with more, logarithms of all probabilities."""
        logs = self._log_probabilities(X)
        values = logs[:, 1] - logs[:, 0] if len(self.classes_) == 2 else logs
        return values.astype(self._dtype, copy=False)

    def staged_predict_proba(self, X: ArrayLike) -> Iterator[np.ndarray]:
        """Probabilities during training, from the simplest model to the final one.

        The member with the most stages sets the pace; the stages of the others are spread evenly.
        """
        yield from self._staged_answers(X)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the share of rows whose class is predicted correctly."""
        return super().score(X, as_numpy(y), as_numpy(sample_weight))

    @property
    def classes_(self) -> np.ndarray:
        """The classes, sorted."""
        return self.average_.target.labels

    @property
    def prior_(self) -> np.ndarray:
        """Weighted shares of the classes in the training rows."""
        return self.average_.target.prior

    @property
    def link_(self) -> Link:
        """How outputs become probabilities."""
        return self.average_.target.link

    def _story(self) -> Story:
        return replace(super()._story(), held_out_answers=self.held_out_probabilities_)

    def _keep_evidence(self, rows: Rows, tuned: Tuned) -> None:
        outputs = np.broadcast_to(tuned.predictions, (len(tuned.held_out), rows.y.shape[1]))
        self.held_out_probabilities_ = self.average_.target.answer(outputs)

    def _check_loaded(self) -> None:
        super()._check_loaded()
        check_instance("target", self.average_.target, Classes)
        shapes = ShapeChecker(c=len(self.classes_), m=len(self.held_out_rows_))
        shapes("held_out_probabilities_", self.held_out_probabilities_, "m c")

    def _log_probabilities(self, X: ArrayLike) -> np.ndarray:
        outputs = self._outputs(X)
        return self.average_.target.log_probabilities(outputs)
