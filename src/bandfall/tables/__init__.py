"""Encodings that turn tables into numeric columns, one file each.

`read_table` turns arrays, frames and dicts into a `Table`. A `TableEncoder` learns an encoding for
each column of it and applies it to later tables. Arrays need only NumPy and SciPy; narwhals is
imported for frames.
"""

from importlib import import_module
from pkgutil import iter_modules

from bandfall.tables._base import CATEGORIES, NUMBERS, CategoryEncoding, NumberEncoding, register
from bandfall.tables._encoder import TableEncoder, encode_all
from bandfall.tables._fitted import FittedEncoding
from bandfall.tables._reading import prepare_table
from bandfall.tables._schema import Schema
from bandfall.tables._table import Column, Reading, Table, is_frame, read_table

for _module in iter_modules(__path__):  # each encoding registers itself
    import_module(f"{__name__}.{_module.name}")

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
