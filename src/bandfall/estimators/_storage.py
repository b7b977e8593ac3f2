"""What model files hold of each estimator, and the checks a loaded one must pass."""

from __future__ import annotations

import numpy as np

from bandfall.descent import Path
from bandfall.estimators._bandfall import BandfallRegressor
from bandfall.estimators._constant import KernelFlowRegressor, KernelRidgeRegressor
from bandfall.estimators._cross_validation import KernelFlowCV, KernelRidgeCV
from bandfall.estimators._descent import KernelDescentRegressor
from bandfall.estimators._front import CategoryEncoder, FeatureFront
from bandfall.estimators._marginal_likelihood import KernelRidgeMML
from bandfall.estimators._mlp import PaperMLPRegressor
from bandfall.kernels import get_kernel
from bandfall.model import KernelSum
from bandfall.persistence import Component, ShapeChecker, estimator_component, register
from bandfall.persistence.checks import check_instance, check_names, check_real

# Fitted attributes of every kernel estimator.
_COMMON = {"_dtype": True, "_y_ndim": True, "_prediction_dtype": False}
_CV = {"cv_results_": True, "best_index_": True, "best_score_": True, "best_params_": True}
_MML = {"criterion_": True, "optima_": True, "amplitude_": True}


def _check_common(model, n_features: int, n_outputs: int) -> None:
    check_instance("_dtype", model._dtype, np.dtype)
    check_instance("_prediction_dtype", model._prediction_dtype, np.dtype, type(None))
    if model._y_ndim not in (1, 2) or (model._y_ndim == 1 and n_outputs != 1):
        raise ValueError(f"_y_ndim={model._y_ndim!r} does not fit {n_outputs} targets")
    if model.n_features_in_ != n_features:
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
    if 0 in (shapes.sizes["n"], shapes.sizes["d"], shapes.sizes["k"]):
        raise ValueError("it has no rows, features or targets")
    if model.X_fit_.dtype != model.coefficients_.dtype:
        raise ValueError("its arrays have different dtypes")
    _check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _one_sum(parameters: dict, fitted: dict) -> dict:
    """Files of old hold the parts of a kernel sum one by one, its bandwidth as a parameter."""
    if "kernel_sum_" in fitted:
        return fitted
    rest = {**fitted}
    coefficients = rest.pop("coefficients_")
    check_instance("coefficients_", coefficients, np.ndarray)
    model = KernelSum(
        rest.pop("X_fit_"),
        get_kernel(parameters.get("kernel", "gaussian")),
        np.array([float(parameters.get("bandwidth", 1.0))]),
        coefficients[None],
        rest.pop("offset_"),
    )
    return {**rest, "kernel_sum_": model}


def _check_mlp(model: PaperMLPRegressor) -> None:
    if len(model.weights_) != 3 or len(model.biases_) != 3:
        raise ValueError("it does not have three layers")
    shapes = ShapeChecker()
    layers = zip(model.weights_, model.biases_, ("d", "first", "second", "k"), strict=False)
    for (weights, biases, inputs), outputs in zip(layers, ("first", "second", "k"), strict=True):
        shapes("weights_", weights, f"{inputs} {outputs}")
        shapes("biases_", biases, outputs)
    _check_common(model, shapes.sizes["d"], shapes.sizes["k"])


def _check_bandfall(model: BandfallRegressor) -> None:
    check_instance("path_", model.path_, Path)
    check_instance("_front", model._front, FeatureFront)
    front, shapes = model._front, ShapeChecker(d=model.path_.X.shape[1])
    shapes("metric_", model.metric_, "d" if np.ndim(model.metric_) == 1 else "d d")
    if int(front.used.sum()) != shapes.sizes["d"] or front.dtype != model.path_.X.dtype:
        raise ValueError("its columns do not fit its path")
    positions = sorted([*front.numeric, *front.other])
    if positions != list(range(model.n_features_in_)):
        raise ValueError("its columns do not fit n_features_in_")
    check_real("_max_r2", model._max_r2, 0.0, 1.0)
    _check_common(model, model.n_features_in_, model.path_.residual.shape[1])


def _front_to_state(front: FeatureFront) -> dict:
    encoders = [
        {"keys": list(e.codes), "codes": list(e.codes.values()), "unknown": e.unknown}
        for e in front.encoders
    ]
    return {**vars(front), "encoders": encoders}


_FRONT_FIELDS = {
    *("transform_name", "dtype", "numeric", "other", "medians", "marked", "centre", "scale"),
    *("quantiles", "encoders", "used", "sources"),
}


def _front_from_state(state: dict) -> FeatureFront:
    check_names("FeatureFront", state, _FRONT_FIELDS, _FRONT_FIELDS)
    front = FeatureFront(state["transform_name"])
    check_instance("encoders", state["encoders"], list)
    vars(front).update(state, encoders=[_encoder(one) for one in state["encoders"]])
    check_instance("dtype", front.dtype, np.dtype)
    _check_positions(front)
    shapes = ShapeChecker(n=len(front.numeric), all=len(front.numeric) + len(front.marked))
    shapes("medians", front.medians, "n")
    shapes("centre", front.centre, "all")
    shapes("scale", front.scale, "all")
    if np.any(front.scale <= 0):
        raise ValueError("a scale is not positive")
    if front.quantiles is not None:
        shapes("quantiles", front.quantiles, "q all")
        if len(front.quantiles) < 1 or np.any(np.diff(front.quantiles, axis=0) < 0):
            raise ValueError("quantiles must rise")
    width = shapes.sizes["all"] + sum(encoder.width for encoder in front.encoders)
    if front.used.dtype != bool or front.used.shape != (width,):
        raise ValueError("used does not fit its columns")
    if front.sources.dtype.kind != "i" or front.sources.shape != (int(front.used.sum()),):
        raise ValueError("sources does not fit its columns")
    return front


def _check_positions(front: FeatureFront) -> None:
    for name in ("numeric", "other"):
        check_instance(name, getattr(front, name), list)
        if not all(type(position) is int for position in getattr(front, name)):
            raise TypeError(f"{name} must hold integers")
    for name in ("marked", "used", "sources"):
        check_instance(name, getattr(front, name), np.ndarray)
    if len(front.encoders) != len(front.other):
        raise ValueError("encoders do not fit other")
    if front.marked.dtype.kind != "i" or front.marked.ndim != 1:
        raise ValueError("marked must hold integers")
    if np.any((front.marked < 0) | (front.marked >= len(front.numeric))):
        raise ValueError("marked points outside the numeric columns")


def _encoder(state: dict) -> CategoryEncoder:
    check_instance("an encoder", state, dict)
    keys, codes, unknown = state["keys"], state["codes"], state["unknown"]
    if not all(isinstance(key, str | bool | int | float | None) for key in keys):
        raise TypeError("a category must be text or a number")
    if not codes or not all(type(code) is int and 0 <= code < len(codes) for code in codes):
        raise ValueError("codes must number the categories")
    encoder = CategoryEncoder()
    encoder.codes = dict(zip(keys, codes, strict=True))
    encoder.width = max(codes) + 1
    check_instance("unknown", unknown, int)
    check_real("unknown", unknown, -1, encoder.width - 1)
    encoder.unknown = unknown
    return encoder


def _check_selected(model: KernelRidgeCV | KernelFlowCV | KernelRidgeMML) -> None:
    best = model.best_estimator_
    check_instance("best_estimator_", best, KernelRidgeRegressor, KernelFlowRegressor)
    if best._y_ndim != 2:
        raise ValueError("best_estimator_ was not fitted to columns of targets")
    _check_common(model, best.n_features_in_, best.coefficients_.shape[1])


_FITTED = [
    (
        KernelDescentRegressor,
        {"path_": True, "n_iter_": True, "validation_errors_": False},
        _check_descent,
    ),
    (
        BandfallRegressor,
        {
            **dict.fromkeys(
                ("path_", "_front", "metric_", "_max_r2", "feature_importances_"), True
            ),
            **dict.fromkeys(("best_score_", "best_params_", "selection_"), True),
        },
        _check_bandfall,
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
register(Component(FeatureFront, _front_to_state, _front_from_state))
for _cls, _fitted, _check in _FITTED:
    register(
        estimator_component(
            _cls,
            {**_COMMON, **_fitted},
            _check,
            unstored=frozenset({"_skl_callbacks"}),  # who watched the fit
            todays_parameters=getattr(_cls, "_todays_parameters", dict),
            upgrade=_one_sum if _check is _check_constant else None,
        )
    )
