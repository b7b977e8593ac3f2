"""A network as a function of its parameters: outputs, Jacobian, tangent kernel, and products.

Rows of the Jacobian Φ = ∂f/∂θ are ordered by sample, then by output; columns follow
``named_parameters()`` of the parameters that require a gradient.
"""

from __future__ import annotations

import functools
import warnings

import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev, jvp, vjp, vmap

from bandfall._products.base import DEFAULT_BUDGET
from bandfall._threads import rows_within


class TangentModel:
    """The trainable parameters of `model` as one vector θ, and f(θ, X) with its derivatives.

    The model maps X (n, ...) to outputs (n,), (n, 1) or (n, k), and treats each sample separately
    (put batch normalisation and dropout into ``eval()``). At least one parameter requires a
    gradient.
    """

    def __init__(self, model: nn.Module) -> None:
        if not isinstance(model, nn.Module):
            raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
        for name, layer in model.named_modules():
            if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.training:
                raise ValueError(
                    f"layer {name or 'model'!r} of model is batch normalisation in training mode: "
                    "its outputs depend on the other rows of a batch; call model.eval() first"
                )
        self.model = model
        self.parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        if not self.parameters:
            raise ValueError("model has no parameter that requires a gradient: nothing to train")
        first = next(iter(self.parameters.values()))
        if not first.dtype.is_floating_point:
            raise TypeError(f"model must have real floating-point parameters; got {first.dtype}")
        mixed = {(p.dtype, p.device) for p in self.parameters.values()}
        if len(mixed) > 1:
            raise ValueError(
                "all trained parameters of model must share one dtype and device; got "
                + ", ".join(sorted(f"{dtype} on {device}" for dtype, device in mixed))
            )
        self.dtype, self.device = first.dtype, first.device
        self.n_parameters = sum(p.numel() for p in self.parameters.values())

    def vector(self) -> Tensor:
        """θ, shape (p,): a copy."""
        return torch.cat([p.detach().reshape(-1) for p in self.parameters.values()])

    @torch.no_grad()
    def set_vector(self, theta: Tensor) -> None:
        """Write θ back into the model, in place."""
        for parameter, part in zip(self.parameters.values(), self.split(theta), strict=True):
            parameter.copy_(part)

    def split(self, theta: Tensor) -> tuple[Tensor, ...]:
        """A vector of length p cut into the shapes of the parameters."""
        parts = theta.split([p.numel() for p in self.parameters.values()])
        return tuple(
            part.view_as(p) for part, p in zip(parts, self.parameters.values(), strict=True)
        )

    def outputs(self, X: Tensor) -> Tensor:
        """f(X), shape (n, k)."""
        with torch.no_grad():
            return self._outputs(self._detached(), X)

    def jacobian_parts(self, X: Tensor) -> list[Tensor]:
        """The columns of Φ that belong to each parameter tensor, shapes (n·k, p_i)."""

        def single(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
            return self._outputs(parameters, x.unsqueeze(0)).squeeze(0)

        blocks = vmap(jacrev(single), in_dims=(None, 0))(self._detached(), X)
        return [block.flatten(0, 1).flatten(1) for block in blocks.values()]

    def row_product(self, X: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Φᵀ v by one backward pass, and f(X); v has shape (n·k,)."""
        outputs, pullback, *_ = vjp(
            lambda parameters: self._outputs(parameters, X), self._detached()
        )
        (parts,) = pullback(v.view_as(outputs))
        return torch.cat([part.reshape(-1) for part in parts.values()]), outputs.detach()

    def column_product(self, X: Tensor, direction: Tensor) -> Tensor:
        """Φ d by one forward-mode pass, shape (n·k,); d has shape (p,)."""
        _load_forward_mode()
        tangents = dict(zip(self.parameters, self.split(direction), strict=True))
        _, product, *_ = jvp(
            lambda parameters: self._outputs(parameters, X), (self._detached(),), (tangents,)
        )
        return product.reshape(-1)

    def kernel_product(self, X: Tensor, v: Tensor) -> Tensor:
        """ΦΦᵀ v without forming Φ, shape (n·k,)."""
        return self.column_product(X, self.row_product(X, v)[0])

    def _detached(self) -> dict[str, Tensor]:
        return {name: p.detach() for name, p in self.parameters.items()}

    def _outputs(self, parameters: dict[str, Tensor], X: Tensor) -> Tensor:
        outputs = functional_call(self.model, parameters, (X,))
        if not isinstance(outputs, Tensor):
            raise TypeError(f"model must return one Tensor; got {type(outputs).__name__}")
        if outputs.ndim == 1:
            outputs = outputs.unsqueeze(1)
        if outputs.ndim != 2 or outputs.shape[0] != X.shape[0]:
            raise ValueError(
                f"model must map {X.shape[0]} rows to outputs of shape ({X.shape[0]},) or "
                f"({X.shape[0]}, k); got {tuple(outputs.shape)}"
            )
        return outputs


@functools.cache
def _load_forward_mode() -> None:
    """Run torch's forward mode once: loading it warns about torch's own use of torch.jit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def empirical_ntk(model: nn.Module, X: Tensor, Z: Tensor | None = None) -> Tensor:
    """K_NTK(X, Z) = ∂f(X)/∂θ · (∂f(Z)/∂θ)ᵀ at the present parameters (Appendix D).

    The result has the shape (n·k, m·k) for n rows of X, m rows of Z (X by default) and k outputs.

    Examples
    --------
    >>> import torch
    >>> from bandfall.neural import empirical_ntk
    >>> model = torch.nn.Linear(3, 1, dtype=torch.float64)  # its NTK is x·z + 1
    >>> X = torch.randn(4, 3, dtype=torch.float64)
    >>> bool(torch.allclose(empirical_ntk(model, X), X @ X.T + 1))
    True
    """
    return gram(TangentModel(model), X, Z)[0]


def gram(
    tangent: TangentModel, X: Tensor, Z: Tensor | None = None, budget: int = DEFAULT_BUDGET
) -> tuple[Tensor, list[Tensor] | None]:
    """ΦΦᵀ (if Z is None) or Φ_XΦ_Zᵀ, in row blocks of which two fit into `budget` bytes.

    Also returns the parts of Φ if one block was enough for ΦΦᵀ, else None.
    """
    blocks_x = _row_blocks(tangent, X, budget)
    if Z is None and len(blocks_x) == 1:
        parts = tangent.jacobian_parts(X)
        return _contract(parts, parts), parts
    blocks_z = blocks_x if Z is None else _row_blocks(tangent, Z, budget)
    rows: list[list[Tensor]] = []
    for i, block_x in enumerate(blocks_x):
        left = tangent.jacobian_parts(block_x)
        start = i if Z is None else 0  # below the diagonal the symmetric half is copied
        row = [_contract(left, tangent.jacobian_parts(block)) for block in blocks_z[start:]]
        rows.append([rows[j][i].T for j in range(start)] + row)
    return torch.cat([torch.cat(row, dim=1) for row in rows]), None


def _row_blocks(tangent: TangentModel, X: Tensor, budget: int) -> tuple[Tensor, ...]:
    n_outputs = tangent.outputs(X[:1]).numel()
    row_bytes = n_outputs * tangent.n_parameters * tangent.dtype.itemsize
    return X.split(rows_within(budget, 2 * row_bytes))


def _contract(left: list[Tensor], right: list[Tensor]) -> Tensor:
    """Φ_left Φ_rightᵀ, summed over parameter tensors to avoid a joined copy of a Jacobian."""
    total = left[0] @ right[0].T
    for a, b in zip(left[1:], right[1:], strict=True):
        total.addmm_(a, b.T)
    return total
