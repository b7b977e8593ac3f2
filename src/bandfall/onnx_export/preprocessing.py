"""What comes before the kernels as ONNX nodes: scikit-learn's scalers, BandfallRegressor's front.

Results are rounded where the Python code rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn
from onnx import TensorProto
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall.estimators._front import FARTHEST, FeatureFront
from bandfall.onnx_export.builder import Graph
from bandfall.onnx_export.normal import add_normal_quantile

_SCIKIT_LEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def add_transformer(graph: Graph, rows: str, transformer: Any, dtype: np.dtype) -> str:
    """Name of the transformed rows; `rows` and the result are of `dtype`."""
    steps = _STEPS.get(type(transformer))
    if steps is None:
        allowed = ", ".join(cls.__name__ for cls in _STEPS)
        raise ValueError(
            f"{type(transformer).__name__} cannot be exported to ONNX; allowed before a kernel "
            f"estimator: {allowed}"
        )
    for operator, values in steps(transformer, dtype):
        rows = _elementwise(graph, rows, operator, values, dtype)
    return rows


def _elementwise(graph: Graph, rows: str, operator: str, values: Any, dtype: np.dtype) -> str:
    """`rows` operator `values`; float64 values act in float64 and the result is rounded."""
    values = np.asarray(values)
    if values.dtype == dtype:
        return graph.op(operator, rows, graph.constant(values))
    wide = graph.op(operator, graph.cast(rows, values.dtype), graph.constant(values))
    return graph.cast(wide, dtype)


Steps = list[tuple[str, np.ndarray]]


def _standard(scaler: StandardScaler, dtype: np.dtype) -> Steps:
    # From scikit-learn 1.8 this is the one scaler that rounds its own values first.
    values = dtype if _SCIKIT_LEARN >= (1, 8) else np.dtype(np.float64)
    steps = [("Sub", scaler.mean_.astype(values))] if scaler.with_mean else []
    return steps + ([("Div", scaler.scale_.astype(values))] if scaler.with_std else [])


def _min_max(scaler: MinMaxScaler, dtype: np.dtype) -> Steps:
    steps = [("Mul", scaler.scale_), ("Add", scaler.min_)]
    if scaler.clip:
        low, high = (np.float64(end) for end in scaler.feature_range)
        steps += [("Max", low), ("Min", high)]
    return steps


def _robust(scaler: RobustScaler, dtype: np.dtype) -> Steps:
    steps = [("Sub", scaler.center_)] if scaler.with_centering else []
    return steps + ([("Div", scaler.scale_)] if scaler.with_scaling else [])


def _max_abs(scaler: MaxAbsScaler, dtype: np.dtype) -> Steps:
    steps = [("Div", scaler.scale_)]
    if getattr(scaler, "clip", False):
        steps += [("Max", np.float64(-1.0)), ("Min", np.float64(1.0))]
    return steps


_STEPS = {
    StandardScaler: _standard,
    MinMaxScaler: _min_max,
    MaxAbsScaler: _max_abs,
    RobustScaler: _robust,
}


def add_front(graph: Graph, rows: str, front: FeatureFront, metric: np.ndarray) -> str:
    """The columns that BandfallRegressor measures distances in, from float64 rows."""
    if front.other:
        raise ValueError(
            f"{len(front.other)} features are categories, which an ONNX model with one array of "
            "numbers cannot take: encode them before fitting"
        )
    missing = graph.op("IsNaN", rows)
    columns = graph.op("Where", missing, graph.constant(front.medians, np.float64), rows)
    if len(front.marked):
        marks = graph.op("Gather", missing, graph.constant(front.marked, np.int64), axis=1)
        columns = graph.op("Concat", columns, graph.cast(marks, np.float64), axis=1)
    if front.quantiles is None:
        columns = graph.op("Sub", columns, graph.constant(front.centre, np.float64))
        columns = graph.op("Div", columns, graph.constant(front.scale, np.float64))
    else:
        columns = _add_normal_scores(graph, columns, front.quantiles)
    used = graph.constant(np.flatnonzero(front.used), np.int64)
    columns = graph.cast(graph.op("Gather", columns, used, axis=1), front.dtype)
    operation = "Mul" if metric.ndim == 1 else "MatMul"
    scaled = graph.op(operation, columns, graph.constant(metric, front.dtype))
    return graph.cast(scaled, np.float64)


def _add_normal_scores(graph: Graph, columns: str, quantiles: np.ndarray) -> str:
    """Φ⁻¹ of the share of training values below, column by column; see `FeatureFront`."""
    knots = graph.constant(quantiles.T, np.float64)
    features = graph.op("Transpose", columns, perm=[1, 0])
    n = len(quantiles)
    scored = graph.scan(
        "column",
        lambda inner, x, k: _column_scores(inner, x, k, n),
        [],
        [(features, (None,)), (knots, (n,))],
        stacked=(None,),
    )
    return graph.op("Transpose", scored, perm=[1, 0])


def _column_scores(graph: Graph, x: str, knots: str, n: int) -> str:
    """Interpolate from both sides of ties, take the middle, and put it through Φ⁻¹."""
    wide = graph.op("Unsqueeze", x, graph.constant([1], np.int64))
    below = _count(graph, graph.op("Less", knots, wide))
    not_above = _count(graph, graph.op("LessOrEqual", knots, wide))
    one = graph.constant(1, np.int64)
    upper = _between(graph, x, knots, graph.op("Sub", not_above, one), n)
    lower = _between(graph, x, knots, graph.op("Sub", below, one), n)
    share = graph.op("Mul", graph.op("Add", upper, lower), graph.constant(0.5, np.float64))
    ends = [graph.op("Gather", knots, graph.constant(i, np.int64)) for i in (n - 1, 0)]
    last = graph.op("GreaterOrEqual", x, ends[0])
    share = graph.op("Where", last, graph.constant(1.0, np.float64), share)
    first = graph.op("LessOrEqual", x, ends[1])
    share = graph.op("Where", first, graph.constant(0.0, np.float64), share)
    score = add_normal_quantile(graph, share)
    score = graph.op("Max", score, graph.constant(-FARTHEST, np.float64))
    return graph.op("Min", score, graph.constant(FARTHEST, np.float64))


def _count(graph: Graph, condition: str) -> str:
    ones = graph.op("Cast", condition, to=TensorProto.INT64)
    return graph.op("ReduceSum", ones, graph.constant([1], np.int64), keepdims=0)


def _between(graph: Graph, x: str, knots: str, left: str, n: int) -> str:
    """Share at x on the line between knots `left` and `left` + 1, shares rising evenly."""
    left = graph.op("Max", left, graph.constant(0, np.int64))
    left = graph.op("Min", left, graph.constant(max(n - 2, 0), np.int64))
    right = graph.op(
        "Min", graph.op("Add", left, graph.constant(1, np.int64)), graph.constant(n - 1, np.int64)
    )
    a, b = graph.op("Gather", knots, left), graph.op("Gather", knots, right)
    gap = graph.op("Sub", b, a)
    tiny = graph.constant(np.finfo(np.float64).tiny, np.float64)
    part = graph.op("Div", graph.op("Sub", x, a), graph.op("Max", gap, tiny))
    part = graph.op("Max", part, graph.constant(0.0, np.float64))
    part = graph.op("Min", part, graph.constant(1.0, np.float64))
    place = graph.op("Add", graph.cast(left, np.float64), part)
    return graph.op("Div", place, graph.constant(float(max(n - 1, 1)), np.float64))
