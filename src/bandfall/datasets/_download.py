"""Fetch the archive of a real data set from its public home into the cache.

pooch does the transfer; it is the optional extra ``data`` and imported only here.
"""

import importlib.util
import os
import tempfile
from pathlib import Path

import numpy as np

from bandfall.datasets._files import read_array
from bandfall.datasets._sources import Source


def cache_directory() -> Path | None:
    """The folder for downloaded files; None if pooch is not installed."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("bandfall"))


def download_table(source: Source, *, progress: bool) -> np.ndarray:
    """Download the archive of `source`, and return its table as `read_array` does.

    The archive is checked and kept in the cache; `progress` shows a bar on standard error. Raises
    OSError if the home cannot be reached or sends something else.
    """
    cache = cache_directory()
    if cache is None:
        raise ImportError(
            "downloading data needs pooch, which is not installed: pip install 'pooch[progress]'"
        )
    import pooch

    cache.mkdir(parents=True, exist_ok=True)
    with_bar = progress and importlib.util.find_spec("tqdm") is not None
    # Only a checked file enters the cache, so it is downloaded to another place first.
    with tempfile.TemporaryDirectory(dir=cache) as arrivals:
        archive = Path(arrivals) / str(source.archive)
        try:
            pooch.HTTPDownloader(progressbar=with_bar)(source.archive_url, str(archive), None)
            table = read_array(archive, source)
        except (OSError, ValueError) as error:
            if (response := getattr(error, "response", None)) is not None:
                response.close()  # otherwise a refused request keeps its socket open
            raise OSError(
                f"the {source.title} data could not be downloaded from {source.archive_url} "
                f"({error.__cause__ or type(error).__name__}); {placement_hint(source)}"
            ) from error
        os.replace(archive, cache / archive.name)
    return table


def placement_hint(source: Source) -> str:
    """A sentence that says which file to put where."""
    *others, last = source.filenames
    columns = source.columns
    shown = columns if len(columns) <= 9 else (*columns[:3], "…", columns[-1])
    return (
        f"put {', '.join(others)} or {last} (columns {', '.join(shown)}; {source.rows} rows; "
        f"sha256 of the csv file {source.csv_sha256}) into a directory and name it with "
        f"data_home= or the environment variable BANDFALL_DATA. Its home is {source.home}: "
        f"{source.origin}"
    )
