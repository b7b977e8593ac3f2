"""Multilayer perceptrons and their training loops, controlled and plain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from bandfall.neural._optimizer import LogRow, TangentDescent, TangentLog, TangentStatus
from bandfall.neural._step import largest_eigenvalue
from bandfall.neural._tangent import TangentModel

_SHORTEST = 1e-12  # smallest step of plain descent


def make_network(
    n_features: int,
    hidden: Sequence[int],
    n_outputs: int = 1,
    *,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
) -> nn.Sequential:
    """A tanh network with Glorot-uniform weights and zero biases."""
    widths = [n_features, *hidden, n_outputs]
    layers: list[nn.Module] = []
    for n_in, n_out in itertools.pairwise(widths):
        layer = nn.Linear(n_in, n_out, dtype=dtype)
        with torch.no_grad():
            limit = math.sqrt(6.0 / (n_in + n_out))
            layer.weight.copy_(
                limit * (2.0 * torch.rand(n_out, n_in, generator=generator, dtype=dtype) - 1.0)
            )
            layer.bias.zero_()
        layers += [layer, nn.Tanh()]
    return nn.Sequential(*layers[:-1])


class PlainDescent(torch.optim.SGD):
    """Gradient descent with momentum whose step is at most 1/λ on the rows it is trained on.

    λ is the largest eigenvalue of the tangent kernel at these rows, divided by the number of
    outputs, as the loss is half their mean squared error. A step of 2(1 + momentum)/λ or more
    diverges. λ changes during training: it is estimated anew every 50 steps, and if the loss still
    becomes four times as large, these steps are undone, and the longest step is halved.
    """

    def __init__(self, model: nn.Module, X: Tensor, *, lr: float, momentum: float) -> None:
        super().__init__(model.parameters(), lr=lr, momentum=momentum)
        self.longest = lr
        self._tangent, self._rows, self._count = TangentModel(model), X, 0
        self._outputs = self._tangent.outputs(X).reshape(-1)
        self._good, self._good_loss = self._tangent.vector(), math.inf

    def accept(self, loss: float) -> bool:
        """Whether training may go on from here, where the loss is `loss`; otherwise steps back."""
        if not loss <= 4.0 * self._good_loss or not math.isfinite(loss):
            self._tangent.set_vector(self._good)
            self.state.clear()
            self.longest, self._count = 0.5 * self.longest, 0
            return False
        if self._count % 50 == 0:
            self._good, self._good_loss = self._tangent.vector(), loss
            largest = largest_eigenvalue(self._tangent, self._rows, self._outputs)
            self.param_groups[0]["lr"] = min(self.longest, len(self._outputs) / (largest or 1.0))
        self._count += 1
        return True


def fit_network(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    *,
    optimizer: TangentDescent | torch.optim.Optimizer,
    max_r2: float = 0.999,
    max_iter: int = 10_000,
) -> tuple[TangentLog, TangentStatus]:
    """Full-batch training until R² on (X, y) exceeds `max_r2` or `max_iter` steps are done.

    `optimizer` is `TangentDescent` or any optimizer of torch, which then minimises half the
    mean squared error. A keyboard interrupt leaves the model as it was after the last step.
    """
    if not isinstance(optimizer, TangentDescent):
        return _fit_plain(model, X, y, optimizer, max_r2, max_iter)
    for _ in range(max_iter):
        optimizer.step(X, y)
        if optimizer.r2 > max_r2:
            optimizer.status = TangentStatus.R2_REACHED
        if optimizer.status is not TangentStatus.RUNNING:
            return optimizer.log, optimizer.status
    optimizer.status = TangentStatus.ITERATION_LIMIT
    return optimizer.log, optimizer.status


def _fit_plain(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    optimizer: torch.optim.Optimizer,
    max_r2: float,
    max_iter: int,
) -> tuple[TangentLog, TangentStatus]:
    log = TangentLog()
    y = y.unsqueeze(1) if y.ndim == 1 else y
    total = float((y - y.mean(dim=0)).square().sum())
    while True:  # there is one more evaluation than steps
        optimizer.zero_grad()
        outputs = model(X)
        loss = 0.5 * (outputs.view_as(y) - y).square().mean()
        if isinstance(optimizer, PlainDescent) and not optimizer.accept(float(loss.detach())):
            if optimizer.longest < _SHORTEST:
                return log, TangentStatus.STALLED
            continue
        r2 = 1.0 - 2.0 * float(loss.detach()) * y.numel() / total if total > 0 else 1.0
        status = TangentStatus.R2_REACHED if r2 > max_r2 else None
        status = status if math.isfinite(r2) else TangentStatus.NOT_FINITE
        if len(log) >= max_iter:
            return log, status or TangentStatus.ITERATION_LIMIT
        log.append(LogRow(len(log), 1.0, r2, math.nan, math.nan, math.nan, True))
        if status is not None:
            return log, status
        loss.backward()
        optimizer.step()


def predict_arrays(model: nn.Module, X: np.ndarray) -> np.ndarray:
    """Outputs (m, k) of `model` at the rows of X."""
    with torch.no_grad():
        return model(torch.tensor(X)).numpy()
