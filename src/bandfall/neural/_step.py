"""The step: the plain gradient, blended with a step that keeps the outputs at the anchors.

With Φ = [Φ_t; Φ_*] the Jacobian at training rows and anchors and r the residual,

    Δθ = α · scale · Φ_tᵀ r + (1 − α) · Φ⁺ [r; 0],

which for scale 1 is P(t) applied to the gradient, P = Φ⁺ K̃ Φ_t⁺ᵀ and
K̃ = α K_NTK + (1 − α) [I; 0] (Appendix D; docs/neural.md has the derivation). No p × p
matrix appears. Φ⁺ is damped: Φ⁺ = Φᵀ g(ΦΦᵀ) with g(λ) = 1/(λ + δ) or 1/(√λ + ε)². The
filters on the singular values, s/(s² + δ) and s/(s + ε)², vanish with s, so directions
that the network cannot move are left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bandfall.neural._tangent import TangentModel, gram

_POWER_ITERATIONS = 6


@dataclass(frozen=True)
class TangentStep:
    """One blended step."""

    direction: Tensor  # (p,): Δθ per unit of training time
    blend: float  # α: 1 is the network's own NTK, 0 the identity on training rows, zero on anchors
    speed: float  # ∂R²/∂t = 2 rᵀΦ_tΔθ / ‖y − ȳ‖² of the step, including damping


def next_blend(blend: float, plain_speed: float, anchored_speed: float, min_speed: float) -> float:
    """The first α, going down from `blend`, whose R² speed reaches `min_speed`.

    K̃ is linear in α, so speed(α) = α·plain + (1 − α)·anchored, and the search of Algorithm 1,
    lines 4–10, has a closed form. If no α is fast enough, the result is 0, as the bandwidth
    falls to its floor.
    """
    if blend * plain_speed + (1.0 - blend) * anchored_speed >= min_speed:
        return blend
    if anchored_speed <= max(min_speed, plain_speed):
        return 0.0
    return min(blend, (anchored_speed - min_speed) / (anchored_speed - plain_speed))


def tangent_step(
    tangent: TangentModel,
    X: Tensor,
    residual: Tensor,
    anchors: Tensor,
    *,
    total: float,
    blend: float = 1.0,
    min_speed: float = 0.0,
    scale: float = 1.0,
    damping: float = 1e-4,
    damping_filter: str = "tikhonov",
) -> TangentStep:
    """The blended step at the current parameters, with α lowered to reach `min_speed`.

    While α = 1 is fast enough this costs one backward pass: rᵀΦ_tΦ_tᵀr = ‖Φ_tᵀr‖².

    Parameters
    ----------
    tangent : TangentModel
    X : Tensor of shape (n, ...)
    residual : Tensor of shape (n, k)
        r = y − f(X).
    anchors : Tensor of shape (n*, ...)
        Rows whose outputs should not change; may be empty.
    total : float
        ‖y − ȳ‖²; zero makes every speed infinite.
    blend, min_speed : float
        The current α, and the R² speed below which it falls.
    scale : float
        Factor on K_NTK: 1 for the summed loss ½‖r‖², 1/(n·k) for the mean.
    damping : float
        δ = damping · λ_max(ΦΦᵀ); for the lifted filter ε = damping · s_max.
    damping_filter : {"tikhonov", "lifted"}
        As in `TangentDescent`.
    """
    r = residual.reshape(-1)
    gradient, _ = tangent.row_product(X, r)
    plain_speed = _speed(scale * float(gradient @ gradient), total)
    if blend == 1.0 and plain_speed >= min_speed:
        return TangentStep(scale * gradient, 1.0, plain_speed)
    anchored, moved = anchored_part(tangent, X, r, anchors, damping, damping_filter)
    anchored_speed = _speed(float(r @ moved), total)
    blend = next_blend(blend, plain_speed, anchored_speed, min_speed)
    return TangentStep(
        blend * scale * gradient + (1.0 - blend) * anchored,
        blend,
        blend * plain_speed + (1.0 - blend) * anchored_speed,
    )


def anchored_part(
    tangent: TangentModel,
    X: Tensor,
    r: Tensor,
    anchors: Tensor,
    damping: float,
    damping_filter: str = "tikhonov",
) -> tuple[Tensor, Tensor]:
    """d = Φ⁺[r; 0], shape (p,), and Φ_t d, shape (n·k,)."""
    rows = torch.cat([X, anchors])
    target = torch.cat([r, r.new_zeros(len(anchors) * (len(r) // len(X)))])
    G, parts = gram(tangent, rows)
    coefficients, moved = _solve(G, target, damping, damping_filter)
    if parts is None:
        return tangent.row_product(rows, coefficients)[0], moved[: len(r)]
    return torch.cat([coefficients @ part for part in parts]), moved[: len(r)]


def _solve(G: Tensor, target: Tensor, damping: float, damping_filter: str) -> tuple[Tensor, Tensor]:
    """c = g(G)b and Gc from G = U diag(λ) Uᵀ; negative λ, due to rounding, count as zero."""
    eigenvalues, vectors = torch.linalg.eigh(G.double())
    eigenvalues = eigenvalues.clamp_min(0.0)
    largest = eigenvalues[-1]
    if not largest > 0:  # no parameter moves any output
        return torch.zeros_like(target), torch.zeros_like(target)
    if damping_filter == "tikhonov":
        inverse = 1.0 / (eigenvalues + damping * largest)
    else:
        inverse = 1.0 / (eigenvalues.sqrt() + damping * largest.sqrt()) ** 2
    projected = vectors.T @ target.double()
    coefficients = vectors @ (inverse * projected)
    moved = vectors @ (eigenvalues * inverse * projected)
    return coefficients.to(target.dtype), moved.to(target.dtype)


def largest_eigenvalue(tangent: TangentModel, rows: Tensor, start: Tensor) -> float:
    """λ_max(ΦΦᵀ): a Rayleigh quotient after a few power iterations, good to about two digits."""
    vector = torch.ones_like(start)
    value = 0.0
    for _ in range(_POWER_ITERATIONS):
        vector = vector / vector.norm()
        product = tangent.kernel_product(rows, vector)
        value = float(vector @ product)
        if not product.norm() > 0:
            break
        vector = product
    return value


def _speed(progress: float, total: float) -> float:
    return 2.0 * progress / total if total > 0 else float("inf")


def uniform_anchors(
    X: Tensor, n_anchors: int, generator: torch.Generator | None = None, *, margin: float = 0.1
) -> Tensor:
    """Uniform points in the bounding box of the rows of X, shape (n_anchors, ...).

    The box is extended by `margin` times its size at either end. Without this margin nothing
    anchors the network just outside the outermost rows, and its outputs stray there.
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
    """
    device = _device(generator, X)
    pairs = torch.randint(len(X), (2, n_anchors), generator=generator, device=device).to(X.device)
    shape = (n_anchors, *([1] * (X.ndim - 1)))
    share = torch.rand(shape, generator=generator, dtype=X.dtype, device=device).to(X.device)
    return X[pairs[0]] + share * (X[pairs[1]] - X[pairs[0]])


def _device(generator: torch.Generator | None, X: Tensor) -> torch.device:
    return X.device if generator is None else generator.device
