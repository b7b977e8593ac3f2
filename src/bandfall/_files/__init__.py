"""Model files: one file of arrays and JSON, without code.

`bandfall._estimators` registers the estimators.
"""

from bandfall._files.container import ModelFileError
from bandfall._files.model_file import (
    ModelFile,
    dump_bytes,
    load_bytes,
    load_model,
    read_model_document,
    read_model_file,
    save_model,
)
from bandfall._files.parts import register_estimators

__all__ = [
    "ModelFile",
    "ModelFileError",
    "dump_bytes",
    "load_bytes",
    "load_model",
    "read_model_document",
    "read_model_file",
    "register_estimators",
    "save_model",
]
