"""A fitted kernel estimator as an ONNX model.

The graph evaluates f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s, or a weighted average of such sums, in
float64 whatever the type of its input, with distances taken from differences, which do not
cancel. Rows are taken in blocks of bounded size and stages one after the other, so that memory
does not grow with either.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.pipeline import Pipeline

from bandfall.encoding import TableEncoder
from bandfall.estimators import BandfallClassifier, BandfallRegressor
from bandfall.estimators._kernel_sum import KernelSum, kernel_sum, path_sum
from bandfall.version import __version__

if TYPE_CHECKING:
    from bandfall.onnx_export.builder import Graph

OPSET = 17
IR_VERSION = 8
BLOCK_ENTRIES = 1 << 19  # of the distance matrix: 4 MiB, a few of them at a time
# Between encoded rows that count as equal: what the last bits of normal quantiles amount to, and
# the rounding of a product with the metric, in units of the largest entry.
SAME_ROW = 1e-12
SAME_PRODUCT = 64
MAX_BYTES = (1 << 31) - (1 << 20)  # of one protobuf message


def to_onnx(estimator: Any, *, dtype: Any = None) -> Any:
    """A fitted kernel estimator, or a pipeline that ends in one, as an ONNX model.

    One input ``X`` of shape (rows, features) and one output ``prediction`` of shape (rows,) or
    (rows, targets), both of `dtype`. Only operators of the standard set (opset 17) are used.
    Needs the package onnx: ``pip install "bandfall[onnx]"``.

    Parameters
    ----------
    estimator : fitted estimator
        Any kernel estimator of this package, alone or after StandardScaler, MinMaxScaler,
        MaxAbsScaler or RobustScaler in a pipeline. Kernels given as functions are exported
        where they consist of NumPy's elementwise functions. A `BandfallRegressor` with its
        encodings of numbers and booleans (given as 0 and 1), gaps included; one that was fitted
        to categories, dates or text is refused.
    dtype : {float32, float64}, optional
        Of input and output; by default the one the estimator was trained in.

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
    if isinstance(last, BandfallClassifier):
        raise TypeError("BandfallClassifier is not exported: ONNX models here predict numbers")
    heaviest = kernel_sum(last)
    dtype = np.dtype(heaviest.dtype if dtype is None else dtype)
    if dtype not in FLOAT_TYPES:
        raise ValueError(f"dtype={dtype} must be float32 or float64")

    graph = Graph()
    rows = "X"
    for transformer in transformers:
        if transformer not in (None, "passthrough"):
            rows = add_transformer(graph, rows, transformer, dtype)
    graph.cast(_predictions(graph, rows, last), dtype)
    graph.nodes[-1].output[0] = "prediction"

    n_features = int(estimator.n_features_in_)
    shape: tuple = ("rows",) if heaviest.y_ndim == 1 else ("rows", len(heaviest.offset))
    proto = helper.make_model(
        graph.finish(
            "bandfall",
            [helper.make_tensor_value_info("X", FLOAT_TYPES[dtype], ("rows", n_features))],
            [helper.make_tensor_value_info("prediction", FLOAT_TYPES[dtype], shape)],
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
    return properties


def _check_size(*models: KernelSum) -> None:
    size = sum(model.X.nbytes + model.coefficients.nbytes for model in models)
    if size > MAX_BYTES:
        raise ValueError(
            f"the model's arrays take {size / 2**30:.1f} GiB and ONNX files at most 2: use "
            "Path.compress first, or train in float32"
        )


def _predictions(graph: Graph, rows: str, last: Any) -> str:
    """Predictions in float64, in the shape of the target."""
    if isinstance(last, BandfallRegressor):
        predictions = _average(graph, rows, last)
    else:
        model = kernel_sum(last)
        _check_size(model)
        # As `predict` does: round to the estimator's own type, compute in float64.
        rows = graph.cast(graph.cast(rows, model.dtype), np.float64)
        body = _block_body(graph, model, None, 0.0)
        predictions = _blockwise(graph, rows, model.X.shape[1], body, model)
    if last._y_ndim == 1:
        return graph.op("Squeeze", predictions, graph.constant([1], np.int64))
    return predictions


def _average(graph: Graph, rows: str, last: BandfallRegressor) -> str:
    """The weighted sum over members, in the units of the target, shape (rows, k)."""
    from bandfall.onnx_export.encodings import check_encodable

    for encoder in last.encoders_.values():
        check_encodable(encoder)
    sums = [path_sum(member.path, last._dtype, last._y_ndim) for member in last.members_]
    _check_size(*sums)
    rows = graph.cast(rows, np.float64)
    total = graph.constant(last._y_offset, np.float64)
    for member, model in zip(last.members_, sums, strict=True):
        encoder = last.encoders_[member.candidate.encoding]
        body = _block_body(graph, model, _prepare(encoder, member.root), _same_row(model))
        predictions = _blockwise(graph, rows, last.n_features_in_, body, model)
        weight = graph.constant(member.weight * last._y_scale, np.float64)
        total = graph.op("Add", total, graph.op("Mul", predictions, weight))
    return total


def _prepare(encoder: TableEncoder, root: np.ndarray) -> Callable[[Graph, str], str]:
    """From a block of features to the columns of a member, inside the scan over blocks."""
    from bandfall.onnx_export.encodings import add_encoding

    return lambda inner, block: add_encoding(inner, block, encoder, root)


def _same_row(model: KernelSum) -> float:
    """Squared distance at which encoded rows count as equal."""
    rounding = SAME_PRODUCT * float(np.finfo(model.X.dtype).eps) * np.abs(model.X).max(initial=0.0)
    return float(max(SAME_ROW, rounding) ** 2)


def _blockwise(graph: Graph, rows: str, d: int, body: Any, model: KernelSum) -> str:
    """Predictions (rows, k): even blocks of rows, the last one padded, one after the other."""
    n, k = len(model.X), len(model.offset)
    one = graph.constant([1], np.int64)
    last = max(1, BLOCK_ENTRIES // n)
    n_rows = graph.op("Slice", graph.op("Shape", rows), graph.constant([0], np.int64), one)
    most = graph.constant([last], np.int64)
    n_blocks = graph.op("Max", _ceil_divide(graph, n_rows, most, one), one)
    block = graph.op("Max", _ceil_divide(graph, n_rows, n_blocks, one), one)
    n_padded = graph.op("Mul", n_blocks, block)
    width = graph.constant([d], np.int64)
    padding = graph.op(
        "ConstantOfShape",
        graph.op("Concat", graph.op("Sub", n_padded, n_rows), width, axis=0),
        value=_zero(),
    )
    padded = graph.op("Concat", rows, padding, axis=0)
    blocks = graph.op("Reshape", padded, graph.op("Concat", n_blocks, block, width, axis=0))
    stacked = graph.scan("block", body, [], [(blocks, (None, d))], stacked=(None, k))
    flat = graph.op("Reshape", stacked, graph.constant([-1, k], np.int64))
    zero = graph.constant([0], np.int64)
    predictions = graph.op("Slice", flat, zero, n_rows, zero)
    return graph.op("Add", predictions, graph.constant(model.offset, np.float64))


def _ceil_divide(graph: Graph, numerator: str, denominator: str, one: str) -> str:
    above = graph.op("Sub", graph.op("Add", numerator, denominator), one)
    return graph.op("Div", above, denominator)


def _zero() -> Any:
    from onnx import TensorProto, helper

    return helper.make_tensor("zero", TensorProto.DOUBLE, [1], [0.0])


def _block_body(graph: Graph, model: KernelSum, prepare: Any, same: float) -> Any:
    """The body of the scan over blocks: (rows of a block, d) to their sums (rows, k).

    Rows at squared distance `same` or less count as equal, which bandwidth zero is about.
    """
    n, k = len(model.X), len(model.offset)
    columns = graph.cast(graph.constant(model.X.T), np.float64)
    # Bandwidths too small to divide by act as zero, which is exact equality of rows.
    tiny = float(np.finfo(model.coefficients.dtype).tiny) ** 0.25
    positive = model.bandwidths > tiny
    scales = [
        0.0 if math.isinf(bandwidth) else float(bandwidth) ** -model.kernel.power
        for bandwidth in model.bandwidths[positive]
    ]
    stages: list[tuple[str, tuple]] = []
    if scales:
        coefficients = graph.cast(graph.constant(model.coefficients[positive]), np.float64)
        stages = [(graph.constant(scales, np.float64), ()), (coefficients, (n, k))]
    spikes = model.coefficients[~positive].sum(axis=0, dtype=np.float64)

    def body(inner: Graph, block: str) -> str:
        n_rows = inner.op("Shape", block, start=0, end=1)
        block = block if prepare is None else prepare(inner, block)
        entries = _zeros(inner, n_rows, n)
        features = inner.op("Transpose", block, perm=[1, 0])
        squares = inner.scan(
            "feature",
            _add_square,
            [(entries, (None, n))],
            [(features, (None,)), (columns, (n,))],
        )
        distances = inner.op("Sqrt", squares) if model.kernel.power == 1 else squares
        total = _zeros(inner, n_rows, k)
        if stages:
            total = inner.scan(
                "stage",
                lambda stage, *names: _add_stage(stage, model, distances, *names),
                [(total, (None, k))],
                stages,
            )
        if spikes.any():
            equal = inner.op("LessOrEqual", squares, inner.constant(same, np.float64))
            product = inner.op(
                "MatMul", inner.cast(equal, np.float64), inner.constant(spikes, np.float64)
            )
            total = inner.op("Add", total, product)
        return total

    return body


def _zeros(graph: Graph, n_rows: str, n_columns: int) -> str:
    shape = graph.op("Concat", n_rows, graph.constant([n_columns], np.int64), axis=0)
    return graph.op("ConstantOfShape", shape, value=_zero())


def _add_square(graph: Graph, squares: str, new: str, train: str) -> str:
    """squares + (x_j − z_j)² for one feature j, all pairs of rows."""
    difference = graph.op("Sub", graph.op("Unsqueeze", new, graph.constant([1], np.int64)), train)
    return graph.op("Add", squares, graph.op("Mul", difference, difference))


def _add_stage(
    graph: Graph, model: KernelSum, distances: str, total: str, scale: str, coefficients: str
) -> str:
    """total + k(distances · scale) c for one stage."""
    from bandfall.onnx_export.builder import Symbol

    scaled = Symbol(graph, graph.op("Mul", distances, scale))
    try:
        K = model.kernel.profile(scaled, np)
    except TypeError as error:
        raise ValueError(
            f"kernel {model.kernel.name!r} cannot be exported to ONNX: {error}"
        ) from error
    return graph.op("Add", total, graph.op("MatMul", K.name, coefficients))
