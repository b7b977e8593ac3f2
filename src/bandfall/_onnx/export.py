"""A fitted kernel estimator as an ONNX model.

The graph evaluates f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s, or a weighted average of such sums, in
float64 whatever the type of its input. Distances are computed from differences, which do not
cancel. Rows are processed in blocks of bounded size and stages one by one, so memory grows with
neither.
"""

from __future__ import annotations

import json

import numpy as np
import sklearn
from onnx import ModelProto, ValueInfoProto, checker, helper
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from bandfall._estimators.view import feature_names_of, last_step, steps_before, story_of
from bandfall._graphs import FLOAT_TYPES, Graph
from bandfall._onnx.averages import add_average, add_inputs, add_interval, is_matrix
from bandfall._onnx.sums import add_sum
from bandfall._targets import Output
from bandfall._typing import ArrayLike, DTypeLike, Estimator
from bandfall._version import __version__

OPSET = 17
ML_OPSET = 3  # opset of LabelEncoder, for categories
IR_VERSION = 8
MAX_BYTES = (1 << 31) - (1 << 20)  # largest protobuf message

# Operators in order, with the attribute that holds the values and the parameter to switch it off.
_STEPS: dict[type, list[tuple[str, str, str]]] = {
    StandardScaler: [("Sub", "mean_", "with_mean"), ("Div", "scale_", "with_std")],
    MinMaxScaler: [("Mul", "scale_", ""), ("Add", "min_", "")],
    MaxAbsScaler: [("Div", "scale_", "")],
    RobustScaler: [("Sub", "center_", "with_centering"), ("Div", "scale_", "with_scaling")],
}


def exported(estimator: Estimator, dtype: DTypeLike, coverage: float | None) -> ModelProto:
    """See `bandfall.to_onnx`."""
    last, before = last_step(estimator), steps_before(estimator)
    if coverage is not None and not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage} must be between 0 and 1")
    check_is_fitted(last)
    dtype = np.dtype(story_of(last).dtype if dtype is None else dtype)
    if dtype not in FLOAT_TYPES:
        raise ValueError(f"dtype={dtype} must be float32 or float64")

    graph = Graph()
    rows = "X" if before is None else _add_transformers(graph, "X", before, dtype)
    inputs, outputs, properties = _add_model(graph, rows, last, coverage, dtype)
    matrix = helper.make_tensor_value_info(
        "X", FLOAT_TYPES[dtype], ("rows", int(estimator.n_features_in_))
    )
    values = [_add_output(graph, one, dtype) for one in outputs]
    domains = {"": OPSET}
    if any(node.domain for node in graph.nodes):
        domains["ai.onnx.ml"] = ML_OPSET
    proto = helper.make_model(
        graph.finish("bandfall", inputs or [matrix], values),
        opset_imports=[helper.make_opsetid(*one) for one in domains.items()],
        ir_version=IR_VERSION,
        producer_name="bandfall",
        producer_version=__version__,
    )
    properties["estimator"] = type(last).__name__
    if (names := feature_names_of(estimator)) is not None:
        properties["feature_names"] = json.dumps(names)
    helper.set_model_props(proto, properties)
    checker.check_model(proto, full_check=True)
    return proto


def _add_model(
    graph: Graph, rows: str, estimator: Estimator, coverage: float | None, dtype: np.dtype
) -> tuple[list[ValueInfoProto], list[Output], dict[str, str]]:
    """Inputs (none for an array), outputs and properties of the graph."""
    story = story_of(estimator)
    model, average = story.kernel_sum, story.average
    if coverage is not None and story.intervals is None:
        raise TypeError(f"coverage={coverage}: {type(estimator).__name__} has no intervals")
    inputs: list[ValueInfoProto] = []
    if average is None:
        if model is None:
            raise TypeError(f"{type(estimator).__name__} is not a kernel estimator")
        _check_size(model.nbytes)
        # As `predict` does: round to the estimator's own type, compute in float64.
        rows = graph.cast(graph.cast(rows, story.dtype), np.float64)
        found = add_sum(graph, rows, model.X.shape[1], model)
    else:
        _check_size(sum(member.path.model.nbytes for member in average.members))
        if is_matrix(average.schema):
            rows = graph.cast(rows, np.float64)
        else:
            rows, inputs = add_inputs(graph, average.schema, dtype)
        found = add_average(graph, rows, average)
    outputs, properties = story.target.onnx(graph, found)
    if coverage is not None:
        outputs += add_interval(graph, rows, found, story, coverage)
    return inputs, outputs, properties


def _add_output(graph: Graph, output: Output, dtype: np.dtype) -> ValueInfoProto:
    """Make a value an output of the graph, of its own dtype or of `dtype`."""
    value = graph.cast(output.value, dtype) if output.dtype is None else output.value
    graph.op("Identity", value)
    graph.nodes[-1].output[0] = output.name
    element = helper.np_dtype_to_tensor_dtype(output.dtype or dtype)
    return helper.make_tensor_value_info(output.name, element, ("rows", *output.shape))


def _check_size(size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(
            f"the model's arrays take {size / 2**30:.1f} GiB, but ONNX files hold at most 2: use "
            "Path.compress first, or train in float32"
        )


def _add_transformers(graph: Graph, rows: str, pipeline: Pipeline, dtype: np.dtype) -> str:
    """Name of the rows after all scalers, rounded where scikit-learn rounds, of `dtype`."""
    for _, transformer in pipeline.steps:
        if transformer not in (None, "passthrough"):
            rows = _add_transformer(graph, rows, transformer, dtype)
    return rows


def _add_transformer(graph: Graph, rows: str, transformer: Estimator, dtype: np.dtype) -> str:
    if type(transformer) not in _STEPS:
        allowed = ", ".join(cls.__name__ for cls in _STEPS)
        raise ValueError(
            f"{type(transformer).__name__} cannot be exported to ONNX; allowed before a kernel "
            f"estimator: {allowed}"
        )
    # From scikit-learn 1.8 on, this is the one scaler that rounds its own values first.
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    first = isinstance(transformer, StandardScaler) and version >= (1, 8)
    for operator, name, switch in _STEPS[type(transformer)]:
        if not switch or getattr(transformer, switch):
            values = np.asarray(getattr(transformer, name), dtype if first else np.float64)
            rows = _elementwise(graph, rows, operator, values, dtype)
    if getattr(transformer, "clip", False):
        low, high = getattr(transformer, "feature_range", (-1.0, 1.0))
        rows = _elementwise(graph, rows, "Max", np.float64(low), dtype)
        rows = _elementwise(graph, rows, "Min", np.float64(high), dtype)
    return rows


def _elementwise(graph: Graph, rows: str, operator: str, values: ArrayLike, dtype: np.dtype) -> str:
    """`rows` operator `values`; with float64 values, computed in float64 and then rounded."""
    values = np.asarray(values)
    if values.dtype == dtype:
        return graph.op(operator, rows, values)
    return graph.cast(graph.op(operator, graph.cast(rows, values.dtype), values), dtype)
