"""What else could be done about many rows: fewer centres (Nyström), or fewer products (deflation).

    python benchmarks/centres.py --data FOLDER [--sets kin8nm power] [--centres 5000 10000]
                                 [--device cuda]

For every set, a search finds one model: encoding, metric and kernel. In its coordinates, the script
compares test errors and seconds of

- the descent over all rows (one leaf), and in leaves;
- kernel ridge over all rows, its bandwidth and penalty chosen by a held-out sixth;
- kernel ridge over a random sample of centres (Nyström), chosen in the same way;

and counts the products with K that conjugate gradients need for that ridge, without and with the
leading eigenvectors taken out by a Nyström factor of as many columns (deflation). What deflation
can save is the ratio of both; a product itself stays n². Matrices are torch's, in float64.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
from large import above, read

PENALTIES = np.logspace(-7, -1, 7)  # times the number of rows
WIDENED = (1.0, 2.0, 4.0, 8.0, 16.0)  # times the last bandwidth of the descent
ENOUGH = 1e-3  # residual of conjugate gradients, relative to the target
JITTER = 1e-10  # of the mean diagonal


def kernel_block(kernel, A, B, bandwidth):
    from bandfall.kernels import kernel_matrix

    power = kernel.power
    K = A.new_empty((len(A), len(B)))
    for rows in np.array_split(np.arange(len(A)), max(1, len(A) * len(B) // 2**26)):
        some = slice(rows[0], rows[-1] + 1)
        distances = kernel.geometry.block(A[some], B, power, torch)
        K[some] = kernel_matrix(kernel, distances, float(bandwidth), torch)
    return K


def solved(A, right):
    """A⁻¹ right, of a positive semidefinite A that is overwritten."""
    A.diagonal().add_(JITTER * A.diagonal().mean())
    factor, failed = torch.linalg.cholesky_ex(A)
    if failed:
        return torch.full_like(right, torch.nan)
    return torch.cholesky_solve(right[:, None], factor)[:, 0]


def chosen_ridge(kernel, X, y, centres, bandwidths):
    """Bandwidth and penalty that are best for a held-out sixth, and coefficients for all rows.

    Of k(x, C) a: min ‖y − K a‖² + penalty n aᵀ K_centres a.
    """
    held_out = torch.arange(len(X), device=X.device) % 6 == 0
    best = (np.inf, bandwidths[0], PENALTIES[0])
    for bandwidth in bandwidths:
        K = kernel_block(kernel, X, centres, bandwidth)
        K_centres = kernel_block(kernel, centres, centres, bandwidth)
        train, new = K[~held_out], K[held_out]
        gram, right = train.T @ train, train.T @ y[~held_out]
        for penalty in PENALTIES:
            a = solved(gram + penalty * len(train) * K_centres, right)
            error = float(((new @ a - y[held_out]) ** 2).mean())
            best = min(best, (error, bandwidth, penalty))
    _, bandwidth, penalty = best
    K = kernel_block(kernel, X, centres, bandwidth)
    K_centres = kernel_block(kernel, centres, centres, bandwidth)
    return bandwidth, penalty, solved(K.T @ K + penalty * len(y) * K_centres, K.T @ y)


def n_products(K, y, shift, factor=None):
    """Products that conjugate gradients need for (K + shift) a = y, preconditioned by a factor.

    With a factor U diag(s) Uᵀ of the leading part of K, the preconditioner takes it out exactly.
    """

    def precondition(r):
        if factor is None:
            return r
        U, s = factor
        inner = U.T @ r
        return U @ ((s.min() + shift) / (s + shift) * inner) + r - U @ inner

    a, r = torch.zeros_like(y), y.clone()
    z = precondition(r)
    p, rho = z.clone(), r @ z
    for number in range(1, 3000):
        q = K @ p + shift * p
        step = rho / (p @ q)
        a += step * p
        r -= step * q
        if r.norm() < ENOUGH * y.norm():
            return number
        z = precondition(r)
        rho, before = r @ z, rho
        p = z + rho / before * p
    return 3000


def leading_part(K_new, K_centres):
    """Eigenvectors and eigenvalues of the Nyström approximation of K, those above rounding."""
    K_centres.diagonal().add_(1e-6 * K_centres.diagonal().mean())
    root = torch.linalg.cholesky(K_centres)
    B = torch.linalg.solve_triangular(root, K_new.T, upper=False).T
    squares, V = torch.linalg.eigh(B.T @ B)
    kept = squares > 1e-10 * squares[-1]
    return B @ V[:, kept] / squares[kept].sqrt(), squares[kept]


def timed(function, *arguments):
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def compare(name, options):
    from bandfall import BandfallRegressor

    table, target = read(options.data, name)
    order = np.random.default_rng(0).permutation(len(target))[: options.most]
    n = int(0.8 * len(order))
    train, test = order[:n], order[n:]
    y, y_test = target[train], target[test]
    settings = {"n_members": 1, "search_rows": options.search_rows, "device": options.device}
    models = [
        timed(BandfallRegressor(leaf_rows=rows, **settings).fit, table.iloc[train], y)
        for rows in (n, min(options.leaf_rows, n // 4))
    ]

    def r2(predictions):
        return 1.0 - np.mean((predictions - y_test) ** 2) / np.var(y_test)

    whole = models[0][0]
    print(f"{name}: {n:,} rows, {whole.members_[0]}")
    for label, (model, seconds) in zip(("one leaf", "leaves"), models, strict=True):
        label, score = f"{label} ({model.path_.n_leaves})", r2(model.predict(table.iloc[test]))
        print(f"  {label:<28} R² {score:.4f}, {seconds:.0f} s with the search", flush=True)
    path, offset, scale = whole.path_, y.mean(), y.std()
    kernel = path.kernel
    device = options.device or "cpu"
    X, X_test, codes = (
        torch.as_tensor(np.asarray(one, dtype=np.float64), device=device)
        for one in (
            *(whole._model_rows(table.iloc[rows]) for rows in (train, test)),
            (y - offset) / scale,
        )
    )
    bandwidths = [width * float(path.bandwidths[-1]) for width in WIDENED]
    random = np.random.default_rng(0)
    for m in [*(m for m in options.centres if m < n), *([n] if n <= options.exact else [])]:
        centres = X[np.sort(random.permutation(n)[:m])]
        (bandwidth, penalty, a), seconds = timed(
            chosen_ridge, kernel, X, codes, centres, bandwidths
        )
        predictions = (kernel_block(kernel, X_test, centres, bandwidth) @ a).cpu().numpy()
        label = f"ridge, {m:,} centres" if m < n else "ridge, all rows"
        score = r2(predictions * scale + offset)
        print(f"  {label:<28} R² {score:.4f}, {seconds:.0f} s", flush=True)
    if n > options.exact:
        return
    K = kernel_block(kernel, X, X, bandwidth)
    counts = [n_products(K, codes, penalty * n)]
    for m in options.centres:
        centres = X[np.sort(random.permutation(n)[:m])]
        K_new = kernel_block(kernel, X, centres, bandwidth)
        factor = leading_part(K_new, kernel_block(kernel, centres, centres, bandwidth))
        counts.append(n_products(K, codes, penalty * n, factor))
    deflated = ", ".join(
        f"{count} with {m:,} directions taken out"
        for m, count in zip(options.centres, counts[1:], strict=True)
    )
    print(f"  products for that ridge: {counts[0]}, {deflated}; the descent took {path.n_products}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--centres", nargs="+", type=int, default=[5000, 10_000])
    parser.add_argument("--exact", type=int, default=20_000, help="most rows for ridge over all")
    parser.add_argument("--most", type=int, default=10**9, help="rows of a set at most")
    parser.add_argument("--search-rows", type=int, default=5000)
    parser.add_argument("--leaf-rows", type=int, default=10_000)
    parser.add_argument("--device")
    options = parser.parse_args()
    for name in options.sets or above(options.data):
        compare(name, options)


if __name__ == "__main__":
    main()
