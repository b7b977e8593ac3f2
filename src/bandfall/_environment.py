"""Installed packages and the machine, for bug reports and for records of runs."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
    """Versions of those `packages` that are installed; nothing is imported.

    Examples
    --------
    >>> sorted(package_versions(["numpy", "no-such-package"]))
    ['numpy']
    """
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def show_versions() -> None:
    """Print the versions of bandfall, Python and all packages it may use; put it in bug reports.

    Examples
    --------
    >>> import bandfall
    >>> bandfall.show_versions()  # doctest: +ELLIPSIS
    system
      python: ...
    """
    installed = package_versions(PACKAGES)
    sections = {
        "system": {
            "python": sys.version.replace("\n", " "),
            "machine": platform.platform(),
            "cores": str(os.cpu_count()),
        },
        "packages": {"bandfall": __version__}
        | {package: installed.get(package, "not installed") for package in PACKAGES},
        "thread pools": {
            str(pool["prefix"]): f"{pool['version'] or 'unknown version'}, "
            f"{pool['num_threads']} threads"
            for pool in threadpool_info()
        },
    }
    for title, entries in sections.items():
        lines = [title, *(f"  {name}: {value}" for name, value in entries.items())]
        sys.stdout.write("\n".join(lines) + "\n")


def environment_record() -> JsonDict:
    """Date, machine and versions at a run, as a dict for JSON.

    Examples
    --------
    >>> sorted(environment_record())
    ['cores', 'date', 'machine', 'memory_gib', 'processor', 'python', 'versions']
    """
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "python": platform.python_version(),
        "versions": {"bandfall": __version__} | package_versions(_RECORDED),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None
