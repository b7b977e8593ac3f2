"""From a user's table to numbers that distances make sense of.

Learned once, then applied to every row that is predicted, so that it is written in plain array
operations: scikit-learn's transformers would give the same numbers (the tests hold it to them)
at some milliseconds a call, and cannot be stored without their code.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from scipy.special import ndtri

MAX_CATEGORIES = 30
_MAX_QUANTILES = 1000
FARTHEST = -ndtri(1e-7)  # where normal quantiles of values out of range end
_HEAVY_TAIL = 5.0  # standard deviations: beyond, a quantile transform is worth a trial


class FeatureFront:
    """Impute, encode, standardise, drop constants; one instance per feature transform.

    Numeric columns: missing values become the median, with an indicator column where there
    were any; then zero mean and unit variance ("standard") or normal quantiles ("quantile").
    Other columns: one column a category (the rarest share one), missing values being a
    category of their own. Columns that are constant in training are dropped.

    Parameters
    ----------
    transform : {"standard", "quantile"}

    Attributes
    ----------
    dtype : dtype
    numeric, other : list of int
        Positions of numeric columns and of the others.
    medians : ndarray of shape (n_numeric,)
    marked : ndarray of int
        Numeric columns, counted among themselves, that have an indicator.
    centre, scale : ndarray of shape (n_numeric + n_marked,)
    quantiles : ndarray of shape (n_quantiles, n_numeric + n_marked) or None
    encoders : list of CategoryEncoder
        One for each of the other columns.
    used : ndarray of bool
        Which encoded columns vary.
    sources : ndarray of int
        For every used column the input column it comes from.
    """

    def __init__(self, transform: str = "standard"):
        self.transform_name = transform

    def fit(self, X, dtype) -> FeatureFront:
        """Learn medians, categories, means and variances from training rows."""
        self.dtype = np.dtype(dtype)
        self.numeric, self.other = _column_kinds(X)
        self._fit_numeric(_numbers(X, self.numeric))
        self.encoders = [CategoryEncoder().fit(_objects(X, column)) for column in self.other]
        encoded = self._encode(X)
        self.used = np.ptp(encoded, axis=0) > 0 if encoded.size else np.zeros(0, bool)
        sources = [*self.numeric, *(self.numeric[i] for i in self.marked)]
        for column, encoder in zip(self.other, self.encoders, strict=True):
            sources += [column] * encoder.width
        self.sources = np.array(sources, dtype=int)[self.used]
        return self

    def transform(self, X) -> np.ndarray:
        """Rows as floats, shape (m, n_used)."""
        return self._encode(X)[:, self.used].astype(self.dtype)

    def numeric_slopes(self, n_features: int) -> np.ndarray:
        """∂z/∂x of the used columns: 1/standard deviation of the numeric ones, else NaN.

        Shape (n_used,); a quantile transform has no constant slope.
        """
        slopes = np.full(len(self.used), np.nan)
        if self.quantiles is None:
            n_numeric = len(self.numeric)
            slopes[:n_numeric] = 1.0 / self.scale[:n_numeric]
        return slopes[self.used]

    def _fit_numeric(self, values: np.ndarray) -> None:
        missing = np.isnan(values)
        self.marked = np.flatnonzero(missing.any(axis=0))
        known = ~missing.all(axis=0)
        self.medians = np.zeros(values.shape[1])
        if known.any():
            self.medians[known] = np.nanmedian(values[:, known], axis=0)
        filled = self._filled(values)
        self.centre, self.scale = filled.mean(axis=0), filled.std(axis=0)
        # What varies by no more than the rounding of its mean is constant.
        rounding = len(filled) * np.finfo(np.float64).eps * np.abs(self.centre)
        constant = self.scale <= rounding
        self.centre = np.where(constant, filled[0] if len(filled) else 0.0, self.centre)
        self.scale = np.where(constant, 1.0, self.scale)
        self.quantiles = None
        if self.transform_name == "quantile":
            # Values themselves, for means of two would tear ties apart by rounding.
            places = np.linspace(0, len(filled) - 1, min(_MAX_QUANTILES, len(filled)))
            self.quantiles = np.sort(filled, axis=0)[np.round(places).astype(int)]

    def _filled(self, values: np.ndarray) -> np.ndarray:
        """Medians for missing values, and the indicators of those columns that have one."""
        missing = np.isnan(values)
        filled = np.where(missing, self.medians, values)
        return np.concatenate([filled, missing[:, self.marked]], axis=1)

    def _encode(self, X) -> np.ndarray:
        filled = self._filled(_numbers(X, self.numeric))
        if self.quantiles is None:
            parts = [(filled - self.centre) / self.scale]
        else:
            parts = [_normal_scores(filled, self.quantiles)]
        columns = zip(self.other, self.encoders, strict=True)
        parts += [encoder.transform(_objects(X, column)) for column, encoder in columns]
        return np.concatenate(parts, axis=1)


class CategoryEncoder:
    """One column a category; the rarest share one, which unknown ones join.

    Attributes
    ----------
    codes : dict
        Category to column.
    width : int
        Number of columns.
    unknown : int
        Column of categories never seen, −1 where there is none: then they are all zeros.
    """

    def fit(self, column: np.ndarray) -> CategoryEncoder:
        """Learn the categories of a column and which of them are rare."""
        counts = Counter(_category(value) for value in column)
        by_size = sorted(counts, key=lambda key: (-counts[key], str(key)))
        n_own = len(by_size) if len(by_size) <= MAX_CATEGORIES else MAX_CATEGORIES - 1
        self.codes = {key: min(i, n_own) for i, key in enumerate(by_size)}
        self.width = n_own + (len(by_size) > n_own)
        self.unknown = n_own if len(by_size) > n_own else -1
        return self

    def transform(self, column: np.ndarray) -> np.ndarray:
        """Zeros and ones, shape (m, width)."""
        codes = np.array([self.codes.get(_category(v), self.unknown) for v in column], dtype=int)
        encoded = np.zeros((len(column), self.width))
        seen = np.flatnonzero(codes >= 0)
        encoded[seen, codes[seen]] = 1.0
        return encoded


def heavy_tailed(Z: np.ndarray) -> bool:
    """Whether any standardised column has values far out."""
    return bool(Z.size and np.abs(Z).max() > _HEAVY_TAIL)


def _normal_scores(values: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
    """Φ⁻¹ of the share of training values below; ties in the middle of their range.

    As in scikit-learn, the smallest and the largest value go to the ends, tied or not.
    """
    shares = np.linspace(0.0, 1.0, len(quantiles))
    scores = np.empty_like(values)
    for j, knots in enumerate(quantiles.T):
        column = values[:, j]
        upper = np.interp(column, knots, shares)
        lower = -np.interp(-column, -knots[::-1], -shares[::-1])
        share = np.where(column >= knots[-1], 1.0, 0.5 * (upper + lower))
        scores[:, j] = ndtri(np.where(column <= knots[0], 0.0, share))
    return np.clip(scores, -FARTHEST, FARTHEST, out=scores)


def _is_frame(X) -> bool:
    return hasattr(X, "dtypes") and hasattr(X, "columns")


def _column_kinds(X) -> tuple[list[int], list[int]]:
    """Positions of numeric and of other columns."""
    if not _is_frame(X):
        return list(range(X.shape[1])), []
    kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    numeric = [i for i, kind in enumerate(kinds) if kind in "iuf"]
    return numeric, [i for i, kind in enumerate(kinds) if kind not in "iuf"]


def _numbers(X, columns: list[int]) -> np.ndarray:
    """Numeric columns in float64, missing values as NaN."""
    if _is_frame(X):
        return X.iloc[:, columns].to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(X, dtype=np.float64)[:, columns]


def _objects(X, column: int) -> np.ndarray:
    return np.asarray(X.iloc[:, column] if _is_frame(X) else X[:, column], dtype=object)


def _category(value):
    """A category as text, number or None: what can be compared, and stored."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if value != value else value
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    return str(value)
