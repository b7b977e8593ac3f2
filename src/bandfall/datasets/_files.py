"""Find, read and check the file of a real data set.

A file is accepted only if its header, its number of rows and one of its checksums are the
expected ones. Any other file raises an error: results from other data would be worse than none.
"""

import csv
import gzip
import hashlib
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import IO

import numpy as np

from bandfall.datasets._sources import FINGERPRINT_RTOL, Source

# More characters than any number needs: a larger file is not the expected one.
MAX_FIELD_BYTES = 64


def data_directory(value: str | os.PathLike[str], setting: str) -> Path:
    """The directory named by a setting; it must exist.

    Examples
    --------
    >>> data_directory("/no/such/place", "data_home")
    Traceback (most recent call last):
        ...
    FileNotFoundError: data_home names '/no/such/place', which is not a directory
    """
    directory = Path(value).expanduser()
    if not directory.is_dir():
        raise FileNotFoundError(f"{setting} names {str(value)!r}, which is not a directory")
    return directory


def find_file(source: Source, directories: Iterable[Path]) -> Path | None:
    """The first file of `source` in `directories`, or None."""
    for directory in directories:
        for filename in source.filenames:
            if (path := directory / filename).is_file():
                return path
    return None


def read_array(path: Path, source: Source) -> np.ndarray:
    """Features and target of a csv file, in file order, float64 of shape (rows, columns).

    The file may be plain, gzip-compressed or in the home's zip archive, as its suffix says. Raises
    ValueError, naming the file, if it is damaged or does not hold what `source` says.
    """
    try:
        content = _unpack(path, source)
        table = _parse(content, source)
        _check(content, table, source)
    except ValueError as error:
        raise ValueError(
            f"{path} is not the {source.title} data: {error}. Expected is a csv file of "
            f"{source.rows} rows with sha256 {source.csv_sha256}; remove or replace the file"
        ) from error
    return table


def _unpack(path: Path, source: Source) -> bytes:
    """The unpacked csv file; raises if it is larger than the table can be."""
    with path.open("rb") as file:
        if path.suffix not in (".gz", ".zip"):
            return _bounded(file, source)
        packed = io.BytesIO(_bounded(file, source))
    try:
        if path.suffix == ".gz":
            with gzip.GzipFile(fileobj=packed) as stream:
                return _bounded(stream, source)
        with (
            zipfile.ZipFile(packed) as archive,
            archive.open(source.archive_member or "") as member,
        ):
            return _bounded(member, source)
    except KeyError as error:
        raise ValueError(f"the archive has no file {source.archive_member!r}") from error
    # RuntimeError: encrypted; NotImplementedError: packed by an unknown method.
    except (*_DAMAGED, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"it cannot be unpacked ({error})") from error


_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError)


def _bounded(stream: IO[bytes] | gzip.GzipFile, source: Source) -> bytes:
    """The contents of a stream; raises if it is longer than the table can be."""
    limit = MAX_FIELD_BYTES * len(source.columns) * (source.rows + 1)
    content = stream.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"it holds more than {limit:,} bytes")
    return content


def _parse(content: bytes, source: Source) -> np.ndarray:
    try:
        header_line, _, body = content.decode("utf-8-sig").partition("\n")
    except UnicodeDecodeError as error:
        raise ValueError("it is not a text file") from error
    try:
        header = tuple(next(csv.reader([header_line.rstrip("\r")]), []))
    except csv.Error as error:
        raise ValueError(f"its header cannot be read ({error})") from error
    if header != source.columns:
        raise ValueError(_header_complaint(header, source.columns))
    kept = [source.columns.index(column) for column in source.value_columns]
    if not body.strip():
        raise ValueError("it has no rows")
    # A row that is too long is not noticed when columns are picked by number.
    separators = len(source.columns) - 1
    if body.count(",") != separators * len(body.splitlines()):
        raise ValueError(f"not every line has {len(source.columns)} fields")
    try:
        table = np.loadtxt(io.StringIO(body), delimiter=",", usecols=kept, ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"it has a field that is not a number ({error})") from error
    return table


def _header_complaint(found: tuple[str, ...], expected: tuple[str, ...]) -> str:
    if len(found) != len(expected):
        return f"its header has {len(found)} columns instead of {len(expected)}"
    position = next(
        i for i, pair in enumerate(zip(found, expected, strict=True)) if len(set(pair)) > 1
    )
    return f"column {position + 1} is {found[position]!r} instead of {expected[position]!r}"


def _check(content: bytes, table: np.ndarray, source: Source) -> None:
    if len(table) != source.rows:
        raise ValueError(f"it has {len(table)} rows instead of {source.rows}")
    if not np.isfinite(table).all():
        raise ValueError("it has values that are not finite")
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
    """SHA-256 of the numbers, independent of how they are printed.

    Examples
    --------
    >>> import numpy as np
    >>> values_checksum(np.array([[1.0, 2.0]]))[:12]
    'dc91ce9a50dd'
    """
    return hashlib.sha256(np.ascontiguousarray(table, dtype="<f8").tobytes()).hexdigest()


def weighted_means(table: np.ndarray) -> np.ndarray:
    """Column means weighted by ``1 + row/rows``, which detect changed values and moved rows.

    Examples
    --------
    >>> import numpy as np
    >>> weighted_means(np.array([[1.0, 0.0], [1.0, 5.0]]))
    array([1., 3.])
    """
    weights = 1.0 + np.arange(len(table)) / len(table)
    return weights @ table / weights.sum()
