"""The scalers of scikit-learn as ONNX nodes, for pipelines.

Results are rounded where the Python code rounds.
"""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall._onnx.builder import Graph
from bandfall._typing import ArrayLike, Estimator

_SCIKIT_LEARN = tuple(int(part) for part in sklearn.__version__.split(".")[:2])


def add_transformer(graph: Graph, rows: str, transformer: Estimator, dtype: np.dtype) -> str:
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


def _elementwise(graph: Graph, rows: str, operator: str, values: ArrayLike, dtype: np.dtype) -> str:
    """`rows` operator `values`; with float64 values, computed in float64 and then rounded."""
    values = np.asarray(values)
    if values.dtype == dtype:
        return graph.op(operator, rows, graph.constant(values))
    wide = graph.op(operator, graph.cast(rows, values.dtype), graph.constant(values))
    return graph.cast(wide, dtype)


Operations = list[tuple[str, np.ndarray]]


def _standard(scaler: StandardScaler, dtype: np.dtype) -> Operations:
    # From scikit-learn 1.8 this is the one scaler that rounds its own values first.
    values = dtype if _SCIKIT_LEARN >= (1, 8) else np.dtype(np.float64)
    steps = [("Sub", scaler.mean_.astype(values))] if scaler.with_mean else []
    return steps + ([("Div", scaler.scale_.astype(values))] if scaler.with_std else [])


def _min_max(scaler: MinMaxScaler, dtype: np.dtype) -> Operations:
    steps = [("Mul", scaler.scale_), ("Add", scaler.min_)]
    if scaler.clip:
        low, high = (np.float64(end) for end in scaler.feature_range)
        steps += [("Max", low), ("Min", high)]
    return steps


def _robust(scaler: RobustScaler, dtype: np.dtype) -> Operations:
    steps = [("Sub", scaler.center_)] if scaler.with_centering else []
    return steps + ([("Div", scaler.scale_)] if scaler.with_scaling else [])


def _max_abs(scaler: MaxAbsScaler, dtype: np.dtype) -> Operations:
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
