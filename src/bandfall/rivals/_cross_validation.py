"""Cross-validation over bandwidth × penalty, or bandwidth × time, from few eigendecompositions.

One decomposition K_tr = U diag(λ) Uᵀ per bandwidth and fold serves every penalty and every
time, since both estimates are filters of λ (`bandfall._closed_form`). For ridge regression one
per bandwidth serves all folds as well: with A = (K + penalty·I)⁻¹ over *all* rows, the
residuals of the held-out rows F of a model trained on the others are

    y_F − f̂_{−F}(x_F) = (A_FF)⁻¹ (A (y − offset))_F,

which for single rows is the familiar leave-one-out formula (A y)_i / A_ii.
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
    """Shuffled folds as the paper's experiments draw them.

    The rows are permuted by NumPy's legacy generator and cut into `n_folds` parts of equal
    size; the first parts have one row more if the rows do not divide evenly.

    Parameters
    ----------
    n_rows, seed, n_folds : int
        In the paper's tables the seed is the number of the data split.

    Returns
    -------
    list of (training rows, held-out rows)

    Examples
    --------
    >>> [held_out.tolist() for _, held_out in permutation_folds(5, seed=0, n_folds=2)]
    [[2, 0, 1], [3, 4]]
    """
    if not 2 <= n_folds <= n_rows:
        raise ValueError(f"n_folds={n_folds!r} must be between 2 and n_rows={n_rows}")
    order = np.random.RandomState(seed).permutation(n_rows)
    folds = np.array_split(order, n_folds)
    return [(np.setdiff1d(order, fold), fold) for fold in folds]


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

    Parameters
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n, k)
    kernel : Kernel
    bandwidths : ndarray of shape (B,)
    penalties : ndarray of shape (P,)
        Non-negative.
    splits : sequence of S (training rows, held-out rows)
    fit_intercept : bool
        Subtract the mean of each split's training targets before training and add it after.
    n_jobs : int, optional
        joblib workers (threads by default).

    Returns
    -------
    ndarray of shape (S, B, P)

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
    y = np.asarray(y, dtype=np.float64)
    distances = distance_powers(X, kernel)
    # Below this penalty K + penalty·I is singular to rounding and has no inverse over all rows, so
    # each fold takes its own pseudo-inverse.
    rounding = len(X) ** 2 * np.finfo(np.float64).eps
    if not (_are_complements(splits, len(X)) and penalties.min() > rounding):
        return _foldwise_mse(
            distances, y, kernel, bandwidths, penalties, ridge_filter, splits, fit_intercept, n_jobs
        )

    offsets = np.concatenate([_offset(y[train], fit_intercept) for train, _ in splits])
    folds = [held_out for _, held_out in splits]

    def errors(bandwidth: float) -> np.ndarray:
        spectrum = Spectrum(kernel_matrix(kernel, distances, bandwidth))
        return _closed_form_mse(spectrum, y, penalties, folds, offsets)

    with decomposition_threads_for(len(X)):
        columns = Parallel(n_jobs=n_jobs, prefer="threads")(delayed(errors)(b) for b in bandwidths)
    return np.stack(columns, axis=1)


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
    """Mean squared error of kernel gradient flow on the held-out rows of every split.

    Parameters as in `ridge_cv_mse`, with training times of shape (T,) for penalties.

    Returns
    -------
    ndarray of shape (S, B, T)
    """
    y = np.asarray(y, dtype=np.float64)
    distances = distance_powers(X, kernel)
    return _foldwise_mse(
        distances, y, kernel, bandwidths, times, flow_filter, splits, fit_intercept, n_jobs
    )


def best_cell(mse: np.ndarray) -> tuple[int, int]:
    """(bandwidth, penalty) indices of the smallest mean over splits; the first of equal ones.

    Parameters
    ----------
    mse : ndarray of shape (S, B, P)
    """
    mean = mse.mean(axis=0)
    i, j = np.unravel_index(int(np.argmin(mean)), mean.shape)
    return int(i), int(j)


def _are_complements(splits: Sequence[Split], n_rows: int) -> bool:
    """Whether each split trains on exactly the rows that it does not hold out."""
    return all(
        len(train) + len(held_out) == n_rows
        and np.all(np.bincount(np.concatenate([train, held_out]), minlength=n_rows) == 1)
        for train, held_out in splits
    )


def _foldwise_mse(
    distances: np.ndarray,
    y: np.ndarray,
    kernel: Kernel,
    bandwidths: np.ndarray,
    values: np.ndarray,
    filters: Filter,
    splits: Sequence[Split],
    fit_intercept: bool,
    n_jobs: int | None,
) -> np.ndarray:
    """Any filter, any splits: one eigendecomposition per bandwidth and split."""
    batches = _equal_splits(splits, max(1, _BLOCK_ENTRIES // distances.size))

    def errors(bandwidth: float, batch: Sequence[int]) -> np.ndarray:
        K = kernel_matrix(kernel, distances, bandwidth)
        train = np.stack([splits[i][0] for i in batch])
        held_out = np.stack([splits[i][1] for i in batch])
        return _batch_mse(K, y, values, filters, train, held_out, fit_intercept)

    cells = [(i, batch) for i in range(len(bandwidths)) for batch in batches]
    with decomposition_threads_for(len(distances)):
        tables = Parallel(n_jobs=n_jobs, prefer="threads")(
            delayed(errors)(bandwidths[i], batch) for i, batch in cells
        )
    mse = np.empty((len(splits), len(bandwidths), len(values)))
    for (i, batch), table in zip(cells, tables, strict=True):
        mse[batch, i] = table
    return mse


def _equal_splits(splits: Sequence[Split], at_most: int) -> list[list[int]]:
    """Indices of splits in batches of equal shapes, so that small matrices can be stacked."""
    groups: dict[tuple[int, int], list[int]] = {}
    for i, (train, held_out) in enumerate(splits):
        groups.setdefault((len(train), len(held_out)), []).append(i)
    return [
        group[start : start + at_most]
        for group in groups.values()
        for start in range(0, len(group), at_most)
    ]


def _batch_mse(
    K: np.ndarray,
    y: np.ndarray,
    values: np.ndarray,
    filters: Filter,
    train: np.ndarray,
    held_out: np.ndarray,
    fit_intercept: bool,
) -> np.ndarray:
    """Errors (g, n_values) of g splits, train (g, t) and held_out (g, h), from K over all rows."""
    spectrum = Spectrum(K[train[:, :, None], train[:, None, :]])
    U = spectrum.eigenvectors
    offset = _offset(y[train], fit_intercept)  # (g, 1, k)
    table = filters(spectrum.eigenvalues, values)  # (g, t, n_values)
    targets = U.swapaxes(1, 2) @ (y[train] - offset)
    features = K[held_out[:, :, None], train[:, None, :]] @ U
    mse = np.zeros((len(train), len(values)))
    for output in range(y.shape[1]):
        residual = features @ (table * targets[:, :, output, None])
        residual -= (y[held_out, output] - offset[:, :, output])[:, :, None]
        mse += np.einsum("ghv,ghv->gv", residual, residual)
    return mse / (held_out.shape[1] * y.shape[1])


def _offset(y: np.ndarray, fit_intercept: bool) -> np.ndarray:
    """Mean of training targets (..., n, k) over their rows, or zeros: (..., 1, k)."""
    if fit_intercept:
        return y.mean(axis=-2, keepdims=True)
    return np.zeros((*y.shape[:-2], 1, y.shape[-1]))


def _closed_form_mse(
    spectrum: Spectrum,
    y: np.ndarray,
    penalties: np.ndarray,
    folds: Sequence[np.ndarray],
    offsets: np.ndarray,
) -> np.ndarray:
    """Ridge errors (S, P) of all held-out folds from the decomposition over all rows."""
    U = spectrum.eigenvectors
    inverse = ridge_filter(spectrum.eigenvalues, penalties)  # (n, P)
    # A [y, 1] for every penalty, shape (n, P, k + 1): the offset of a fold enters linearly.
    projected = inverse[:, :, None] * (U.T @ np.column_stack([y, np.ones(len(y))]))[:, None, :]
    images = (U @ projected.reshape(len(U), -1)).reshape(projected.shape)
    if all(len(fold) == 1 for fold in folds):
        rows = np.concatenate(folds)
        diagonal = (U[rows] ** 2) @ inverse  # A_ii, shape (S, P)
        right = images[rows, :, :-1] - images[rows, :, -1:] * offsets[:, None, :]
        return np.mean(right**2, axis=2) / diagonal**2
    filters = np.ascontiguousarray(inverse.T)
    return np.stack(
        [
            _held_out_mse(U[fold], filters, images[fold], offset)
            for fold, offset in zip(folds, offsets, strict=True)
        ]
    )


def _held_out_mse(
    U: np.ndarray, filters: np.ndarray, images: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """Mean square of (A_FF)⁻¹ (A (y − offset))_F for every penalty, shape (P,).

    U (m, n) has the held-out rows of the eigenvectors, `filters` (P, n) 1/(λ + penalty), `images`
    (m, P, k + 1) the held-out rows of A [y, 1], `offset` shape (k,).
    """
    right = (images[..., :-1] - images[..., -1:] * offset).transpose(1, 0, 2)
    mse = np.empty(len(filters))
    chunk = max(1, _BLOCK_ENTRIES // U.size)
    for start in range(0, len(filters), chunk):
        part = slice(start, start + chunk)
        blocks = (filters[part, None, :] * U).reshape(-1, U.shape[1]) @ U.T
        residual = np.linalg.solve(blocks.reshape(-1, len(U), len(U)), right[part])
        mse[part] = np.mean(residual**2, axis=(1, 2))
    return mse
