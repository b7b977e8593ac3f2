"""From a user's table to numbers that distances make sense of."""

from __future__ import annotations

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, StandardScaler

MAX_CATEGORIES = 30
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
    """

    def __init__(self, transform: str = "standard"):
        self.transform_name = transform

    def fit(self, X, dtype) -> FeatureFront:
        """Learn medians, categories, means and variances from training rows."""
        numeric, other = _column_kinds(X)
        if self.transform_name == "quantile":
            scaler = QuantileTransformer(
                n_quantiles=min(1000, X.shape[0]), output_distribution="normal", random_state=0
            )
        else:
            scaler = StandardScaler()
        imputer = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
        encoder = OneHotEncoder(
            handle_unknown="infrequent_if_exist",
            max_categories=MAX_CATEGORIES,
            sparse_output=False,
        )
        self._columns = ColumnTransformer(
            [("numeric", make_pipeline(imputer, scaler), numeric), ("other", encoder, other)]
        )
        self.dtype = dtype
        encoded = np.asarray(self._columns.fit_transform(X), dtype=np.float64)
        self._used = encoded.std(axis=0) > 0
        self.sources = _sources(self._columns, numeric, other, encoded.shape[1])[self._used]
        return self

    def transform(self, X) -> np.ndarray:
        """Rows as floats, shape (m, n_used)."""
        encoded = np.asarray(self._columns.transform(X), dtype=np.float64)
        return encoded[:, self._used].astype(self.dtype)

    def numeric_slopes(self, n_features: int) -> np.ndarray:
        """∂z/∂x of the used columns: 1/standard deviation of the numeric ones, else NaN.

        Shape (n_used,); a quantile transform has no constant slope.
        """
        slopes = np.full(len(self._used), np.nan)
        if self.transform_name == "standard":
            scale = self._columns.named_transformers_["numeric"][-1].scale_
            n_numeric = min(len(scale), n_features)
            slopes[:n_numeric] = 1.0 / scale[:n_numeric]
        return slopes[self._used]


def heavy_tailed(Z: np.ndarray) -> bool:
    """Whether any standardised column has values far out."""
    return bool(Z.size and np.abs(Z).max() > _HEAVY_TAIL)


def _column_kinds(X) -> tuple[list, list]:
    """Positions of numeric and of other columns."""
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return list(range(X.shape[1])), []
    kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    numeric = [i for i, kind in enumerate(kinds) if kind in "iuf"]
    return numeric, [i for i in range(len(kinds)) if i not in set(numeric)]


def _sources(columns: ColumnTransformer, numeric: list, other: list, width: int) -> np.ndarray:
    """For every encoded column the input column it comes from."""
    imputed = []
    if numeric:
        indicator = columns.named_transformers_["numeric"][0].indicator_
        missing = [] if indicator is None else [numeric[i] for i in indicator.features_]
        imputed = [*numeric, *missing]
    encoded = []
    if other:
        encoder = columns.named_transformers_["other"]
        kinds = zip(other, encoder.categories_, encoder.infrequent_categories_, strict=True)
        for column, categories, rare in kinds:
            n_rare = 0 if rare is None else len(rare) - 1  # the rare ones share a column
            encoded += [column] * (len(categories) - n_rare)
    sources = np.array([*imputed, *encoded], dtype=int)
    assert len(sources) == width
    return sources
