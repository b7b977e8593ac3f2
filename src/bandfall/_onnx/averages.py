"""Averages as ONNX graphs: encoded tables, outputs, and the ends of intervals.

Each encoding has its own ONNX form; this module combines them as `bandfall.tables.FittedEncoding`
does. Results are rounded where the Python code rounds. `bandfall.to_onnx` says what the inputs are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

from bandfall._estimators.view import Story
from bandfall._graphs import FLOAT_TYPES, Graph
from bandfall._models.average import Average
from bandfall._models.intervals import Intervals, smoothed, widened
from bandfall._models.member import Member
from bandfall._onnx.sums import Prepare, add_nearest, add_partitioned, add_scaled, add_sum
from bandfall._targets import Numbers, Output, Target
from bandfall.descent._partition import PartitionedSum
from bandfall.tables import Schema, TableEncoder
from bandfall.tables._fitted import FittedEncoding

# Encoded rows count as equal within the rounding of normal quantiles, and of a product with the
# metric, in units of eps times the largest entry.
SAME_ROW = 1e-12
SAME_PRODUCT = 64

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


def add_average(graph: Graph, rows: str, average: Average[Target]) -> str:
    """Outputs of the average at float64 rows, (m, k)."""
    parts = []
    for member in average.members:
        prepare, same = _prepare(average.encoders, member), _same_row(member.path.X)
        inner, d = member.path.model, average.schema.width
        if isinstance(inner, PartitionedSum):
            outputs = add_partitioned(graph, rows, d, inner, prepare, same)
        else:
            outputs = add_sum(graph, rows, d, inner, prepare, same)
        parts.append(graph.op("Mul", outputs, member.weight))
    return graph.op("Sum", *parts)


def add_interval(
    graph: Graph, rows: str, outputs: str, story: Story, coverage: float
) -> list[Output]:
    """Both ends of intervals around outputs of an average."""
    intervals, average = story.intervals, cast("Average[Numbers]", story.average)
    assert intervals is not None
    tail = 0.5 - 0.5 * coverage
    offsets = intervals.offsets(np.array([tail, 1.0 - tail]))
    if not np.all(np.isfinite(offsets)):
        raise ValueError(
            f"coverage={coverage}: {intervals.n_rows:,} held-out rows are too few: the "
            "intervals would be infinite"
        )
    sizes = _add_sizes(graph, rows, outputs, average, intervals)
    steps = [graph.op("Mul", sizes, offset) for offset in offsets]
    ends = zip(("lower", "upper"), [graph.op("Add", outputs, step) for step in steps], strict=True)
    return [average.target.onnx_quantile(graph, name, end) for name, end in ends]


def _add_sizes(
    graph: Graph, rows: str, outputs: str, average: Average[Numbers], intervals: Intervals
) -> str:
    """Expected sizes of errors, larger if rows are novel, shape (m, k)."""
    overall, smoother = intervals.size_rule(average)
    d = average.schema.width
    if smoother is None:
        sizes = graph.constant(np.where(overall > 0, overall, 1.0))
    else:
        total = smoother.as_sum([intervals.bandwidth])
        if intervals.method == "prediction":
            sums = add_sum(graph, outputs, len(overall), total)
        else:
            prepare = _prepare(average.encoders, average.heaviest)
            sums = add_sum(graph, rows, d, total, prepare)
        sizes = _add_quotient(graph, sums, overall)
    plainest = average.plainest
    prepare, p = _prepare(average.encoders, plainest), plainest.path.kernel.geometry.p
    nearest = graph.symbol(add_nearest(graph, rows, d, plainest.path.X, p, prepare))
    return widened(graph.symbol(sizes), nearest / average.novelty_scale).name


def _add_quotient(graph: Graph, sums: str, overall: np.ndarray) -> str:
    """Smoothed sizes from the sums of |error| and of weights; 1 if there are no errors."""
    k = len(overall)
    above = graph.symbol(graph.op("Gather", sums, list(range(k)), axis=1))
    below = graph.symbol(graph.op("Gather", sums, [k], axis=1))
    sizes = smoothed(above, below, overall)
    return graph.op("Where", overall > 0, sizes.name, np.ones(k))


def _prepare(encoders: Mapping[str, TableEncoder], member: Member) -> Prepare:
    """A function that encodes a block of features for a member, inside the scan over blocks."""
    encoder = encoders[member.candidate.encoding]
    return lambda inner, block: _add_encoding(inner, block, encoder, member.root)


def _same_row(X: np.ndarray) -> float:
    """Squared distance at which encoded rows count as equal."""
    rounding = SAME_PRODUCT * float(np.finfo(X.dtype).eps) * np.abs(X).max(initial=0.0)
    return float(max(SAME_ROW, rounding) ** 2)


def _add_encoding(graph: Graph, rows: str, encoder: TableEncoder, root: np.ndarray) -> str:
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
    return add_scaled(graph, graph.op("Gather", columns, used, axis=1), root, fitted.dtype)


def _add_numbers(graph: Graph, rows: str, fitted: FittedEncoding) -> list[str]:
    """Numbers with indicators of missing values, booleans and cycles of dates, if any."""
    positions = [*fitted.numeric, *fitted.boolean]
    if not positions:
        return [_columns(graph, rows, [])]  # a table may have no usable column at all
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
