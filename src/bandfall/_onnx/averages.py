"""Averages as ONNX graphs: outputs and the ends of intervals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from bandfall._estimators.view import Story
from bandfall._graphs import Graph
from bandfall._models.average import Average
from bandfall._models.intervals import PRIOR_ROWS, Intervals
from bandfall._models.member import Member
from bandfall._onnx.encodings import add_encoding
from bandfall._onnx.sums import Prepare, add_nearest, add_partitioned, add_sum
from bandfall._targets import Numbers, Output, Target
from bandfall.descent._partitioned import PartitionedSum
from bandfall.tables import TableEncoder

# Encoded rows count as equal within the rounding of normal quantiles, and of a product with the
# metric, in units of eps times the largest entry.
SAME_ROW = 1e-12
SAME_PRODUCT = 64


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
    prepare, geometry = _prepare(average.encoders, plainest), plainest.path.kernel.geometry
    nearest = graph.symbol(add_nearest(graph, rows, d, plainest.path.X, geometry, prepare))
    novelty = np.maximum(nearest / average.novelty_scale, 1.0)
    size = graph.symbol(sizes)
    return np.minimum(size * novelty, np.maximum(size, 1.0)).name


def _add_quotient(graph: Graph, sums: str, overall: np.ndarray) -> str:
    """Smoothed sizes from the sums of |error| and of weights; 1 if there are no errors."""
    k = len(overall)
    above = graph.symbol(graph.op("Gather", sums, list(range(k)), axis=1))
    below = graph.symbol(graph.op("Gather", sums, [k], axis=1))
    sizes = (above + PRIOR_ROWS * overall) / (below + PRIOR_ROWS)
    return graph.op("Where", overall > 0, sizes.name, np.ones(k))


def _prepare(encoders: Mapping[str, TableEncoder], member: Member) -> Prepare:
    """A function that encodes a block of features for a member, inside the scan over blocks."""
    encoder = encoders[member.candidate.encoding]
    return lambda inner, block: add_encoding(inner, block, encoder, member.root)


def _same_row(X: np.ndarray) -> float:
    """Squared distance at which encoded rows count as equal."""
    rounding = SAME_PRODUCT * float(np.finfo(X.dtype).eps) * np.abs(X).max(initial=0.0)
    return float(max(SAME_ROW, rounding) ** 2)
