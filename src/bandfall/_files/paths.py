"""Storage of paths and kernel sums: their fields, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from bandfall._checks import ShapeChecker, check_instance, check_names, check_real, check_sizes
from bandfall._files.codec import Component, register
from bandfall._typing import State
from bandfall.descent import Euler, Flow, Log, Path, Plan, Status
from bandfall.descent._partition import Partition
from bandfall.descent._partitioned import Leaf, PartitionedSum
from bandfall.descent._schedules import Constant, Geometric, MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.kernels._kernel import Kernel

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Instance = TypeVar("Instance", bound="DataclassInstance")

# Predicting takes some 8 µs a stage, whatever the number of rows.
MAX_STAGES = 1 << 16


def dataclass_component(
    cls: type[Instance], check: Callable[[Instance], None] = lambda made: None
) -> Component[Instance]:
    """Component of a dataclass whose fields are all storable.

    Its ``__post_init__``, or `check`, raises if they do not fit together.
    """

    def from_state(state: State) -> Instance:
        made = make_dataclass(cls, state)
        check(made)
        return made

    return Component(cls, field_values, from_state)


def field_values(instance: DataclassInstance) -> State:
    """Fields of a dataclass instance by name, not copied."""
    return {field.name: getattr(instance, field.name) for field in fields(instance)}


def make_dataclass(cls: type[Instance], state: State) -> Instance:
    """An instance from its fields; those with a default may be missing."""
    required = {f.name for f in fields(cls) if f.default is MISSING}
    check_names(cls.__name__, state, {f.name for f in fields(cls)}, required)
    return cls(**state)


def _check_partition(partition: Partition) -> None:
    shapes = ShapeChecker()
    shapes("directions", partition.directions, "cuts d")
    shapes("lows", partition.lows, "cuts")
    shapes("highs", partition.highs, "cuts")
    n_cuts, children = len(partition.lows), partition.children
    check_instance("children", children, np.ndarray)
    if children.dtype.kind != "i" or children.shape != (n_cuts, 2):
        raise ValueError("children must hold two integers for each cut")
    if np.any(partition.highs <= partition.lows):
        raise ValueError("a band is empty")
    # Every cut but the first is the child of an earlier cut, and every leaf of some cut.
    wanted = [*range(1, n_cuts), *(~leaf for leaf in range(n_cuts + 1))] if n_cuts else []
    below = np.any((children >= 0) & (children <= np.arange(n_cuts)[:, None]))
    if below or sorted(children.ravel().tolist()) != sorted(wanted):
        raise ValueError("its cuts do not form a tree")


def _check_leaf(leaf: Leaf) -> None:
    check_instance("model", leaf.model, KernelSum)
    if leaf.root is not None:
        shapes = ShapeChecker(d=leaf.model.X.shape[1])
        shapes("root", leaf.root, "d" if np.ndim(leaf.root) == 1 else "d d")


def _check_partitioned(model: PartitionedSum) -> None:
    check_instance("partition", model.partition, Partition)
    if not check_instance("leaves", model.leaves, tuple):
        raise ValueError("it has no leaves")
    shapes = ShapeChecker()
    shapes("X", model.X, "n d")
    shapes("directions", model.partition.directions, "cuts d")
    for leaf in model.leaves:
        check_instance("a leaf", leaf, Leaf)
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
    check_instance("kernel", model.kernel, Kernel)
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


def _path_from_state(state: State) -> Path:
    path = make_dataclass(Path, {**state, "status": Status(state["status"])})
    check_instance("model", path.model, KernelSum, PartitionedSum)
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
    check_instance("log", path.log, Log)
    check_instance("plan", path.plan, Plan, type(None))
    _check_able("solver", path.solver, "run", "within")
    _check_able("schedule", path.schedule, "floor", "next_bandwidth", "threshold", "span")
    for name in ("time", "r2", "bandwidth", "compression_error", "n_products", "n_evaluations"):
        check_real(name, getattr(path, name))
    if path.start_bandwidth is not None:
        check_real("start_bandwidth", path.start_bandwidth, 0.0)
    return path


def _check_able(name: str, value: object, *members: str) -> None:
    """Raise TypeError unless the value has these members (None is allowed)."""
    missing = [member for member in members if not hasattr(value, member)]
    if value is not None and missing:
        raise TypeError(f"{name} lacks {', '.join(missing)}")


def _check_log(log: Log) -> None:
    shapes = ShapeChecker()
    for name, column in field_values(log).items():
        shapes(name, column, "steps", allowed="infinite")


def _check_plan(plan: Plan) -> None:
    check_real("start", plan.start)
    check_real("end", plan.end)
    check_instance("centred", plan.centred, bool)


def _check_schedule(schedule: Constant | Geometric | MinimumSpeed) -> None:
    for name, value in field_values(schedule).items():
        check_real(name, value, 0.0)


register(dataclass_component(Constant, _check_schedule))
register(dataclass_component(Geometric, _check_schedule))
register(dataclass_component(MinimumSpeed, _check_schedule))
register(Component(Path, field_values, _path_from_state))
register(dataclass_component(KernelSum, _check_sum))
register(dataclass_component(Partition, _check_partition))
register(dataclass_component(Leaf, _check_leaf))
register(dataclass_component(PartitionedSum, _check_partitioned))
register(dataclass_component(Log, _check_log))
register(dataclass_component(Plan, _check_plan))
register(dataclass_component(Flow))
register(dataclass_component(Euler))
