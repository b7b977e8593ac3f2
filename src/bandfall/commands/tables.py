"""Tables from files and standard input: CSV, compressed CSV and Parquet, checked.

What a file is follows from its first bytes, not from its name. Every complaint names the
column and the first row that is wrong; rows are counted from 1, without the header.
"""

from __future__ import annotations

import contextlib
import csv
import difflib
import gzip
import io
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from bandfall.commands.terminal import InputError

STDIN = "-"
CHUNK_ROWS = 50_000
MAX_CELLS = 200_000_000  # 1.6 GB of numbers
_SEPARATORS = ",;\t"
_GZIP, _PARQUET = b"\x1f\x8b", b"PAR1"
_MAX_HEADER = 1 << 20


def read_table(source: str, *, columns: list[str] | None = None) -> pd.DataFrame:
    """The whole table, as read.

    Parameters
    ----------
    source : str
        A path, or "-" for standard input.
    columns : list of str, optional
        Read only these; all must be there.
    """
    chunks, n_cells = [], 0
    for chunk in read_chunks(source, columns=columns):
        chunks.append(chunk)
        n_cells += chunk.size
        if n_cells > MAX_CELLS:
            raise InputError(
                f"{_name(source)} holds more than {MAX_CELLS:,} values, too many to train on; "
                "give it fewer rows or columns"
            )
    return chunks[0] if len(chunks) == 1 else pd.concat(chunks, ignore_index=True)


def read_chunks(source: str, *, columns: list[str] | None = None) -> Iterator[pd.DataFrame]:
    """The table in pieces of at most `CHUNK_ROWS` rows, at least one piece, never none.

    The index of each piece counts the rows of the whole table from 0.
    """
    name = _name(source)
    with _opened(source) as stream:
        start = stream.peek(4)[:4]
        if not start:
            raise InputError(f"{name} is empty")
        pieces = _parquet(stream, name) if start == _PARQUET else _csv(stream, start, name)
        n_rows = 0
        try:
            for piece in pieces:
                if n_rows == 0 and columns is not None:
                    require_columns(piece, columns, name)
                n_rows += len(piece)
                if len(piece):
                    yield piece if columns is None else piece[columns]
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{name} is damaged: it cannot be unpacked ({error})") from None
        except UnicodeDecodeError:
            raise InputError(f"{name} is not UTF-8 text; save it as UTF-8") from None
    if n_rows == 0:
        raise InputError(f"{name} has a header and no rows")


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise unless all `columns` are there; the message names those that are not."""
    missing = [column for column in columns if column not in table.columns]
    if not missing:
        return
    listed = ", ".join(repr(column) for column in missing)
    close = difflib.get_close_matches(missing[0], map(str, table.columns), 1)
    hint = f"; did you mean {close[0]!r}?" if close and len(missing) == 1 else ""
    there = ", ".join(map(str, list(table.columns)[:10]))
    more = ", …" if len(table.columns) > 10 else ""
    plural = "columns" if len(missing) > 1 else "column"
    raise InputError(f"{name} has no {plural} {listed}{hint} (it has: {there}{more})")


def to_numbers(table: pd.DataFrame, name: str) -> np.ndarray:
    """All values as float64, missing ones as NaN; text and infinities are refused by place."""
    numbers = np.empty(table.shape)
    for j, column in enumerate(table.columns):
        numbers[:, j] = _column_numbers(table[column], name)
    return numbers


def _column_numbers(column: pd.Series, name: str) -> np.ndarray:
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        values = column.to_numpy(dtype=np.float64)
    elif pd.api.types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        values = _parsed(column, name)
    infinite = np.isinf(values)
    if infinite.any():
        row = column.index[int(np.argmax(infinite))] + 1
        raise InputError(f"column {column.name!r} of {name} has an infinite value in row {row}")
    return values


def _parsed(column: pd.Series, name: str) -> np.ndarray:
    numbers = pd.to_numeric(column, errors="coerce")
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        numbers = pd.Series(np.nan, index=column.index)
    wrong = numbers.isna() & column.notna()
    if wrong.any():
        at = int(np.argmax(wrong.to_numpy()))
        text = str(column.iloc[at])
        shown = text if len(text) <= 30 else text[:27] + "…"
        raise InputError(
            f"column {column.name!r} of {name} has {shown!r} in row {column.index[at] + 1}, "
            f"where a number should be; leave the column out with --drop {_quoted(column.name)}, "
            "or correct it"
        )
    return numbers.to_numpy(dtype=np.float64, na_value=np.nan)


def _quoted(name: object) -> str:
    return f"'{name}'" if " " in str(name) else str(name)


def _name(source: str) -> str:
    return "standard input" if source == STDIN else source


@contextlib.contextmanager
def _opened(source: str) -> Iterator[io.BufferedReader]:
    if source == STDIN:
        yield io.BufferedReader(_Unseekable(sys.stdin.buffer))
        return
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{source} is a directory, not a file")
    if not path.exists():
        raise InputError(f"{source} does not exist")
    with path.open("rb") as stream:
        yield stream


class _Unseekable(io.RawIOBase):
    """Standard input, whatever it is, as something `BufferedReader` can peek into."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _parquet(stream: BinaryIO, name: str) -> Iterator[pd.DataFrame]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install 'bandfall[cli]'") from None
    seekable = stream if stream.seekable() else io.BytesIO(stream.read())
    try:
        file = parquet.ParquetFile(seekable)
        _check_header([str(column) for column in file.schema_arrow.names], name)
        start = 0
        for batch in file.iter_batches(batch_size=CHUNK_ROWS):
            piece = batch.to_pandas()
            piece.index = pd.RangeIndex(start, start + len(piece))
            start += len(piece)
            yield piece
    except ArrowException as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{name} cannot be read as Parquet: {line}") from None


def _csv(stream: io.BufferedReader, start: bytes, name: str) -> Iterator[pd.DataFrame]:
    raw: Any = gzip.GzipFile(fileobj=stream) if start[:2] == _GZIP else stream
    with raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as text:
        head = _first_lines(text)
        if "\0" in head:
            raise InputError(f"{name} is neither CSV nor Parquet")
        header_line = next((line for line in head.splitlines() if line.strip()), "")
        separator = max(_SEPARATORS, key=header_line.count)
        try:
            header = next(csv.reader([header_line], delimiter=separator), [])
        except csv.Error as error:
            raise InputError(f"the header of {name} cannot be read: {error}") from None
        if not header:
            raise InputError(f"{name} is empty")
        _check_header(header, name)
        yield from _parsed_csv(_Prefixed(head, text), separator, name)


# Before version 3.1 pandas misses the last digit unless asked, and with it training rows; asking is
# deprecated since.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT_NUMBERS: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}


def _parsed_csv(text: _Prefixed, separator: str, name: str) -> Iterator[pd.DataFrame]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)
            with pd.read_csv(
                text,
                sep=separator,
                index_col=False,
                chunksize=CHUNK_ROWS,
                skipinitialspace=True,
                **_EXACT_NUMBERS,
            ) as pieces:
                yield from pieces
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise InputError(f"{name} is not a proper table: {_reason(error)}") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{name} is empty") from None


def _first_lines(text: io.TextIOWrapper) -> str:
    """The text up to the end of the first line that is not blank."""
    head = ""
    while not head.strip() or head[-1] not in "\r\n":
        line = text.readline(_MAX_HEADER)
        if not line:
            break
        head += line
        if len(head) > _MAX_HEADER:
            break
    return head


class _Prefixed(io.TextIOBase):
    """Text that was read already, then the rest of the stream."""

    def __init__(self, head: str, rest: io.TextIOWrapper):
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> str:
        head, self._head = self._head, ""
        if size is None or size < 0:
            return head + self._rest.read()
        if len(head) > size:
            self._head = head[size:]
            return head[:size]
        return head or self._rest.read(size)

    def __iter__(self) -> Iterator[str]:  # type: ignore[override]
        return iter(self._rest)  # pandas asks whether it is there, and uses `read`


def _check_header(header: list[str], name: str) -> None:
    names = [column.strip() for column in header]
    repeated = sorted({column for column in names if names.count(column) > 1 and column})
    if repeated:
        listed = ", ".join(repr(column) for column in repeated)
        raise InputError(f"{name} has more than one column called {listed}; rename them")
    if "" in names:
        place = names.index("") + 1
        raise InputError(f"column {place} of {name} has no name; name it in the header")


def _reason(error: Exception) -> str:
    """pandas' complaint in words that fit in one line."""
    text = str(error).splitlines()[0]
    if text.startswith("Error tokenizing data. C error: "):
        return text.removeprefix("Error tokenizing data. C error: ")
    if text.startswith("Length of header"):
        return "rows have more fields than the header"
    return text
