"""Tables from files and standard input: CSV, compressed CSV, Parquet and Excel.

The type of a file is decided by its first bytes. Columns of plain numbers, or of true and false,
are converted here; `bandfall.tables` converts what needs interpretation, as it does in Python.

An empty field is a missing value. In a column of numbers, the usual words for "not available" are
missing values too. In a column of text they remain text, because "None" may be a valid answer.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils.fixes import parse_version

from bandfall._cli.terminal import Bar, InputError, note
from bandfall.report._columns import kind_of
from bandfall.tables._text import is_number, plain_numbers

STDIN = "-"
_GZIP, _PARQUET, _ZIP, _OLD_EXCEL = b"\x1f\x8b", b"PAR1", b"PK\3\4", b"\xd0\xcf\x11\xe0"
_OLD_PANDAS = parse_version(pd.__version__) < parse_version("3.1")  # rounds unless told not to
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}
# What gzip, pandas, pyarrow and openpyxl raise for files that are damaged or of another kind.
_UNREADABLE = (
    *(ValueError, TypeError, LookupError, AttributeError, SyntaxError, OSError, EOFError),
    *(pd.errors.ParserWarning, csv.Error, zlib.error, zipfile.BadZipFile),
)


def read_file(
    source: str, text: Sequence[str] = (), missing: Sequence[str] = ()
) -> tuple[pd.DataFrame, str]:
    """The table of a file or of standard input ("-"), and the style of its numbers.

    Columns in `text` remain text, and words in `missing` are missing values. The style is "point"
    or "comma"; an unusual style of a CSV file is noted on standard error.
    """
    name, style = name_of(source), "point"
    with Bar("read the table"):
        data = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
        try:
            if data.startswith(_PARQUET):
                table = _read_parquet(data)
            elif data.startswith((_ZIP, _OLD_EXCEL)):
                table = _read_excel(data)
            else:
                data = gzip.decompress(data) if data.startswith(_GZIP) else data
                table, style = _read_csv(data, name, text, missing)
        except ImportError as error:
            raise InputError(f"{name} needs a package that is not installed: {error}") from None
        except _UNREADABLE as error:
            raise InputError(
                f"{name} cannot be read as a table with a header in its first line: {error}"
            ) from None
    table = _named(table, name)
    if not len(table):
        raise InputError(f"{name} has a header but no rows")
    for j, column in enumerate(table.columns):
        values = table[column]
        if kind_of(values) == "text" and not isinstance(values.dtype, pd.CategoricalDtype):
            with suppress(TypeError):  # lists and records cannot be hashed; they stay as they are
                values = values.mask(values.isin(list(missing)))
                table.isetitem(j, values if column in text else _typed(values, style))
    return table, style


def name_of(source: str) -> str:
    """Name of a source in messages."""
    return "standard input" if source == STDIN else source


def at_levels(column: pd.Series, values: Sequence[object] | np.ndarray) -> pd.Series:
    """The values of the levels of a column, in order of appearance, in each of its rows."""
    return column.astype(object).map(dict(zip(column.dropna().unique(), values, strict=True)))


def _typed(column: pd.Series, style: str) -> pd.Series:
    """A column of text as numbers or booleans, if all its fields are plain ones."""
    levels = [str(level) for level in column.dropna().unique()]
    if levels and {level.lower() for level in levels} <= {"true", "false"}:
        return at_levels(column, [level.lower() == "true" for level in levels]).astype("boolean")
    numbers = plain_numbers(levels, style)
    if numbers is None:
        return column.map(str, na_action="ignore")
    return at_levels(column, numbers).astype(float)


def _read_csv(
    data: bytes, name: str, text: Sequence[str], missing: Sequence[str]
) -> tuple[pd.DataFrame, str]:
    """The table, and the style of its numbers; separator, decimal sign and encoding are guessed."""
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = usual = "utf-16" if utf16 else "utf-8-sig"
    try:
        codecs.decode(data, encoding)
    except UnicodeDecodeError:
        encoding = "cp1252"  # nearly always
    lines = data[: 1 << 20].decode(encoding, "ignore").splitlines(keepends=True)
    lines = [line for line in lines[:200] if line.strip()]
    if not lines:
        raise ValueError("the file is empty")
    separator = max(",;\t|", key=lambda sign: _worth(lines, sign))
    header, *rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    comma = _has_decimal_commas([field for row in rows for field in row], separator)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        table = pd.read_csv(
            io.BytesIO(data),
            encoding=encoding,
            sep=separator,
            decimal="," if comma else ".",
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=["", *missing],
            dtype=dict.fromkeys(text, str),
            low_memory=False,  # one kind for a whole column
            **_EXACT,
        )
    parts = [f"separator {separator!r}"] * (separator != ",") + ["decimal comma"] * comma
    if parts := parts + [f"encoding {encoding}"] * (encoding != usual):
        note(f"{name}: read with {', '.join(parts)}")
    return table.set_axis(header, axis=1), "comma" if comma else "point"


def _worth(lines: list[str], separator: str) -> tuple[float, ...]:
    """How well a separator splits lines: into equally many fields, which are numbers, and many."""
    header, *rows = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    if len(header) < 2:
        return (0.0, 0.0, 0.0)
    fields = [field for row in rows for field in row if field]
    whole = [is_number(field, "point") or is_number(field, "comma") for field in fields]
    equal = [len(row) == len(header) for row in rows if row]
    return float(np.mean(equal or [False])), float(np.mean(whole or [False])), float(len(header))


def _has_decimal_commas(fields: list[str], separator: str) -> bool:
    """Whether some numbers need a decimal comma and none needs a decimal point.

    Between semicolons, 1,234 is a little more than one; elsewhere it may be a thousand.
    """
    points, commas, either = False, False, False
    for field in fields:
        point, comma = is_number(field, "point"), is_number(field, "comma")
        points |= point and not comma
        commas |= comma and not point
        either |= point and comma and "," in field
    return not points and (commas or (either and separator == ";"))


def _read_excel(data: bytes) -> pd.DataFrame:
    """The first sheet, without empty rows; the first row is the header."""
    cells = pd.read_excel(
        io.BytesIO(data), header=None, dtype=object, keep_default_na=False, na_values=[""]
    ).dropna(how="all")
    names = ["" if pd.isna(cell) else str(cell) for cell in cells.iloc[0]]
    return cells.iloc[1:].infer_objects().reset_index(drop=True).set_axis(names, axis=1)


def _read_parquet(data: bytes) -> pd.DataFrame:
    from pyarrow import parquet

    table = parquet.read_table(io.BytesIO(data)).to_pandas(date_as_object=False)
    return table.reset_index(drop=True)  # row labels of pandas are not features


def _named(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The columns that have a name; their names must differ."""
    names = [str(column).strip() for column in table.columns]
    repeated = sorted({column for column in names if names.count(column) > 1 and column})
    if repeated:
        listed = ", ".join(repr(column) for column in repeated)
        raise InputError(f"{name} has more than one column called {listed}; rename them")
    table = table.set_axis(names, axis=1)
    if "" in names and table[[""]].notna().any(axis=None):
        note(f"{name}: columns without a name, such as row labels, are left out")
    return table[[column for column in names if column]]
