"""A fitted kernel estimator as an ONNX model.

The graph evaluates f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s, or a weighted average of such sums, in
float64 whatever the type of its input, with distances taken from differences, which do not
cancel. Rows are taken in blocks of bounded size and stages one after the other, so that memory
does not grow with either.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bandfall.estimators import BandfallClassifier, BandfallRegressor
from bandfall.estimators._kernel_sum import kernel_sum
from bandfall.version import __version__

if TYPE_CHECKING:
    from bandfall.onnx_export.builder import Graph

OPSET = 17
IR_VERSION = 8
MAX_BYTES = (1 << 31) - (1 << 20)  # of one protobuf message


def to_onnx(estimator: Any, *, dtype: Any = None, coverage: float | None = None) -> Any:
    """A fitted kernel estimator, or a pipeline that ends in one, as an ONNX model.

    One input ``X`` of shape (rows, features). Regressors have an output ``prediction`` of shape
    (rows,) or (rows, targets), and with `coverage` two more of that shape, ``lower`` and
    ``upper``; input and outputs are of `dtype`. A classifier's ``prediction`` is the class, and
    ``probability`` of shape (rows, classes), of `dtype`, goes with it. Only operators of the
    standard set (opset 17) are used. Needs the package onnx: ``pip install "bandfall[onnx]"``.

    Parameters
    ----------
    estimator : fitted estimator
        Any kernel estimator of this package, alone or after StandardScaler, MinMaxScaler,
        MaxAbsScaler or RobustScaler in a pipeline. Kernels given as functions are exported
        where they consist of NumPy's elementwise functions. A `BandfallRegressor` or
        `BandfallClassifier` with its encodings of numbers and booleans (given as 0 and 1), gaps
        included; one that was fitted to categories, dates or text is refused.
    dtype : {float32, float64}, optional
        Of input and output; by default the one the estimator was trained in.
    coverage : float in (0, 1), optional
        Of intervals, as in `BandfallRegressor.predict_interval`.

    Returns
    -------
    onnx.ModelProto
        Save it with ``onnx.save(model, file)``.

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
        from onnx import checker, helper

        from bandfall.onnx_export.builder import FLOAT_TYPES, Graph
        from bandfall.onnx_export.preprocessing import add_transformer
    except ImportError as error:
        raise ImportError("to_onnx needs onnx: pip install 'bandfall[onnx]'") from error

    pipeline = isinstance(estimator, Pipeline)
    *transformers, last = [step for _, step in estimator.steps] if pipeline else [estimator]
    _check_coverage(coverage, last)
    _check_size(last)
    dtype = np.dtype(last._dtype if dtype is None else dtype)
    if dtype not in FLOAT_TYPES:
        raise ValueError(f"dtype={dtype} must be float32 or float64")

    graph = Graph()
    rows = "X"
    for transformer in transformers:
        if transformer not in (None, "passthrough"):
            rows = add_transformer(graph, rows, transformer, dtype)
    if isinstance(last, BandfallClassifier):
        outputs = _add_classes(graph, rows, last, dtype)
    else:
        outputs = _add_numbers(graph, rows, last, dtype, coverage)

    n_features = int(estimator.n_features_in_)
    proto = helper.make_model(
        graph.finish(
            "bandfall",
            [helper.make_tensor_value_info("X", FLOAT_TYPES[dtype], ("rows", n_features))],
            outputs,
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="bandfall",
        producer_version=__version__,
    )
    helper.set_model_props(proto, _properties(estimator, last))
    checker.check_model(proto, full_check=True)
    return proto


def _properties(estimator: Any, last: Any) -> dict[str, str]:
    names = getattr(estimator, "feature_names_in_", None)
    properties = {"estimator": type(last).__name__}
    if names is not None:
        properties["feature_names"] = json.dumps(list(names))
    if isinstance(last, BandfallClassifier):
        properties["classes"] = json.dumps(last.classes_.tolist())
    return properties


def _check_coverage(coverage: float | None, last: Any) -> None:
    if coverage is None:
        return
    if not isinstance(last, BandfallRegressor):
        raise TypeError(f"coverage={coverage}: {type(last).__name__} has no intervals")
    if not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage} must lie between 0 and 1")


def _check_size(last: Any) -> None:
    check_is_fitted(last)
    average = isinstance(last, BandfallRegressor | BandfallClassifier)
    models = [member.path.model for member in last.members_] if average else [kernel_sum(last)]
    size = sum(model.X.nbytes + model.coefficients.nbytes for model in models)
    if size > MAX_BYTES:
        raise ValueError(
            f"the model's arrays take {size / 2**30:.1f} GiB and ONNX files at most 2: use "
            "Path.compress first, or train in float32"
        )


def _add_numbers(
    graph: Graph, rows: str, last: Any, dtype: np.dtype, coverage: float | None
) -> list[Any]:
    """Predictions, and the ends of intervals if asked for, as outputs of the graph."""
    from bandfall.onnx_export.averages import add_average, add_in_units, add_interval
    from bandfall.onnx_export.sums import add_sum

    if isinstance(last, BandfallRegressor):
        rows = graph.cast(rows, np.float64)
        average = add_average(graph, rows, last)
        ends = [] if coverage is None else add_interval(graph, rows, average, last, coverage)
        values = [add_in_units(graph, value, last) for value in (average, *ends)]
        n_outputs = len(last._y_scale)
    else:
        model = kernel_sum(last)
        # As `predict` does: round to the estimator's own type, compute in float64.
        rows = graph.cast(graph.cast(rows, model.dtype), np.float64)
        values, n_outputs = [add_sum(graph, rows, model.X.shape[1], model)], len(model.offset)
    shape: tuple = ("rows", n_outputs)
    if last._y_ndim == 1:
        shape, axis = ("rows",), graph.constant([1], np.int64)
        values = [graph.op("Squeeze", value, axis) for value in values]
    names = ("prediction", "lower", "upper")[: len(values)]
    return [
        _output(graph, graph.cast(value, dtype), name, dtype, shape)
        for value, name in zip(values, names, strict=True)
    ]


def _add_classes(graph: Graph, rows: str, last: BandfallClassifier, dtype: np.dtype) -> list[Any]:
    """Classes and probabilities as outputs of the graph."""
    from bandfall.onnx_export.averages import (
        add_average,
        add_labels,
        add_probabilities,
        plain_classes,
    )

    average = add_average(graph, graph.cast(rows, np.float64), last)
    probabilities = add_probabilities(graph, average, last)
    labels = add_labels(graph, probabilities, last)
    shape = ("rows", len(last.classes_))
    return [
        _output(graph, labels, "prediction", plain_classes(last).dtype, ("rows",)),
        _output(graph, graph.cast(probabilities, dtype), "probability", dtype, shape),
    ]


def _output(graph: Graph, value: str, name: str, dtype: np.dtype, shape: tuple) -> Any:
    """A value under a name of its own, as an output of the graph."""
    from onnx import helper

    graph.op("Identity", value)
    graph.nodes[-1].output[0] = name
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
