"""A path in a file of its own: what a training run that was cut off goes on with."""

from __future__ import annotations

from typing import Any, BinaryIO

from bandfall.descent import Path
from bandfall.persistence.atomic import write_atomically
from bandfall.persistence.codec import decode, encode
from bandfall.persistence.container import Arrays, pack, unpack
from bandfall.persistence.errors import ModelFileError
from bandfall.persistence.model_file import PathLike, package_versions, read_named


def save_path(path: Path, file: PathLike) -> None:
    """Write a path, whole or not at all, in the format of model files.

    Parameters
    ----------
    path : Path
    file : path
        Replaced only once the new file is complete.
    """
    arrays: Arrays = {}
    document: dict[str, Any] = {
        "path": encode(path, arrays, "path"),
        "versions": package_versions(),
    }
    write_atomically(file, pack(document, arrays))


def load_path(file: PathLike) -> Path:
    """Read a path that `save_path` wrote; safe on files from strangers.

    Parameters
    ----------
    file : path

    Returns
    -------
    Path
    """
    return read_named(file, _read)


def _read(stream: BinaryIO, size: int) -> Path:
    document, arrays = unpack(stream, size)
    path = decode(document.get("path"), arrays)
    if not isinstance(path, Path):
        raise ModelFileError("it holds no path")
    return path
