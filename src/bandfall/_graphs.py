"""The interface to an ONNX graph for encodings and targets; `bandfall._onnx` builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from bandfall._typing import Array, ArrayLike, DTypeLike


class Graph(Protocol):
    """An ONNX graph under construction; values are referred to by name."""

    def op(self, operator: str, *inputs: str | ArrayLike, **attributes: object) -> str:
        """Add a node with one output; return its name. Numbers and arrays become constants."""

    def constant(self, value: ArrayLike, dtype: DTypeLike = None) -> str:
        """Add a constant array; return its name."""

    def cast(self, value: str, dtype: DTypeLike) -> str:
        """`value` in another float type."""

    def whole(self, value: str) -> str:
        """Convert whole float64 values to int64."""

    def symbol(self, name: str) -> Array:
        """Wrap a float64 tensor so that NumPy's elementwise functions accept it."""

    def clip(self, value: str, low: float, high: float) -> str:
        """Clip a float64 `value` to [low, high]."""

    def normal_quantile(self, share: str) -> str:
        """Φ⁻¹(share); large but finite at 0 and 1."""

    def each_column(self, body: Callable[..., str], rows: str, knots: np.ndarray) -> str:
        """Run ``body(graph, x, column, n)`` on each column x (m,) of float64 rows (m, p)."""

    def interval(self, comparison: str, x: str, knots: str, n: int) -> tuple[str, str]:
        """The interval between n rising knots that contains x (m,), and the position inside."""
