"""A fitted kernel estimator as an ONNX model.

The graph evaluates f̂(x) = offset + Σ_s k_{σ_s}(x, X) c_s, or a weighted average of such sums, in
float64 whatever the type of its input. Distances are computed from differences, which do not
cancel. Rows are processed in blocks of bounded size and stages one by one, so memory grows with
neither.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, ValueInfoProto, checker, helper
from sklearn.utils.validation import check_is_fitted

from bandfall._estimators.view import Story, feature_names_of, last_step, steps_before, story_of
from bandfall._models.average import Average, predicts_numbers
from bandfall._onnx.averages import add_average, add_interval
from bandfall._onnx.builder import FLOAT_TYPES, Graph
from bandfall._onnx.encodings import add_inputs, is_matrix
from bandfall._onnx.preprocessing import add_transformer
from bandfall._onnx.sums import add_sum
from bandfall._targets import Output, Target
from bandfall._typing import DTypeLike, Estimator
from bandfall._version import __version__
from bandfall.descent._partitioned import AnySum
from bandfall.descent._sum import KernelSum

OPSET = 17
ML_OPSET = 3  # of LabelEncoder, for categories
IR_VERSION = 8
MAX_BYTES = (1 << 31) - (1 << 20)  # of one protobuf message


def exported(estimator: Estimator, dtype: DTypeLike, coverage: float | None) -> ModelProto:
    """See `bandfall.to_onnx`."""
    last, before = last_step(estimator), steps_before(estimator)
    if coverage is not None and not 0 < coverage < 1:
        raise ValueError(f"coverage={coverage} must be between 0 and 1")
    check_is_fitted(last)
    story = story_of(last)
    dtype = np.dtype(story.dtype if dtype is None else dtype)
    if dtype not in FLOAT_TYPES:
        raise ValueError(f"dtype={dtype} must be float32 or float64")

    graph = Graph()
    rows = "X"
    for _, transformer in [] if before is None else before.steps:
        if transformer not in (None, "passthrough"):
            rows = add_transformer(graph, rows, transformer, dtype)
    writer = _Writer(graph, rows, dtype, type(last).__name__)
    outputs, properties = writer.model(story, coverage)

    shape = ("rows", int(estimator.n_features_in_))
    matrix = helper.make_tensor_value_info("X", FLOAT_TYPES[dtype], shape)
    domains = {"": OPSET}
    if any(node.domain for node in graph.nodes):
        domains["ai.onnx.ml"] = ML_OPSET
    proto = helper.make_model(
        graph.finish("bandfall", writer.inputs or [matrix], outputs),
        opset_imports=[helper.make_opsetid(*one) for one in domains.items()],
        ir_version=IR_VERSION,
        producer_name="bandfall",
        producer_version=__version__,
    )
    helper.set_model_props(proto, _properties(estimator) | properties)
    checker.check_model(proto, full_check=True)
    return proto


def _properties(estimator: Estimator) -> dict[str, str]:
    names = feature_names_of(estimator)
    properties = {"estimator": type(last_step(estimator)).__name__}
    if names is not None:
        properties["feature_names"] = json.dumps(names)
    return properties


@dataclass(frozen=True)
class _Writer:
    """Writes a model into a graph."""

    graph: Graph
    rows: str  # name of the rows in it
    dtype: np.dtype  # of the outputs
    name: str  # of the estimator, for errors
    # One per column if the table is not purely numeric; else empty.
    inputs: list[ValueInfoProto] = field(default_factory=list)

    def model(
        self, story: Story, coverage: float | None
    ) -> tuple[list[ValueInfoProto], dict[str, str]]:
        """Outputs and properties of the graph."""
        if coverage is not None and story.intervals is None:
            raise TypeError(f"coverage={coverage}: {self.name} has no intervals")
        if story.average is not None:
            found, ends = self._average(story, story.average, coverage)
        elif story.kernel_sum is not None:
            found, ends = self._kernel_sum(story.kernel_sum, story.dtype), []
        else:
            raise TypeError(f"{self.name} is not a kernel estimator")
        outputs, properties = story.target.onnx(self.graph, found)
        return [self._output(one) for one in (*outputs, *ends)], properties

    def _kernel_sum(self, model: KernelSum, dtype: np.dtype) -> str:
        """Outputs of an estimator with a single kernel sum."""
        _check_size([model])
        # As `predict` does: round to the estimator's own type, compute in float64.
        rows = self.graph.cast(self.graph.cast(self.rows, dtype), np.float64)
        return add_sum(self.graph, rows, model.X.shape[1], model)

    def _average(
        self, story: Story, average: Average[Target], coverage: float | None
    ) -> tuple[str, list[Output]]:
        """Outputs of an average, and the ends of intervals if requested."""
        _check_size([member.path.model for member in average.members])
        rows = self._table_rows(average)
        outputs = add_average(self.graph, rows, average)
        intervals = story.intervals
        if coverage is None or intervals is None or not predicts_numbers(average):
            return outputs, []
        ends = add_interval(self.graph, rows, outputs, average, intervals, coverage)
        named = zip(("lower", "upper"), ends, strict=True)
        return outputs, [average.target.onnx_quantile(self.graph, name, end) for name, end in named]

    def _table_rows(self, average: Average[Target]) -> str:
        """Float64 rows of all features, from one array or from an input for each column."""
        if is_matrix(average.schema):
            return self.graph.cast(self.rows, np.float64)
        rows, inputs = add_inputs(self.graph, average.schema, self.dtype)
        self.inputs.extend(inputs)
        return rows

    def _output(self, one: Output) -> ValueInfoProto:
        """Make a value an output of the graph."""
        value = self.graph.cast(one.value, self.dtype) if one.dtype is None else one.value
        self.graph.op("Identity", value)
        self.graph.nodes[-1].output[0] = one.name
        element = helper.np_dtype_to_tensor_dtype(one.dtype or self.dtype)
        return helper.make_tensor_value_info(one.name, element, ("rows", *one.shape))


def _check_size(models: list[AnySum]) -> None:
    size = sum(model.nbytes for model in models)
    if size > MAX_BYTES:
        raise ValueError(
            f"the model's arrays take {size / 2**30:.1f} GiB, but ONNX files hold at most 2: use "
            "Path.compress first, or train in float32"
        )
