"""Loaders of the four real data sets of the paper's Table 1.

A file is searched in ``data_home``, then in the directory named by the environment variable
``BANDFALL_DATA``, then in the download cache. A missing file is downloaded if the
set's home offers a file that can be read directly. Every file is checked before it is used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
from sklearn.utils import Bunch

from bandfall.datasets._files import cache_directory, download_table, placement_hint, read_array
from bandfall.datasets._sources import CPU, POWER, SUPERCONDUCTORS, UK_TEMPERATURE, Source

Folder: TypeAlias = "str | os.PathLike[str] | None"
Loaded: TypeAlias = "Bunch | tuple[np.ndarray, np.ndarray]"


def load_table(source: Source, data_home: Folder = None) -> np.ndarray:
    """The checked table of one set, features and target in file order."""
    directories = _search_path(data_home)
    if (path := _find(source, directories)) is not None:
        return read_array(path, source)
    if source.archive_url is not None:
        return download_table(source)
    places = ", ".join(str(directory) for directory in directories) or "no directory was given"
    raise FileNotFoundError(
        f"the {source.title} data were not found (looked in: {places}); {placement_hint(source)}"
    )


def whereabouts(source: Source, data_home: Folder = None) -> str:
    """The file of a set, or in a few words how to get it; nothing is read."""
    path = _find(source, _search_path(data_home))
    if path is not None:
        return str(path)
    if source.archive_url is not None:
        return f"downloaded when needed from {source.archive_url}"
    return f"missing: put {' or '.join(source.filenames)} into --data; from {source.home}"


def _search_path(data_home: Folder) -> list[Path]:
    directories = []
    for value, setting in (
        (data_home, "data_home"),
        (os.environ.get("BANDFALL_DATA") or None, "the environment variable BANDFALL_DATA"),
    ):
        if value is not None:
            directories.append(Path(value).expanduser())
            if not directories[-1].is_dir():
                raise FileNotFoundError(f"{setting} names {str(value)!r}, which is not a directory")
    cache = cache_directory()
    return directories if cache is None else [*directories, cache]


def _find(source: Source, directories: list[Path]) -> Path | None:
    """The first file of `source` in `directories`, or None."""
    paths = (directory / name for directory in directories for name in source.filenames)
    return next((path for path in paths if path.is_file()), None)


def features_and_target(source: Source, table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two parts of a table."""
    target_at = source.value_columns.index(source.target)
    features = np.ascontiguousarray(np.delete(table, target_at, axis=1))
    return features, np.ascontiguousarray(table[:, target_at])


def _load(source: Source, data_home: Folder, return_X_y: bool) -> Loaded:
    data, target = features_and_target(source, load_table(source, data_home))
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        feature_names=list(source.feature_names),
        target_names=[source.target],
        DESCR=(
            f"The {source.title} data: {source.rows} rows, {len(source.feature_names)} features, "
            f"target {source.target!r}.\nHome: {source.home}\nLicence: {source.licence}"
        ),
    )


def load_cpu(*, data_home: Folder = None, return_X_y: bool = False) -> Loaded:
    """Load the CPU run time data (Delve comp-activ, 8192 × 21; target 0 to 99).

    The file is ``compactiv.csv.gz`` or ``compactiv.csv``. Its home offers no csv file, so it is
    never downloaded: the error says which file to put where.

    Parameters
    ----------
    data_home : str, path or None
        A directory to look in first, before that of the environment variable ``BANDFALL_DATA`` and
        the download cache.
    return_X_y : bool
        Return arrays ``(data, target)`` instead of a `sklearn.utils.Bunch` of ``data``, ``target``,
        ``feature_names``, ``target_names`` and ``DESCR``.

    Raises
    ------
    FileNotFoundError
        If the file, or a directory that was named, does not exist.
    ValueError
        If the file is damaged or holds other data.
    """
    return _load(CPU, data_home, return_X_y)


def load_power(*, data_home: Folder = None, return_X_y: bool = False) -> Loaded:
    """Load the power consumption of Tetouan City (UCI 849, 52416 × 7; CC BY 4.0).

    The features are the weather and the consumption of zones 1 and 2, the target is the
    consumption of zone 3; the column ``DateTime`` is left out, as in the paper. The file is
    ``power.csv.gz``, ``power.csv`` or UCI's zip archive, which is downloaded if missing.
    Parameters and errors are those of `load_cpu`.
    """
    return _load(POWER, data_home, return_X_y)


def load_superconductors(*, data_home: Folder = None, return_X_y: bool = False) -> Loaded:
    """Load the critical temperatures of superconductors (UCI 464, 21263 × 81; CC BY 4.0).

    The file is ``superconduct.csv.gz``, ``superconduct.csv`` (UCI's ``train.csv``) or UCI's zip
    archive, which is downloaded if missing. More than a quarter of the rows repeat the features
    of an earlier row, as a rule with another target. Parameters and errors are those of `load_cpu`.
    """
    return _load(SUPERCONDUCTORS, data_home, return_X_y)


def load_uk_temperature(*, data_home: Folder = None, return_X_y: bool = False) -> Loaded:
    """Load the daily temperatures in the U.K. in the year 2000 (45568 × 4).

    The features are day of the year, easting, northing and height, the target is the mean
    temperature of the day before. The file is ``uktemp.csv.gz`` or ``uktemp.csv``. Its home offers
    an R file only, so it is never downloaded: the error says which file to put where.
    Parameters and errors are those of `load_cpu`.
    """
    return _load(UK_TEMPERATURE, data_home, return_X_y)
