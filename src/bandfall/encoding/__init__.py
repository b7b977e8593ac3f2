"""Tables to columns: one encoding a file.

`read_table` makes a `Table` of arrays, frames and dicts; a `TableEncoder` learns from it how each
column is encoded, and encodes later tables in the same way. NumPy and SciPy are enough for
arrays; narwhals is imported for frames.
"""

from importlib import import_module
from pkgutil import iter_modules

from bandfall.encoding.base import CATEGORIES, NUMBERS, CategoryEncoding, NumberEncoding, register
from bandfall.encoding.encoder import TableEncoder, encode_all
from bandfall.encoding.fitted import FittedEncoding
from bandfall.encoding.reading import prepare_table
from bandfall.encoding.schema import Schema
from bandfall.encoding.table import Column, Reading, Table, is_frame, read_table

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
