"""Folds of cross-validation as pairs of row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Split = tuple[np.ndarray, np.ndarray]


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


def leave_one_out_folds(n_rows: int) -> list[Split]:
    """One fold per row."""
    rows = np.arange(n_rows)
    return [(np.delete(rows, i), rows[i : i + 1]) for i in rows]


def are_complements(splits: Sequence[Split], n_rows: int) -> bool:
    """Whether each split trains on exactly the rows that it does not hold out."""
    return all(
        len(train) + len(held_out) == n_rows
        and np.all(np.bincount(np.concatenate([train, held_out]), minlength=n_rows) == 1)
        for train, held_out in splits
    )
