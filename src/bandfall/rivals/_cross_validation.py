"""Cross-validation over bandwidth × penalty, or bandwidth × time, from few eigendecompositions.

One decomposition per bandwidth and fold serves every penalty and every time, since both estimates
are filters of λ (`bandfall._closed_form`). For ridge regression one per bandwidth serves all folds:
with A = (K + penalty·I)⁻¹ over *all* rows, the held-out residuals of a fold F are

    y_F − f̂_{−F}(x_F) = (A_FF)⁻¹ (A (y − offset))_F,      for single rows (A y)_i / A_ii.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from joblib import Parallel, delayed

from bandfall._closed_form import Spectrum, flow_filter, ridge_filter
from bandfall._threads import decomposition_threads_for
from bandfall.kernels._kernel import Kernel, kernel_matrix

# Entries of the temporaries (penalties × held-out rows × rows) of the closed form.
_BLOCK_ENTRIES = 1 << 20

Split = tuple[np.ndarray, np.ndarray]  # training rows, held-out rows
Filter = Callable[[np.ndarray, np.ndarray], np.ndarray]


def permutation_folds(n_rows: int, seed: int, n_folds: int = 10) -> list[Split]:
    """Shuffled folds (training rows, held-out rows) as the paper's experiments draw them.

    In the paper's tables the seed is the number of the data split.

    Examples
    --------
    >>> [held_out.tolist() for _, held_out in permutation_folds(5, seed=0, n_folds=2)]
    [[2, 0, 1], [3, 4]]
    """
    if not 2 <= n_folds <= n_rows:
        raise ValueError(f"n_folds={n_folds!r} must be between 2 and n_rows={n_rows}")
    order = np.random.RandomState(seed).permutation(n_rows)
    return [(np.setdiff1d(order, fold), fold) for fold in np.array_split(order, n_folds)]


def distance_powers(X: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Distances between all rows, raised to ``kernel.power``, float64, shape (n, n)."""
    rows = np.asarray(X, dtype=np.float64)
    rows = rows - rows.mean(axis=0)
    return kernel.geometry.block(rows, rows, kernel.power)


def ridge_cv_mse(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    penalties: np.ndarray,
    splits: Sequence[Split],
    *,
    fit_intercept: bool = True,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Mean squared error of kernel ridge regression on the held-out rows of every split.

    An array of shape (S, B, P), for targets y of shape (n, k), S splits, B bandwidths and P
    non-negative penalties. With `fit_intercept`, the mean of each split's training targets is
    subtracted before training and added after. `n_jobs` are joblib's workers, threads by default.

    Examples
    --------
    >>> from bandfall.kernels import get_kernel
    >>> from bandfall.rivals import best_cell, permutation_folds, ridge_cv_mse
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> mse = ridge_cv_mse(X, np.sin(3 * X), get_kernel("gaussian"), np.array([0.01, 0.5]),
    ...                    np.array([1e-3, 1.0]), permutation_folds(30, seed=0, n_folds=5))
    >>> mse.shape, best_cell(mse)
    ((5, 2, 2), (1, 0))
    """
    return _cv_mse(X, y, kernel, bandwidths, penalties, splits, ridge_filter, fit_intercept, n_jobs)


def flow_cv_mse(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    times: np.ndarray,
    splits: Sequence[Split],
    *,
    fit_intercept: bool = True,
    n_jobs: int | None = None,
) -> np.ndarray:
    """The same as `ridge_cv_mse` for kernel gradient flow, with training times for penalties."""
    return _cv_mse(X, y, kernel, bandwidths, times, splits, flow_filter, fit_intercept, n_jobs)


def best_cell(mse: np.ndarray) -> tuple[int, int]:
    """Indices (bandwidth, penalty) of the least mean of an (S, B, P) table; the first if equal."""
    mean = mse.mean(axis=0)
    i, j = np.unravel_index(int(np.argmin(mean)), mean.shape)
    return int(i), int(j)


def _cv_mse(
    X: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    values: np.ndarray,
    splits: Sequence[Split],
    filters: Filter,
    fit_intercept: bool,
    n_jobs: int | None,
) -> np.ndarray:
    y, distances, n = np.asarray(y, dtype=np.float64), distance_powers(X, kernel), len(X)
    offsets = [fit_intercept * y[train].mean(axis=0) for train, _ in splits]
    # Below this penalty K + penalty·I is singular to rounding and has no inverse over all rows, so
    # each fold takes its own pseudo-inverse. The closed form trains on all rows outside the fold.
    singular = values.min() <= n**2 * np.finfo(np.float64).eps
    whole = all(np.array_equal(np.sort(np.concatenate(one)), np.arange(n)) for one in splits)
    closed = filters is ridge_filter and whole and not singular

    def errors(bandwidth: float) -> np.ndarray:
        K = kernel_matrix(kernel, distances, bandwidth)
        if closed:
            return _closed_form_mse(Spectrum(K), y, values, splits, offsets)
        return _foldwise_mse(K, y, values, filters, splits, offsets)

    with decomposition_threads_for(n):
        columns = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(errors)(b) for b in bandwidths)
    return np.stack(columns, axis=1)


def _foldwise_mse(
    K: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    filters: Filter,
    splits: Sequence[Split],
    offsets: Sequence[np.ndarray],
) -> np.ndarray:
    """Errors (S, P) by any filter, from one eigendecomposition for each split."""
    mse = np.empty((len(splits), len(values)))
    for i, ((train, held_out), offset) in enumerate(zip(splits, offsets, strict=True)):
        spectrum = Spectrum(K[np.ix_(train, train)])
        U = spectrum.eigenvectors
        targets = U.T @ (y[train] - offset)
        coefficients = filters(spectrum.eigenvalues, values)[:, :, None] * targets[:, None, :]
        fitted = K[np.ix_(held_out, train)] @ U @ coefficients.reshape(len(U), -1)
        residual = fitted.reshape(len(held_out), len(values), -1) - (y[held_out] - offset)[:, None]
        mse[i] = np.mean(residual**2, axis=(0, 2))
    return mse


def _closed_form_mse(
    spectrum: Spectrum,
    y: np.ndarray,
    penalties: np.ndarray,
    splits: Sequence[Split],
    offsets: Sequence[np.ndarray],
) -> np.ndarray:
    """Ridge errors (S, P) of all held-out folds from the decomposition over all rows."""
    U = spectrum.eigenvectors
    filters = ridge_filter(spectrum.eigenvalues, penalties)  # (n, P)
    # A [y, 1] for every penalty, shape (n, P, k + 1): the offset of a fold enters linearly.
    projected = filters[:, :, None] * (U.T @ np.column_stack([y, np.ones(len(y))]))[:, None, :]
    images = (U @ projected.reshape(len(U), -1)).reshape(projected.shape)
    by_penalty = np.ascontiguousarray(filters.T)
    mse = np.empty((len(splits), len(penalties)))
    for i, ((_, rows), offset) in enumerate(zip(splits, offsets, strict=True)):
        right = (images[rows, :, :-1] - images[rows, :, -1:] * offset).swapaxes(0, 1)
        U_F, n_held_out = U[rows], len(rows)
        chunk = max(1, _BLOCK_ENTRIES // U_F.size)
        for start in range(0, len(penalties), chunk):
            part = slice(start, start + chunk)
            blocks = (by_penalty[part, None, :] * U_F).reshape(-1, len(U)) @ U_F.T
            residual = np.linalg.solve(blocks.reshape(-1, n_held_out, n_held_out), right[part])
            mse[i, part] = np.mean(residual**2, axis=(1, 2))
    return mse
