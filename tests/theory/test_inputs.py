"""Rows of features reach theory in the columns of the path, or not at all."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from bandfall import BandfallRegressor, KernelDescentRegressor
from bandfall.plotting import BoundDisplay, KernelShiftDisplay
from bandfall.theory import generalization_bound, mean_kernel_shift


def table(seed=0, n=60):
    """Features on very different scales: raw rows are far from encoded ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01]
    return X, np.sin(X[:, 0]) + 0.01 * X[:, 1], rng.normal(size=(5, 3)) * [1.0, 100.0, 0.01]


class Encoding(KernelDescentRegressor):
    """An estimator whose path lives in other columns than its features."""

    def fit(self, X, y):
        return super().fit(X / [1.0, 100.0, 0.01], y)

    def _model_rows(self, X):
        return np.asarray(X) / [1.0, 100.0, 0.01]


class Silent:
    """An estimator with a path that does not say what its columns are."""

    def __init__(self, path):
        self.path_ = path


def shifts(model, X_new):
    """Every function that takes a fitted model and rows."""
    drawn = KernelShiftDisplay.from_estimator(model, X_new)
    bound = BoundDisplay.from_estimator(model, X_new).bound
    assert_array_equal(bound.shift, generalization_bound(model, X_new).shift)
    return mean_kernel_shift(model, X_new)[1], bound.mean_kernel_shift, drawn.shift


def test_an_estimator_that_encodes_encodes_the_rows_of_theory_too():
    X, y, X_new = table()
    encoding = Encoding(max_r2=0.9).fit(X, y)
    scaled = X_new / [1.0, 100.0, 0.01]
    plain = KernelDescentRegressor(max_r2=0.9).fit(X / [1.0, 100.0, 0.01], y)
    for a, b in zip(shifts(encoding, X_new), shifts(plain, scaled), strict=True):
        assert_array_equal(a, b)
    searched = GridSearchCV(encoding, {"max_r2": [0.9]}, cv=2).fit(X, y)
    assert_array_equal(
        mean_kernel_shift(searched, X_new)[1], mean_kernel_shift(plain.path_, scaled)[1]
    )


@pytest.mark.parametrize(
    "function",
    [
        mean_kernel_shift,
        generalization_bound,
        KernelShiftDisplay.from_estimator,
        BoundDisplay.from_estimator,
    ],
)
def test_a_path_in_unknown_columns_is_refused_with_rows(function):
    X, y, X_new = table()
    model = Silent(KernelDescentRegressor(max_r2=0.9).fit(X, y).path_)
    with pytest.raises(
        TypeError, match=r"Silent cannot convert rows .* pass the path_, and X_new in"
    ):
        function(model, X_new)


def test_the_self_tuning_regressor_never_shifts_raw_rows():
    X, y, X_new = table()
    model = BandfallRegressor(max_rounds=0, kernels=("gaussian",)).fit(X, y)
    encoded = mean_kernel_shift(model.path_, model._model_rows(X_new))[1]
    assert_array_equal(mean_kernel_shift(model, X_new)[1], encoded)
