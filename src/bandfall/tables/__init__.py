"""Encodings that turn tables into numeric columns.

`read_table` turns arrays, frames and dicts into a `Table`. A `TableEncoder` learns an encoding for
each column of it and applies it to later tables. Arrays need only NumPy and SciPy; narwhals is
imported for frames.
"""

from bandfall.tables._encoder import TableEncoder
from bandfall.tables._kinds import Schema, prepare_table
from bandfall.tables._table import Table, read_table

__all__ = ["Schema", "Table", "TableEncoder", "prepare_table", "read_table"]
