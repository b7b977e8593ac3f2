"""Kernel sums, of one leaf or many, as ONNX graphs: scans over blocks of rows, and stages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bandfall._graphs import Graph
from bandfall._products import Sum
from bandfall.descent._partition import Leaf, Partition, PartitionedSum
from bandfall.kernels._kernel import vanishing_bandwidth

BLOCK_ENTRIES = 1 << 19  # a block of the distance matrix takes 4 MiB; a few exist at a time
Prepare = Callable[[Graph, str], str]  # from a block of features to the columns of a model


def add_sum(
    graph: Graph, rows: str, d: int, model: Sum, prepare: Prepare | None = None, same: float = 0.0
) -> str:
    """f at float64 rows (m, d), shape (m, k).

    `prepare` turns the d features into columns of the model. At bandwidth zero, rows within a
    squared distance of `same`, in the norm of the kernel, count as equal.
    """
    n, k = len(model.X), len(model.offset)
    sums = _blockwise(graph, rows, d, _block_body(graph, model, prepare, same), n, k)
    return graph.op("Add", sums, np.float64(model.offset))


def add_nearest(graph: Graph, rows: str, d: int, X: np.ndarray, p: float, prepare: Prepare) -> str:
    """Distance of float64 rows (m, d) to the nearest of the rows X, shape (m, 1)."""
    columns = graph.cast(graph.constant(X.T), np.float64)

    def body(inner: Graph, block: str) -> str:
        n_rows = inner.op("Shape", block, start=0, end=1)
        totals = _totals(inner, prepare(inner, block), n_rows, columns, X.shape, p)
        return inner.op("ReduceMin", totals, axes=[1])

    nearest = _blockwise(graph, rows, d, body, len(X), 1)
    return _power(graph, nearest, 1.0 / p)


def _blockwise(
    graph: Graph, rows: str, d: int, body: Callable[[Graph, str], str], n: int, k: int
) -> str:
    """Apply `body` to even blocks of rows, the last one padded; the result is (rows, k)."""
    n_rows = graph.op("Slice", graph.op("Shape", rows), [0], [1])
    n_blocks = graph.op("Max", _ceil_divide(graph, n_rows, [max(1, BLOCK_ENTRIES // n)]), [1])
    block = graph.op("Max", _ceil_divide(graph, n_rows, n_blocks), [1])
    n_missing = graph.op("Sub", graph.op("Mul", n_blocks, block), n_rows)
    shape = graph.op("Concat", n_missing, [d], axis=0)
    padded = graph.op("Concat", rows, graph.op("Expand", 0.0, shape), axis=0)
    blocks = graph.op("Reshape", padded, graph.op("Concat", n_blocks, block, [d], axis=0))
    stacked = graph.scan("block", body, [], [(blocks, (None, d))], stacked=(None, k))
    return graph.op("Slice", graph.op("Reshape", stacked, [-1, k]), [0], n_rows, [0])


def _ceil_divide(graph: Graph, numerator: str, denominator: str | list[int]) -> str:
    above = graph.op("Sub", graph.op("Add", numerator, denominator), [1])
    return graph.op("Div", above, denominator)


def _block_body(
    graph: Graph, model: Sum, prepare: Prepare | None, same: float
) -> Callable[[Graph, str], str]:
    """The body of the scan over blocks, from (rows of a block, d) to sums (rows, k)."""
    n, k = len(model.X), len(model.offset)
    kernel, p = model.kernel, model.kernel.geometry.p
    columns = graph.cast(graph.constant(model.X.T), np.float64)
    # Bandwidths too small to divide by count as zero, which compares rows for equality.
    positive = model.bandwidths > vanishing_bandwidth(np.finfo(model.coefficients.dtype))
    scales = [float(bandwidth) ** -kernel.power for bandwidth in model.bandwidths[positive]]
    stages: list[tuple[str, tuple]] = []
    if scales:
        coefficients = graph.cast(graph.constant(model.coefficients[positive]), np.float64)
        stages = [(graph.constant(scales, np.float64), ()), (coefficients, (n, k))]
    spikes = model.coefficients[~positive].sum(axis=0, dtype=np.float64)

    def body(inner: Graph, block: str) -> str:
        n_rows = inner.op("Shape", block, start=0, end=1)
        block = block if prepare is None else prepare(inner, block)
        totals = _totals(inner, block, n_rows, columns, model.X.shape, p)
        distances = _power(inner, totals, kernel.power / p)
        total = _zeros(inner, n_rows, k)
        if stages:
            total = inner.scan(
                "stage",
                lambda stage, *names: _add_stage(stage, model, distances, *names),
                [(total, (None, k))],
                stages,
            )
        if spikes.any():
            equal = inner.op("LessOrEqual", totals, same ** (0.5 * p))
            product = inner.op("MatMul", inner.cast(equal, np.float64), spikes)
            total = inner.op("Add", total, product)
        return total

    return body


def _totals(
    graph: Graph, block: str, n_rows: str, columns: str, shape: tuple[int, ...], p: float
) -> str:
    """‖x − z‖_p^p of the rows of a block and centres of `shape` (n, d), given as columns (d, n)."""
    n, d = shape
    if not d:  # a scan needs a column
        return _zeros(graph, n_rows, n)
    return graph.scan(
        "feature",
        lambda feature, *names: _add_feature(feature, p, *names),
        [(_zeros(graph, n_rows, n), (None, n))],
        [(graph.op("Transpose", block, perm=[1, 0]), (None,)), (columns, (n,))],
    )


def _zeros(graph: Graph, n_rows: str, n_columns: int) -> str:
    shape = graph.op("Concat", n_rows, graph.constant([n_columns], np.int64), axis=0)
    return graph.op("Expand", 0.0, shape)


def _add_feature(graph: Graph, p: float, totals: str, new: str, train: str) -> str:
    """totals + |x_j − z_j|^p for one feature j, all pairs of rows."""
    difference = graph.op("Sub", graph.op("Unsqueeze", new, [1]), train)
    if p == 2.0:
        return graph.op("Add", totals, graph.op("Mul", difference, difference))
    return graph.op("Add", totals, _power(graph, graph.op("Abs", difference), p))


def _power(graph: Graph, values: str, exponent: float) -> str:
    """values**exponent, values ≥ 0; by roots if possible, which are faster than powers."""
    if exponent == 1.0:
        return values
    if exponent == 0.5:
        return graph.op("Sqrt", values)
    if exponent == 1.5:
        return graph.op("Mul", values, graph.op("Sqrt", values))
    return graph.op("Pow", values, exponent)


def _add_stage(
    graph: Graph, model: Sum, distances: str, total: str, scale: str, coefficients: str
) -> str:
    """total + k(distances · scale) c for one stage."""
    scaled = graph.symbol(graph.op("Mul", distances, scale))
    try:
        K = model.kernel.profile(scaled, np)
    except TypeError as error:
        raise ValueError(
            f"kernel {model.kernel.name!r} cannot be exported to ONNX: {error}"
        ) from error
    return graph.op("Add", total, graph.op("MatMul", K.name, coefficients))


def add_scaled(graph: Graph, columns: str, root: np.ndarray, dtype: np.dtype) -> str:
    """Columns times the root of a metric, rounded to `dtype`, as float64."""
    operation = "Mul" if root.ndim == 1 else "MatMul"
    scaled = graph.op(operation, graph.cast(columns, dtype), graph.constant(root, dtype))
    return graph.cast(scaled, np.float64)


def add_partitioned(
    graph: Graph, rows: str, d: int, model: PartitionedSum, prepare: Prepare, same: float
) -> str:
    """f at float64 rows (m, d), shape (m, k), from the leaves that have weight there."""
    if len(model.leaves) == 1:  # rows that are all equal cannot be divided
        (leaf,) = model.leaves
        return add_sum(graph, rows, d, leaf.model, _in_leaf(prepare, leaf), same)
    n_rows = graph.op("Shape", rows, start=0, end=1)
    shape = graph.op("Concat", n_rows, [model.n_outputs], axis=0)
    nothing, parts = graph.op("Expand", [[0.0]], shape), []
    weights = _add_weights(graph, prepare(graph, rows), model.partition)
    for leaf, share in zip(model.leaves, weights, strict=True):
        numbers = graph.op("Reshape", graph.op("NonZero", graph.op("Greater", share, 0.0)), [-1])
        some = graph.op("Gather", rows, numbers, axis=0)
        sums = add_sum(graph, some, d, leaf.model, _in_leaf(prepare, leaf), same)
        share = graph.op("Unsqueeze", graph.op("Gather", share, numbers), [1])
        places = graph.op("Unsqueeze", numbers, [1])
        parts.append(graph.op("ScatterND", nothing, places, graph.op("Mul", sums, share)))
    return graph.op("Sum", *parts)


def _in_leaf(prepare: Prepare, leaf: Leaf) -> Prepare:
    """A function from features to the coordinates of a leaf."""
    root = leaf.root
    if root is None:
        return prepare
    return lambda inner, block: add_scaled(inner, prepare(inner, block), root, leaf.model.X.dtype)


def _add_weights(graph: Graph, columns: str, partition: Partition) -> list[str]:
    """The weight of each leaf at rows in the coordinates of the partition, each of shape (m,)."""
    projections = graph.symbol(graph.op("MatMul", columns, partition.directions.T.astype(float)))
    steps = (projections - partition.lows) / (partition.highs - partition.lows)
    steps = np.minimum(np.maximum(steps, 0.0), 1.0)
    rights = (steps * steps * (3.0 - 2.0 * steps)).name
    weights = [""] * partition.n_leaves
    waiting = [(0, "")]
    while waiting:
        cut, weight = waiting.pop()
        right = graph.op("Gather", rights, cut, axis=1)
        shares = (graph.op("Sub", 1.0, right), right)
        for child, share in zip(partition.children[cut].tolist(), shares, strict=True):
            share = graph.op("Mul", weight, share) if weight else share
            if child < 0:
                weights[~child] = share
            else:
                waiting.append((child, share))
    return weights
