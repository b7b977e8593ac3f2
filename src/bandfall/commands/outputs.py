"""Where results go: checked before the work starts, written whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from bandfall.commands.terminal import InputError
from bandfall.persistence import ModelFileError, read_model_document
from bandfall.persistence.atomic import check_writable

ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace the file that --out names, whatever it is.")
]

PREDICTION = "prediction"
PAGE_MARK = '<meta name="generator" content="bandfall'


def check_out(
    file: Path, is_ours: Callable[[Path], bool], *, force: bool, inputs: tuple[str, ...] = ()
) -> None:
    """Refuse what cannot be written, an input, or a file that this command did not write.

    Called before the work starts; leaves nothing behind.
    """
    if file.is_dir():
        raise InputError(f"--out {file} is a directory")
    if not file.resolve().parent.is_dir():
        raise InputError(f"--out {file}: the directory {file.resolve().parent} does not exist")
    if file.exists():
        _check_replaceable(file, is_ours, force=force, inputs=inputs)
    try:
        check_writable(file)
    except OSError as error:
        raise InputError(f"--out {file} cannot be written: {error.strerror or error}") from None


def _check_replaceable(
    file: Path, is_ours: Callable[[Path], bool], *, force: bool, inputs: tuple[str, ...]
) -> None:
    if not file.is_file():  # a device or pipe: reading it may block, replacing it does harm
        raise InputError(f"--out {file} is not a regular file")
    for given in inputs:
        if given != "-" and Path(given).exists() and file.samefile(given):
            raise InputError(f"--out {file} would overwrite the input {given}")
    if not force and not is_ours(file):
        raise InputError(
            f"--out {file} exists and was not written by this command; --force replaces it"
        )


def is_model(file: Path) -> bool:
    """Whether a file holds a bandfall model."""
    try:
        read_model_document(file)
    except (ModelFileError, OSError):
        return False
    return True


def is_predictions(file: Path) -> bool:
    """Whether a file looks like the predictions of an earlier run."""
    return _starts_with(file, PREDICTION)


def is_page(file: Path) -> bool:
    """Whether a file looks like the report of an earlier run."""
    with file.open("rb") as stream:
        return PAGE_MARK.encode() in stream.read(2000)


def _starts_with(file: Path, text: str) -> bool:
    with file.open("rb") as stream:
        return stream.read(len(text)) == text.encode()
