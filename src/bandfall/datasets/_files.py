"""Read and check the file of a real data set.

A file is accepted only if its header, its number of rows and one of its checksums are the
expected ones. Any other file raises an error: results from other data would be worse than none.
"""

import gzip
import hashlib
import zipfile
import zlib
from pathlib import Path

import numpy as np

from bandfall.datasets._sources import FINGERPRINT_RTOL, Source


def read_array(path: Path, source: Source) -> np.ndarray:
    """Features and target of a csv file, in file order, float64 of shape (rows, columns).

    The file may be plain, gzip-compressed or in the home's zip archive, as its suffix says. Raises
    ValueError, naming the file, if it is damaged or does not hold what `source` says.
    """
    try:
        content = _unpacked(path, source)
        table = _parsed(content, source)
        _check(content, table, source)
    except ValueError as error:
        raise ValueError(
            f"{path} is not the {source.title} data: {error}. Expected is a csv file of "
            f"{source.rows} rows with sha256 {source.csv_sha256}; remove or replace the file"
        ) from error
    return table


def _unpacked(path: Path, source: Source) -> bytes:
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(source.archive_member or "")
    except KeyError as error:
        raise ValueError(f"the archive has no file {source.archive_member!r}") from error
    # RuntimeError: encrypted; NotImplementedError: packed by an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError) as error:
        raise ValueError(f"it cannot be unpacked ({error})") from error
    return path.read_bytes()


def _parsed(content: bytes, source: Source) -> np.ndarray:
    """The numbers of a csv file with the header and as many lines and fields as expected."""
    try:
        header, *lines = content.decode("utf-8-sig").splitlines() or [""]
    except UnicodeDecodeError as error:
        raise ValueError("it is not a text file") from error
    columns, names = header.replace('"', "").split(","), list(source.columns)
    if columns != names:
        odd = next((pair for pair in zip(columns, names, strict=False) if len({*pair}) > 1), None)
        differ = f"names {odd[0][:30]!r} instead of {odd[1]!r}" if odd else "other columns"
        raise ValueError(f"its header has {differ}, and {len(columns)} columns of {len(names)}")
    if len(lines) != source.rows:
        raise ValueError(f"it has {len(lines)} rows instead of {source.rows}")
    # A row that is too long is not noticed when columns are picked by number.
    if any(line.count(",") != len(names) - 1 for line in lines):
        raise ValueError(f"not every line has {len(names)} fields")
    kept = [names.index(column) for column in source.value_columns]
    try:
        return np.loadtxt(lines, delimiter=",", usecols=kept, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"it has a field that is not a number ({error})") from error


def _check(content: bytes, table: np.ndarray, source: Source) -> None:
    if hashlib.sha256(content).hexdigest() == source.csv_sha256:
        return
    if values_checksum(table) == source.values_sha256:
        return
    if source.fingerprint is None:
        raise ValueError("its checksum differs, so some values are not the published ones")
    means = weighted_means(table)
    wrong = ~np.isclose(means, source.fingerprint, rtol=FINGERPRINT_RTOL, atol=0.0)
    if wrong.any():
        column = source.value_columns[int(np.argmax(wrong))]
        raise ValueError(f"the values of column {column!r} are not the published ones")


def values_checksum(table: np.ndarray) -> str:
    """SHA-256 of the numbers, independent of how they are printed."""
    return hashlib.sha256(np.ascontiguousarray(table, dtype="<f8").tobytes()).hexdigest()


def weighted_means(table: np.ndarray) -> np.ndarray:
    """Column means weighted by ``1 + row/rows``, which detect changed values and moved rows."""
    weights = 1.0 + np.arange(len(table)) / len(table)
    return weights @ table / weights.sum()
