"""What BandfallRegressor does to numbers before it measures distances, as ONNX nodes.

The formulas are those of `bandfall.encoding`; results are rounded where the Python code rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from bandfall.encoding import FittedEncoding, TableEncoder
from bandfall.encoding.quantiles import FARTHEST as FARTHEST_QUANTILE
from bandfall.encoding.quantiles import Quantiles
from bandfall.encoding.ranks import Ranks
from bandfall.encoding.robust import LIMIT, Robust
from bandfall.encoding.standard import FARTHEST, Standard
from bandfall.encoding.steps import Steps
from bandfall.onnx_export.builder import Graph
from bandfall.onnx_export.normal import add_normal_quantile


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
    parts = [_SCALINGS[type(fitted.scaling)](graph, scaled_columns, fitted.scaling)]
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


def _clipped(graph: Graph, value: str, low: float, high: float) -> str:
    above = graph.op("Max", value, graph.constant(low, np.float64))
    return graph.op("Min", above, graph.constant(high, np.float64))


def _add_standard(graph: Graph, columns: str, scaling: Standard | Robust) -> str:
    columns = graph.op("Sub", columns, graph.constant(scaling.centre, np.float64))
    columns = graph.op("Div", columns, graph.constant(scaling.scale, np.float64))
    return _clipped(graph, columns, -FARTHEST, FARTHEST)


def _add_robust(graph: Graph, columns: str, scaling: Robust) -> str:
    t = _add_standard(graph, columns, scaling)
    shares = graph.op("Div", t, graph.constant(LIMIT, np.float64))
    squares = graph.op("Mul", shares, shares)
    return graph.op(
        "Div", t, graph.op("Sqrt", graph.op("Add", squares, graph.constant(1.0, np.float64)))
    )


def _add_steps(graph: Graph, columns: str, scaling: Steps) -> str:
    along = graph.op("Sub", _columns(graph, columns, scaling.columns), _row(graph, scaling.low))
    along = graph.op("Div", along, _row(graph, scaling.gap))
    along = _clipped(graph, along, -FARTHEST, FARTHEST)
    place = _clipped(graph, along, 0.0, 1.0)
    beyond = graph.op("Sub", along, place)
    zero, ramps = graph.constant(0.0, np.float64), np.arange(len(scaling.low))
    low = graph.op("Mul", graph.op("Min", beyond, zero), _row(graph, np.isin(ramps, scaling.first)))
    high = graph.op("Mul", graph.op("Max", beyond, zero), _row(graph, np.isin(ramps, scaling.last)))
    beyond = graph.op("Add", low, high)
    size = graph.op("Add", graph.op("Abs", beyond), graph.constant(1.0, np.float64))
    place = graph.op("Add", place, graph.op("Div", beyond, size))
    return graph.op("Mul", place, _row(graph, scaling.weight))


def _row(graph: Graph, values: np.ndarray) -> str:
    return graph.constant(values, np.float64)


def _add_quantiles(graph: Graph, columns: str, scaling: Quantiles) -> str:
    """Φ⁻¹ of the share of training values below, column by column."""
    knots = graph.constant(scaling.knots.T, np.float64)
    features = graph.op("Transpose", columns, perm=[1, 0])
    n = len(scaling.knots)
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
    return _clipped(graph, score, -FARTHEST_QUANTILE, FARTHEST_QUANTILE)


def _add_ranks(graph: Graph, columns: str, scaling: Ranks) -> str:
    """Linear between knots, column by column."""
    n = len(scaling.knots)
    knots, heights = (
        graph.constant(part.T, np.float64) for part in (scaling.knots, scaling.heights)
    )
    features = graph.op("Transpose", columns, perm=[1, 0])
    ranked = graph.scan(
        "column",
        lambda inner, x, k, h: _column_ranks(inner, x, k, h, n),
        [],
        [(features, (None,)), (knots, (n,)), (heights, (n,))],
        stacked=(None,),
    )
    return graph.op("Transpose", ranked, perm=[1, 0])


def _column_ranks(graph: Graph, x: str, knots: str, heights: str, n: int) -> str:
    wide = graph.op("Unsqueeze", x, graph.constant([1], np.int64))
    one = graph.constant(1, np.int64)
    left = graph.op("Sub", _count(graph, graph.op("LessOrEqual", knots, wide)), one)
    left = graph.op("Max", left, graph.constant(0, np.int64))
    left = graph.op("Min", left, graph.constant(n - 2, np.int64))
    right = graph.op("Add", left, one)
    (a, b), (low, high) = (
        (graph.op("Gather", part, left), graph.op("Gather", part, right))
        for part in (knots, heights)
    )
    tiny = graph.constant(np.finfo(np.float64).tiny, np.float64)
    share = graph.op("Div", graph.op("Sub", x, a), graph.op("Max", graph.op("Sub", b, a), tiny))
    share = _clipped(graph, share, 0.0, 1.0)
    return graph.op("Add", low, graph.op("Mul", share, graph.op("Sub", high, low)))


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
    part = _clipped(graph, part, 0.0, 1.0)
    place = graph.op("Add", graph.cast(left, np.float64), part)
    return graph.op("Div", place, graph.constant(float(max(n - 1, 1)), np.float64))


_SCALINGS: dict[type, Callable[[Graph, str, Any], str]] = {
    Standard: _add_standard,
    Quantiles: _add_quantiles,
    Ranks: _add_ranks,
    Steps: _add_steps,
    Robust: _add_robust,
}
