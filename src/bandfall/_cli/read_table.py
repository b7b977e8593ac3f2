"""Tables from files and standard input: CSV of any style, compressed CSV, Parquet and Excel.

The type of a file is decided by its first bytes, not by its name. Columns of plain numbers, or of
true and false, are converted here; `bandfall.tables` converts what needs interpretation, as it does
in Python.

An empty field is a missing value. In a column of numbers, the usual words for "not available" are
missing values too. In a column of text they remain text, because "None" may be a valid answer.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from sklearn.utils.fixes import parse_version

from bandfall._cli.options import Style
from bandfall._cli.terminal import Bar, InputError, note
from bandfall.report._columns import kind_of
from bandfall.tables._text import is_number, plain_numbers

STDIN = "-"
MAX_CELLS = 200_000_000  # 1.6 GB of numbers
MAX_BYTES = 1 << 32  # of standard input, and of an Excel file when unpacked
_SAMPLE = 1 << 20  # bytes from which separator and decimal sign are guessed
_GZIP, _PARQUET, _ZIP, _OLD_EXCEL = b"\x1f\x8b", b"PAR1", b"PK\3\4", b"\xd0\xcf\x11\xe0"
_OTHER_TEXT = re.compile(r"\s*(\{\s*[\"}]|\[\s*[\[{]|<(!|\?xml|html|table))", re.IGNORECASE)
_OLD_PANDAS = parse_version(pd.__version__) < parse_version("3.1")  # rounds unless told not to
_EXACT: dict[str, Any] = {"float_precision": "round_trip"} if _OLD_PANDAS else {}


def read_file(
    source: str, style: Style | None = None, most_bytes: int = MAX_BYTES
) -> tuple[pd.DataFrame, Style]:
    """Read the table of a file or of standard input ("-"); return it with its complete style.

    Guessed settings are noted on standard error if they are unusual.
    """
    name, given, sheet = name_of(source), style or Style(), ""
    style = given
    with Bar("read the table"), _opened(source, most_bytes) as stream:
        start = stream.read(4)
        stream.seek(0)
        if not start:
            raise InputError(f"{name} is empty")
        if start == _OLD_EXCEL:
            raise InputError(f"{name} is an old Excel file (.xls); save it as .xlsx or CSV")
        if start == _PARQUET:
            table = _read_parquet(stream, name)
        elif start == _ZIP:
            table, sheet = _read_excel(stream, name)
        else:
            if start[:2] == _GZIP:
                stream = gzip.GzipFile(fileobj=stream, mode="rb")  # type: ignore[assignment]
            table, style = read_csv(stream, name, style)
    table, labels = _named(table, name)
    if not len(table):
        raise InputError(f"{name} has a header but no rows")
    for j, column in enumerate(table.columns):
        if kind_of(table[column]) == "text":
            gone = table[column].isin(list(style.missing)).to_numpy(bool)
            values = table[column].where(~gone) if gone.any() else table[column]
            is_text = column in style.text or (start == _PARQUET and not gone.any())
            table.isetitem(j, values if is_text else typed(values, style))
    if remarks := "; ".join(filter(None, (sheet, _unusual(style, given), labels))):
        note(f"{name}: {remarks}")
    return table, style


def _unusual(style: Style, given: Style) -> str:
    """A remark on the guessed settings that are unusual."""
    parts = []
    if given.separator is None and style.separator not in (None, ","):
        parts.append(f"separator {'tab' if style.separator == chr(9) else repr(style.separator)}")
    if given.decimal is None and style.decimal == ",":
        parts.append("decimal comma")
    if given.encoding is None and style.encoding not in (None, "utf-8"):
        parts.append(f"encoding {style.encoding}")
    return f"read with {', '.join(parts)}" if parts else ""


def name_of(source: str) -> str:
    """Name of a source in messages."""
    return "standard input" if source == STDIN else source


def typed(column: pd.Series, style: Style) -> pd.Series:
    """A column of text as numbers or booleans, if all its fields are plain ones; else unchanged."""
    codes, index = column.factorize()
    levels = [str(level) for level in index]
    if 0 < len(levels) <= 6 and {level.lower() for level in levels} <= {"true", "false"}:
        truth = column.map(lambda value: str(value).lower() == "true", na_action="ignore")
        return truth.astype("boolean" if codes.min() < 0 else bool)
    numbers = plain_numbers(levels, style.numbers)
    if numbers is None:
        return column
    whole = all(level.strip().lstrip("+-").isdigit() for level in levels)
    if whole and codes.min() >= 0 and np.abs(numbers).max() < 2**53:
        numbers = numbers.astype(np.int64)  # written without a decimal point
    else:
        numbers = np.append(numbers, np.nan)  # for missing values
    return pd.Series(numbers[codes], index=column.index)


def read_csv(
    stream: BinaryIO, name: str, style: Style, most_cells: int = MAX_CELLS
) -> tuple[pd.DataFrame, Style]:
    """The table of a stream that can be read twice, and its style."""
    style = _checked(style)
    try:
        # Files that are not UTF-8 are nearly always cp1252.
        utf16 = stream.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        guesses = ["utf-16"] if utf16 else ["utf-8", "cp1252"]
        for encoding in [style.encoding] if style.encoding else guesses:
            with contextlib.suppress(UnicodeDecodeError):
                complete = replace(style, encoding=encoding)
                complete, header = _guessed(stream, name, complete)
                return _fields(stream, name, complete, header, most_cells), complete
        stream.seek(0)
        if b"\0" in stream.read(_SAMPLE):
            raise InputError(f"{name} is neither CSV nor Parquet nor Excel")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name} is damaged: it cannot be unpacked ({error})") from None
    known = f"{style.encoding} text" if style.encoding else "text in a known encoding"
    raise InputError(f"{name} is not {known}; name its --encoding, or save it as UTF-8")


def _checked(style: Style) -> Style:
    if style.separator is not None:
        separator = {"tab": "\t", "\\t": "\t"}.get(style.separator, style.separator)
        if len(separator) != 1 or separator in '\r\n"':
            raise InputError(f"--sep must be one character or 'tab'; got {style.separator!r}")
        style = replace(style, separator=separator)
    if style.decimal not in (None, ".", ","):
        raise InputError(f"--decimal must be '.' or ','; got {style.decimal!r}")
    try:
        codecs.lookup(style.encoding or "utf-8")
    except LookupError:
        raise InputError(f"--encoding {style.encoding} is not known to Python") from None
    return style


def _guessed(stream: BinaryIO, name: str, style: Style) -> tuple[Style, list[str]]:
    """The style with separator and decimal sign guessed unless given, and the header."""
    sample = _sample(stream, _python_name(style.encoding))
    if "\0" in sample:
        raise InputError(f"{name} is neither CSV nor Parquet nor Excel")
    if _OTHER_TEXT.match(sample):
        raise InputError(f"{name} holds JSON, HTML or XML; save it as CSV or Parquet")
    try:
        separator = style.separator or _separator(sample)
        rows = _rows(sample, separator)
    except csv.Error as error:
        raise InputError(f"the header of {name} cannot be read: {error}") from None
    if not rows:
        raise InputError(f"{name} is empty")
    fields = [field for row in rows[1:] for field in row]
    decimal = style.decimal or ("," if _has_decimal_commas(fields, separator) else ".")
    return replace(style, separator=separator, decimal=decimal), rows[0]


def _fields(
    stream: BinaryIO, name: str, style: Style, header: list[str], most_cells: int
) -> pd.DataFrame:
    """The table; columns of plain numbers, or of true and false, are converted."""
    positions = [str(j) for j in range(len(header))]  # names may repeat
    as_text = [
        j for j, column in zip(positions, header, strict=True) if column.strip() in style.text
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            stream.seek(0)
            table = pd.read_csv(
                stream,
                encoding=_python_name(style.encoding),
                sep=str(style.separator),
                decimal=str(style.decimal),
                names=positions,
                header=0,
                index_col=False,
                nrows=most_cells // len(header) + 1,
                skipinitialspace=True,
                keep_default_na=False,
                na_values=["", *style.missing],
                dtype=dict.fromkeys(as_text, str),
                low_memory=False,  # one kind for a whole column
                **_EXACT,
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise InputError(f"{name} is not a proper table: {_reason(error)}") from None
    except pd.errors.EmptyDataError:
        raise InputError(f"{name} is empty") from None
    if table.size > most_cells:
        raise InputError(
            f"{name} holds more than {most_cells:,} values; give it fewer rows or columns"
        )
    return table.set_axis(header, axis=1)


def _sample(stream: BinaryIO, encoding: str, n_lines: int = 200) -> str:
    """The first complete lines, without leading blank lines."""
    stream.seek(0)
    data = stream.read(_SAMPLE)
    text = codecs.getincrementaldecoder(encoding)().decode(data, final=len(data) < _SAMPLE)
    lines = text.lstrip().splitlines(keepends=True)
    return "".join(lines[:n_lines] if len(data) < _SAMPLE else lines[:-1][:n_lines] or lines)


def _python_name(encoding: str | None) -> str:
    """UTF-8 may begin with a mark of the order of bytes."""
    return "utf-8-sig" if encoding in ("utf-8", "utf8", None) else encoding


def _rows(sample: str, separator: str) -> list[list[str]]:
    """Fields of the lines that are not empty, with any line ending."""
    lines = io.StringIO(sample, newline=None)
    return [row for row in csv.reader(lines, delimiter=separator) if row]


def _separator(sample: str) -> str:
    """The separator that splits most lines into the same number of fields, at least two.

    Ties go to the separator that keeps more numbers intact, then to the one with more fields.
    """
    best, best_worth = ",", (0.0, 0.0, 0)
    for separator in ",;\t|":
        rows = _rows(sample, separator)
        if not rows or len(rows[0]) < 2:
            continue
        equal = float(np.mean([len(row) == len(rows[0]) for row in rows]))
        fields = [field for row in rows[1:] for field in row if field]
        whole = [is_number(field, "point") or is_number(field, "comma") for field in fields]
        worth = (equal, float(np.mean(whole or [False])), len(rows[0]))
        if worth > best_worth:
            best, best_worth = separator, worth
    return best


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


def _reason(error: Exception) -> str:
    """pandas' error message in one line."""
    text = str(error).splitlines()[0].removeprefix("Error tokenizing data. C error: ")
    header = "the first line must be the header, with all names"
    if counts := re.match(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
        expected, line, seen = counts.groups()
        return f"line {line} has {seen} fields and the header {expected}; {header}"
    if text.startswith("Length of header"):
        return f"rows have more fields than the header; {header}"
    return text


def _read_excel(stream: BinaryIO, name: str) -> tuple[pd.DataFrame, str]:
    """The first sheet, without empty rows, and a remark on others; row 1 is the header."""
    _check_workbook(stream, name)
    try:
        with pd.ExcelFile(stream, engine="openpyxl") as book:
            sheets = book.sheet_names
            cells = pd.read_excel(
                book, header=None, dtype=object, keep_default_na=False, na_values=[""]
            )
    except ImportError:
        raise InputError("Excel files need openpyxl: pip install openpyxl") from None
    # What damaged archives and workbooks raise in three libraries.
    except (
        *(SyntaxError, zipfile.BadZipFile, KeyError, ValueError, TypeError, IndexError),
        *(AttributeError, OSError),
    ) as error:
        raise InputError(f"{name} cannot be read as Excel: {error}") from None
    cells = cells.dropna(how="all")
    if not len(cells):
        raise InputError(f"{name} is empty")
    table = cells.iloc[1:].infer_objects().reset_index(drop=True)
    for j in table.columns:
        if any(isinstance(cell, str) for cell in table[j]):  # perhaps numbers among them
            table[j] = table[j].map(str, na_action="ignore")
    table.columns = pd.Index(["" if pd.isna(cell) else str(cell) for cell in cells.iloc[0]])
    n = len(sheets)
    return table, f"the first of {n} sheets is read, {sheets[0]!r}" if n > 1 else ""


def _check_workbook(stream: BinaryIO, name: str) -> None:
    """Raise InputError unless a zip archive is a workbook of a size that can be unpacked."""
    sizes: dict[str, int] = {}
    with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(stream) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    if "xl/workbook.xml" not in sizes:
        raise InputError(f"{name} is a zip archive; unpack it first")
    if sum(sizes.values()) > MAX_BYTES:
        raise InputError(f"{name} unpacks to too many bytes; save it as CSV")


def _read_parquet(stream: BinaryIO, name: str) -> pd.DataFrame:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError:
        raise InputError("Parquet files need pyarrow: pip install pyarrow") from None
    try:
        table = parquet.ParquetFile(stream).read().to_pandas(date_as_object=False)
    except ArrowException as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{name} cannot be read as Parquet: {line}") from None
    for j in range(table.shape[1]):
        kind = pd.api.types.infer_dtype(table.iloc[:, j], skipna=True)
        dtype = {"boolean": "boolean", "decimal": "float64"}.get(kind)
        if dtype and pd.api.types.is_object_dtype(table.iloc[:, j].dtype):
            table.isetitem(j, table.iloc[:, j].astype(dtype))
    return table.reset_index(drop=True)  # row labels of pandas are not features


def _named(table: pd.DataFrame, name: str) -> tuple[pd.DataFrame, str]:
    """The table with distinct column names, and a remark if a column of row labels was dropped."""
    names = [str(column).strip() for column in table.columns]
    repeated = sorted({column for column in names if names.count(column) > 1 and column})
    if repeated:
        listed = ", ".join(repr(column) for column in repeated)
        raise InputError(f"{name} has more than one column called {listed}; rename them")
    unnamed = [j for j, column in enumerate(names) if not column]
    filled = [j for j in unnamed if table.iloc[:, j].notna().any()]
    for j in filled:
        if j > 0:  # the first column may hold row labels
            raise InputError(
                f"column {j + 1} of {name} has no name; name it in the header, which is the first "
                "line: no title above it, no merged cells"
            )
    kept = [j for j in range(len(names)) if j not in unnamed]
    if not kept:
        raise InputError(f"{name} has no column with a name; name them in the first line")
    table = table.iloc[:, kept].set_axis([names[j] for j in kept], axis=1)
    labels = "column 1 has no name and is left out, because it looks like row labels"
    return table, labels if filled else ""


@contextlib.contextmanager
def _opened(source: str, most_bytes: int) -> Iterator[BinaryIO]:
    """A seekable stream of the bytes of a source; standard input and pipes are copied first."""
    if source != STDIN and Path(source).is_dir():
        raise InputError(f"{source} is a directory, not a file")
    if source != STDIN and not Path(source).exists():
        raise InputError(f"{source} does not exist")
    standard = contextlib.nullcontext(sys.stdin.buffer)
    with standard if source == STDIN else Path(source).open("rb") as file:
        if source != STDIN and file.seekable():
            yield file
            return
        with tempfile.SpooledTemporaryFile(max_size=1 << 26) as copy:
            while data := file.read(1 << 20):
                copy.write(data)
                if copy.tell() > most_bytes:
                    raise InputError(f"{name_of(source)} is longer than {most_bytes:,} bytes")
            copy.seek(0)
            yield copy  # type: ignore[misc]
