"""The empirical neural tangent kernel by two algorithms."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from bandfall._products.base import DEFAULT_BUDGET
from bandfall._threads import rows_within
from bandfall.neural._tangent import TangentModel


def empirical_ntk(
    model: nn.Module,
    X: Tensor,
    Z: Tensor | None = None,
    *,
    algorithm: str = "jacobian",
    budget: int = DEFAULT_BUDGET,
) -> Tensor:
    """K_NTK(X, Z) = ∂f(X)/∂θ · (∂f(Z)/∂θ)ᵀ at the present parameters (Appendix D).

    Parameters
    ----------
    model : torch.nn.Module
        Outputs of shape (n,), (n, 1) or (n, k); see `TangentModel`.
    X : Tensor of shape (n, ...)
    Z : Tensor of shape (m, ...), optional
        X by default.
    algorithm : {"jacobian", "products"}
        "jacobian" multiplies blocks of the two Jacobians. "products" forms no Jacobian and
        takes one backward and one forward-mode pass for each of the m·k columns; it is for
        networks for which even single rows of the Jacobian are too large.
    budget : int
        Bytes for a pair of Jacobian blocks.

    Returns
    -------
    Tensor of shape (n·k, m·k)

    Examples
    --------
    >>> import torch
    >>> from bandfall.neural import empirical_ntk
    >>> model = torch.nn.Linear(3, 1, dtype=torch.float64)  # its NTK is x·z + 1
    >>> X = torch.randn(4, 3, dtype=torch.float64)
    >>> bool(torch.allclose(empirical_ntk(model, X), X @ X.T + 1))
    True
    """
    tangent = TangentModel(model)
    if algorithm == "jacobian":
        return gram(tangent, X, Z, budget)[0]
    if algorithm == "products":
        return _by_products(tangent, X, X if Z is None else Z)
    raise ValueError(f"algorithm={algorithm!r} is unknown; allowed: 'jacobian', 'products'")


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


def _by_products(tangent: TangentModel, X: Tensor, Z: Tensor) -> Tensor:
    n_columns = tangent.outputs(Z).numel()
    columns = []
    for unit in torch.eye(n_columns, dtype=tangent.dtype, device=tangent.device):
        direction, _ = tangent.row_product(Z, unit)
        columns.append(tangent.column_product(X, direction))
    return torch.stack(columns, dim=1)
