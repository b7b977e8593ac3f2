"""The splits of the real data for the paper's tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from sklearn.utils._param_validation import Interval, validate_params

from bandfall.datasets._real import Folder, features_and_target, load_table
from bandfall.datasets._sources import SOURCES

# 93 × 82 + 7 × 81 is one more than the 8192 rows of the data, so the last split has 80.
CPU_SIZES = (82,) * 93 + (81,) * 6 + (80,)


@dataclass(frozen=True)
class Split:
    """One split: standardised features and centred target of training and test rows."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


@validate_params(
    {
        "size": [Interval(Integral, 2, None, closed="left"), "array-like", None],
        "n_splits": [Interval(Integral, 1, None, closed="left"), None],
        "n_train": [Interval(Integral, 1, None, closed="left"), None],
    },
    prefer_skip_nested_validation=True,
)
def paper_splits(
    data: str | np.ndarray,
    target: np.ndarray | None = None,
    *,
    size: int | Sequence[int] | None = None,
    n_splits: int | None = None,
    n_train: int | None = None,
    data_home: Folder = None,
) -> list[Split]:
    r"""Cut a data set into the paper's random, non-overlapping splits (Section 5, Appendix B).

    The rows are shuffled once with NumPy's legacy generator (seed 0) and cut from the top. Within
    a split the first rows are for training and the rest for testing; with mean :math:`\mu` and
    population standard deviation :math:`s` over *all* its rows,

    .. math:: x \leftarrow (x - \mu_x) / s_x, \qquad y \leftarrow y - \mu_y .

    So the standardisation includes the test rows, and the target keeps its scale, as in the
    published experiments. A feature that is constant within a split becomes zero.

    Parameters
    ----------
    data : {"cpu", "power", "superconductors", "uk_temperature"} or array of shape (n, d)
        A real data set by name, or features in their original order.
    target : array of shape (n,), optional
        The target; required with an array, not allowed with a name.
    size : int or sequence of int, optional
        Rows per split. Default: 100; for ``"cpu"`` 93 splits of 82, six of 81 and one of 80.
        (Figure 2 uses 31.)
    n_splits : int, optional
        Default: as many as `size` lists; with a single size, as many as fit, at most 200.
    n_train : int, optional
        Training rows per split. Default: ``int(0.8 * size)``. (Figure 2 uses 30.)
    data_home : str or path, optional
        Where to search a named data set, see `bandfall.datasets.load_cpu`.

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall.datasets import paper_splits
    >>> X = np.arange(60.0).reshape(30, 2)
    >>> splits = paper_splits(X, X[:, 0], size=10)
    >>> len(splits), splits[0].X_train.shape, splits[0].y_test.shape
    (3, (8, 2), (2,))
    """
    table = _target_first(data, target, data_home)
    if size is None:
        size = CPU_SIZES if isinstance(data, str) and data == "cpu" else 100
    sizes = _split_sizes(size, n_splits, len(table))
    if n_train is not None and n_train >= min(sizes):
        raise ValueError(
            f"n_train must be an int from 1 to {min(sizes) - 1}, one less than the smallest "
            f"split; got {n_train!r}"
        )
    np.random.RandomState(0).shuffle(table)
    ends = np.cumsum(sizes)
    return [
        standardised(table[end - rows : end], n_train or int(0.8 * rows))
        for rows, end in zip(sizes, ends, strict=True)
    ]


def _target_first(
    data: str | np.ndarray, target: np.ndarray | None, data_home: Folder
) -> np.ndarray:
    """A new array with the target as first column, followed by the features in file order."""
    if isinstance(data, str):
        if data not in SOURCES:
            raise ValueError(f"data must be an array or one of {sorted(SOURCES)}; got {data!r}")
        if target is not None:
            raise ValueError(f"target must not be given together with the data set {data!r}")
        data, target = features_and_target(SOURCES[data], load_table(SOURCES[data], data_home))
    if target is None:
        raise ValueError("target is required when data is an array")
    features, labels = np.asarray(data, dtype=float), np.asarray(target, dtype=float)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ValueError(
            "data must have shape (n, d) and target shape (n,); got shapes "
            f"{features.shape} and {labels.shape}"
        )
    if not (np.isfinite(features).all() and np.isfinite(labels).all()):
        raise ValueError("data and target must be finite")
    return np.column_stack([labels, features])


def _split_sizes(size: int | Sequence[int], n_splits: int | None, rows: int) -> list[int]:
    """Rows of every split; a split needs a row for training and a row for testing."""
    if isinstance(size, int | np.integer):
        sizes = [int(size)] * (n_splits or max(1, min(200, rows // int(size))))
    else:
        sizes = list(size)[:n_splits]
    valid = sizes and all(isinstance(one, Integral) and one >= 2 for one in sizes)
    if not valid or len(sizes) < (n_splits or 1) or sum(sizes) > rows:
        raise ValueError(
            f"size={size!r} and n_splits={n_splits} do not cut {rows} rows into splits of at least "
            "two"
        )
    return sizes


def standardised(rows: np.ndarray, n_train: int) -> Split:
    """The split of these rows, target first, of which the first `n_train` are for training."""
    y = rows[:, 0] - rows[:, 0].mean()
    features = rows[:, 1:]
    scale = features.std(axis=0)
    # Standardisation must not blow up the rounding error of a mean.
    constant = np.ptp(features, axis=0) == 0.0
    X = np.where(constant, 0.0, (features - features.mean(axis=0)) / np.where(constant, 1.0, scale))
    return Split(X[:n_train], y[:n_train], X[n_train:], y[n_train:])
