"""The parts of models that files may hold, and what must hold between the fields of each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandfall._checks import ShapeChecker, check_positions, check_real, check_sizes
from bandfall._files.codec import field_values, register_dataclass
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals
from bandfall._models.member import Candidate, FittedLeaf, Member
from bandfall._targets import Classes, Numbers, Target
from bandfall._targets.links import Link
from bandfall.descent import Euler, Flow, Log, Path, Plan
from bandfall.descent._partition import Partition
from bandfall.descent._partitioned import Leaf, PartitionedSum
from bandfall.descent._schedules import Constant, Geometric, MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.tables import CATEGORIES, NUMBERS, FittedEncoding, Schema, TableEncoder
from bandfall.tables._categories import TargetMeanAndSize
from bandfall.tables._dates import Cycles
from bandfall.tables._pairs import PairMean
from bandfall.tables._table import LARGEST, Reading

# Predicting takes some 8 µs a stage, whatever the number of rows.
MAX_STAGES = 1 << 16


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
    for value, members in (
        (path.solver, ("run", "within")),
        (path.schedule, ("floor", "next_bandwidth", "threshold", "span")),
    ):
        if value is not None and not all(hasattr(value, member) for member in members):
            raise TypeError(f"{type(value).__name__} lacks one of {', '.join(members)}")
    check_real("start_bandwidth", path.start_bandwidth or 0.0, 0.0)


def _check_log(log: Log) -> None:
    shapes = ShapeChecker()
    for name, column in field_values(log).items():
        shapes(name, column, "steps", allowed="infinite")


def _check_schedule(schedule: Constant | Geometric | MinimumSpeed) -> None:
    for name, value in field_values(schedule).items():
        check_real(name, value, 0.0)


def _check_fitted_leaf(leaf: FittedLeaf) -> None:
    check_positions("numbers", leaf.numbers)
    check_positions("held_out", leaf.held_out)
    shapes = ShapeChecker(m=len(leaf.held_out), k=leaf.path.model.n_outputs)
    shapes("predictions", leaf.predictions, "m k")
    if len(leaf.numbers) != len(leaf.path.X):
        raise ValueError("numbers do not fit the path")
    _check_root(leaf.root, leaf.path.X.shape[1])


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
        check_real("suspicious", j, 0, fitted.schema.width - 1)


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
    FittedLeaf: _check_fitted_leaf,
    TableEncoder: _check_encoder,
    Average: _check_average,
    **dict.fromkeys((Constant, Geometric, MinimumSpeed), _check_schedule),
}
for _part, _check in _CHECKS.items():
    register_dataclass(_part, _check)
# These check their fields when they are made.
_CHECKED: list[type] = [Plan, Flow, Euler, Candidate, Member, Link, Numbers, Classes, Intervals]
_CHECKED += [FittedEncoding, Schema, Reading, Cycles, PairMean, TargetMeanAndSize]
for _part in (*_CHECKED, *NUMBERS.values(), *CATEGORIES.values()):
    register_dataclass(_part)
