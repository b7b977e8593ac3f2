"""Tables to columns: one encoding a file.

`read_table` makes a `Table` of arrays, frames and dicts; a `TableEncoder` learns from it how each
column is encoded, and encodes later tables in the same way. NumPy and SciPy are enough for
arrays; narwhals is imported for frames.
"""

from bandfall.encoding.encoder import CATEGORIES, NUMBERS, TableEncoder
from bandfall.encoding.fitted import FittedEncoding
from bandfall.encoding.reading import prepare_table
from bandfall.encoding.schema import Schema
from bandfall.encoding.table import Column, Reading, Table, is_frame, read_table

__all__ = [
    "CATEGORIES",
    "NUMBERS",
    "Column",
    "FittedEncoding",
    "Reading",
    "Schema",
    "Table",
    "TableEncoder",
    "is_frame",
    "prepare_table",
    "read_table",
]
