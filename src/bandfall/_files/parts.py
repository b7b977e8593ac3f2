"""The estimators and parts of models that files may hold, and what must hold for their fields."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar, get_origin, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall._checks import (
    ShapeChecker,
    check_instance,
    check_names,
    check_number,
    check_sizes,
)
from bandfall._files.codec import Component, check_types, field_values, register, register_dataclass
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Candidate, Member
from bandfall._products.device import for_any_machine
from bandfall._targets import Classes, Numbers, Target
from bandfall._targets.links import Link
from bandfall._typing import Estimator, State
from bandfall.descent import Euler, Flow, Log, Path
from bandfall.descent._partition import Leaf, Partition, PartitionedSum
from bandfall.descent._schedules import Constant, MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.tables import Schema, TableEncoder
from bandfall.tables._categories import OneHot, TargetMean, TargetMeanAndSize
from bandfall.tables._fitted import FittedEncoding
from bandfall.tables._numbers import NUMBERS, Cycles
from bandfall.tables._pairs import PairMean
from bandfall.tables._table import LARGEST, Reading

# Predicting takes some 8 µs a stage, whatever the number of rows.
MAX_STAGES = 1 << 16
_UNSTORED = frozenset({"n_samples_seen_"})  # scikit-learn needs it for `partial_fit` alone
_OPTIONAL = frozenset({"feature_names_in_", "validation_errors_"})


def check_partition(partition: Partition) -> None:
    """Raise ValueError unless the cuts form a tree."""
    shapes = ShapeChecker()
    shapes("directions", partition.directions, "cuts d")
    shapes("lows", partition.lows, "cuts")
    shapes("highs", partition.highs, "cuts")
    n_cuts, children = len(partition.lows), partition.children
    if children.dtype.kind != "i" or children.shape != (n_cuts, 2):
        raise ValueError("children must hold two integers for each cut")
    if np.any(partition.highs <= partition.lows):
        raise ValueError("a band is empty")
    # Every cut but the first is the child of an earlier cut, and every leaf of some cut.
    wanted = [*range(1, n_cuts), *(~leaf for leaf in range(n_cuts + 1))] if n_cuts else []
    below = np.any((children >= 0) & (children <= np.arange(n_cuts)[:, None]))
    if below or sorted(children.ravel().tolist()) != sorted(wanted):
        raise ValueError("its cuts do not form a tree")


def _check_root(root: np.ndarray | None, n_features: int) -> None:
    if root is not None:
        ShapeChecker(d=n_features)("root", root, "d" if root.ndim == 1 else "d d")


def _check_partitioned(model: PartitionedSum) -> None:
    if not model.leaves:
        raise ValueError("it has no leaves")
    shapes = ShapeChecker()
    shapes("X", model.X, "n d")
    shapes("directions", model.partition.directions, "cuts d")
    for leaf in model.leaves:
        shapes.sizes.pop("rows", None)
        shapes("X of a leaf", leaf.model.X, "rows d")
        shapes("offset of a leaf", leaf.model.offset, "k")
        if leaf.model.kernel != model.kernel:
            raise ValueError("its leaves differ in kernel")


def _check_sum(model: KernelSum) -> None:
    shapes = ShapeChecker()
    shapes("X", model.X, "n d")
    shapes("coefficients", model.coefficients, "stages n k")
    shapes("bandwidths", model.bandwidths, "stages", allowed="infinite")
    shapes("offset", model.offset, "k")
    if len(model) > MAX_STAGES:
        raise ValueError(
            f"it has {len(model):,} stages, over {MAX_STAGES:,}; Path.compress reduces their number"
        )
    if np.any(model.bandwidths < 0):
        raise ValueError("a bandwidth is negative")
    if model.X.dtype != model.coefficients.dtype:
        raise ValueError("its arrays have different dtypes")
    if model.X.size:
        check_sizes("X", np.abs(model.X).max(keepdims=True) * 4.0 * model.X.shape[1] ** 0.5)
    check_sizes("coefficients", model.coefficients, 1.0)
    if 0 in (shapes.sizes["n"], shapes.sizes["k"]):  # an encoding may leave no column
        raise ValueError("it has no rows or targets")


def _check_path(path: Path) -> None:
    shapes = ShapeChecker(n=len(path.X), k=path.model.n_outputs, stages=len(path))
    for name in ("starts", "durations"):  # NaN for compressed paths and for several leaves
        shapes(name, getattr(path, name), "stages", allowed="any")
    shapes("step_sizes", path.step_sizes, "stages")
    shapes("residual", path.residual, "n k")
    shapes("scale", path.scale, "k")
    if path.weights is not None:
        shapes("weights", path.weights, "n")
    shapes("y", path.y, "n k")
    if path.X.dtype != path.residual.dtype:
        raise ValueError("its arrays have different dtypes")
    if path.solver is not None and not hasattr(path.solver, "run"):
        raise TypeError(f"{type(path.solver).__name__} is no solver")


def _check_log(log: Log) -> None:
    shapes = ShapeChecker()
    for name, column in field_values(log).items():
        shapes(name, column, "steps", allowed="infinite")


def _check_encoder(encoder: TableEncoder) -> None:
    fitted = encoder.fitted
    if fitted is None:
        raise ValueError("a TableEncoder that is not fitted cannot be stored")
    levels: list[tuple[str | None, ...]] = [()] * fitted.schema.width
    for one in fitted.categories:
        levels[one.position] = one.levels
    if levels != fitted.schema.levels:
        raise ValueError("the levels of the schema are not those of the categories")
    if not isinstance(fitted.scaling, NUMBERS[encoder.numbers]):
        raise ValueError(f"scaling does not fit numbers={encoder.numbers!r}")
    for j in encoder.suspicious or ():
        check_number("suspicious", j, 0, fitted.schema.width - 1)


def _check_average(average: Average[Target]) -> None:
    """Raise for numbers that are so large that predictions would be NaN."""
    for member in average.members:
        check_sizes("root", member.root, 0.4)
        path = member.path
        leaves = path.model.leaves if isinstance(path.model, PartitionedSum) else ()
        for total in [leaf.model for leaf in leaves] or [path.undivided]:
            check_sizes("coefficients", total.coefficients)
    for encoder in average.encoders.values():
        assert encoder.fitted is not None
        # Encoded values are clipped, so that values in units of the features may be as large as
        # `read_table` accepts.
        for name, values in field_values(encoder.fitted.scaling).items():
            if name == "weight":
                check_sizes(name, values)
            elif values.dtype.kind == "f" and np.abs(values).max(initial=0.0) > 2 * LARGEST:
                raise ValueError(f"{name} has values beyond ±{2 * LARGEST:g}")


_CHECKS: dict[type, Callable[..., None]] = {
    KernelSum: _check_sum,
    Partition: check_partition,
    Leaf: lambda leaf: _check_root(leaf.root, leaf.model.X.shape[1]),
    PartitionedSum: _check_partitioned,
    Log: _check_log,
    Path: _check_path,
    TableEncoder: _check_encoder,
    Average: _check_average,
}
for _part, _check in _CHECKS.items():
    register_dataclass(_part, _check)
# These check their fields when they are made.
for _part in (
    *(Flow, Euler, Constant, MinimumSpeed, Candidate, Member, Link, Numbers),
    *(Classes, Intervals, FittedEncoding, Schema, Reading, Cycles, PairMean),
    *(OneHot, TargetMean, TargetMeanAndSize, *NUMBERS.values()),
):
    register_dataclass(_part)


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
