"""Fetch, read and check the file of a real data set.

A file is accepted only if its header, its number of rows and its values are the expected ones.
Any other file raises an error: results from other data would be worse than none. Downloads go
through pooch, which is the optional extra ``data`` and imported only here.
"""

import gzip
import os
import tempfile
import zipfile
import zlib
from hashlib import sha256
from pathlib import Path

import numpy as np

from bandfall.datasets._sources import FINGERPRINT_RTOL, Source


def read_array(path: Path, source: Source) -> np.ndarray:
    """Features and target of a csv file, in file order, float64 of shape (rows, columns).

    The file may be plain, gzip-compressed or in the home's zip archive, as its suffix says. Raises
    ValueError, naming the file, if it is damaged or does not hold what `source` says.
    """
    try:
        table = _parsed(_unpacked(path, source), source)
        _check(table, source)
    except ValueError as error:
        raise ValueError(
            f"{path} is not the {source.title} data: {error}. Expected is a csv file of "
            f"{source.rows} rows; remove or replace the file"
        ) from error
    return table


def _unpacked(path: Path, source: Source) -> bytes:
    try:
        if path.suffix == ".gz":
            return gzip.decompress(path.read_bytes())
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                return archive.read(source.archive_member or "")
    # KeyError: no such member; RuntimeError: encrypted, or packed by an unknown method.
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, RuntimeError) as error:
        raise ValueError(f"it cannot be unpacked ({error})") from error
    return path.read_bytes()


def _parsed(content: bytes, source: Source) -> np.ndarray:
    """The numbers of a csv file with the header and as many lines and fields as expected."""
    header, *lines = content.decode("utf-8-sig").splitlines() or [""]
    names = list(source.columns)
    if header.replace('"', "").split(",") != names:
        raise ValueError(f"its header differs from {_listed(source.columns)}")
    # A row that is too long is not noticed when columns are picked by number.
    if len(lines) != source.rows or any(line.count(",") != len(names) - 1 for line in lines):
        raise ValueError(f"it does not have {source.rows} rows of {len(names)} fields")
    kept = [names.index(column) for column in source.value_columns]
    return np.loadtxt(lines, delimiter=",", usecols=kept, ndmin=2, comments=None)


def _check(table: np.ndarray, source: Source) -> None:
    """Raise ValueError unless the values are the published ones, as printed or to rounding."""
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
    return sha256(np.ascontiguousarray(table, dtype="<f8").tobytes()).hexdigest()


def weighted_means(table: np.ndarray) -> np.ndarray:
    """Column means weighted by ``1 + row/rows``, which detect changed values and moved rows."""
    weights = 1.0 + np.arange(len(table)) / len(table)
    return weights @ table / weights.sum()


def cache_directory() -> Path | None:
    """The folder for downloaded files; None if pooch is not installed."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("bandfall"))


def download_table(source: Source) -> np.ndarray:
    """Download the archive of `source` into the cache, and return its table as `read_array` does.

    Raises OSError if the home cannot be reached or sends something else.
    """
    cache = cache_directory()
    if cache is None:
        raise ImportError("downloading data needs pooch, which is not installed: pip install pooch")
    import pooch

    cache.mkdir(parents=True, exist_ok=True)
    # Only a checked file enters the cache, so it is downloaded to another place first.
    with tempfile.TemporaryDirectory(dir=cache) as arrivals:
        archive = Path(arrivals) / str(source.archive)
        try:
            pooch.HTTPDownloader()(source.archive_url, str(archive), None)
            table = read_array(archive, source)
        except (OSError, ValueError) as error:
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # otherwise a refused request keeps its socket open
            raise OSError(
                f"the {source.title} data could not be downloaded from {source.archive_url} "
                f"({error.__cause__ or type(error).__name__}); {placement_hint(source)}"
            ) from error
        os.replace(archive, cache / archive.name)
    return table


def placement_hint(source: Source) -> str:
    """A sentence that says which file to put where."""
    return (
        f"put {' or '.join(source.filenames)} (columns {_listed(source.columns)}; {source.rows} "
        "rows) into a directory and name it with data_home= or the environment variable "
        f"BANDFALL_DATA. Its home is {source.home}: {source.origin}"
    )


def _listed(columns: tuple[str, ...]) -> str:
    return ", ".join(columns if len(columns) <= 9 else (*columns[:3], "…", columns[-1]))
