"""What model files hold of each estimator, and the checks a loaded one must pass."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np

from bandfall.checks import check_instance, check_real
from bandfall.descent import Path, get_solver
from bandfall.estimators._constant import KernelFlowRegressor, KernelRidgeRegressor
from bandfall.estimators._cross_validation import KernelFlowCV, KernelRidgeCV
from bandfall.estimators._descent import KernelDescentRegressor
from bandfall.estimators._marginal_likelihood import KernelRidgeMML
from bandfall.estimators._mlp import PaperMLPRegressor
from bandfall.model import KernelSum
from bandfall.persistence import ShapeChecker, estimator_component, register

# Fitted attributes of every kernel estimator.
COMMON = {"_dtype": True, "_y_ndim": True, "_prediction_dtype": False}
UNSTORED = frozenset({"_skl_callbacks", "_training_rows"})  # who watched the fit, and its rows
_OLD_SETTINGS = ("resolution", "step_size", "max_iter")
_CV = {"cv_results_": True, "best_index_": True, "best_score_": True, "best_params_": True}
_MML = {"criterion_": True, "optima_": True, "amplitude_": True}


def check_common(model: Any, n_features: int, n_outputs: int) -> None:
    """Raise unless dtype and shapes fit a model of so many features and targets."""
    check_instance("_dtype", model._dtype, np.dtype)
    check_instance("_prediction_dtype", model._prediction_dtype, np.dtype, type(None))
    if model._y_ndim not in (1, 2) or (model._y_ndim == 1 and n_outputs != 1):
        raise ValueError(f"_y_ndim={model._y_ndim!r} does not fit {n_outputs} targets")
    if model.n_features_in_ != n_features or not n_features:
        raise ValueError(f"n_features_in_={model.n_features_in_} does not fit its rows")


def _check_descent(model: KernelDescentRegressor) -> None:
    check_instance("path_", model.path_, Path)
    check_real("n_iter_", model.n_iter_, 1)
    check_common(model, model.path_.X.shape[1], model.path_.residual.shape[1])


def _one_solver(stored: dict[str, Any]) -> dict[str, Any]:
    """Files of old hold settings of the solver one by one, as parameters of the estimator."""
    old = {name: stored[name] for name in _OLD_SETTINGS if name in stored}
    kept = {name: value for name, value in stored.items() if name not in old}
    solver: Any = get_solver(kept["solver"]) if old else None
    own = {one.name for one in fields(solver)} & old.keys() if old else set()
    return {**kept, "solver": replace(solver, **{n: old[n] for n in own})} if own else kept


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
    if 0 in (shapes.sizes["n"], shapes.sizes["d"], shapes.sizes["k"]):
        raise ValueError("it has no rows, features or targets")
    if model.X_fit_.dtype != model.coefficients_.dtype:
        raise ValueError("its arrays have different dtypes")
    check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _check_mlp(model: PaperMLPRegressor) -> None:
    if len(model.weights_) != 3 or len(model.biases_) != 3:
        raise ValueError("it does not have three layers")
    shapes = ShapeChecker()
    layers = zip(model.weights_, model.biases_, ("d", "first", "second", "k"), strict=False)
    for (weights, biases, inputs), outputs in zip(layers, ("first", "second", "k"), strict=True):
        shapes("weights_", weights, f"{inputs} {outputs}")
        shapes("biases_", biases, outputs)
    check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _check_selected(model: KernelRidgeCV | KernelFlowCV | KernelRidgeMML) -> None:
    best = model.best_estimator_
    check_instance("best_estimator_", best, KernelRidgeRegressor, KernelFlowRegressor)
    if best._y_ndim != 2:
        raise ValueError("best_estimator_ was not fitted to columns of targets")
    check_common(model, best.n_features_in_, best.coefficients_.shape[1])


_FITTED = [
    (
        KernelDescentRegressor,
        {"path_": True, "n_iter_": True, "validation_errors_": False},
        _check_descent,
    ),
    (
        PaperMLPRegressor,
        {"weights_": True, "biases_": True, "n_iter_": True, "validation_errors_": True},
        _check_mlp,
    ),
    *(
        (
            cls,
            {"kernel_sum_": True, "weights_": False},
            _check_constant,
        )
        for cls in (KernelRidgeRegressor, KernelFlowRegressor)
    ),
    *(
        (cls, {"best_estimator_": True, "bandwidth_": True, **more}, _check_selected)
        for cls, more in (
            (KernelRidgeCV, {"penalty_": True, **_CV}),
            (KernelFlowCV, {"time_": True, **_CV}),
            (KernelRidgeMML, {"penalty_": True, **_MML}),
        )
    ),
]
for _cls, _fitted, _check in _FITTED:
    register(
        estimator_component(
            _cls,
            {**COMMON, **_fitted},
            _check,
            unstored=UNSTORED,
            todays_parameters=_one_solver if _cls is KernelDescentRegressor else dict,
        )
    )
