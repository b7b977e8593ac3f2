"""From what a user names to a backend."""

from __future__ import annotations

from functools import lru_cache

from bandfall.backends.base import Backend, NumpyBackend
from bandfall.backends.cluster import is_cluster
from bandfall.backends.device import check_device
from bandfall.operators.base import DEFAULT_BUDGET

# Rows up to which moving data to a GPU takes longer than it saves.
_HOST_ROWS = 2000


def resolve_backend(
    device: str | None = None,
    memory_budget: int = DEFAULT_BUDGET,
    n_rows: int | None = None,
) -> Backend:
    """The backend that a device and a budget stand for.

    Parameters
    ----------
    device : None, "auto", "cpu", "cuda", "cuda:N", "dask" or an address
        None computes with NumPy, "cpu" with torch on the host, "cuda" with torch on a GPU;
        "auto" takes a GPU, if there is one, for more than 2,000 rows, and NumPy otherwise.
        "dask" computes on the cluster of the current client, an address such as
        "tcp://host:8786" on that of the scheduler there.
    memory_budget : int
        Bytes.
    n_rows : int, optional
        Training rows; for "auto", many if not given.

    Examples
    --------
    >>> from bandfall.backends import resolve_backend
    >>> resolve_backend("auto", n_rows=100)
    NumpyBackend(budget=1073741824)
    """
    few = device == "auto" and n_rows is not None and n_rows <= _HOST_ROWS
    # Few rows: do not look for a GPU, because importing torch takes longer than a fit.
    checked = None if few else check_device(device)
    if checked is None:
        return NumpyBackend(int(memory_budget))
    if is_cluster(checked):
        from bandfall.backends.dask_backend import DaskBackend

        return DaskBackend(int(memory_budget), device=checked)
    return _torch_backend(checked, int(memory_budget))


@lru_cache(maxsize=8)
def _torch_backend(device: str, memory_budget: int) -> Backend:
    """One object each, so that what it holds on the device serves every later call."""
    from bandfall.backends.torch_backend import TorchBackend

    return TorchBackend(device, memory_budget)
