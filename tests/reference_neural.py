"""Naive references for `bandfall.neural`, written from Appendix D with explicit matrices."""

import numpy as np
import torch


def jacobian_by_differences(model, X, step=1e-6):
    """∂f/∂θ, shape (n·k, p), by central differences over every trainable parameter."""
    columns = []
    with torch.no_grad():
        for parameter in model.parameters():
            if not parameter.requires_grad:
                continue
            flat = parameter.view(-1)
            for i in range(flat.numel()):
                value = flat[i].item()
                flat[i] = value + step
                above = model(X).reshape(-1).clone()
                flat[i] = value - step
                below = model(X).reshape(-1).clone()
                flat[i] = value
                columns.append(((above - below) / (2 * step)).numpy())
    return np.stack(columns, axis=1)


def jacobian_by_rows(model, X):
    """∂f/∂θ, shape (n·k, p), one backward pass per output."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    rows = []
    for output in model(X).reshape(-1):
        parts = torch.autograd.grad(output, parameters, retain_graph=True)
        rows.append(torch.cat([part.reshape(-1) for part in parts]).numpy())
    return np.stack(rows)


def preconditioned_step(phi_t, phi, residual, blend):
    """−P ∂L/∂θ for L = ½‖r‖², P = Φ⁺ K̃ Φ_t⁺ᵀ, K̃ = αΦΦ_tᵀ + (1−α)[I; 0] (Appendix D)."""
    n = len(phi_t)
    identity = np.vstack([np.eye(n), np.zeros((len(phi) - n, n))])
    kernel = blend * phi @ phi_t.T + (1 - blend) * identity
    preconditioner = np.linalg.pinv(phi) @ kernel @ np.linalg.pinv(phi_t).T
    return preconditioner @ (phi_t.T @ residual)


def filtered_step(phi, target, weight):
    """Φᵀ-side step Σ v_i weight(s_i) u_iᵀ b from the singular value decomposition of Φ."""
    u, s, vt = np.linalg.svd(phi, full_matrices=False)
    return vt.T @ (weight(s, s[0]) * (u.T @ target))
