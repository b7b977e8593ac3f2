"""What BandfallRegressor does to numbers before it measures distances, as ONNX nodes.

The formulas are those of `bandfall.encoding`; results are rounded where the Python code rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bandfall.encoding import FittedEncoding, TableEncoder
from bandfall.onnx_export.builder import Graph


def check_encodable(encoder: TableEncoder) -> None:
    """Raise ValueError, naming the features, unless all that count are numbers or booleans."""
    schema = encoder.schema
    others: dict[str, list[str]] = {}
    for position, reading in enumerate(schema.readings):
        if not reading.dropped and (reading.kind not in ("number", "boolean") or reading.style):
            kind = "text" if reading.style else reading.kind
            others.setdefault(kind, []).append(schema.label(position))
    if others:
        named = "; ".join(f"{kind}: {', '.join(labels)}" for kind, labels in others.items())
        raise ValueError(
            "an ONNX model takes one array of numbers, and these features are none: "
            f"{named}. Encode them before fitting"
        )


def add_encoding(graph: Graph, rows: str, encoder: TableEncoder, root: np.ndarray) -> str:
    """The columns that a member measures distances in, from float64 rows of features."""
    fitted = encoder.fitted
    assert fitted is not None
    scaled_columns, booleans = _add_complete(graph, rows, fitted)
    parts = [fitted.scaling.onnx(graph, scaled_columns)]
    if len(fitted.boolean):
        parts.append(booleans)
    columns = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    # Categories and dates stand last and are refused, so that what is used is among these.
    used = graph.constant(np.flatnonzero(fitted.used), np.int64)
    columns = graph.cast(graph.op("Gather", columns, used, axis=1), fitted.dtype)
    operation = "Mul" if root.ndim == 1 else "MatMul"
    scaled = graph.op(operation, columns, graph.constant(root, fitted.dtype))
    return graph.cast(scaled, np.float64)


def _add_complete(graph: Graph, rows: str, fitted: FittedEncoding) -> tuple[str, str]:
    """Numbers without gaps followed by the marks of gaps, and booleans without gaps."""
    positions = np.concatenate([fitted.numeric, fitted.boolean])
    values = graph.op("Gather", rows, graph.constant(positions, np.int64), axis=1)
    missing = graph.op("IsNaN", values)
    fill = graph.constant(fitted.missing.fill, np.float64)
    filled = graph.op("Where", missing, fill, values)
    n_numeric = len(fitted.numeric)
    numbers = _columns(graph, filled, range(n_numeric))
    if len(fitted.missing.marked):
        marks = graph.op("Gather", missing, _indices(graph, fitted.missing.marked), axis=1)
        numbers = graph.op("Concat", numbers, graph.cast(marks, np.float64), axis=1)
    return numbers, _columns(graph, filled, range(n_numeric, len(positions)))


def _columns(graph: Graph, rows: str, columns: Any) -> str:
    return graph.op("Gather", rows, _indices(graph, columns), axis=1)


def _indices(graph: Graph, values: Any) -> str:
    return graph.constant(np.array(values, dtype=np.int64))
