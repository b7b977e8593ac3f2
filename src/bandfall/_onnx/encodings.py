"""Encodings of tables as ONNX nodes.

Each encoding has its own ONNX form; this module combines them as
`bandfall.tables.FittedEncoding` does. Results are rounded where the Python code rounds. Inputs are
one array, or one for each column of a table: numbers, durations (seconds), dates (seconds since
1970) and booleans are floats, NaN if missing; categories are strings, empty if missing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

from bandfall._graphs import FLOAT_TYPES, Graph
from bandfall.tables import FittedEncoding, Schema, TableEncoder

OUTPUTS = ("prediction", "lower", "upper", "probability")


def add_encoding(graph: Graph, rows: str, encoder: TableEncoder, root: np.ndarray) -> str:
    """Encoded and scaled columns of a member, from float64 rows of features."""
    fitted = encoder.fitted
    assert fitted is not None
    parts = _add_numbers(graph, rows, fitted)
    for one in fitted.categories:
        place = graph.op("Gather", rows, int(one.position), axis=1)
        parts.append(one.onnx(graph, graph.whole(place)))
    for pair in fitted.pairs:
        positions = (int(j) for j in (pair.first, pair.second))
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
    filled = graph.op("Where", missing, graph.constant(fitted.fill, np.float64), values)
    n_numeric, parts = len(fitted.numeric), []
    numbers = [_columns(graph, filled, range(n_numeric))] if n_numeric else []
    if len(fitted.marked):
        numbers.append(graph.cast(_columns(graph, missing, fitted.marked), np.float64))
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


def is_matrix(schema: Schema) -> bool:
    """Whether all used features are numbers or booleans, which fit one array."""
    return all(
        one.dropped or (one.kind in ("number", "boolean") and not one.style)
        for one in schema.readings
    )


def add_inputs(graph: Graph, schema: Schema, dtype: np.dtype) -> tuple[str, list[ValueInfoProto]]:
    """Float64 rows of all features, with positions of levels for categories, and the inputs."""
    names = schema.names or [f"x{j}" for j in range(schema.width)]
    used = [j for j, one in enumerate(schema.readings) if not one.dropped]
    wrong = sorted({names[j] for j in used}.intersection(OUTPUTS))
    if wrong:
        raise ValueError(
            f"feature {wrong[0]!r} has the name of an output of the ONNX model: rename it"
        )
    graph.taken.update(names)
    inputs, columns = [], {}
    for j in used:
        kind = schema.readings[j].kind
        if kind == "category":
            element = TensorProto.STRING
            columns[j] = _add_places(graph, names[j], schema, j)
        else:
            # Seconds since 1970 need more digits than float32 has.
            precise = kind in ("datetime", "duration")
            element = FLOAT_TYPES[np.dtype(np.float64) if precise else dtype]
            columns[j] = graph.cast(names[j], np.float64)
        inputs.append(helper.make_tensor_value_info(names[j], element, ("rows", 1)))
    nothing = graph.op("Sub", columns[used[0]], columns[used[0]])
    rows = [columns.get(j, nothing) for j in range(schema.width)]
    return graph.op("Concat", *rows, axis=1), inputs


def _add_places(graph: Graph, name: str, schema: Schema, position: int) -> str:
    """Positions of levels as float64, −1 for unknown ones."""
    places = {level or "": place for place, level in enumerate(schema.levels[position])}
    for word in schema.readings[position].missing:
        places.setdefault(word, places.get("", -1))
    found = graph.op(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_strings=list(places),
        values_int64s=list(places.values()),
        default_int64=-1,
    )
    return graph.cast(found, np.float64)
