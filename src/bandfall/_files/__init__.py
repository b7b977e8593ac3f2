"""Model files: one file of arrays and JSON, without code.

`register` makes a class storable; `bandfall._estimators.storage` registers the estimators.
"""

from bandfall._files import encodings as _encodings  # noqa: F401  (register their classes)
from bandfall._files import paths as _paths  # noqa: F401
from bandfall._files.codec import register
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
from bandfall._files.scikit import estimator_component

__all__ = [
    "ModelFile",
    "ModelFileError",
    "dump_bytes",
    "estimator_component",
    "load_bytes",
    "load_model",
    "read_model_document",
    "read_model_file",
    "register",
    "save_model",
]
