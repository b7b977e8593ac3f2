"""Fetch the archive of a real data set from its public home into the cache.

pooch does the transfer; it is the optional extra ``data`` and imported only here.
"""

import importlib.util
import os
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np

from bandfall.datasets._files import read_array
from bandfall.datasets._sources import Source


def cache_directory() -> Path | None:
    """The folder for downloaded files; None if pooch is not installed."""
    if importlib.util.find_spec("pooch") is None:
        return None
    return Path(_pooch().os_cache("bandfall"))


def download_table(source: Source, *, progress: bool) -> np.ndarray:
    """Download the archive of `source`, and return its table as `read_array` does.

    The archive is checked and kept in the cache; `progress` shows a bar on standard error. Raises
    OSError if the home cannot be reached or sends something else.
    """
    pooch = _pooch()
    cache = Path(pooch.os_cache("bandfall"))
    cache.mkdir(parents=True, exist_ok=True)
    with_bar = progress and importlib.util.find_spec("tqdm") is not None
    # Only a checked file enters the cache, so it is downloaded to another place first.
    with tempfile.TemporaryDirectory(dir=cache) as arrivals:
        archive = Path(arrivals) / str(source.archive)
        try:
            fetch = pooch.HTTPDownloader(progressbar=with_bar)
            fetch(source.archive_url, str(archive), None)
        except OSError as error:
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # otherwise a refused request keeps its socket open
            raise OSError(
                f"the {source.title} data could not be downloaded from {source.archive_url} "
                f"({type(error).__name__}); {placement_hint(source)}"
            ) from error
        try:
            table = read_array(archive, source)
        except ValueError as error:
            raise OSError(
                f"the download from {source.archive_url} is not the expected file "
                f"({error.__cause__}); "
                f"{placement_hint(source)}"
            ) from error
        os.replace(archive, cache / archive.name)
    return table


def placement_hint(source: Source) -> str:
    """A sentence that says which file to put where."""
    *others, last = source.filenames
    return (
        f"put {', '.join(others)} or {last} (columns {_abridged(source.columns)}; {source.rows} "
        f"rows; sha256 of the csv file {source.csv_sha256}) into a directory and name it with "
        f"data_home= or the environment variable BANDFALL_DATA. Its home is {source.home}: "
        f"{source.origin}"
    )


def _abridged(columns: tuple[str, ...]) -> str:
    shown = columns if len(columns) <= 9 else (*columns[:3], "…", columns[-1])
    return ", ".join(shown)


def _pooch() -> ModuleType:
    try:
        import pooch
    except ImportError as error:
        raise ImportError(
            "downloading data needs pooch, which is not installed: pip install 'pooch[progress]'"
        ) from error
    return pooch
