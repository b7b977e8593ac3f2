"""Excel files: the first sheet, with a header in its first row (extra ``excel``)."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pandas as pd

from bandfall._cli.csv_files import settled
from bandfall._cli.terminal import InputError

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

_WORKBOOK = "xl/workbook.xml"
_MAX_BYTES = 1 << 31  # unpacked
# Errors that damaged archives and workbooks raise in three libraries.
_DAMAGED = (
    SyntaxError,
    zipfile.BadZipFile,
    KeyError,
    ValueError,
    TypeError,
    IndexError,
    AttributeError,
    OSError,
)


def is_excel(stream: BinaryIO) -> bool:
    """Whether a zip archive is a workbook; the stream is left at its start."""
    try:
        with zipfile.ZipFile(stream) as archive:
            return _WORKBOOK in archive.namelist()
    except zipfile.BadZipFile:
        return False
    finally:
        stream.seek(0)


def read_excel(stream: BinaryIO, name: str, max_cells: int) -> tuple[pd.DataFrame, str]:
    """The first sheet, without empty rows, and a remark about it."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError("Excel files need openpyxl: pip install openpyxl") from None
    with zipfile.ZipFile(stream) as archive:
        if sum(one.file_size for one in archive.infolist()) > _MAX_BYTES:
            raise InputError(f"{name} unpacks to more than {_MAX_BYTES >> 30} GiB; save it as CSV")
    try:
        workbook = load_workbook(stream, read_only=True, data_only=True)
        sheet = workbook.worksheets[0]
        rows = [list(row) for row in _rows(sheet, name, max_cells)]
    except InputError:
        raise
    except _DAMAGED as error:
        raise InputError(f"{name} cannot be read as Excel: {error}") from None
    n_sheets = len(workbook.worksheets)
    remark = f"the first of {n_sheets} sheets is read, {sheet.title!r}" if n_sheets > 1 else ""
    return _table(rows, name), remark


def _rows(sheet: Worksheet, name: str, max_cells: int) -> Iterator[tuple[object, ...]]:
    n_cells = 0
    for row in sheet.iter_rows(values_only=True):
        n_cells += len(row)
        if n_cells > max_cells:
            raise InputError(f"{name} holds more than {max_cells:,} values; save it as CSV")
        yield row


def _table(rows: list[list[object]], name: str) -> pd.DataFrame:
    filled = [row for row in rows if any(value not in (None, "") for value in row)]
    if not filled:
        raise InputError(f"{name} is empty")
    header, *body = filled
    width = max(len(row) for row in filled)
    header = [*header, *[None] * (width - len(header))]
    cells = [[None if value == "" else value for value in row] for row in body]
    table = pd.DataFrame([[*row, *[None] * (width - len(row))] for row in cells])
    table = table.reindex(columns=range(width))
    for column in table.columns:
        if any(isinstance(value, str) for value in table[column]):  # possibly mixed with numbers
            texts = table[column].map(str, na_action="ignore")
            table[column] = settled(texts)
    table.columns = pd.Index(["" if cell is None else str(cell) for cell in header])
    return table
