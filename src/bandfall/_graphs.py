"""A builder of ONNX graphs, and symbols that record NumPy formulas as nodes.

Only exports import this module, because it needs the package onnx.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from itertools import count
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from bandfall._typing import Array, ArrayLike, DTypeLike

# NumPy's elementwise functions that are one ONNX operator each.
_SAME_NAME = ("add", "cos", "cosh", "exp", "floor", "log", "reciprocal", "sin", "sqrt", "tanh")
_OPERATORS = {name: name.capitalize() for name in _SAME_NAME} | {
    "absolute": "Abs",
    "fabs": "Abs",
    "negative": "Neg",
    "maximum": "Max",
    "minimum": "Min",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "power": "Pow",
}

# Comparisons, whose booleans become 0 and 1 in formulas.
_COMPARISONS = {
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
    "less": "Less",
    "less_equal": "LessOrEqual",
}

FLOAT_TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float64): TensorProto.DOUBLE}

# Numerators and denominators of `Graph.normal_quantile`, lowest power first.
_CENTRE = (
    (3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
     1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
     3.3430575583588128105e4, 2.5090809287301226727e3),
    (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3,
     2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4,
     5.2264952788528545610e3),
)  # fmt: skip
_MIDDLE = (
    (1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
     3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
     2.27238449892691845833e-2, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
     1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
_TAIL = (
    (6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
     2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


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
        """Φ⁻¹(share), large but finite at 0 and 1: Wichura (1988), Algorithm AS 241, PPND16."""
        p: Array = self.symbol(share)
        q = p - 0.5
        central = q * _ratio(0.180625 - q * q, _CENTRE)
        outer = np.sqrt(-np.log(np.maximum(np.minimum(p, 1.0 - p), 1e-300)))
        middle, tail = _ratio(outer - 1.6, _MIDDLE), _ratio(outer - 5.0, _TAIL)
        size = self.op("Where", self.op("Greater", outer.name, 5.0), tail.name, middle.name)
        signed = self.op("Mul", self.op("Sign", q.name), size)
        near = self.op("LessOrEqual", np.absolute(q).name, 0.425)
        return self.op("Where", near, central.name, signed)

    def each_column(self, body: Callable[..., str], rows: str, knots: np.ndarray) -> str:
        """Run ``body(graph, x, knots, n)`` on each column of rows (m, p) and of knots (n, p)."""
        n = len(knots)
        columns, each = self.op("Transpose", rows, perm=[1, 0]), self.constant(knots.T, np.float64)
        scanned: list[tuple[str, tuple]] = [(columns, (None,)), (each, (n,))]
        found = self.scan(
            "column", lambda inner, *names: body(inner, *names, n), [], scanned, (None,)
        )
        return self.op("Transpose", found, perm=[1, 0])

    def interval(self, comparison: str, x: str, knots: str, n: int) -> tuple[str, str]:
        """The interval between n rising knots that contains x (m,), and the position in [0, 1].

        The interval is the number of knots that are "Less" or "LessOrEqual", minus one.
        """
        wide = self.op("Unsqueeze", x, [1])
        below = self.op("Cast", self.op(comparison, knots, wide), to=TensorProto.INT64)
        count = self.op("ReduceSum", below, [1], keepdims=0)
        left = self.op("Min", self.op("Max", self.op("Sub", count, 1), 0), max(n - 2, 0))
        right = self.op("Min", self.op("Add", left, 1), n - 1)
        start, end = (self.symbol(self.op("Gather", knots, place)) for place in (left, right))
        gap = np.maximum(end - start, np.finfo(np.float64).tiny)
        return left, self.clip(((self.symbol(x) - start) / gap).name, 0.0, 1.0)

    def finish(
        self, name: str, inputs: list[ValueInfoProto], outputs: list[ValueInfoProto]
    ) -> GraphProto:
        """The finished graph."""
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

        `body` returns the next state or, without states, one slice of the result, of the shape
        `stacked`. States and scanned arrays come with the shapes of a state and of a slice; None is
        a size known only when the model runs. Returns the last state, or the stacked slices.
        """
        inner = Graph(self)
        names = [inner.name("inner") for _ in (*states, *scanned)]
        result = inner.op("Identity", body(inner, *names))
        inputs = [_double(n, s) for n, (_, s) in zip(names, (*states, *scanned), strict=True)]
        shape = states[0][1] if states else stacked
        graph = inner.finish(name, inputs, [_double(result, shape)])
        arguments = [argument for argument, _ in (*states, *scanned)]
        return self.op("Scan", *arguments, num_scan_inputs=len(scanned), body=graph)


def _ratio(x: Array, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    above, below = (reduce(lambda value, c: value * x + c, ends[::-1]) for ends in coefficients)
    return above / below


def _double(name: str, shape: tuple | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)


class Symbol(NDArrayOperatorsMixin):
    """A placeholder for a float64 tensor; every NumPy function applied to it becomes a node.

    Working in place and `out` act as they do on arrays, so that profiles need no second formula.
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
