"""Files of single paths and leaves, from which an interrupted training run continues."""

from __future__ import annotations

from dataclasses import fields
from typing import BinaryIO

import numpy as np

from bandfall._checks import ShapeChecker, check_instance, check_positions
from bandfall._files.atomic import write_atomically
from bandfall._files.codec import decode, encode
from bandfall._files.container import Arrays, ModelFileError, pack, unpack
from bandfall._files.model_file import PathLike, read_named, written_by
from bandfall._files.paths import field_values
from bandfall._models.member import FittedLeaf
from bandfall._typing import State
from bandfall.descent import Path


def save_path(path: Path, file: PathLike) -> None:
    """Write a path atomically, in the format of model files."""
    _write({"path": path}, file)


def load_path(file: PathLike) -> Path:
    """Read a path that `save_path` wrote; safe for untrusted files."""
    return read_named(file, _read_path)


def save_leaf(leaf: FittedLeaf, file: PathLike) -> None:
    """Write a trained leaf atomically, in the format of model files."""
    _write(field_values(leaf), file)


def load_leaf(file: PathLike) -> FittedLeaf:
    """Read a leaf that `save_leaf` wrote; safe for untrusted files."""
    return read_named(file, _read_leaf)


def _write(values: State, file: PathLike) -> None:
    arrays: Arrays = {}
    document: State = {name: encode(value, arrays, name) for name, value in values.items()}
    write_atomically(file, pack({**document, "versions": written_by()}, arrays))


def _read_path(stream: BinaryIO, size: int) -> Path:
    document, arrays = unpack(stream, size)
    path = decode(document.get("path"), arrays)
    if not isinstance(path, Path):
        raise ModelFileError("it holds no path")
    return path


def _read_leaf(stream: BinaryIO, size: int) -> FittedLeaf:
    document, arrays = unpack(stream, size)
    state: State = {
        field.name: decode(document.get(field.name), arrays) for field in fields(FittedLeaf)
    }
    try:
        path = check_instance("path", state["path"], Path)
        shapes = ShapeChecker(d=path.X.shape[1], k=path.residual.shape[1])
        for name in ("numbers", "held_out"):
            check_positions(name, state[name])
        shapes("predictions", state["predictions"], "rows k")
        if len(state["numbers"]) != len(path.X):
            raise ValueError("numbers do not fit the path")
        if len(state["held_out"]) != len(state["predictions"]):
            raise ValueError("predictions do not fit held_out")
        if state["root"] is not None:
            shapes("root", state["root"], "d" if np.ndim(state["root"]) == 1 else "d d")
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"it holds no leaf: {error}") from error
    return FittedLeaf(**state)
