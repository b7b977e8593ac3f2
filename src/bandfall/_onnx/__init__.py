"""Export to ONNX, with standard operators and including preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandfall._typing import DTypeLike, Estimator

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["to_onnx"]


def to_onnx(
    estimator: Estimator, *, dtype: DTypeLike = None, coverage: float | None = None
) -> ModelProto:
    """Export a fitted kernel estimator, or a pipeline that ends in one, as an ONNX model.

    The model has one input ``X`` of shape (rows, features). For tables with categories, dates or
    text, it has one input of shape (rows, 1) for each used column, with the name of the column.
    Regressors have an output ``prediction`` of shape (rows,) or (rows, targets), and with
    `coverage` also ``lower`` and ``upper`` of the same shape. Classifiers have ``prediction``, the
    class, and ``probability`` of shape (rows, classes). Numeric inputs and outputs have the type
    `dtype`. The graph uses standard operators (opset 17), and LabelEncoder of ai.onnx.ml for
    categories. Needs the package onnx: ``pip install onnx``.

    Parameters
    ----------
    estimator : fitted estimator
        Any kernel estimator of this package, alone or after StandardScaler, MinMaxScaler,
        MaxAbsScaler or RobustScaler in a pipeline. A kernel that is a function is exported if it
        consists of NumPy's elementwise functions. `BandfallRegressor` and `BandfallClassifier` are
        exported with all encodings. Categories are strings, empty if missing; booleans are 0 and
        1, dates are seconds since 1970 in local time, durations are seconds. Columns of text that
        the model reads as numbers or dates are inputs of that kind. NaN is missing.
    dtype : {float32, float64}, optional
        Type of input and output; by default that of the training data.
    coverage : float in (0, 1), optional
        Coverage of intervals, as in `BandfallRegressor.predict_interval`.

    Returns
    -------
    onnx.ModelProto

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import KernelDescentRegressor, to_onnx
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = to_onnx(KernelDescentRegressor().fit(X, np.sin(3 * X[:, 0])))
    >>> [output.name for output in model.graph.output]
    ['prediction']
    """
    try:
        from bandfall._onnx.export import exported
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install onnx") from error
    return exported(estimator, dtype, coverage)
