"""Storage of scikit-learn objects: parameters and named fitted attributes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall._checks import ShapeChecker, check_instance, check_names
from bandfall._files.codec import Component, register
from bandfall._products.device import for_any_machine
from bandfall._typing import Estimator, State

_SHARED = "n_features_in_ feature_names_in_?"  # fitted attributes of all estimators


def estimator_component(
    cls: type[BaseEstimator],
    fitted: str,
    check: Callable[[Estimator], None],
    unstored: frozenset[str] = frozenset(),
) -> Component:
    """Component of an estimator: its parameters and named fitted attributes.

    `fitted` has the names of fitted attributes in addition to `_SHARED`; "?" marks those that may
    be missing, and `unstored` ones are left out. `check` raises ValueError or TypeError unless they
    fit together.
    """
    names = f"{_SHARED} {fitted}".split()
    known = {name.removesuffix("?") for name in names}
    required = known & set(names)

    def to_state(estimator: BaseEstimator) -> State:
        parameters = for_any_machine(estimator.get_params(deep=False))
        attributes = {
            name: value
            for name, value in vars(estimator).items()
            if name not in parameters and name not in unstored
        }
        check_names(cls.__name__, attributes, known, required)
        return {"parameters": parameters, "fitted": attributes}

    def from_state(state: State) -> BaseEstimator:
        check_names(cls.__name__, state, {"parameters", "fitted"}, {"parameters", "fitted"})
        check_instance("parameters", state["parameters"], dict)
        check_instance("fitted", state["fitted"], dict)
        check_names(cls.__name__, state["parameters"], set(cls._get_param_names()), set())
        check_names(cls.__name__, state["fitted"], known, required)
        estimator = cls(**for_any_machine(state["parameters"]))
        if getattr(estimator, "_parameter_constraints", None):
            estimator._validate_params()
        vars(estimator).update(state["fitted"])
        _check_features(estimator)
        check(estimator)
        return estimator

    return Component(cls, to_state, from_state)


def _check_features(estimator: Estimator) -> None:
    check_instance("n_features_in_", estimator.n_features_in_, int)
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        return
    check_instance("feature_names_in_", names, np.ndarray)
    if names.dtype != object or len(names) != estimator.n_features_in_:
        raise ValueError("feature_names_in_ does not fit n_features_in_")


def _check_scaler(scaler: Estimator) -> None:
    """A fitted array has one value per feature; None if a step is switched off."""
    shapes = ShapeChecker(d=scaler.n_features_in_)
    for name in _SCALING.replace("?", "").split():
        if (value := getattr(scaler, name, None)) is not None:
            shapes(name, value, "d")
    plain = copy.copy(scaler)
    vars(plain).pop("feature_names_in_", None)
    with np.errstate(all="ignore"):
        shapes("transformed rows", plain.transform(np.zeros((1, plain.n_features_in_))), "one d")


_SCALING = "mean_? scale_? var_? min_? data_min_? data_max_? data_range_? max_abs_? center_?"
TRANSFORMERS = (StandardScaler, MinMaxScaler, MaxAbsScaler, RobustScaler)
for _cls in TRANSFORMERS:
    # Only `partial_fit` reads n_samples_seen_.
    register(estimator_component(_cls, _SCALING, _check_scaler, frozenset({"n_samples_seen_"})))


def _pipeline_to_state(pipeline: Pipeline) -> State:
    # `memory` names a directory of the training machine and is not stored.
    return {"steps": [[name, step] for name, step in pipeline.steps]}


def _pipeline_from_state(state: State) -> Pipeline:
    check_names("Pipeline", state, {"steps"}, {"steps"})
    check_instance("steps", state["steps"], list)
    steps = []
    for step in state["steps"]:
        check_instance("a step", step, list)
        name, component = step
        check_instance("the name of a step", name, str)
        steps.append((name, component))
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


register(Component(Pipeline, _pipeline_to_state, _pipeline_from_state))
