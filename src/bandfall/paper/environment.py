"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

from bandfall.environment import package_versions
from bandfall.typing import JsonDict
from bandfall.version import __version__

_PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "matplotlib", "torch")


def environment_record() -> JsonDict:
    """Date, machine and versions, as a dict for JSON.

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
        "versions": {"bandfall": __version__} | package_versions(_PACKAGES),
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
