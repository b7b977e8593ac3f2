"""Encodings that turn tables into numeric columns.

`read_table` turns arrays, frames and dicts into a `Table`. A `TableEncoder` learns an encoding for
each column of it and applies it to later tables. Arrays need only NumPy and SciPy; narwhals is
imported for frames.
"""

from bandfall.tables._encoder import TableEncoder, encode_all
from bandfall.tables._fitted import FittedEncoding
from bandfall.tables._kinds import Schema, prepare_table
from bandfall.tables._registry import (
    CATEGORIES,
    NUMBERS,
    CategoryEncoding,
    NumberEncoding,
    register,
)
from bandfall.tables._table import Column, Reading, Table, is_frame, read_table

__all__ = [
    "CATEGORIES",
    "NUMBERS",
    "CategoryEncoding",
    "Column",
    "FittedEncoding",
    "NumberEncoding",
    "Reading",
    "Schema",
    "Table",
    "TableEncoder",
    "encode_all",
    "is_frame",
    "prepare_table",
    "read_table",
    "register",
]
