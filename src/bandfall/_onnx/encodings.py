"""Encodings of tables as ONNX nodes.

Each encoding has its own ONNX form; this module combines them as
`bandfall.tables.FittedEncoding` does. Results are rounded where the Python code rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandfall._onnx.builder import Graph
from bandfall.tables import FittedEncoding, TableEncoder


def add_encoding(graph: Graph, rows: str, encoder: TableEncoder, root: np.ndarray) -> str:
    """Encoded and scaled columns of a member, from float64 rows of features."""
    fitted = encoder.fitted
    assert fitted is not None
    parts = _add_numbers(graph, rows, fitted)
    for one in fitted.categories:
        place = graph.op("Gather", rows, graph.constant(one.position, np.int64), axis=1)
        parts.append(one.onnx(graph, graph.whole(place)))
    for pair in fitted.pairs:
        positions = (graph.constant(j, np.int64) for j in (pair.first, pair.second))
        parts.append(pair.onnx(graph, *(graph.op("Gather", rows, j, axis=1) for j in positions)))
    columns = parts[0] if len(parts) == 1 else graph.op("Concat", *parts, axis=1)
    used = graph.constant(fitted.order, np.int64)
    columns = graph.cast(graph.op("Gather", columns, used, axis=1), fitted.dtype)
    operation = "Mul" if root.ndim == 1 else "MatMul"
    scaled = graph.op(operation, columns, graph.constant(root, fitted.dtype))
    return graph.cast(scaled, np.float64)


def _add_numbers(graph: Graph, rows: str, fitted: FittedEncoding) -> list[str]:
    """Numbers with indicators of missing values, booleans and cycles of dates, if any."""
    positions = [*fitted.numeric, *fitted.boolean]
    if not positions:
        return []
    values = _columns(graph, rows, positions)
    missing = graph.op("IsNaN", values)
    filled = graph.op("Where", missing, graph.constant(fitted.missing.fill, np.float64), values)
    n_numeric, parts = len(fitted.numeric), []
    numbers = [_columns(graph, filled, range(n_numeric))] if n_numeric else []
    if len(fitted.missing.marked):
        numbers.append(graph.cast(_columns(graph, missing, fitted.missing.marked), np.float64))
    if len(fitted.scaling.columns):
        complete = numbers[0] if len(numbers) == 1 else graph.op("Concat", *numbers, axis=1)
        parts.append(fitted.scaling.onnx(graph, complete))
    if len(fitted.boolean):
        parts.append(_columns(graph, filled, range(n_numeric, len(positions))))
    places = {int(position): i for i, position in enumerate(fitted.numeric)}
    for one in fitted.cycles:
        if one.periods:
            parts.append(one.onnx(graph, _columns(graph, filled, [places[one.position]])))
    return parts


def _columns(graph: Graph, rows: str, columns: Sequence[int] | np.ndarray) -> str:
    return graph.op("Gather", rows, graph.constant(np.array(columns, dtype=np.int64)), axis=1)
