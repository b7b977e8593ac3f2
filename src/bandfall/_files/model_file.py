"""Save an estimator to one file and load it again, without ever running code from the file."""

from __future__ import annotations

import io
import os
import platform
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, TypeVar

from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from bandfall._environment import package_versions
from bandfall._files.atomic import PathLike, write_atomically
from bandfall._files.codec import decode, encode
from bandfall._files.container import Arrays, Document, ModelFileError, pack, read_document, unpack
from bandfall._typing import Estimator, JsonDict
from bandfall._version import __version__

T = TypeVar("T")


@dataclass(frozen=True)
class ModelFile:
    """The contents of a model file."""

    estimator: Estimator
    notes: JsonDict = field(default_factory=dict)  # as given to `save_model`
    versions: dict[str, str] = field(default_factory=dict)  # of the packages that wrote the file


def save_model(estimator: BaseEstimator, file: PathLike, *, notes: JsonDict | None = None) -> None:
    """Write a fitted estimator to `file`, atomically.

    Supports the kernel estimators of this package, alone or at the end of a scikit-learn pipeline
    after StandardScaler, MinMaxScaler, MaxAbsScaler or RobustScaler. The file holds arrays, names
    and numbers. It contains the training rows, which a kernel model needs to predict.

    Parameters
    ----------
    estimator : fitted estimator
    file : path
        Replaced only once the new file is complete.
    notes : dict, optional
        Numbers, text, lists, dicts and arrays to keep with the model.

    Raises
    ------
    ModelFileError
        If part of the estimator cannot be stored, such as a kernel that is a function.

    Examples
    --------
    >>> import os, tempfile
    >>> from bandfall import KernelRidgeRegressor, load_model, save_model
    >>> model = KernelRidgeRegressor().fit([[0.0], [1.0]], [0.0, 2.0])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     save_model(model, os.path.join(directory, "m.bandfall"))
    ...     loaded = load_model(os.path.join(directory, "m.bandfall"))
    >>> bool(loaded.predict([[0.5]]) == model.predict([[0.5]]))
    True
    """
    write_atomically(file, dump_bytes(estimator, notes=notes))


def load_model(file: PathLike) -> Estimator:
    """Read an estimator that `save_model` wrote; safe for untrusted files.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, truncated or made by a newer version.
    """
    return read_model_file(file).estimator


def read_model_file(file: PathLike) -> ModelFile:
    """The estimator of a model file, with notes and versions; see `load_model`."""
    return read_named(file, _read)


def read_model_document(file: PathLike) -> Document:
    """The checked JSON document of a model file, without reading arrays."""
    return read_named(file, read_document)


def dump_bytes(estimator: BaseEstimator, *, notes: JsonDict | None = None) -> bytes:
    """The bytes that `save_model` writes."""
    check_is_fitted(estimator)
    arrays: Arrays = {}
    try:
        model = encode(estimator, arrays, "model")
    except (TypeError, ValueError) as error:
        name = type(estimator).__name__
        raise ModelFileError(f"{name} cannot be saved: {error}") from error
    document = {
        "model": model,
        "notes": encode(dict(notes or {}), arrays, "notes"),
        "versions": written_by(),
    }
    data = pack(document, arrays)
    load_bytes(data)  # never write a file that cannot be read
    return data


def load_bytes(data: bytes) -> ModelFile:
    """The contents of a model file, from its bytes."""
    return _read(io.BytesIO(data), len(data))


def read_named(file: PathLike, read: Callable[[BinaryIO, int], T]) -> T:
    """Call ``read(stream, size)``; its errors name the file."""
    with open(file, "rb", opener=_open_at_once) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ModelFileError(f"{os.fspath(file)} is not a regular file")
        try:
            return read(stream, status.st_size)
        except ModelFileError as error:
            raise ModelFileError(
                f"{os.fspath(file)} cannot be read as a bandfall model: {error}"
            ) from None


def _open_at_once(file: str, flags: int) -> int:
    """Open without blocking: opening a pipe, which is refused later, would wait for a writer."""
    return os.open(file, flags | getattr(os, "O_NONBLOCK", 0))


def _read(stream: BinaryIO, size: int) -> ModelFile:
    document, arrays = unpack(stream, size)
    estimator = decode(document.get("model"), arrays)
    if not isinstance(estimator, RegressorMixin | ClassifierMixin | Pipeline):
        raise ModelFileError("it holds no estimator")
    notes, versions = decode(document.get("notes", {}), arrays), document.get("versions", {})
    if not isinstance(notes, dict) or not isinstance(versions, dict):
        raise ModelFileError("its notes or versions are malformed")
    return ModelFile(estimator, notes, {str(k): str(v) for k, v in versions.items()})


def written_by() -> dict[str, str]:
    """Versions of the packages that write a file."""
    here = {"bandfall": __version__, "python": platform.python_version()}
    return here | package_versions(("numpy", "scikit-learn", "scipy"))
