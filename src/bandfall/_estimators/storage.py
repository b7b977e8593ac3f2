"""Fitted attributes of each estimator that model files store, and checks of loaded ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import numpy as np
from sklearn.base import BaseEstimator

from bandfall._checks import ShapeChecker, check_instance, check_positions, check_real, check_sizes
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
from bandfall._files import estimator_component, register
from bandfall._files.paths import dataclass_component
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Candidate, Member
from bandfall._targets import Classes, Numbers, Target
from bandfall._targets.links import Link
from bandfall._typing import Estimator
from bandfall.descent import Path
from bandfall.descent._partitioned import PartitionedSum
from bandfall.descent._sum import KernelSum
from bandfall.tables import FittedEncoding
from bandfall.tables._table import LARGEST

# Fitted attributes; "?" marks those that may be missing.
_COMMON = "_dtype _y_ndim _prediction_dtype"
_CHOSEN = "best_estimator_ bandwidth_"
_CV = "cv_results_ best_index_ best_score_ best_params_"
_FOUND = "average_ feature_importances_ best_score_ held_out_rows_ selection_"
_SEARCHED = f"{_FOUND} _dtype skipped_ leaks_ _used_rows?"


def _check_common(model: Estimator, n_features: int, n_outputs: int) -> None:
    """Raise unless dtype and shapes fit a model with these numbers of features and targets."""
    check_instance("_dtype", model._dtype, np.dtype)
    check_instance("_prediction_dtype", model._prediction_dtype, np.dtype)
    if model._y_ndim not in (1, 2) or (model._y_ndim == 1 and n_outputs != 1):
        raise ValueError(f"_y_ndim={model._y_ndim!r} does not fit {n_outputs} targets")
    if model.n_features_in_ != n_features or not n_features:
        raise ValueError(f"n_features_in_={model.n_features_in_} does not fit its rows")


def _check_descent(model: KernelDescentRegressor) -> None:
    check_instance("path_", model.path_, Path)
    check_real("n_iter_", model.n_iter_, 1)
    _check_common(model, model.path_.X.shape[1], model.path_.residual.shape[1])


def _check_constant(model: KernelRidgeRegressor | KernelFlowRegressor) -> None:
    check_instance("kernel_sum_", model.kernel_sum_, KernelSum)
    shapes = ShapeChecker()
    shapes("X_fit_", model.X_fit_, "n d")
    shapes("coefficients_", model.coefficients_, "n k")
    shapes("offset_", model.offset_, "k")
    if len(model.kernel_sum_) != 1:
        raise ValueError("it has more than one bandwidth")
    if getattr(model, "weights_", None) is not None:
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
    check_instance("best_estimator_", best, KernelRidgeRegressor, KernelFlowRegressor)
    if best._y_ndim != 2:
        raise ValueError("best_estimator_ was not fitted to columns of targets")
    _check_common(model, best.n_features_in_, best.coefficients_.shape[1])


def _check_regressor(model: BandfallRegressor) -> None:
    _check_searched(model)
    average, intervals = model.average_, model._intervals
    check_instance("target", average.target, Numbers)
    check_instance("_intervals", intervals, Intervals)
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
    check_instance("average_", average, Average)
    check_instance("_dtype", model._dtype, np.dtype)
    if average.schema.width != model.n_features_in_:
        raise ValueError("an encoder does not fit n_features_in_")
    names, known = getattr(model, "feature_names_in_", None), average.schema.names
    if names is not None and known is not None and known != names.tolist():
        raise ValueError("an encoder does not fit feature_names_in_")
    _check_average(average)
    _check_rows(model)
    shapes = ShapeChecker(d=model.n_features_in_)
    shapes("feature_importances_", model.feature_importances_, "d", allowed="any")
    check_instance("best_score_", model.best_score_, int, float)
    for what in check_instance("skipped_", model.skipped_, list):
        check_instance("a part of skipped_", what, str)
    leaks = check_instance("leaks_", model.leaks_, dict)
    for text in [*leaks, *leaks.values()]:
        check_instance("a part of leaks_", text, str)
    for name, column in check_instance("selection_", model.selection_, dict).items():
        check_instance(f"selection_[{name!r}]", column, np.ndarray)
        if column.ndim != 1:
            raise ValueError(f"selection_[{name!r}] must be a column")
    if len({len(column) for column in model.selection_.values()}) > 1:
        raise ValueError("the columns of selection_ differ in length")


def _check_average(average: Average[Target]) -> None:
    """Raise for numbers that are so large that predictions would be NaN."""
    for member in average.members:
        check_sizes("root", member.root, 0.4)
        path = member.path
        leaves = path.model.leaves if isinstance(path.model, PartitionedSum) else ()
        for total in [leaf.model for leaf in leaves] or [path.undivided]:
            check_sizes("coefficients", total.coefficients)
    for encoder in average.encoders.values():
        fitted = check_instance("fitted", encoder.fitted, FittedEncoding)
        # Encoded values are clipped, so that values in units of the features may be as large as
        # `read_table` accepts.
        for field in fields(fitted.scaling):
            values = getattr(fitted.scaling, field.name)
            if field.name == "weight":
                check_sizes(field.name, values)
            elif values.dtype.kind == "f" and np.abs(values).max(initial=0.0) > 2 * LARGEST:
                raise ValueError(f"{field.name} has values beyond ±{2 * LARGEST:g}")


def _check_rows(model: SelfTuning) -> None:
    rows, used, n_rows = model.held_out_rows_, model._used_rows, model.average_.n_rows
    check_positions("held_out_rows_", rows)
    if used is not None:
        check_instance("_used_rows", used, np.ndarray)
        if used.dtype.kind != "i" or used.shape != (n_rows,) or np.any(np.diff(used) <= 0):
            raise ValueError("_used_rows must hold the indices of the used rows, in order")
    known = (rows >= 0) & (rows < n_rows) if used is None else np.isin(rows, used)
    if not np.all(known):
        raise ValueError("held_out_rows_ points outside the training rows")


for _part in (Candidate, Member, Link, Numbers, Classes, Average, Intervals):
    register(dataclass_component(_part))
_STORED: tuple[tuple[type[BaseEstimator], str, Callable[[Estimator], None]], ...] = (
    (KernelDescentRegressor, f"{_COMMON} path_ n_iter_ validation_errors_?", _check_descent),
    (PaperMLPRegressor, f"{_COMMON} weights_ biases_ n_iter_ validation_errors_", _check_mlp),
    (KernelRidgeRegressor, f"{_COMMON} kernel_sum_ weights_?", _check_constant),
    (KernelFlowRegressor, f"{_COMMON} kernel_sum_ weights_?", _check_constant),
    (KernelRidgeCV, f"{_COMMON} {_CHOSEN} penalty_ {_CV}", _check_selected),
    (KernelFlowCV, f"{_COMMON} {_CHOSEN} time_ {_CV}", _check_selected),
    (
        KernelRidgeMML,
        f"{_COMMON} {_CHOSEN} penalty_ criterion_ optima_ amplitude_",
        _check_selected,
    ),
    (BandfallRegressor, f"{_SEARCHED} _intervals", _check_regressor),
    (BandfallClassifier, f"{_SEARCHED} held_out_probabilities_", _check_classifier),
)
for _cls, _fitted, _check in _STORED:
    register(estimator_component(_cls, _fitted, _check, frozenset({"_skl_callbacks"})))
