"""What encodings and targets write their ONNX form into; `bandfall.onnx_export` has the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from bandfall.typing import Array, ArrayLike, DTypeLike


class Graph(Protocol):
    """An ONNX graph in the making; values are known by their names."""

    def op(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Add a node with one output; the name of the output."""
        ...

    def constant(self, value: ArrayLike, dtype: DTypeLike = None) -> str:
        """Add a constant array; its name."""
        ...

    def cast(self, value: str, dtype: DTypeLike) -> str:
        """`value` in another float type."""
        ...

    def whole(self, value: str) -> str:
        """Float64 values that are whole as int64."""
        ...

    def symbol(self, name: str) -> Array:
        """A float64 tensor as NumPy's elementwise functions take it."""
        ...

    def clip(self, value: str, low: float, high: float) -> str:
        """`value`, float64, within two limits."""
        ...

    def normal_quantile(self, share: str) -> str:
        """Φ⁻¹ of a share; far out, but finite, at 0 and 1."""
        ...

    def each_column(self, body: Callable[..., str], rows: str, knots: np.ndarray) -> str:
        """Run ``body(graph, x, column, n)`` on each column x (m,) of float64 rows (m, p)."""
        ...

    def interval(self, comparison: str, x: str, knots: str, n: int) -> tuple[str, str]:
        """Which of the intervals between n rising knots x (m,) lies in, and where in it."""
        ...
