"""Files of single paths and leaves, from which an interrupted training run continues."""

from __future__ import annotations

import os
import pathlib
from dataclasses import fields
from typing import BinaryIO

import numpy as np

from bandfall._checks import ShapeChecker, check_instance, check_positions
from bandfall._files.atomic import check_writable, write_atomically
from bandfall._files.codec import decode, encode
from bandfall._files.container import Arrays, ModelFileError, pack, unpack
from bandfall._files.model_file import PathLike, read_named, written_by
from bandfall._files.paths import field_values
from bandfall._models.member import FittedLeaf
from bandfall._typing import State
from bandfall._warnings import warn_caller
from bandfall.descent import Path


def save_path(path: Path, file: PathLike) -> None:
    """Write a path atomically, in the format of model files."""
    _write({"path": path}, file)


def load_path(file: PathLike) -> Path:
    """Read a path that `save_path` wrote; safe for untrusted files."""
    return read_named(file, _read_path)


class LeafFolder:
    """The folder for the trained leaves of a fit, one file each; created if missing."""

    def __init__(self, folder: PathLike):
        check_named(folder)
        self.folder = pathlib.Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise ValueError(
                f"checkpoint={os.fspath(folder)!r} is a file; leaves need a folder, one file each"
            ) from None
        check_writable(self.folder / "leaf")  # now, not after the first one

    def load(self, key: str) -> FittedLeaf | None:
        """The leaf stored under this key; None, with a warning, if its file cannot be used."""
        file = self._file(key)
        if not file.exists():
            return None
        try:
            stored, leaf = read_named(file, _read_leaf)
        except (ModelFileError, OSError) as error:
            warn_caller(f"checkpoint: a leaf is trained again, because {error}")
            return None
        if stored != key:
            warn_caller(f"checkpoint: {file} holds another leaf; it is trained again")
            return None
        return leaf

    def save(self, key: str, leaf: FittedLeaf) -> None:
        """Store a leaf; warn if that fails."""
        try:
            _write({**field_values(leaf), "key": key}, self._file(key))
        except OSError as error:
            warn_of(error, self._file(key), "training goes on")

    def _file(self, key: str) -> pathlib.Path:
        return self.folder / f"{key}.leaf"


def check_named(file: PathLike) -> None:
    """Raise ValueError for an empty name, which would mean the current folder."""
    if not os.fspath(file):
        raise ValueError("checkpoint='' names no file or folder")


def warn_of(error: OSError, file: PathLike, consequence: str) -> None:
    """Warn that a checkpoint was not written."""
    warn_caller(
        f"checkpoint {os.fspath(file)!r} was not written ({error.strerror or error}): {consequence}"
    )


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


def _read_leaf(stream: BinaryIO, size: int) -> tuple[str, FittedLeaf]:
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
    return str(document.get("key")), FittedLeaf(**state)
