"""Tables from files and standard input: CSV, compressed CSV, Parquet and Excel.

The type of a file is decided by its first bytes, not by its name. Columns keep their kind:
numbers, text, booleans, times. Every error names the column and the first wrong row; rows are
counted from 1, without the header.
"""

from __future__ import annotations

import contextlib
import difflib
import gzip
import sys
import tempfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import pandas as pd

from bandfall._cli.csv_files import Style, read_csv, settled
from bandfall._cli.excel_files import is_excel, read_excel
from bandfall._cli.terminal import Bar, InputError
from bandfall.report._columns import kind_of

Features: TypeAlias = pd.DataFrame | np.ndarray  # rows as an estimator takes them

STDIN = "-"
MAX_CELLS = 200_000_000  # 1.6 GB of numbers
_MAX_SPOOLED = 1 << 32
_IN_MEMORY, _PIECE = 1 << 26, 1 << 20
# Dtypes for columns that pandas reads as objects.
_KINDS = {"boolean": "boolean", "decimal": "float64"}
_GZIP, _PARQUET, _ZIP, _OLD_EXCEL = b"\x1f\x8b", b"PAR1", b"PK\3\4", b"\xd0\xcf\x11\xe0"


def read_file(
    source: str,
    style: Style | None = None,
    *,
    text: Collection[str] = (),
    missing: Collection[str] = (),
) -> tuple[pd.DataFrame, Style]:
    """Read the table of a file or of standard input ("-"); return it with its style.

    `style` has the known settings of a CSV file; the others are guessed, with a remark if they are
    unusual. `text` columns stay text even if they look like numbers; `missing` words are missing
    values.
    """
    name = name_of(source)
    style = style or Style()
    with Bar("read the table"), _opened(source) as stream:
        start = stream.read(4)
        stream.seek(0)
        if not start:
            raise InputError(f"{name} is empty")
        if start == _PARQUET:
            table, style = _read_parquet(stream, name), Style()
        elif start == _OLD_EXCEL:
            raise InputError(f"{name} is an old Excel file (.xls); save it as .xlsx or CSV")
        elif start == _ZIP:
            if not is_excel(stream):
                raise InputError(f"{name} is a zip archive; unpack it first")
            table, remark = read_excel(stream, name, MAX_CELLS)
            style = Style().remarked(remark)
        else:
            table, style = _read_text(stream, start, name, style, text, missing)
    table = _without(table, missing)
    table, remark = _named(table, name)
    style = style.remarked(remark)
    if not len(table):
        raise InputError(f"{name} has a header but no rows")
    return table, style


def name_of(source: str) -> str:
    """Name of a source in messages."""
    return "standard input" if source == STDIN else source


def require_columns(table: pd.DataFrame, columns: list[str], name: str) -> None:
    """Raise InputError unless the table has all `columns`."""
    missing = [column for column in columns if column not in table.columns]
    if not missing:
        return
    listed = ", ".join(repr(column) for column in missing)
    close = _alike(missing[0], list(map(str, table.columns)))
    hint = f"; did you mean {close[0]!r}?" if close and len(missing) == 1 else ""
    there = ", ".join(map(str, list(table.columns)[:10]))
    more = ", …" if len(table.columns) > 10 else ""
    plural = "columns" if len(missing) > 1 else "column"
    raise InputError(f"{name} has no {plural} {listed}{hint} (it has: {there}{more})")


def _alike(name: str, columns: list[str]) -> list[str]:
    """The column that the user may have meant."""
    plain = name.strip().casefold()
    same = [column for column in columns if column.casefold() == plain]
    return same[:1] or difflib.get_close_matches(name, columns, 1)


def _read_text(
    stream: BinaryIO,
    start: bytes,
    name: str,
    style: Style,
    text: Collection[str],
    missing: Collection[str],
) -> tuple[pd.DataFrame, Style]:
    if start[:2] == _GZIP:
        stream = gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[assignment]
    try:
        return read_csv(stream, name, style, text=text, missing=missing, max_cells=MAX_CELLS)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name} is damaged: it cannot be unpacked ({error})") from None


def _without(table: pd.DataFrame, words: Collection[str]) -> pd.DataFrame:
    """The table with these words as missing values; columns may become numbers by that."""
    for j in range(table.shape[1]) if words else ():
        column = table.iloc[:, j]
        if kind_of(column) == "text" and column.isin(list(words)).any():
            table.isetitem(j, settled(column.where(~column.isin(list(words)))))
    return table


def _read_parquet(stream: BinaryIO, name: str) -> pd.DataFrame:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow") from None
    try:
        file = parquet.ParquetFile(stream)
        if file.metadata.num_rows * file.metadata.num_columns > MAX_CELLS:
            raise InputError(
                f"{name} holds more than {MAX_CELLS:,} values; give it fewer rows or columns"
            )
        table = file.read().to_pandas(date_as_object=False)
    except ArrowException as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{name} cannot be read as Parquet: {line}") from None
    for j in range(table.shape[1]):
        kind = pd.api.types.infer_dtype(table.iloc[:, j], skipna=True)
        if pd.api.types.is_object_dtype(table.iloc[:, j].dtype) and kind in _KINDS:
            table.isetitem(j, table.iloc[:, j].astype(_KINDS[kind]))
    # Row labels of pandas are not features.
    return table.reset_index(drop=True)


def _named(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, str]:
    """The table with distinct column names, and a remark if a column of row labels was dropped."""
    names = [str(column).strip() for column in table.columns]
    repeated = sorted({column for column in names if names.count(column) > 1 and column})
    if repeated:
        listed = ", ".join(repr(column) for column in repeated)
        raise InputError(f"{name} has more than one column called {listed}; rename them")
    unnamed = [j for j, column in enumerate(names) if not column]
    for j in unnamed:
        if j > 0 and table.iloc[:, j].notna().any():
            raise InputError(
                f"column {j + 1} of {name} has no name; name it in the header, which is the first "
                "line: no title above it, no merged cells"
            )
    remark = ""
    if 0 in unnamed and table.iloc[:, 0].notna().any():
        remark = "column 1 has no name and is left out, because it looks like row labels"
    kept = [j for j in range(len(names)) if j not in unnamed]
    if not kept:
        raise InputError(f"{name} has no column with a name; name them in the first line")
    table = table.iloc[:, kept]
    table.columns = pd.Index([names[j] for j in kept])
    return table, remark


@contextlib.contextmanager
def _opened(source: str) -> Iterator[BinaryIO]:
    """A seekable stream of the bytes of a source."""
    if source == STDIN:
        with _spooled(sys.stdin.buffer, "standard input") as stream:
            yield stream
        return
    path = Path(source)
    if path.is_dir():
        raise InputError(f"{source} is a directory, not a file")
    if not path.exists():
        raise InputError(f"{source} does not exist")
    with path.open("rb") as file:
        if file.seekable():
            yield file
            return
        with _spooled(file, source) as stream:
            yield stream


@contextlib.contextmanager
def _spooled(stream: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """A seekable copy of a stream, in memory or, if large, in a temporary file."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as copy:
        while data := stream.read(_PIECE):
            copy.write(data)
            if copy.tell() > _MAX_SPOOLED:
                raise InputError(f"{name} is longer than {_MAX_SPOOLED >> 30} GiB")
        copy.seek(0)
        yield copy  # type: ignore[misc]


def check_plain(table: pd.DataFrame, name: str, *, features: bool = False) -> None:
    """Raise InputError if a column holds lists or other nested values."""
    for column in table.columns:
        if pd.api.types.is_object_dtype(table[column].dtype):
            parts = table[column].map(lambda value: isinstance(value, list | dict | np.ndarray))
            if parts.any():
                drop = f", or leave it out with --drop {quoted(column)}" if features else ""
                raise InputError(
                    f"column {column!r} of {name} holds lists or other nested values; split "
                    f"them into columns{drop}"
                )


def refuse(wrong: np.ndarray, column: pd.Series, name: str, what: str, remedy: str = "") -> None:
    """Raise InputError with the first wrong row, if there is any."""
    if wrong.any():
        row = column.index[int(np.argmax(wrong))] + 1
        hint = f"; {remedy}" if remedy else ""
        raise InputError(f"column {column.name!r} of {name} {what} in row {row}{hint}")


def check_finite(table: pd.DataFrame, name: str) -> None:
    """Raise InputError if a number is infinite."""
    for column in table.columns:
        if kind_of(table[column]) == "number":
            values = table[column].to_numpy(dtype=np.float64, na_value=np.nan)
            remedy = f"leave the field empty, or the column out with --drop {quoted(column)}"
            refuse(np.isinf(values), table[column], name, "has an infinite value", remedy)


def quoted(name: object) -> str:
    """A name, quoted if a shell needs it."""
    return f"'{name}'" if set(' ()[]*?;&|$#!<>"\\') & set(str(name)) else str(name)
