"""Export to ONNX, with standard operators and including preprocessing."""

from bandfall._onnx.export import to_onnx

__all__ = ["to_onnx"]
