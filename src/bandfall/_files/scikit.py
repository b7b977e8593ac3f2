"""Storage of scikit-learn objects: parameters and annotated fitted attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall._checks import ShapeChecker, check_instance, check_names
from bandfall._files.codec import Component, check_types, register
from bandfall._products.device import for_any_machine
from bandfall._typing import Estimator, State

# scikit-learn's own attributes: callbacks, and a number that only `partial_fit` reads.
_UNSTORED = frozenset({"_skl_callbacks", "n_samples_seen_"})
_OPTIONAL = frozenset({"feature_names_in_", "validation_errors_"})


def register_estimators(*classes: type[Estimator]) -> None:
    """Allow estimators: their parameters, and the fitted attributes that they annotate.

    Their method ``_check_loaded`` raises ValueError or TypeError unless these fit together.
    """
    for cls in classes:
        parameters = set(cls._get_param_names())
        hints = {
            name: hint
            for name, hint in get_type_hints(cls).items()
            if name not in parameters and get_origin(hint) is not ClassVar
        }
        with_default = {name for name in hints if hasattr(cls, name)}
        _register(cls, hints, set(hints) - _OPTIONAL - with_default, cls._check_loaded)


def _register(
    cls: type[BaseEstimator],
    hints: dict[str, Any],
    required: set[str],
    check: Callable[[Estimator], None],
) -> None:
    """Register an estimator whose fitted attributes have these types."""
    hints = {"n_features_in_": int, "feature_names_in_": np.ndarray, **hints}
    required = {"n_features_in_", *required}

    def to_state(estimator: BaseEstimator) -> State:
        parameters = for_any_machine(estimator.get_params(deep=False))
        unstored = {*parameters, *_UNSTORED}
        fitted = {name: one for name, one in vars(estimator).items() if name not in unstored}
        check_names(cls.__name__, fitted, set(hints), required)
        return {"parameters": parameters, "fitted": fitted}

    def from_state(state: State) -> BaseEstimator:
        check_names(cls.__name__, state, {"parameters", "fitted"}, {"parameters", "fitted"})
        check_types(state, {"parameters": dict, "fitted": dict})
        parameters, fitted = state["parameters"], state["fitted"]
        check_names(cls.__name__, parameters, set(cls._get_param_names()), set())
        check_names(cls.__name__, fitted, set(hints), required)
        check_types(fitted, hints)
        estimator = cls(**for_any_machine(parameters))
        if getattr(estimator, "_parameter_constraints", None):
            estimator._validate_params()
        vars(estimator).update(fitted)
        names = fitted.get("feature_names_in_")
        if names is not None and (names.dtype != object or len(names) != fitted["n_features_in_"]):
            raise ValueError("feature_names_in_ does not fit n_features_in_")
        check(estimator)
        return estimator

    register(Component(cls, to_state, from_state))


def _check_scaler(scaler: Estimator) -> None:
    """A fitted array has one value per feature; None if a step is switched off."""
    shapes = ShapeChecker(d=scaler.n_features_in_)
    for name in _SCALING:
        if (value := getattr(scaler, name, None)) is not None:
            shapes(name, value, "d")
    plain = copy.copy(scaler)
    vars(plain).pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        shapes("transformed rows", plain.transform(np.zeros((1, plain.n_features_in_))), "one d")


_SCALING = {
    f"{name}_": np.ndarray | None
    for name in ("mean", "scale", "var", "min", "data_min", "data_max", "data_range", "max_abs")
} | {"center_": np.ndarray | None}
TRANSFORMERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
for _cls in TRANSFORMERS:
    _register(_cls, _SCALING, set(), _check_scaler)


def _pipeline_from_state(state: State) -> Pipeline:
    check_names("Pipeline", state, {"steps"}, {"steps"})
    check_types(state, {"steps": list[list]})
    steps = [(check_instance("the name of a step", name, str), one) for name, one in state["steps"]]
    if not steps:
        raise ValueError("it has no steps")
    *transformers, last = [component for _, component in steps]
    for transformer in transformers:
        check_instance("a step before the last", transformer, *TRANSFORMERS)
    if not isinstance(last, RegressorMixin | ClassifierMixin):
        raise ValueError("its last step cannot predict")
    if len({step.n_features_in_ for step in (*transformers, last)}) > 1:
        raise ValueError("its steps have different numbers of features")
    pipeline = Pipeline(steps)
    pipeline._validate_steps()
    return pipeline


# `memory` names a directory of the training machine and is not stored.
register(
    Component(Pipeline, lambda it: {"steps": [list(one) for one in it.steps]}, _pipeline_from_state)
)
