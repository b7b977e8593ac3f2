"""Averages that tuned themselves, as ONNX graphs: predictions, intervals, probabilities."""

from __future__ import annotations

import numpy as np

from bandfall.encoding import TableEncoder
from bandfall.estimators import BandfallClassifier, BandfallRegressor
from bandfall.onnx_export.builder import Graph
from bandfall.onnx_export.encodings import add_encoding
from bandfall.onnx_export.partitions import add_partitioned
from bandfall.onnx_export.sums import Prepare, add_nearest, add_sum
from bandfall.partitioned import PartitionedSum
from bandfall.selection.classes import CLIP, LEAST
from bandfall.selection.conformal import PRIOR_ROWS
from bandfall.selection.members import Member

# Between encoded rows that count as equal: what the last bits of normal quantiles amount to, and
# the rounding of a product with the metric, in units of the largest entry.
SAME_ROW = 1e-12
SAME_PRODUCT = 64


def add_average(graph: Graph, rows: str, model: BandfallRegressor | BandfallClassifier) -> str:
    """The weighted sum over members at float64 rows, in what they were trained on, (m, k)."""
    parts = []
    for member in model.members_:
        prepare, same = _prepare(model.encoders_, member), _same_row(member.path.X)
        inner, d = member.path.model, model.n_features_in_
        if isinstance(inner, PartitionedSum):
            outputs = add_partitioned(graph, rows, d, inner, prepare, same)
        else:
            outputs = add_sum(graph, rows, d, inner, prepare, same)
        parts.append(graph.op("Mul", outputs, graph.constant(member.weight, np.float64)))
    return graph.op("Sum", *parts)


def add_in_units(graph: Graph, values: str, model: BandfallRegressor) -> str:
    """Standard deviations from the mean as values of the target."""
    scaled = graph.op("Mul", values, graph.constant(model._y_scale, np.float64))
    return graph.op("Add", scaled, graph.constant(model._y_offset, np.float64))


def add_interval(
    graph: Graph, rows: str, average: str, model: BandfallRegressor, coverage: float
) -> list[str]:
    """Both ends of `predict_interval` around an average, in its units, each of shape (m, k)."""
    tail = 0.5 - 0.5 * coverage
    offsets = model._offsets(np.array([tail, 1.0 - tail]), model._evidence())
    if not np.all(np.isfinite(offsets)):
        raise ValueError(
            f"coverage={coverage}: {model.interval_['n_rows']:,} held-out rows are too few, its "
            "intervals have no ends"
        )
    sizes = _add_sizes(graph, rows, average, model)
    steps = [graph.op("Mul", sizes, graph.constant(offset, np.float64)) for offset in offsets]
    return [graph.op("Add", average, step) for step in steps]


def _add_sizes(graph: Graph, rows: str, average: str, model: BandfallRegressor) -> str:
    """Of errors, wider where rows are novel, shape (m, k)."""
    overall, smoother = model._size_rule(model._evidence())
    if smoother is None:
        sizes = graph.constant(np.where(overall > 0, overall, 1.0), np.float64)
    else:
        total = smoother.as_sum([model.interval_["bandwidth"]])
        if model.interval_["method"] == "prediction":
            sums = add_sum(graph, average, len(overall), total)
        else:
            prepare = _prepare(model.encoders_, model.members_[0])
            sums = add_sum(graph, rows, model.n_features_in_, total, prepare)
        sizes = _add_quotient(graph, sums, overall)
    plainest = model._plainest
    nearest = add_nearest(
        graph,
        rows,
        model.n_features_in_,
        plainest.path.X,
        plainest.path.kernel.geometry,
        _prepare(model.encoders_, plainest),
    )
    one = graph.constant(1.0, np.float64)
    scale = graph.constant(model._novelty_scale, np.float64)
    novelty = graph.op("Max", graph.op("Div", nearest, scale), one)
    return graph.op("Min", graph.op("Mul", sizes, novelty), graph.op("Max", sizes, one))


def _add_quotient(graph: Graph, sums: str, overall: np.ndarray) -> str:
    """Smoothed sizes from the sums over |error| and over weights; 1 where there are no errors."""
    k = len(overall)
    axis, ends = graph.constant([1], np.int64), [graph.constant([j], np.int64) for j in (0, k)]
    above = graph.op("Slice", sums, *ends, axis)
    below = graph.op("Slice", sums, ends[1], graph.constant([k + 1], np.int64), axis)
    above = graph.op("Add", above, graph.constant(PRIOR_ROWS * overall, np.float64))
    below = graph.op("Add", below, graph.constant(PRIOR_ROWS, np.float64))
    known = graph.constant(overall > 0)
    one = graph.constant(np.ones(k), np.float64)
    return graph.op("Where", known, graph.op("Div", above, below), one)


def add_probabilities(graph: Graph, outputs: str, model: BandfallClassifier) -> str:
    """Of all classes, from the average (m, k) of what members say, shape (m, c)."""
    if len(model.classes_) == 2:
        outputs = graph.op("Concat", graph.op("Neg", outputs), outputs, axis=1)
    link, prior = model.link_, model.prior_
    if link.kind == CLIP:
        least = np.maximum(link.parameter * prior, LEAST)
        shares = graph.op("Add", outputs, graph.constant(prior, np.float64))
        shares = graph.op("Max", shares, graph.constant(least, np.float64))
        total = graph.op("ReduceSum", shares, graph.constant([1], np.int64))
        linked = graph.op("Div", shares, total)
    else:
        logits = graph.op("Div", outputs, graph.constant(link.parameter, np.float64))
        logs = np.log(np.maximum(prior, LEAST))
        logits = graph.op("Add", logits, graph.constant(logs, np.float64))
        linked = graph.op("Softmax", logits, axis=1)
    linked = graph.op("Mul", linked, graph.constant(1.0 - link.stray, np.float64))
    return graph.op("Add", linked, graph.constant(link.stray * prior, np.float64))


def add_labels(graph: Graph, probabilities: str, model: BandfallClassifier) -> str:
    """The most probable class of each row, shape (m,), of the kind of the classes."""
    best = graph.op("ArgMax", probabilities, axis=1, keepdims=0)
    return graph.op("Gather", graph.constant(plain_classes(model)), best)


def plain_classes(model: BandfallClassifier) -> np.ndarray:
    """The classes as ONNX knows values: text, whole numbers, truth values or float64."""
    kind = model.classes_.dtype.kind
    if kind in "UO":
        return model.classes_.astype(str).astype(object)
    return model.classes_.astype({"i": np.int64, "u": np.int64, "b": np.bool_}.get(kind, float))


def _prepare(encoders: dict[str, TableEncoder], member: Member) -> Prepare:
    """From a block of features to the columns of a member, inside the scan over blocks."""
    encoder = encoders[member.candidate.encoding]
    return lambda inner, block: add_encoding(inner, block, encoder, member.root)


def _same_row(X: np.ndarray) -> float:
    """Squared distance at which encoded rows count as equal."""
    rounding = SAME_PRODUCT * float(np.finfo(X.dtype).eps) * np.abs(X).max(initial=0.0)
    return float(max(SAME_ROW, rounding) ** 2)
