"""Run the ONNX form of one encoding."""

import numpy as np


def run_form(add, rows):
    """What ``add(graph, name)`` makes of `rows`, an array of float64 or int64."""
    import onnxruntime
    from onnx import TensorProto, helper

    from bandfall._graphs import Graph

    graph = Graph()
    graph.op("Identity", add(graph, "rows"))
    graph.nodes[-1].output[0] = "encoded"
    kind = TensorProto.INT64 if rows.dtype == np.int64 else TensorProto.DOUBLE
    model = helper.make_model(
        graph.finish(
            "encoding",
            [helper.make_tensor_value_info("rows", kind, [None] * rows.ndim)],
            [helper.make_tensor_value_info("encoded", TensorProto.DOUBLE, [None, None])],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"rows": rows})[0]
