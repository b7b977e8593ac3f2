"""Files that are not part of the project: the real data, the paper and the author's numbers.

They are looked for in the directory `shared` beside the checkout, the data also in the directory
that BANDFALL_DATA names; tests that need them are skipped where they are absent.
"""

import os
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"


def suite_files():
    """The sets of the regression suite beside the real data; none where there is no suite."""
    return sorted((_data_home() / "suite").glob("*.csv.gz"))


def _data_home():
    return Path(os.environ.get("BANDFALL_DATA") or _SHARED / "data")


def data_directory():
    """Directory of the four real data files, or skip."""
    directory = _data_home()
    if not (directory / "compactiv.csv.gz").is_file():
        pytest.skip("needs the real data: name their directory with BANDFALL_DATA")
    return directory


def shared_file(name):
    """A file of the directory `shared` beside the checkout, or skip."""
    path = _SHARED / name
    if not path.is_file():
        pytest.skip(f"needs shared/{name} beside the checkout")
    return path
