"""Files of single paths and leaves, from which an interrupted training run continues."""

from __future__ import annotations

import os
import pathlib
from typing import BinaryIO, TypeVar

from bandfall._checks import warn_caller
from bandfall._files.atomic import check_writable, write_atomically
from bandfall._files.codec import decode, encode
from bandfall._files.container import Arrays, ModelFileError, pack, unpack
from bandfall._files.model_file import PathLike, read_named, written_by
from bandfall._models.member import FittedLeaf
from bandfall.descent import Path

Part = TypeVar("Part", Path, FittedLeaf)


def save_path(path: Path, file: PathLike) -> None:
    """Write a path atomically, in the format of model files; warn if that fails."""
    _write(path, file, "it holds an earlier stage, and training goes on")


def load_path(file: PathLike) -> Path:
    """Read a path that `save_path` wrote; safe for untrusted files."""
    return _read(Path, file)[0]


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
            leaf, stored = _read(FittedLeaf, file)
        except (ModelFileError, OSError) as error:
            warn_caller(f"checkpoint: a leaf is trained again, because {error}")
            return None
        if stored != key:
            warn_caller(f"checkpoint: {file} holds another leaf; it is trained again")
            return None
        return leaf

    def save(self, key: str, leaf: FittedLeaf) -> None:
        """Store a leaf; warn if that fails."""
        _write(leaf, self._file(key), "training goes on", key)

    def _file(self, key: str) -> pathlib.Path:
        return self.folder / f"{key}.leaf"


def check_named(file: PathLike) -> None:
    """Raise ValueError for an empty name, which would mean the current folder."""
    if not os.fspath(file):
        raise ValueError("checkpoint='' names no file or folder")


def _write(part: Path | FittedLeaf, file: PathLike, otherwise: str, key: str = "") -> None:
    """Write a part; a full disk must not end the training, so that errors become warnings."""
    arrays: Arrays = {}
    document = {"part": encode(part, arrays, "part"), "key": key, "versions": written_by()}
    try:
        write_atomically(file, pack(document, arrays))
    except OSError as error:
        why = error.strerror or error
        warn_caller(f"checkpoint {os.fspath(file)!r} was not written ({why}): {otherwise}")


def _read(cls: type[Part], file: PathLike) -> tuple[Part, object]:
    """The part in a file, and its key."""

    def read(stream: BinaryIO, size: int) -> tuple[Part, object]:
        document, arrays = unpack(stream, size)
        part = decode(document.get("part"), arrays)
        if not isinstance(part, cls):
            raise ModelFileError(f"it holds no {cls.__name__}")
        return part, document.get("key")

    return read_named(file, read)
