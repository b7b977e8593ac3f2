"""Two ways to draw anchors, the points at which outputs should not change."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform_anchors(
    X: Tensor, n_anchors: int, generator: torch.Generator | None = None, *, margin: float = 0.1
) -> Tensor:
    """Uniform points in the bounding box of the rows of X, shape (n_anchors, ...).

    The box is extended by `margin` times its size at either end. Without this margin nothing
    anchors the network just outside the outermost rows, and its outputs stray there.

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[0.0, 5.0], [1.0, 7.0]])
    >>> uniform_anchors(X, 3).shape
    torch.Size([3, 2])
    """
    low, high = X.amin(dim=0), X.amax(dim=0)
    low, high = low - margin * (high - low), high + margin * (high - low)
    shares = torch.rand(
        (n_anchors, *X.shape[1:]), generator=generator, dtype=X.dtype, device=_device(generator, X)
    )
    return low + (high - low) * shares.to(X.device)


def mixed_anchors(X: Tensor, n_anchors: int, generator: torch.Generator | None = None) -> Tensor:
    """Points on segments between random pairs of rows, shape (n_anchors, ...).

    In more than a few dimensions the bounding box is mostly empty; these points stay near the
    data.

    Examples
    --------
    >>> import torch
    >>> X = torch.tensor([[0.0], [1.0]])
    >>> bool(((mixed_anchors(X, 5) >= 0) & (mixed_anchors(X, 5) <= 1)).all())
    True
    """
    device = _device(generator, X)
    pairs = torch.randint(len(X), (2, n_anchors), generator=generator, device=device).to(X.device)
    shape = (n_anchors, *([1] * (X.ndim - 1)))
    share = torch.rand(shape, generator=generator, dtype=X.dtype, device=device).to(X.device)
    return X[pairs[0]] + share * (X[pairs[1]] - X[pairs[0]])


def _device(generator: torch.Generator | None, X: Tensor) -> torch.device:
    return X.device if generator is None else generator.device
