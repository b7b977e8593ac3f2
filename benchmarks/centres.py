"""What else could be done about many rows: fewer centres (Nyström), or fewer products (deflation).

    python benchmarks/centres.py --data FOLDER [--sets kin8nm power] [--centres 5000 10000]

For every set, a search finds one model: encoding, metric and kernel. In its coordinates, the script
compares test errors and CPU seconds of

- the descent over all rows (one leaf), and in leaves of at most a quarter of them;
- kernel ridge over all rows, its bandwidth and penalty chosen by a held-out sixth;
- kernel ridge over a random sample of centres (Nyström), chosen in the same way;

and counts the products with K that conjugate gradients need for that ridge, without and with the
leading eigenvectors taken out by a Nyström factor of as many columns (deflation). What deflation
can save is the ratio of both; a product itself stays n².
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
from scipy import linalg

sys.path.insert(0, str(Path(__file__).parent))
from large import above, read

PENALTIES = np.logspace(-7, -1, 7)  # times the number of rows
WIDENED = (1.0, 2.0, 4.0, 8.0, 16.0)  # times the last bandwidth of the descent
ENOUGH = 1e-3  # residual of conjugate gradients, relative to the target


def kernel_block(kernel, A, B, bandwidth):
    from bandfall.kernels import kernel_matrix

    power = kernel.power
    blocks = [
        kernel_matrix(kernel, kernel.geometry.block(some, B, power), float(bandwidth))
        for some in np.array_split(A, max(1, len(A) * len(B) // 2**24))
    ]
    return np.concatenate(blocks)


def ridge(K, K_centres, y, penalty):
    """Coefficients of k(x, C) a: min ‖y − K a‖² + penalty n aᵀ K_centres a."""
    A = K.T @ K + penalty * len(y) * K_centres
    A.flat[:: len(A) + 1] += 1e-10 * np.trace(A) / len(A)
    return linalg.solve(A, K.T @ y, assume_a="pos", check_finite=False)


def chosen_ridge(kernel, X, y, centres, bandwidths):
    """Bandwidth and penalty that are best for a held-out sixth, and coefficients for all rows."""
    held_out = np.arange(len(X)) % 6 == 0
    best = (np.inf, bandwidths[0], PENALTIES[0])
    for bandwidth in bandwidths:
        K, K_centres = (kernel_block(kernel, one, centres, bandwidth) for one in (X, centres))
        gram, right = K[~held_out].T @ K[~held_out], K[~held_out].T @ y[~held_out]
        for penalty in PENALTIES:
            A = gram + penalty * np.count_nonzero(~held_out) * K_centres
            A.flat[:: len(A) + 1] += 1e-10 * np.trace(A) / len(A)
            a = linalg.solve(A, right, assume_a="pos", check_finite=False)
            error = float(np.mean((K[held_out] @ a - y[held_out]) ** 2))
            best = min(best, (error, bandwidth, penalty))
    _, bandwidth, penalty = best
    K, K_centres = (kernel_block(kernel, one, centres, bandwidth) for one in (X, centres))
    return bandwidth, penalty, ridge(K, K_centres, y, penalty)


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

    a, r = np.zeros_like(y), y.copy()
    z = precondition(r)
    p, rho = z.copy(), r @ z
    for number in range(1, 3000):
        q = K @ p + shift * p
        step = rho / (p @ q)
        a += step * p
        r -= step * q
        if np.linalg.norm(r) < ENOUGH * np.linalg.norm(y):
            return number
        z = precondition(r)
        rho, before = r @ z, rho
        p = z + rho / before * p
    return 3000


def leading_part(K_new, K_centres):
    """Eigenvectors and eigenvalues of the Nyström approximation of K."""
    shift = 1e-6 * np.trace(K_centres) / len(K_centres)
    root = linalg.cholesky(K_centres + shift * np.eye(len(K_centres)), lower=True)
    B = linalg.solve_triangular(root, K_new.T, lower=True).T
    U, s, _ = linalg.svd(B, full_matrices=False)
    return U, s**2


def timed(function, *arguments):
    start = time.process_time()
    result = function(*arguments)
    return result, time.process_time() - start


def compare(name, options):
    from bandfall import BandfallRegressor

    table, target = read(options.data, name)
    order = np.random.default_rng(0).permutation(len(target))[: options.most]
    n = int(0.8 * len(order))
    train, test = order[:n], order[n:]
    y, y_test = target[train], target[test]
    settings = {"n_members": 1, "search_rows": options.search_rows, "device": options.device}
    models = [
        timed(BandfallRegressor(leaf_rows=rows, **settings).fit, table.iloc[train], y)[0]
        for rows in (n, n // 4)
    ]

    def r2(predictions):
        return 1.0 - np.mean((predictions - y_test) ** 2) / np.var(y_test)

    print(f"{name}: {n:,} rows, {models[0].members_[0]}")
    for label, model in zip(("one leaf", "leaves"), models, strict=True):
        label = f"{label} ({model.path_.n_leaves})"
        print(f"  {label:<28} R² {r2(model.predict(table.iloc[test])):.4f}", flush=True)
    path, offset, scale = models[0].path_, y.mean(), y.std()
    kernel = path.kernel
    X, X_test = (
        models[0]._model_rows(table.iloc[rows]).astype(np.float64) for rows in (train, test)
    )
    codes = (y - offset) / scale
    bandwidths = [width * float(path.bandwidths[-1]) for width in WIDENED]
    random = np.random.default_rng(0)
    for m in [*(m for m in options.centres if m < n), *([n] if n <= options.exact else [])]:
        centres = X[np.sort(random.permutation(n)[:m])]
        (bandwidth, penalty, a), seconds = timed(
            chosen_ridge, kernel, X, codes, centres, bandwidths
        )
        predictions = kernel_block(kernel, X_test, centres, bandwidth) @ a * scale + offset
        label = f"ridge, {m:,} centres" if m < n else "ridge, all rows"
        print(f"  {label:<28} R² {r2(predictions):.4f}, {seconds:.0f} CPU s", flush=True)
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
    parser.add_argument("--device")
    options = parser.parse_args()
    for name in options.sets or above(options.data):
        compare(name, options)


if __name__ == "__main__":
    main()
