"""Model files: one file of arrays and JSON, without code.

`register` makes a class storable; `bandfall.estimators._storage` registers the estimators.
"""

from bandfall.checks import ShapeChecker
from bandfall.persistence import encodings as _encodings  # noqa: F401  (register their classes)
from bandfall.persistence import paths as _paths  # noqa: F401
from bandfall.persistence.codec import Component, register
from bandfall.persistence.container import ModelFileError
from bandfall.persistence.model_file import (
    ModelFile,
    dump_bytes,
    load_bytes,
    load_model,
    read_model_document,
    read_model_file,
    save_model,
)
from bandfall.persistence.scikit import TRANSFORMERS, estimator_component

__all__ = [
    "TRANSFORMERS",
    "Component",
    "ModelFile",
    "ModelFileError",
    "ShapeChecker",
    "dump_bytes",
    "estimator_component",
    "load_bytes",
    "load_model",
    "read_model_document",
    "read_model_file",
    "register",
    "save_model",
]
