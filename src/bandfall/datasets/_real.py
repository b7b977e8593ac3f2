"""Loaders of the four real data sets of the paper's Table 1.

A file is searched in ``data_home``, then in the directory named by the environment variable
``BANDFALL_DATA``, then in the download cache. A missing file is downloaded if the
set's home offers a file that can be read directly. Every file is checked before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from sklearn.utils import Bunch
from sklearn.utils._param_validation import validate_params

from bandfall.datasets._files import cache_directory, download_table, placement_hint, read_array
from bandfall.datasets._sources import CPU, POWER, SUPERCONDUCTORS, UK_TEMPERATURE, Source

if TYPE_CHECKING:
    import pandas as pd

# Result of loaders: a Bunch, or features and target as arrays or frames.
Loaded: TypeAlias = "Bunch | tuple[np.ndarray, np.ndarray] | tuple[pd.DataFrame, pd.Series]"

_LOADER_PARAMETERS = {
    "data_home": [str, os.PathLike, None],
    "download_if_missing": ["boolean"],
    "progress": ["boolean"],
    "return_X_y": ["boolean"],
    "as_frame": ["boolean"],
}
_LOADER_DOC = """{about}

    Parameters
    ----------
    data_home : str, path or None, default=None
        A directory to look in first, before that of the environment variable
        ``BANDFALL_DATA`` and the download cache.
    download_if_missing : bool, default=True
        Whether to download a file that is in none of these, if its home offers one.
    progress : bool, default=True
        Whether to show a progress bar while downloading.
    return_X_y : bool, default=False
        Return ``(data, target)`` instead of a `sklearn.utils.Bunch`.
    as_frame : bool, default=False
        Return pandas objects instead of arrays.

    Returns
    -------
    bunch : Bunch or tuple
        ``data`` of shape ({rows}, {width}), ``target`` of shape ({rows},), ``frame`` (None unless
        `as_frame`), ``feature_names``, ``target_names`` and ``DESCR``.

    Raises
    ------
    FileNotFoundError
        If the file, or a directory that was named, does not exist.
    ValueError
        If the file is damaged or holds other data.

    Examples
    --------
    >>> from bandfall.datasets import {name}
    >>> X, y = {name}(return_X_y=True)  # doctest: +SKIP
    """


def load_table(
    source: Source,
    *,
    data_home: str | os.PathLike[str] | None = None,
    download_if_missing: bool = True,
    progress: bool = True,
) -> np.ndarray:
    """The checked table of one set, features and target in file order; see `load_cpu`."""
    directories = _search_path(data_home)
    if (path := _find(source, directories)) is not None:
        return read_array(path, source)
    if source.archive_url is not None and download_if_missing:
        return download_table(source, progress=progress)
    places = ", ".join(str(directory) for directory in directories) or "no directory was given"
    raise FileNotFoundError(
        f"the {source.title} data were not found (looked in: {places}); {placement_hint(source)}"
    )


def whereabouts(source: Source, data_home: str | os.PathLike[str] | None = None) -> str:
    """The file of a set, or in a few words how to get it; nothing is read."""
    path = _find(source, _search_path(data_home))
    if path is not None:
        return str(path)
    if source.archive_url is not None:
        return f"downloaded when needed from {source.archive_url}"
    return f"missing: put {' or '.join(source.filenames)} into --data; from {source.home}"


def _search_path(data_home: str | os.PathLike[str] | None) -> list[Path]:
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


def as_loaded(source: Source, table: np.ndarray, *, return_X_y: bool, as_frame: bool) -> Loaded:
    """Convert a table to the result of a loader."""
    target_at = source.value_columns.index(source.target)
    data: np.ndarray | pd.DataFrame = np.ascontiguousarray(np.delete(table, target_at, axis=1))
    target: np.ndarray | pd.Series = np.ascontiguousarray(table[:, target_at])
    frame = None
    if as_frame:
        try:
            import pandas
        except ImportError as error:
            raise ImportError("as_frame=True needs pandas: pip install pandas") from error
        frame = pandas.DataFrame(table, columns=list(source.value_columns))
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


def _loader(source: Source, about: str) -> Callable[..., Loaded]:
    """The function that loads a data set; its documentation begins with `about`."""

    def load(
        *,
        data_home: str | os.PathLike[str] | None = None,
        download_if_missing: bool = True,
        progress: bool = True,
        return_X_y: bool = False,
        as_frame: bool = False,
    ) -> Loaded:
        table = load_table(
            source, data_home=data_home, download_if_missing=download_if_missing, progress=progress
        )
        return as_loaded(source, table, return_X_y=return_X_y, as_frame=as_frame)

    load.__name__ = load.__qualname__ = name = f"load_{source.key}"
    width = len(source.feature_names)
    load.__doc__ = _LOADER_DOC.format(about=about, rows=source.rows, width=width, name=name)
    checked = validate_params(_LOADER_PARAMETERS, prefer_skip_nested_validation=True)
    validated: Callable[..., Loaded] = checked(load)
    return validated


load_cpu = _loader(
    CPU,
    """Load the CPU run time data (Delve comp-activ, 8192 × 21; target 0 to 99).

    The file is ``compactiv.csv.gz`` or ``compactiv.csv``. Its home offers no csv file, so it is
    never downloaded: the error says which file to put where.""",
)
load_power = _loader(
    POWER,
    """Load the power consumption of Tetouan City (UCI 849, 52416 × 7; CC BY 4.0).

    The features are the weather and the consumption of zones 1 and 2, the target is the
    consumption of zone 3; the column ``DateTime`` is left out, as in the paper. The file is
    ``power.csv.gz``, ``power.csv`` or UCI's zip archive, which is downloaded if missing.""",
)
load_superconductors = _loader(
    SUPERCONDUCTORS,
    """Load the critical temperatures of superconductors (UCI 464, 21263 × 81; CC BY 4.0).

    The file is ``superconduct.csv.gz``, ``superconduct.csv`` (UCI's ``train.csv``) or UCI's zip
    archive, which is downloaded if missing. More than a quarter of the rows repeat the features
    of an earlier row, as a rule with another target.""",
)
load_uk_temperature = _loader(
    UK_TEMPERATURE,
    """Load the daily temperatures in the U.K. in the year 2000 (45568 × 4).

    The features are day of the year, easting, northing and height, the target is the mean
    temperature of the day before. The file is ``uktemp.csv.gz`` or ``uktemp.csv``. Its home offers
    an R file only, so it is never downloaded: the error says which file to put where.""",
)
