"""ONNX graphs built by calling functions, and NumPy formulas recorded into them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from onnx import TensorProto, helper, numpy_helper

# NumPy's elementwise functions that are one ONNX operator each.
_OPERATORS = {
    "absolute": "Abs",
    "add": "Add",
    "cos": "Cos",
    "cosh": "Cosh",
    "divide": "Div",
    "exp": "Exp",
    "fabs": "Abs",
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

FLOAT_TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.float64): TensorProto.DOUBLE,
}


class Graph:
    """Nodes and constants in the making; inner graphs see the names of outer ones.

    Parameters
    ----------
    outer : Graph, optional
        Of which this is the body of a Scan.
    """

    def __init__(self, outer: Graph | None = None):
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: Iterator[int] = count() if outer is None else outer._names

    def name(self, stem: str) -> str:
        """A name that is new in this graph, its outer and its inner graphs."""
        return f"{stem}_{next(self._names)}"

    def op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output; the name of the output."""
        output = self.name(operator.lower())
        self.nodes.append(helper.make_node(operator, list(inputs), [output], **attributes))
        return output

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant array; its name."""
        name = self.name("constant")
        array = np.ascontiguousarray(np.asarray(value, dtype=dtype)).reshape(np.shape(value))
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def cast(self, value: str, dtype: Any) -> str:
        """`value` in another float type."""
        return self.op("Cast", value, to=FLOAT_TYPES[np.dtype(dtype)])

    def finish(self, name: str, inputs: list[Any], outputs: list[Any]) -> Any:
        """The GraphProto."""
        return helper.make_graph(self.nodes, name, inputs, outputs, self.constants)

    def scan(
        self,
        name: str,
        body: Any,
        states: list[tuple[str, tuple]],
        scanned: list[tuple[str, tuple]],
        stacked: tuple | None = None,
    ) -> str:
        """Run ``body(graph, *states, *slices)`` over the first axis of `scanned`.

        Parameters
        ----------
        body : callable (Graph, *names) -> name
            Adds to the inner graph; returns the next state or, without states, one slice of
            the result.
        states, scanned : list of (name, shape)
            Start of the states with their shapes; scanned arrays with the shapes of a slice.
            None in a shape is a size that is known only when the model runs.
        stacked : shape, optional
            Of one slice of the result, for scans without states.

        Returns
        -------
        str
            Name of the last state, or of the stacked slices.
        """
        inner = Graph(self)
        names = [inner.name("inner") for _ in (*states, *scanned)]
        result = inner.op("Identity", body(inner, *names))
        inputs = [_double(n, s) for n, (_, s) in zip(names, (*states, *scanned), strict=True)]
        shape = states[0][1] if states else stacked
        graph = inner.finish(name, inputs, [_double(result, shape)])
        arguments = [argument for argument, _ in (*states, *scanned)]
        return self.op("Scan", *arguments, num_scan_inputs=len(scanned), body=graph)


def _double(name: str, shape: tuple | None) -> Any:
    return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)


class Symbol(NDArrayOperatorsMixin):
    """Stands for a float64 tensor while a NumPy formula runs; every step becomes a node.

    Kernel profiles are written for arrays: they may work in place and pass `out`. Both act
    here as they do on arrays, so that one formula serves training and export.
    """

    def __init__(self, graph: Graph, name: str):
        self._graph = graph
        self.name = name

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if method != "__call__" or kwargs:
            raise TypeError(f"np.{ufunc.__name__}.{method} has no place in an ONNX graph")
        name = self._apply(ufunc.__name__, [self._operand(value) for value in inputs])
        if out is not None and isinstance(out[0], Symbol):
            out[0].name = name
            return out[0]
        return Symbol(self._graph, name)

    def _apply(self, function: str, operands: list[str]) -> str:
        if function == "square":
            return self._graph.op("Mul", *operands * 2)
        if function not in _OPERATORS:
            raise TypeError(f"np.{function} has no counterpart among the standard operators")
        return self._graph.op(_OPERATORS[function], *operands)

    def _operand(self, value: Any) -> str:
        if isinstance(value, Symbol):
            return value.name
        return self._graph.constant(float(value), np.float64)
