"""Partitioned sums as ONNX graphs: each row is evaluated in the leaves that have weight there."""

from __future__ import annotations

import numpy as np

from bandfall._onnx.builder import Graph
from bandfall._onnx.sums import Prepare, add_sum
from bandfall.descent._partition import Partition
from bandfall.descent._partitioned import Leaf, PartitionedSum


def add_partitioned(
    graph: Graph, rows: str, d: int, model: PartitionedSum, prepare: Prepare, same: float
) -> str:
    """f at float64 rows (m, d), shape (m, k); see `add_sum`."""
    column = graph.constant([1], np.int64)
    n_rows = graph.op("Shape", rows, start=0, end=1)
    nothing = graph.op(
        "Expand",
        graph.constant([[0.0]], np.float64),
        graph.op("Concat", n_rows, graph.constant([model.n_outputs], np.int64), axis=0),
    )
    weights = _add_weights(graph, prepare(graph, rows), model.partition)
    parts = []
    for leaf, share in zip(model.leaves, weights, strict=True):
        inside = graph.op("Greater", share, graph.constant(0.0, np.float64))
        numbers = graph.op("Reshape", graph.op("NonZero", inside), graph.constant([-1], np.int64))
        some = graph.op("Gather", rows, numbers, axis=0)
        sums = add_sum(graph, some, d, leaf.model, _in_leaf(prepare, leaf), same)
        share = graph.op("Unsqueeze", graph.op("Gather", share, numbers), column)
        places = graph.op("Unsqueeze", numbers, column)
        parts.append(graph.op("ScatterND", nothing, places, graph.op("Mul", sums, share)))
    return graph.op("Sum", *parts)


def _in_leaf(prepare: Prepare, leaf: Leaf) -> Prepare:
    """A function from features to the coordinates of a leaf."""
    root = leaf.root
    if root is None:
        return prepare
    operation, dtype = "Mul" if root.ndim == 1 else "MatMul", leaf.model.X.dtype

    def prepared(inner: Graph, block: str) -> str:
        columns = inner.cast(prepare(inner, block), dtype)
        return inner.cast(inner.op(operation, columns, inner.constant(root, dtype)), np.float64)

    return prepared


def _add_weights(graph: Graph, columns: str, partition: Partition) -> list[str]:
    """The weight of each leaf at rows in the coordinates of the partition, each of shape (m,)."""
    projections = graph.op(
        "MatMul", columns, graph.constant(partition.directions.T, np.float64)
    )  # (m, cuts)
    steps = graph.symbol(projections) - partition.lows
    steps = graph.symbol(graph.clip((steps / (partition.highs - partition.lows)).name, 0.0, 1.0))
    rights = (steps * steps * (3.0 - 2.0 * steps)).name
    weights = [""] * partition.n_leaves
    one = graph.constant(1.0, np.float64)
    waiting = [(0, "")]
    while waiting:
        cut, weight = waiting.pop()
        right = graph.op("Gather", rights, graph.constant(cut, np.int64), axis=1)
        shares = (graph.op("Sub", one, right), right)
        for child, share in zip(partition.children[cut].tolist(), shares, strict=True):
            share = graph.op("Mul", weight, share) if weight else share
            if child < 0:
                weights[~child] = share
            else:
                waiting.append((child, share))
    return weights
