"""Loaders of the four real data sets of the paper's Table 1.

A file is looked for in ``data_home``, then in the directory that the environment variable
``BANDFALL_DATA`` names, then in the download cache; what is not found is downloaded where the
set's home offers a file that can be read directly. Every file is checked before it is used.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils._param_validation import validate_params

from bandfall.datasets.download import cache_directory, download_table, placement_hint
from bandfall.datasets.files import data_directory, find_file, read_array
from bandfall.datasets.sources import CPU, POWER, SUPERCONDUCTORS, UK_TEMPERATURE, Source

if TYPE_CHECKING:
    import pandas as pd

# What loaders return: a Bunch, or features and target as arrays or frames.
Loaded: TypeAlias = "Bunch | tuple[np.ndarray, np.ndarray] | tuple[pd.DataFrame, pd.Series]"

_LOADER_PARAMETERS = {
    "data_home": [str, os.PathLike, None],
    "download_if_missing": ["boolean"],
    "progress": ["boolean"],
    "return_X_y": ["boolean"],
    "as_frame": ["boolean"],
}


def load_table(
    source: Source,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
) -> np.ndarray:
    """The checked table of one set, features and target in file order; see `load_cpu`."""
    directories = _search_path(data_home)
    path = find_file(source, directories)
    if path is not None:
        return read_array(path, source)
    if source.archive_url is not None and download_if_missing:
        return download_table(source, progress=progress)
    places = ", ".join(str(directory) for directory in directories) or "no directory was given"
    raise FileNotFoundError(
        f"the {source.title} data were not found (looked in: {places}); {placement_hint(source)}"
    )


def _search_path(data_home: str | os.PathLike[str] | None) -> list[Path]:
    directories = []
    if data_home is not None:
        directories.append(data_directory(data_home, "data_home"))
    if environment := os.environ.get("BANDFALL_DATA"):
        directories.append(data_directory(environment, "the environment variable BANDFALL_DATA"))
    if (cache := cache_directory()) is not None:
        directories.append(cache)
    return directories


def _load(source: Source, table: np.ndarray, *, return_X_y: bool, as_frame: bool) -> Loaded:
    target_at = source.value_columns.index(source.target)
    data: np.ndarray | pd.DataFrame = np.ascontiguousarray(np.delete(table, target_at, axis=1))
    target: np.ndarray | pd.Series = np.ascontiguousarray(table[:, target_at])
    frame = None
    if as_frame:
        frame = _frame(table, source)
        data, target = frame[list(source.feature_names)], frame[source.target]
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        frame=frame,
        feature_names=list(source.feature_names),
        target_names=[source.target],
        DESCR=(
            f"The {source.title} data: {source.rows} rows, {len(source.feature_names)} features, "
            f"target {source.target!r}.\nHome: {source.home}\nLicence: {source.licence}"
        ),
    )


def _frame(table: np.ndarray, source: Source) -> pd.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise ImportError(
            "as_frame=True needs pandas, which is not installed: pip install pandas"
        ) from error
    return pandas.DataFrame(table, columns=list(source.value_columns))


@validate_params(_LOADER_PARAMETERS, prefer_skip_nested_validation=True)
def load_cpu(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Loaded:
    """Load the CPU run time data (Delve comp-activ, 8192 × 21; target 0 to 99).

    The file is ``compactiv.csv.gz`` or ``compactiv.csv``. Its home offers no csv file, so it is
    never downloaded: the error says which file to put where.

    Parameters
    ----------
    data_home : str, path or None, default=None
        A directory to look in first, before that of the environment variable
        ``BANDFALL_DATA`` and the download cache.
    download_if_missing : bool, default=True
        Whether to download a file that is in none of these, where its home offers one.
    progress : bool, default=True
        Whether to show a progress bar while downloading.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a `sklearn.utils.Bunch`.
    as_frame : bool, default=False
        Return pandas objects instead of arrays.

    Returns
    -------
    bunch : Bunch or tuple
        ``data`` of shape (8192, 21), ``target`` of shape (8192,), ``frame`` (None unless
        `as_frame`), ``feature_names``, ``target_names`` and ``DESCR``.

    Raises
    ------
    FileNotFoundError
        If the file, or a directory that was named, does not exist.
    ValueError
        If the file is damaged or holds other data.

    Examples
    --------
    >>> from bandfall.datasets import load_cpu
    >>> X, y = load_cpu(return_X_y=True)  # doctest: +SKIP
    """
    table = load_table(
        CPU, data_home=data_home, download_if_missing=download_if_missing, progress=progress
    )
    return _load(CPU, table, return_X_y=return_X_y, as_frame=as_frame)


@validate_params(_LOADER_PARAMETERS, prefer_skip_nested_validation=True)
def load_power(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Loaded:
    """Load the power consumption of Tetouan City (UCI 849, 52416 × 7; CC BY 4.0).

    The features are the weather and the consumption of zones 1 and 2, the target is the
    consumption of zone 3; the column ``DateTime`` is left out, as in the paper. The file is
    ``power.csv.gz``, ``power.csv`` or UCI's zip archive, which is downloaded if missing.

    Parameters
    ----------
    data_home, download_if_missing, progress, return_X_y, as_frame
        As in `load_cpu`.

    Returns
    -------
    bunch : Bunch or tuple
        As in `load_cpu`, with ``data`` of shape (52416, 7).

    Examples
    --------
    >>> from bandfall.datasets import load_power
    >>> X, y = load_power(return_X_y=True)  # doctest: +SKIP
    """
    table = load_table(
        POWER, data_home=data_home, download_if_missing=download_if_missing, progress=progress
    )
    return _load(POWER, table, return_X_y=return_X_y, as_frame=as_frame)


@validate_params(_LOADER_PARAMETERS, prefer_skip_nested_validation=True)
def load_superconductors(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Loaded:
    """Load the critical temperatures of superconductors (UCI 464, 21263 × 81; CC BY 4.0).

    The file is ``superconduct.csv.gz``, ``superconduct.csv`` (UCI's ``train.csv``) or UCI's zip
    archive, which is downloaded if missing. More than a quarter of the rows repeat the features
    of an earlier row, as a rule with another target.

    Parameters
    ----------
    data_home, download_if_missing, progress, return_X_y, as_frame
        As in `load_cpu`.

    Returns
    -------
    bunch : Bunch or tuple
        As in `load_cpu`, with ``data`` of shape (21263, 81).

    Examples
    --------
    >>> from bandfall.datasets import load_superconductors
    >>> X, y = load_superconductors(return_X_y=True)  # doctest: +SKIP
    """
    table = load_table(
        SUPERCONDUCTORS,
        data_home=data_home,
        download_if_missing=download_if_missing,
        progress=progress,
    )
    return _load(SUPERCONDUCTORS, table, return_X_y=return_X_y, as_frame=as_frame)


@validate_params(_LOADER_PARAMETERS, prefer_skip_nested_validation=True)
def load_uk_temperature(
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
    return_X_y: bool = False,
    as_frame: bool = False,
) -> Loaded:
    """Load the daily temperatures in the U.K. in the year 2000 (45568 × 4).

    The features are day of the year, easting, northing and height, the target is the mean
    temperature of the day before. The file is ``uktemp.csv.gz`` or ``uktemp.csv``. Its home offers
    an R file only, so it is never downloaded: the error says which file to put where.

    Parameters
    ----------
    data_home, download_if_missing, progress, return_X_y, as_frame
        As in `load_cpu`.

    Returns
    -------
    bunch : Bunch or tuple
        As in `load_cpu`, with ``data`` of shape (45568, 4).

    Examples
    --------
    >>> from bandfall.datasets import load_uk_temperature
    >>> X, y = load_uk_temperature(return_X_y=True)  # doctest: +SKIP
    """
    table = load_table(
        UK_TEMPERATURE,
        data_home=data_home,
        download_if_missing=download_if_missing,
        progress=progress,
    )
    return _load(UK_TEMPERATURE, table, return_X_y=return_X_y, as_frame=as_frame)
