"""Output files: checked before the work starts, written completely or not at all."""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from bandfall._cli.terminal import FAILURE, InputError, fail
from bandfall._files import ModelFileError, read_model_document
from bandfall._files.atomic import check_writable, write_atomically

PREDICTION = "prediction"
PAGE_MARK = '<meta name="generator" content="bandfall'


def check_out(
    file: Path, is_ours: Callable[[Path], bool], *, force: bool, inputs: Sequence[str | None] = ()
) -> None:
    """Raise InputError if `file` is not writable, is an input, or is not of this command.

    Called before the work starts; leaves nothing behind.
    """
    if str(file) == "-":
        raise InputError("--out -: this command cannot write to standard output; name a file")
    if file.is_dir():
        raise InputError(f"--out {file} is a directory")
    if not file.resolve().parent.is_dir():
        raise InputError(f"--out {file}: the directory {file.resolve().parent} does not exist")
    if file.exists():
        if not file.is_file():  # reading a device or pipe may block, and it must not be replaced
            raise InputError(f"--out {file} is not a regular file")
        for given in inputs:
            if given not in (None, "-") and Path(given).exists() and file.samefile(given):
                raise InputError(f"--out {file} would overwrite the input {given}")
        if not force and not is_ours(file):
            raise InputError(
                f"--out {file} exists and was not written by this command; --force replaces it"
            )
    try:
        check_writable(file)
    except OSError as error:
        raise InputError(f"--out {_unwritable(file, error)}") from None


def _unwritable(file: Path, error: OSError) -> str:
    return f"{file} cannot be written: {error.strerror or error}"


def write_page(file: Path, text: str) -> None:
    """Write text atomically; a full disk is a failure, not a usage error."""
    try:
        write_atomically(file, text.encode())
    except OSError as error:
        fail(_unwritable(file, error), FAILURE)


def write_or_keep(file: Path, write: Callable[[Path], None]) -> None:
    """Write a model; if `file` cannot be written, save it in another directory."""
    try:
        write(file)
        return
    except OSError as error:
        reason = _unwritable(file, error)
    for directory in _other_directories(file):
        spare = directory / f"{file.stem}-{os.getpid()}{file.suffix}"
        with suppress(OSError):
            write(spare)
            fail(f"{reason}; the model was written to {spare} instead", FAILURE)
    fail(f"{reason}; the model is lost: no other directory could be written", FAILURE)


def _other_directories(file: Path) -> list[Path]:
    """Other directories for a result."""
    folders = [Path.cwd()]
    with suppress(RuntimeError):
        folders.insert(0, Path.home())
    with suppress(OSError):  # no usable temporary directory
        folders.insert(0, Path(tempfile.gettempdir()))
    return [folder for folder in folders if folder.resolve() != file.resolve().parent]


def is_model(file: Path) -> bool:
    """Whether a file holds a bandfall model."""
    try:
        read_model_document(file)
    except (ModelFileError, OSError):
        return False
    return True


def is_predictions(file: Path) -> bool:
    """Whether a file looks like the predictions of an earlier run."""
    with file.open("rb") as stream:
        header = stream.readline(100_000).decode("utf-8", "replace")
    fields = next(csv.reader([header]), [])
    return any(field == PREDICTION or field.startswith(f"{PREDICTION}_") for field in fields)


def is_page(file: Path) -> bool:
    """Whether a file looks like the report of an earlier run."""
    with file.open("rb") as stream:
        return PAGE_MARK.encode() in stream.read(2000)
