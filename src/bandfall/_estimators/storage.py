"""Checks of the fitted attributes of estimators from model files."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator

from bandfall._checks import ShapeChecker, check_instance, check_positions, check_sizes
from bandfall._estimators.classifier import BandfallClassifier
from bandfall._estimators.constant import (
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
)
from bandfall._estimators.descent import KernelDescentRegressor
from bandfall._estimators.mlp import PaperMLPRegressor
from bandfall._estimators.regressor import BandfallRegressor
from bandfall._estimators.self_tuning import SelfTuning
from bandfall._files import register_estimator
from bandfall._targets import Classes, Numbers
from bandfall._typing import Estimator


def _check_common(model: Estimator, n_features: int, n_outputs: int) -> None:
    """Raise unless dtype and shapes fit a model with these numbers of features and targets."""
    if model._y_ndim not in (1, 2) or (model._y_ndim == 1 and n_outputs != 1):
        raise ValueError(f"_y_ndim={model._y_ndim!r} does not fit {n_outputs} targets")
    if model.n_features_in_ != n_features or not n_features:
        raise ValueError(f"n_features_in_={model.n_features_in_} does not fit its rows")


def _check_descent(model: KernelDescentRegressor) -> None:
    _check_common(model, model.path_.X.shape[1], model.path_.residual.shape[1])


def _check_constant(model: KernelRidgeRegressor | KernelFlowRegressor) -> None:
    shapes = ShapeChecker()
    shapes("X_fit_", model.X_fit_, "n d")
    shapes("coefficients_", model.coefficients_, "n k")
    shapes("offset_", model.offset_, "k")
    if len(model.kernel_sum_) != 1:
        raise ValueError("it has more than one bandwidth")
    if model.weights_ is not None:
        shapes("weights_", model.weights_, "n")
    if 0 in shapes.sizes.values():
        raise ValueError("it has no rows, features or targets")
    if model.X_fit_.dtype != model.coefficients_.dtype:
        raise ValueError("its arrays have different dtypes")
    _check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _check_mlp(model: PaperMLPRegressor) -> None:
    if len(model.weights_) != 3 or len(model.biases_) != 3:
        raise ValueError("it does not have three layers")
    shapes = ShapeChecker()
    layers = zip(model.weights_, model.biases_, ("d", "first", "second", "k"), strict=False)
    for (weights, biases, inputs), outputs in zip(layers, ("first", "second", "k"), strict=True):
        shapes("weights_", weights, f"{inputs} {outputs}")
        shapes("biases_", biases, outputs)
    _check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _check_selected(model: KernelRidgeCV | KernelFlowCV | KernelRidgeMML) -> None:
    best = model.best_estimator_
    if best._y_ndim != 2:
        raise ValueError("best_estimator_ was not fitted to columns of targets")
    _check_common(model, best.n_features_in_, best.coefficients_.shape[1])


def _check_regressor(model: BandfallRegressor) -> None:
    _check_searched(model)
    average, intervals = model.average_, model._intervals
    check_instance("target", average.target, Numbers)
    shapes = ShapeChecker(k=average.target.n_columns)
    shapes("scores", intervals.scores, "m k")
    scale = average.target.scale
    check_sizes("one over scale", 1.0 / scale, 1.0)
    check_sizes("residuals", intervals.residuals / scale)
    check_sizes("weights", intervals.weights)
    if np.ndim(intervals.predictions) != average.target.ndim:
        raise ValueError("predictions do not have the shape of the target")
    if not np.array_equal(model._numbers_given(intervals.rows), model.held_out_rows_):
        raise ValueError("the rows of intervals are not held_out_rows_")
    if intervals.method == "metric" and not average.complete:
        raise ValueError("intervals depend on missing rows")


def _check_classifier(model: BandfallClassifier) -> None:
    _check_searched(model)
    check_instance("target", model.average_.target, Classes)
    shapes = ShapeChecker(c=len(model.classes_), m=len(model.held_out_rows_))
    shapes("held_out_probabilities_", model.held_out_probabilities_, "m c")


def _check_searched(model: SelfTuning) -> None:
    average = model.average_
    if average.schema.width != model.n_features_in_:
        raise ValueError("an encoder does not fit n_features_in_")
    names, known = getattr(model, "feature_names_in_", None), average.schema.names
    if names is not None and known is not None and known != names.tolist():
        raise ValueError("an encoder does not fit feature_names_in_")
    _check_rows(model)
    shapes = ShapeChecker(d=model.n_features_in_)
    shapes("feature_importances_", model.feature_importances_, "d", allowed="any")
    for name, column in model.selection_.items():
        if column.ndim != 1:
            raise ValueError(f"selection_[{name!r}] must be a column")
    if len({len(column) for column in model.selection_.values()}) > 1:
        raise ValueError("the columns of selection_ differ in length")


def _check_rows(model: SelfTuning) -> None:
    rows, used, n_rows = model.held_out_rows_, model._used_rows, model.average_.n_rows
    check_positions("held_out_rows_", rows)
    if used is not None and (
        used.dtype.kind != "i" or used.shape != (n_rows,) or np.any(np.diff(used) <= 0)
    ):
        raise ValueError("_used_rows must hold the indices of the used rows, in order")
    known = (rows >= 0) & (rows < n_rows) if used is None else np.isin(rows, used)
    if not np.all(known):
        raise ValueError("held_out_rows_ points outside the training rows")


_CHECKS: dict[type[BaseEstimator], Callable[[Estimator], None]] = {
    KernelDescentRegressor: _check_descent,
    PaperMLPRegressor: _check_mlp,
    **dict.fromkeys((KernelRidgeRegressor, KernelFlowRegressor), _check_constant),
    **dict.fromkeys((KernelRidgeCV, KernelFlowCV, KernelRidgeMML), _check_selected),
    BandfallRegressor: _check_regressor,
    BandfallClassifier: _check_classifier,
}
for _cls, _check in _CHECKS.items():
    register_estimator(_cls, _check)
