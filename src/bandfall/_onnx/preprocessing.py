"""The scalers of scikit-learn as ONNX nodes, for pipelines, rounded where scikit-learn rounds."""

from __future__ import annotations

import numpy as np
import sklearn
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from bandfall._graphs import Graph
from bandfall._typing import ArrayLike, Estimator

# Operators in order, with the attribute that holds the values and the parameter to switch it off.
_STEPS: dict[type, list[tuple[str, str, str]]] = {
    StandardScaler: [("Sub", "mean_", "with_mean"), ("Div", "scale_", "with_std")],
    MinMaxScaler: [("Mul", "scale_", ""), ("Add", "min_", "")],
    MaxAbsScaler: [("Div", "scale_", "")],
    RobustScaler: [("Sub", "center_", "with_centering"), ("Div", "scale_", "with_scaling")],
}


def add_transformers(graph: Graph, rows: str, pipeline: Pipeline, dtype: np.dtype) -> str:
    """Name of the rows after all steps; `rows` and the result are of `dtype`."""
    for _, transformer in pipeline.steps:
        if transformer not in (None, "passthrough"):
            rows = _add_transformer(graph, rows, transformer, dtype)
    return rows


def _add_transformer(graph: Graph, rows: str, transformer: Estimator, dtype: np.dtype) -> str:
    if type(transformer) not in _STEPS:
        allowed = ", ".join(cls.__name__ for cls in _STEPS)
        raise ValueError(
            f"{type(transformer).__name__} cannot be exported to ONNX; allowed before a kernel "
            f"estimator: {allowed}"
        )
    # From scikit-learn 1.8 on, this is the one scaler that rounds its own values first.
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    first = isinstance(transformer, StandardScaler) and version >= (1, 8)
    for operator, name, switch in _STEPS[type(transformer)]:
        if not switch or getattr(transformer, switch):
            values = np.asarray(getattr(transformer, name))
            values = values.astype(dtype if first else np.float64)
            rows = _elementwise(graph, rows, operator, values, dtype)
    if getattr(transformer, "clip", False):
        low, high = getattr(transformer, "feature_range", (-1.0, 1.0))
        rows = _elementwise(graph, rows, "Max", np.float64(low), dtype)
        rows = _elementwise(graph, rows, "Min", np.float64(high), dtype)
    return rows


def _elementwise(graph: Graph, rows: str, operator: str, values: ArrayLike, dtype: np.dtype) -> str:
    """`rows` operator `values`; with float64 values, computed in float64 and then rounded."""
    values = np.asarray(values)
    if values.dtype == dtype:
        return graph.op(operator, rows, values)
    return graph.cast(graph.op(operator, graph.cast(rows, values.dtype), values), dtype)
