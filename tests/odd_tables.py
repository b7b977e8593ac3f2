"""Tables for the command line, and fitting to them."""

import tempfile

import numpy as np
import pandas as pd

from bandfall._cli.read_table import read_file
from shell import call

IDS = [f"{i:08x}-{i * 7919 % 65536:04x}" for i in range(120)]


def numbers(n=120, seed=0):
    """Two features that matter, and their target."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame({"a": random.normal(size=n).round(3), "b": random.normal(size=n).round(3)})
    table["y"] = (np.sin(table["a"]) + table["b"]).round(4)
    return table


def csv_of(table, encoding="utf-8", **options):
    return table.to_csv(index=False, **options).encode(encoding)


def with_column(values, name="c"):
    table = numbers()
    table.insert(0, name, values)
    return table


def table_of(data, **options):
    """The table of some bytes, and the style of its numbers."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return read_file(file.name, **options)


def fit(data, tmp_path, *options, target="y"):
    (tmp_path / "d.csv").write_bytes(data)
    out = tmp_path / "m"
    return call("fit", tmp_path / "d.csv", "--target", target, "--out", out, *options)
