"""Predictions as a service needs them: from many threads at once, and of very many rows."""

import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bandfall import KernelDescentRegressor
from model_files import estimators, table


@pytest.mark.parametrize("name", ["bandfall", "descent", "ridge-cv", "pipeline"])
def test_predict_is_thread_safe(name):
    """Different rows from eight threads at once: each gets its own answer, bit for bit."""
    X, y = table(n=80)
    model = estimators()[name].fit(X, y)
    batches = [table(n=n, seed=n)[0] for n in (1, 2, 30, 300) * 8]
    expected = [model.predict(batch) for batch in batches]
    barrier = threading.Barrier(8)

    def work(i):
        if i < 8:
            barrier.wait(timeout=30)
        return model.predict(batches[i])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(work, range(len(batches))))
    finally:
        sys.setswitchinterval(interval)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_million_rows_in_bounded_memory():
    """Against 16 training rows: the matrix of distances alone would be 128 MB per stage."""
    X, y = table(n=16, d=2)
    model = KernelDescentRegressor(max_time=1.0, memory_budget=2**24).fit(X, y)
    X_new = np.random.default_rng(0).normal(size=(1_000_000, 2))
    tracemalloc.start()
    try:
        predictions = model.predict(X_new)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert predictions.shape == (1_000_000,)
    # Centred copies of the rows, the result, and the budget for blocks.
    assert peak < 3 * X_new.nbytes + 2 * predictions.nbytes + 2**25
