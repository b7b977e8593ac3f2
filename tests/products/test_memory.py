"""A budget given is a budget kept: what is allocated beyond data and model."""

import tracemalloc

import numpy as np
import pytest

from bandfall import BandfallRegressor, KernelDescentRegressor
from bandfall._products import NumpyBackend

BUDGET = 2**23


def allocated(function):
    """Result of a call and the most bytes it had allocated at a time."""
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("n", "n_targets"), [(400, 50), (1200, 3)])
def test_training_and_truncation_stay_inside_the_budget(n, n_targets):
    """With a Krylov basis as wide as the targets, and without a budget of the default."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    Y = np.sin(X @ rng.normal(size=(3, n_targets))) + 0.1 * rng.normal(size=(n, n_targets))
    model = KernelDescentRegressor(memory_budget=BUDGET, max_r2=0.95)

    def truncated(path):
        return path.truncate(time=0.6 * path.time, backend=NumpyBackend(BUDGET))

    truncated(model.fit(X, Y).path_)  # imports, thread pools and buffers that stay
    _, peak = allocated(lambda: model.fit(X, Y))
    path = model.path_
    # A stage is recorded in units of training and once more in those of the target.
    own = 2 * path.coefficients.nbytes + 10 * X.nbytes + 10 * Y.nbytes
    assert peak < BUDGET + own
    cut, peak = allocated(lambda: truncated(path))
    assert peak < BUDGET + own
    assert 0 < len(cut) < len(path)


def test_predictions_of_many_rows_stay_within_the_budget():
    """Blocks are handed to threads a few at a time: each that waits takes memory."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 2)).astype(np.float32)
    budget = 2**20
    model = KernelDescentRegressor(memory_budget=budget, max_r2=0.5).fit(X, np.sin(2 * X[:, 0]))
    model.predict(np.tile(X, (20, 1)))  # imports, thread pools and buffers that stay
    peaks = []
    for n_rows in (10_000, 80_000):
        new = random.normal(size=(n_rows, 2)).astype(np.float32)
        tracemalloc.start()
        predictions = model.predict(new)
        peaks.append(tracemalloc.get_traced_memory()[1] - 2 * predictions.nbytes)
        tracemalloc.stop()
    assert max(peaks) < 2 * budget


def test_a_search_needs_its_budget_and_eight_kilobytes_per_row():
    """As docs/guide.md says: the paths that it compares grow with the rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 8))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=len(X))
    budget = 2**20
    model = BandfallRegressor(
        memory_budget=budget, kernels=("gaussian",), max_rounds=0, n_members=1, n_jobs=1
    )
    model.fit(X[:600], y[:600])  # imports, thread pools and buffers that stay
    _, peak = allocated(lambda: model.fit(X, y))
    assert peak < budget + 8_000 * len(X)
