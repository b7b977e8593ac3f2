"""Methods stay what they are, and warnings point at the line that caused them."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor

X = np.random.default_rng(0).normal(size=(40, 2))
FAST = {"kernels": "gaussian", "max_rounds": 0}


def test_methods_stay_what_they_are():
    for estimator in (BandfallRegressor, BandfallClassifier):
        assert inspect.signature(estimator.fit) == inspect.signature(BandfallRegressor.fit)
        assert estimator.fit.__doc__ == BandfallRegressor.fit.__doc__
        model = clone(estimator(n_members=2))
        assert pickle.loads(pickle.dumps(model.fit)).__self__.n_members == 2


@pytest.mark.parametrize(
    "fit",
    [
        lambda: KernelDescentRegressor().fit(X, X[:, 0], sample_weight=np.full(40, 1e-3)),
        lambda: BandfallRegressor(**FAST).fit(np.tile(X[:5], (8, 1)), np.tile(X[:5, 0], 8)),
        lambda: cross_val_score(
            KernelDescentRegressor(), X, X[:, 0], cv=2, params={"sample_weight": np.full(40, 1e-3)}
        ),
    ],
    ids=["weights", "copies", "through scikit-learn"],
)
def test_warnings_point_at_the_line_of_the_caller(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit()
    ours = [one for one in caught if issubclass(one.category, UserWarning)]
    assert ours
    assert {one.filename for one in ours} == {__file__}


@pytest.mark.parametrize("kernels", ["gaussian", ("gaussian",)])
def test_one_kernel_may_stand_alone(kernels):
    model = BandfallRegressor(kernels=kernels, max_rounds=0).fit(X, X[:, 0])
    assert {str(one) for one in model.selection_["kernel"]} == {"gaussian"}
