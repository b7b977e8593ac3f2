"""Arrays of other libraries are converted to NumPy arrays, and results are NumPy arrays."""

import numpy as np
import pandas as pd
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
def test_tensors_give_the_model_of_arrays(estimator, dtype):
    X, y = data(dtype)
    rows = torch.from_numpy(X).requires_grad_()
    predictions = estimator.fit(rows, torch.from_numpy(y)).predict(rows)
    assert type(predictions) is np.ndarray
    plain = estimator.fit(X, y)
    assert_array_equal(predictions, plain.predict(X))
    assert_array_equal(predictions, plain.predict(X=rows))
    assert plain.score(rows, torch.from_numpy(y)) == plain.score(X, y)


class Foreign:
    """An array of some other library that follows the array API."""

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array_namespace__(self):
        return Foreign

    def __dlpack__(self, **options):
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_other_arrays():
    X, y = data()
    model = KernelDescentRegressor(max_r2=0.9).fit(Foreign(X), Foreign(y))
    assert_array_equal(model.predict(Foreign(X)), model.predict(X))


def test_dask_collections_are_gathered():
    dask_array = pytest.importorskip("dask.array")
    dataframe = pytest.importorskip("dask.dataframe")
    X, y = data()
    plain = KernelRidgeRegressor().fit(X, y)
    rows = dask_array.from_array(X, chunks=(7, 1))
    model = KernelRidgeRegressor().fit(rows, dask_array.from_array(y, chunks=7))
    assert_array_equal(model.predict(rows), plain.predict(X))
    assert_array_equal(plain.score(rows, y), plain.score(X, y))
    found = rows.rechunk((7, 2)).map_blocks(plain.predict, drop_axis=1, dtype=X.dtype).compute()
    np.testing.assert_allclose(found, plain.predict(X))
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "high", "low")})
    tuned = BandfallRegressor(max_rounds=0, kernels=("gaussian",))
    expected = tuned.fit(table, y).predict(table)
    tuned.fit(dataframe.from_pandas(table, npartitions=3), y)
    assert_array_equal(tuned.predict(dataframe.from_pandas(table, npartitions=2)), expected)


def test_what_a_fit_stores_is_numpys(estimator):
    X, y = data()
    estimator.fit(torch.from_numpy(X), torch.from_numpy(y))
    stored = vars(estimator).values()
    assert not any(isinstance(value, torch.Tensor) for value in stored)
