"""Model files: one file, arrays and JSON, no code.

New classes are made storable with `register`; the estimators do so in
`bandfall.estimators._storage`.
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
