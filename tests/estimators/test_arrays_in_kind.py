"""Whatever kind of array goes in as X comes out of every estimator."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bandfall import (
    BandfallRegressor,
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
    NeuralDescentRegressor,
    PaperMLPRegressor,
)

torch = pytest.importorskip("torch")

GRID = {"bandwidths": [0.5, 1.0], "cv": 3}
ESTIMATORS = [
    KernelDescentRegressor(max_r2=0.9),
    KernelRidgeRegressor(),
    KernelFlowRegressor(),
    KernelRidgeCV(**GRID, penalties=[0.1]),
    KernelFlowCV(**GRID, times=[10.0]),
    KernelRidgeMML(n_starts=1),
    PaperMLPRegressor(max_epochs=20),
    NeuralDescentRegressor((20,), anchors=10, max_r2=0.5, random_state=0),
    BandfallRegressor(max_rounds=0, kernels=("gaussian",)),
]


@pytest.fixture(params=ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def estimator(request):
    return request.param


def data(dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2)).astype(dtype)
    return X, np.sin(X[:, 0]) + X[:, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tensors_in_give_tensors_out(estimator, dtype):
    X, y = data(dtype)
    rows = torch.from_numpy(X).requires_grad_()
    model = estimator.fit(rows, torch.from_numpy(y))
    predictions = model.predict(rows)
    assert isinstance(predictions, torch.Tensor)
    assert predictions.device == rows.device
    plain = estimator.fit(X, y)
    assert type(plain.predict(X)) is np.ndarray
    assert_array_equal(predictions.numpy(), plain.predict(X))
    assert isinstance(plain.predict(X=rows), torch.Tensor)
    assert plain.score(rows, torch.from_numpy(y)) == plain.score(X, y)


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (KernelDescentRegressor(max_r2=0.9), "staged_predict"),
        (BandfallRegressor(max_rounds=0, kernels=("gaussian",)), "staged_predict"),
        (BandfallRegressor(max_rounds=0, kernels=("gaussian",)), "gradient"),
    ],
)
def test_stages_and_gradients_come_in_kind(estimator, name):
    X, y = data()
    model = estimator.fit(X, y)
    for part, plain in zip(
        getattr(model, name)(torch.from_numpy(X)), getattr(model, name)(X), strict=True
    ):
        assert isinstance(part, torch.Tensor)
        assert_array_equal(part.numpy(), plain)


def test_what_a_fit_stores_is_numpys(estimator):
    X, y = data()
    estimator.fit(torch.from_numpy(X), torch.from_numpy(y))
    stored = vars(estimator).values()
    assert not any(isinstance(value, torch.Tensor) for value in stored)
