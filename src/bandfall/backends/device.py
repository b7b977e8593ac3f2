"""Where products are computed: NumPy on the host, or torch on a device."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

ALLOWED = "None, 'auto', 'cpu', 'cuda' or 'cuda:N'"


def check_device(device: str | None) -> str | None:
    """The device that `device` stands for: None for NumPy, else what torch calls it.

    Parameters
    ----------
    device : None, "auto", "cpu", "cuda" or "cuda:N"
        None computes with NumPy, "cpu" with torch on the host, "cuda" with torch on a GPU;
        "auto" takes a GPU if there is one and NumPy otherwise.

    Examples
    --------
    >>> from bandfall.backends import check_device
    >>> check_device(None) is None
    True
    >>> check_device("tpu")
    Traceback (most recent call last):
        ...
    ValueError: device='tpu' is unknown; allowed: None, 'auto', 'cpu', 'cuda' or 'cuda:N'
    """
    if device is None:
        return None
    if not isinstance(device, str):
        raise TypeError(f"device={device!r} must be {ALLOWED}; got {type(device).__name__}")
    kind, _, index = device.partition(":")
    well_formed = device in ("auto", "cpu", "cuda") or (kind == "cuda" and index.isdecimal())
    if not well_formed:
        raise ValueError(f"device={device!r} is unknown; allowed: {ALLOWED}")
    if find_spec("torch") is None:
        if device == "auto":
            return None
        raise ImportError(f"device={device!r} needs PyTorch: pip install 'bandfall[torch]'")
    if device == "cpu":
        return device
    import torch

    n_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device == "auto":
        return "cuda" if n_gpus else None
    if int(index or 0) >= n_gpus:
        raise ValueError(f"device={device!r} is not there: torch sees {n_gpus} CUDA device(s)")
    return device


def for_any_machine(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator trained on a GPU, which must load where there is none."""
    if parameters.get("device") is None:
        return parameters
    return {**parameters, "device": "auto"}
