"""The backend for a device: NumPy on the host, torch on a device, or a cluster."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec

from bandfall._products.backend import Backend, NumpyBackend
from bandfall._products.base import DEFAULT_BUDGET
from bandfall._typing import State

ALLOWED = "None, 'auto', 'cpu', 'cuda', 'cuda:N', 'dask' or the address of a Dask scheduler"


class ClusterError(RuntimeError):
    """A cluster is unavailable, was lost, or cannot run a task."""


def is_cluster(device: object) -> bool:
    """Whether a device names a cluster: "dask", or an address such as "tcp://host:8786"."""
    return isinstance(device, str) and (device == "dask" or "://" in device)


def resolve_backend(
    device: str | None = None, memory_budget: int = DEFAULT_BUDGET, n_rows: int | None = None
) -> Backend:
    """The backend for a device, see `check_device`, and a budget in bytes.

    "auto" uses NumPy for up to 2,000 training rows; their number is assumed to be large by default.
    """
    # With few rows a GPU saves less time than moving data and importing torch take.
    few = device == "auto" and n_rows is not None and n_rows <= 2000
    checked = None if few else check_device(device)
    if checked is None:
        return NumpyBackend(int(memory_budget))
    if is_cluster(checked):
        from bandfall._products.dask_backend import DaskBackend

        return DaskBackend(int(memory_budget), device=checked)
    return _torch_backend(checked, int(memory_budget))


@lru_cache(maxsize=8)
def _torch_backend(device: str, memory_budget: int) -> Backend:
    """One object per device and budget, so that later calls reuse its data on the device."""
    from bandfall._products.torch_backend import TorchBackend

    return TorchBackend(device, memory_budget)


def check_device(device: str | None) -> str | None:
    """Resolve `device` to None for NumPy, the name of a cluster, or the name of a torch device.

    None and "cpu" compute with NumPy, "cuda" with torch on a GPU; "auto" uses a GPU if there is one
    and NumPy otherwise. "dask" and addresses such as "tcp://host:8786" name clusters, which are
    checked on connection. "torch" is torch on the host, slower than NumPy.
    """
    if device is None or device == "cpu":
        return None
    if not isinstance(device, str):
        raise TypeError(f"device={device!r} must be {ALLOWED}; got {type(device).__name__}")
    if is_cluster(device):
        if find_spec("distributed") is None:
            raise ImportError(
                f"device={device!r} needs Dask: pip install 'dask[array,dataframe]' distributed"
            )
        return device
    if not re.fullmatch(r"auto|torch|cuda(:\d+)?", device):
        raise ValueError(f"device={device!r} is unknown; allowed: {ALLOWED}")
    if device == "auto":
        return "cuda" if has_driver() and find_spec("torch") is not None and _n_gpus() else None
    if find_spec("torch") is None:
        raise ImportError(f"device={device!r} needs PyTorch: pip install torch")
    if device == "torch":
        return "cpu"
    n_gpus = _n_gpus()
    if int(device.partition(":")[2] or 0) >= n_gpus:
        raise ValueError(f"device={device!r} is not available: torch finds {n_gpus} CUDA device(s)")
    return device


def _n_gpus() -> int:
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else 0


@lru_cache(maxsize=1)
def has_driver() -> bool:
    """Whether this machine has a GPU driver; a cheap check, while importing torch takes seconds."""
    for name in ("libcuda.so.1", "nvcuda.dll"):
        with suppress(OSError):
            ctypes.CDLL(name)
            return True
    return os.path.exists("/dev/kfd")  # AMD's


def for_any_machine(parameters: State) -> State:
    """Parameters without a GPU or cluster, so that the model loads on any machine."""
    if parameters.get("device") is None:
        return parameters
    return {**parameters, "device": "auto"}
