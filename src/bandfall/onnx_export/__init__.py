"""Export to ONNX: standard operators only, preprocessing included."""

from bandfall.onnx_export.export import to_onnx

__all__ = ["to_onnx"]
