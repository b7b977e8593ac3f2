"""Inputs of an ONNX graph, one for each column of a table, and rows made from them.

Numbers, durations (seconds), dates (seconds since 1970) and booleans are floats, NaN if missing;
categories are strings, empty if missing.
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

from bandfall._onnx.builder import FLOAT_TYPES, Graph
from bandfall.tables import Schema

OUTPUTS = ("prediction", "lower", "upper", "probability")


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
