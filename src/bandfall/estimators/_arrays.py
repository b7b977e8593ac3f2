"""Arrays of other libraries at the edge: computed as NumPy arrays, answered in kind."""

from __future__ import annotations

import numpy as np


def as_numpy(array):
    """`array` as NumPy sees it, if it is a tensor or follows the array API; else unchanged.

    Tensors on a GPU are copied to the host.
    """
    if _is_torch(array):
        return array.detach().cpu().numpy()
    if isinstance(array, np.ndarray) or not hasattr(array, "__array_namespace__"):
        return array
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):  # on a device NumPy cannot reach
        return np.from_dlpack(array.to_device("cpu"))


def in_kind(result: np.ndarray, like):
    """`result` as the kind of array that `like` is, on its device."""
    if _is_torch(like):
        import torch

        return torch.from_numpy(np.ascontiguousarray(result)).to(like.device)
    if isinstance(like, np.ndarray) or not hasattr(like, "__array_namespace__"):
        return result
    return like.__array_namespace__().asarray(result, device=like.device)


def _is_torch(array) -> bool:
    return type(array).__module__.split(".")[0] == "torch" and hasattr(array, "detach")
