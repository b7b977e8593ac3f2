"""Export to ONNX, with standard operators and including preprocessing."""

from bandfall.onnx_export.export import to_onnx

__all__ = ["to_onnx"]
