"""CSV files of any style: separator, decimal sign and encoding are guessed.

An empty field is a missing value. In a column of numbers, the usual words for "not available" are
missing values too. In a column of text they remain text, because "None" may be a valid answer.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import BinaryIO

import numpy as np
import pandas as pd

from bandfall._cli.terminal import InputError
from bandfall.tables._text import is_number, plain_numbers, usual_style

CHUNK_ROWS = 50_000
SEPARATORS = (",", ";", "\t", "|")
_NAMES = {"\t": "tab"}
_SAMPLE_LINES = 200
_MAX_LINE = 1 << 20
_OTHER_TEXT = re.compile(r"\s*(\{\s*[\"}]|\[\s*[\[{]|<(!|\?xml|html|table))", re.IGNORECASE)
_HEADER = "the first line must be the header, with all names"
_TOO_LONG = re.compile(r"Expected (\d+) fields in line (\d+), saw (\d+)")
_MARKS = {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}

# By default, pandas before version 3.1 rounds the last digit, so that training rows would not be
# recognised; later versions deprecate the option.
_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_EXACT_NUMBERS: dict[str, str] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}


@dataclass(frozen=True)
class Style:
    """Format of a CSV file; None for a setting to guess, or one that does not apply.

    `remarks` describe how the file was read.
    """

    separator: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    remarks: str = ""

    def remarked(self, remark: str) -> Style:
        """A copy with one more remark."""
        return replace(self, remarks="; ".join(filter(None, (self.remarks, remark))))

    def as_usual(self) -> AbstractContextManager[None]:
        """A context that reads ambiguous numbers with the decimal sign of this file."""
        return usual_style("comma" if self.decimal == "," else "point")

    def unusual(self, given: Style) -> str:
        """The guessed settings that are unusual, in words."""
        parts = []
        if given.separator is None and self.separator != ",":
            parts.append(f"separator {_NAMES.get(str(self.separator), repr(self.separator))}")
        if given.decimal is None and self.decimal != ".":
            parts.append("decimal comma")
        if given.encoding is None and self.encoding != "utf-8":
            parts.append(f"encoding {self.encoding}")
        return ", ".join(parts)


def read_csv(
    stream: BinaryIO,
    name: str,
    style: Style,
    *,
    text: Collection[str],
    missing: Collection[str],
    max_cells: int,
    chunk_rows: int = CHUNK_ROWS,
) -> tuple[pd.DataFrame, Style]:
    """The table of a stream that can be read twice; see `tables.read_file`."""
    style = _checked(style)
    file = _CsvFile(stream, name, text, missing, max_cells, chunk_rows)
    encodings = [style.encoding] if style.encoding else _encodings(stream)
    for encoding in encodings:
        try:
            table, found = file.table(replace(style, encoding=encoding))
            unusual = found.unusual(style)
            return table, found.remarked(f"read with {unusual}" if unusual else "")
        except UnicodeDecodeError:
            continue
    stream.seek(0)
    if b"\0" in stream.read(_MAX_LINE):
        raise _no_table(name)
    known = f"{encodings[0]} text" if style.encoding else "text in a known encoding"
    raise InputError(f"{name} is not {known}; name its --encoding, or save it as UTF-8")


def _checked(style: Style) -> Style:
    if style.separator is not None:
        separator = {"tab": "\t", "\\t": "\t"}.get(style.separator, style.separator)
        if len(separator) != 1 or separator in '\r\n"':
            raise InputError(f"--sep must be one character or 'tab'; got {style.separator!r}")
        style = replace(style, separator=separator)
    if style.decimal not in (None, ".", ","):
        raise InputError(f"--decimal must be '.' or ','; got {style.decimal!r}")
    if style.encoding is not None:
        try:
            codecs.lookup(style.encoding)
        except LookupError:
            raise InputError(f"--encoding {style.encoding} is not known to Python") from None
    return style


def _encodings(stream: BinaryIO) -> list[str]:
    """Encodings to try, in this order: files that are not UTF-8 are nearly always cp1252."""
    stream.seek(0)
    mark = _MARKS.get(stream.read(2))
    return [mark] if mark else ["utf-8", "cp1252"]


@dataclass(frozen=True)
class _CsvFile:
    """A stream and the settings that do not depend on its style."""

    stream: BinaryIO
    name: str
    text: Collection[str]
    missing: Collection[str]
    max_cells: int
    chunk_rows: int

    def table(self, style: Style) -> tuple[pd.DataFrame, Style]:
        """Read the table in the encoding of `style`; return it with the complete style."""
        sample = self._sample(style)
        if "\0" in sample:
            raise _no_table(self.name)
        if _OTHER_TEXT.match(sample):
            raise InputError(f"{self.name} holds JSON, HTML or XML; save it as CSV or Parquet")
        try:
            style, header = _guess(sample, style)
        except csv.Error as error:
            raise InputError(f"the header of {self.name} cannot be read: {error}") from None
        if not header:
            raise InputError(f"{self.name} is empty")
        # Columns are identified by position, because names may repeat.
        places = {str(j) for j, column in enumerate(header) if column.strip() in self.text}
        pieces = self._pieces(style, len(header), places)
        torn = _torn(pieces)
        if torn:
            pieces = self._pieces(style, len(header), places | torn)
        table = pieces[0] if len(pieces) == 1 else pd.concat(pieces, ignore_index=True)
        for column in table.columns.difference(list(places)):
            table[column] = settled(table[column], style.decimal)
        table.columns = header
        return table, style

    def _sample(self, style: Style) -> str:
        """The first lines, without leading blank lines."""
        lines: list[str] = []
        with _as_text(self.stream, style) as text:
            while len(lines) < _SAMPLE_LINES:
                line = text.readline(_MAX_LINE)
                if not line:
                    break
                if line.strip() or lines:
                    lines.append(line)
        return "".join(lines)

    def _pieces(self, style: Style, width: int, text: set[str]) -> list[pd.DataFrame]:
        """The table in chunks, with positions as column names."""
        pieces, n_cells = [], 0
        try:
            with warnings.catch_warnings(), _as_text(self.stream, style) as source:
                warnings.simplefilter("error", pd.errors.ParserWarning)
                with pd.read_csv(
                    source,
                    sep=style.separator,
                    decimal=style.decimal or ".",
                    names=[str(j) for j in range(width)],
                    header=0,
                    index_col=False,
                    chunksize=self.chunk_rows,
                    skipinitialspace=True,
                    keep_default_na=False,
                    na_values=["", *self.missing],
                    dtype=dict.fromkeys(text, str),
                    low_memory=False,  # otherwise a column of one chunk may have mixed types
                    **_EXACT_NUMBERS,
                ) as reader:
                    for piece in reader:
                        pieces.append(piece)
                        n_cells += piece.size
                        if n_cells > self.max_cells:
                            raise InputError(
                                f"{self.name} holds more than {self.max_cells:,} values; give it "
                                "fewer rows or columns"
                            )
        except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
            raise InputError(f"{self.name} is not a proper table: {_reason(error)}") from None
        except pd.errors.EmptyDataError:
            raise InputError(f"{self.name} is empty") from None
        return pieces


def _no_table(name: str) -> InputError:
    return InputError(f"{name} is neither CSV nor Parquet nor Excel")


@contextmanager
def _as_text(stream: BinaryIO, style: Style) -> Iterator[io.TextIOWrapper]:
    """The text of a stream, which stays open."""
    stream.seek(0)
    encoding = "utf-8-sig" if style.encoding in ("utf-8", "utf8") else style.encoding
    text = io.TextIOWrapper(stream, encoding=encoding, newline="")
    try:
        yield text
    finally:
        text.detach()


def _guess(sample: str, style: Style) -> tuple[Style, list[str]]:
    """The style with separator and decimal sign guessed unless given, and the header."""
    separator = style.separator or _separator(sample)
    rows = _rows(sample, separator)
    if style.decimal is None:
        fields = [field for row in rows[1:] for field in row]
        style = replace(style, decimal="," if _has_decimal_commas(fields, separator) else ".")
    return replace(style, separator=separator), rows[0] if rows else []


def _rows(sample: str, separator: str) -> list[list[str]]:
    """Fields of the lines that are not empty, with any line ending."""
    lines = io.StringIO(sample, newline=None)
    return [row for row in csv.reader(lines, delimiter=separator) if row]


def _separator(sample: str) -> str:
    """The separator that splits most lines into the same number of fields, at least two.

    Ties go to the separator that keeps more numbers intact, then to the one with more fields.
    """
    best, best_worth = SEPARATORS[0], (0.0, 0.0, 0)
    for separator in SEPARATORS:
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


def _torn(pieces: list[pd.DataFrame]) -> set[str]:
    """Columns read as numbers in one chunk and as text in another; they must be read as text."""
    torn = set()
    for column in pieces[0].columns:
        kinds = {_is_text(piece[column]) for piece in pieces if piece[column].notna().any()}
        if len(kinds) > 1:
            torn.add(column)
    return torn


def _is_text(column: pd.Series) -> bool:
    return not (
        pd.api.types.is_numeric_dtype(column.dtype)  # booleans among them
        or (column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) == "boolean")
    )


def settled(column: pd.Series, decimal: str | None = ".") -> pd.Series:
    """Convert text to numbers if all other fields are words for "not available"."""
    if pd.api.types.is_numeric_dtype(column.dtype):
        return column
    if not _is_text(column):
        return column.astype("boolean")
    levels = pd.Series(column.dropna().unique(), dtype=object)
    if pd.api.types.infer_dtype(levels) == "integer":  # beyond 64 bits, perhaps beyond float64
        return column.map(lambda value: float(str(value)), na_action="ignore").astype(np.float64)
    numbers = plain_numbers(levels.tolist(), "comma" if decimal == "," else "point")
    if numbers is None:
        return column
    return column.map(dict(zip(levels, numbers, strict=True))).astype(np.float64)


def _reason(error: Exception) -> str:
    """pandas' error message in one line."""
    text = str(error).splitlines()[0]
    if text.startswith("Error tokenizing data. C error: "):
        text = text.removeprefix("Error tokenizing data. C error: ")
        found = _TOO_LONG.match(text)
        if found:
            return f"line {found[2]} has {found[3]} fields and the header {found[1]}; {_HEADER}"
        return text
    if text.startswith("Length of header"):
        return f"rows have more fields than the header; {_HEADER}"
    return text
