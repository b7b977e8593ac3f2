"""Installed packages and the machine, for bug reports and for records of runs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from threadpoolctl import threadpool_info

from bandfall._typing import JsonDict
from bandfall._version import __version__

# Names on package indexes; optional packages come last.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "joblib", "narwhals", "threadpoolctl"),
    *("safetensors", "numba", "matplotlib", "torch", "triton", "pandas", "pyarrow", "polars"),
    *("onnx", "typer", "rich", "pooch", "openpyxl"),
)
# Packages that results may depend on.
_RECORDED = ("numpy", "scipy", "scikit-learn", "joblib", "matplotlib", "torch")


def package_versions(packages: Iterable[str]) -> dict[str, str]:
    """Versions of those `packages` that are installed; nothing is imported."""
    return {name: version(name) for name in packages if _is_installed(name)}


def _is_installed(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def show_versions() -> None:
    """Print the versions of bandfall, Python and all packages it may use; put it in bug reports.

    Examples
    --------
    >>> import bandfall
    >>> bandfall.show_versions()  # doctest: +ELLIPSIS
    python: ...
    """
    pools = {
        str(pool["prefix"]): f"{pool['version']}, {pool['num_threads']} threads"
        for pool in threadpool_info()
    }
    entries = {
        "python": sys.version.replace("\n", " "),
        "machine": platform.platform(),
        "cores": str(os.cpu_count()),
        "bandfall": __version__,
        **(dict.fromkeys(PACKAGES, "not installed") | package_versions(PACKAGES)),
        **pools,
    }
    sys.stdout.writelines(f"{name}: {value}\n" for name, value in entries.items())


def environment_record() -> JsonDict:
    """Date, machine and versions at a run, as a dict for JSON."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {"bandfall": __version__} | package_versions(_RECORDED),
    }
