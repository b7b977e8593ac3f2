"""A builder of ONNX graphs, and symbols that record NumPy formulas as nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from bandfall._typing import Array, ArrayLike, DTypeLike

# NumPy's elementwise functions that are one ONNX operator each.
_OPERATORS = {
    "absolute": "Abs",
    "add": "Add",
    "cos": "Cos",
    "cosh": "Cosh",
    "divide": "Div",
    "exp": "Exp",
    "fabs": "Abs",
    "floor": "Floor",
    "log": "Log",
    "maximum": "Max",
    "minimum": "Min",
    "multiply": "Mul",
    "negative": "Neg",
    "power": "Pow",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "sqrt": "Sqrt",
    "subtract": "Sub",
    "tanh": "Tanh",
}

# Comparisons, whose booleans become 0 and 1 in formulas.
_COMPARISONS = {
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}

FLOAT_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}


class Graph:
    """A graph under construction; the body of a Scan can use the names of its `outer` graph."""

    def __init__(self, outer: Graph | None = None):
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []
        self._names: Iterator[int] = count() if outer is None else outer._names
        self.taken: set[str] = set() if outer is None else outer.taken  # names of inputs

    def name(self, stem: str) -> str:
        """A name that is unique in this graph, its outer and its inner graphs."""
        name = f"{stem}_{next(self._names)}"
        return self.name(stem) if name in self.taken else name

    def op(self, operator: str, *inputs: str | ArrayLike, **attributes: Any) -> str:
        """Add a node with one output; return its name. Numbers and arrays become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        output = self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, names, [output], **attributes))
        return output

    def constant(self, value: ArrayLike, dtype: DTypeLike = None) -> str:
        """Add a constant array; return its name."""
        name = self.name("constant")
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: DTypeLike) -> str:
        """`value` in another float type."""
        return self.op("Cast", value, to=FLOAT_TYPES[np.dtype(dtype)])

    def whole(self, value: str) -> str:
        """Convert whole float64 values to int64."""
        return self.op("Cast", value, to=TensorProto.INT64)

    def symbol(self, name: str) -> Array:
        """Wrap a float64 tensor for NumPy formulas; see `Symbol`."""
        return Symbol(self, name)

    def clip(self, value: str, low: float, high: float) -> str:
        """Clip a float64 `value` to [low, high]."""
        return np.minimum(np.maximum(self.symbol(value), low), high).name

    def normal_quantile(self, share: str) -> str:
        """Φ⁻¹(share); large but finite at 0 and 1."""
        from bandfall._onnx.normal import add_normal_quantile

        return add_normal_quantile(self, share)

    def each_column(self, body: Callable[..., str], rows: str, knots: np.ndarray) -> str:
        """Run ``body(graph, x, column, n)`` on each column x (m,) of float64 rows (m, p).

        `column` is the corresponding column of `knots` (n, p). Returns the results, (m, p).
        """
        n = len(knots)
        columns, each = self.op("Transpose", rows, perm=[1, 0]), self.constant(knots.T, np.float64)
        scanned: list[tuple[str, tuple]] = [(columns, (None,)), (each, (n,))]
        found = self.scan(
            "column", lambda inner, *names: body(inner, *names, n), [], scanned, (None,)
        )
        return self.op("Transpose", found, perm=[1, 0])

    def interval(self, comparison: str, x: str, knots: str, n: int) -> tuple[str, str]:
        """The interval between n rising knots that contains x (m,), and the position inside.

        The number of the interval is the number of knots that are "Less" or "LessOrEqual", minus
        one, clipped to [0, n − 2]; the position is in [0, 1].
        """
        wide = self.op("Unsqueeze", x, [1])
        below = self.op("Cast", self.op(comparison, knots, wide), to=TensorProto.INT64)
        count = self.op("ReduceSum", below, [1], keepdims=0)
        left = self.op("Sub", count, 1)
        left = self.op("Max", left, 0)
        left = self.op("Min", left, self.constant(max(n - 2, 0), np.int64))
        right = self.op("Add", left, 1)
        right = self.op("Min", right, self.constant(n - 1, np.int64))
        start, end = (self.symbol(self.op("Gather", knots, place)) for place in (left, right))
        gap = np.maximum(end - start, np.finfo(np.float64).tiny)
        return left, self.clip(((self.symbol(x) - start) / gap).name, 0.0, 1.0)

    def finish(
        self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]
    ) -> GraphProto:
        """The GraphProto."""
        return helper.make_graph(self.nodes, name, inputs, outputs, self.constants)

    def scan(
        self,
        name: str,
        body: Callable[..., str],
        states: list[tuple[str, tuple]],
        scanned: list[tuple[str, tuple]],
        stacked: tuple | None = None,
    ) -> str:
        """Run ``body(graph, *states, *slices)`` over the first axis of `scanned`.

        `body` adds to the inner graph and returns the next state or, without states, one slice of
        the result, whose shape is `stacked`. States and scanned arrays come with the shapes of a
        state and of a slice; None in a shape is a size known only when the model runs. Returns the
        name of the last state, or of the stacked slices.
        """
        inner = Graph(self)
        names = [inner.name("inner") for _ in (*states, *scanned)]
        result = inner.op("Identity", body(inner, *names))
        inputs = [_double(n, s) for n, (_, s) in zip(names, (*states, *scanned), strict=True)]
        shape = states[0][1] if states else stacked
        graph = inner.finish(name, inputs, [_double(result, shape)])
        arguments = [argument for argument, _ in (*states, *scanned)]
        return self.op("Scan", *arguments, num_scan_inputs=len(scanned), body=graph)


def _double(name: str, shape: tuple | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)


class Symbol(NDArrayOperatorsMixin):
    """A placeholder for a float64 tensor; every NumPy function applied to it becomes a node.

    Kernel profiles may work in place and pass `out`. Both act as they do on arrays, so that
    training and export use the same formula.
    """

    def __init__(self, graph: Graph, name: str):
        self._graph = graph
        self.name = name

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: ArrayLike, **kwargs: Array
    ) -> Symbol:
        out = kwargs.pop("out", None)
        if method != "__call__" or kwargs:
            raise TypeError(f"np.{ufunc.__name__}.{method} cannot be expressed in an ONNX graph")
        name = self._apply(ufunc.__name__, [self._operand(value) for value in inputs])
        if out is not None and isinstance(out[0], Symbol):
            out[0].name = name
            return out[0]
        return Symbol(self._graph, name)

    def _apply(self, function: str, operands: list[str]) -> str:
        if function == "square":
            return self._graph.op("Mul", *operands * 2)
        if function in _COMPARISONS:
            return self._graph.cast(self._graph.op(_COMPARISONS[function], *operands), np.float64)
        if function not in _OPERATORS:
            raise TypeError(f"np.{function} has no counterpart among the standard operators")
        return self._graph.op(_OPERATORS[function], *operands)

    def _operand(self, value: ArrayLike | Symbol) -> str:
        if isinstance(value, Symbol):
            return value.name
        return self._graph.constant(value, np.float64)
