"""BLAS works on one thread where matrices are small, and gets its threads back."""

import os
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from bandfall import (
    KernelDescentRegressor,
    KernelFlowCV,
    KernelFlowRegressor,
    KernelRidgeCV,
    KernelRidgeMML,
    KernelRidgeRegressor,
)
from bandfall import (
    _closed_form as closed_form,
)
from bandfall._threads import blas_threads_for
from bandfall.kernels import Kernel

GRID = {"bandwidths": [0.5, 1.0], "cv": 3}


def blas_threads():
    """Threads of every BLAS that is loaded."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def data(n=40):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0])


@pytest.fixture
def three_threads():
    """BLAS as a user might have set it; other tests get back what they had."""
    with threadpool_limits(3, user_api="blas"):
        yield
        assert set(blas_threads()) == {3}


def spied(monkeypatch):
    """Threads of BLAS at every eigendecomposition and Cholesky factorisation."""
    seen = []

    def spy(module, name):
        original = getattr(module, name)

        def watched(*arguments, **options):
            seen.extend(blas_threads())
            return original(*arguments, **options)

        monkeypatch.setattr(module, name, watched)

    spy(np.linalg, "eigh")
    spy(closed_form.linalg, "cho_factor")
    spy(closed_form.linalg.lapack, "dpotrf")
    return seen


@pytest.mark.parametrize(
    "estimator",
    [
        KernelRidgeRegressor(),
        KernelRidgeRegressor(penalty=0.0),
        KernelFlowRegressor(),
        KernelRidgeCV(**GRID, penalties=[0.1, 1.0]),
        KernelFlowCV(**GRID, times=[1.0, 10.0]),
        KernelRidgeMML(n_starts=2),
    ],
)
def test_small_matrices_are_decomposed_on_one_thread(estimator, monkeypatch, three_threads):
    seen = spied(monkeypatch)
    estimator.fit(*data())
    assert set(seen) == {1}


def test_large_matrices_keep_all_threads(three_threads):
    with blas_threads_for(50, few=49):
        assert set(blas_threads()) == {3}
    with blas_threads_for(49, few=49):
        assert set(blas_threads()) == {1}


class FailingError(Exception):
    """Raised inside a fit."""


def failing_profile(u):
    """A kernel that breaks once a fit is under way."""
    if np.size(u) >= 800:  # the rows' own kernel matrix, not a check of the profile
        raise FailingError
    return np.exp(-u * u)


def failing_values(q, xp, work=None):
    """The same, for a kernel that has a derivative."""
    return failing_profile(q)


FAILING = Kernel("failing", 2, failing_values, failing_values, max_derivative=1.0)


@pytest.mark.parametrize(
    "estimator",
    [
        KernelRidgeRegressor(failing_profile),
        KernelRidgeCV(failing_profile, **GRID),
        KernelFlowCV(failing_profile, **GRID),
        KernelRidgeMML(FAILING),
        KernelDescentRegressor(failing_profile),
    ],
)
def test_threads_come_back_after_errors(estimator, three_threads):
    with pytest.raises(FailingError):
        estimator.fit(*data())
    assert set(blas_threads()) == {3}


# In a process of its own, where no limit of a test is in force: threadpoolctl lets only the
# thread that set one change it.
TWO_AT_ONCE = """
import threading
import numpy as np
from threadpoolctl import threadpool_limits
from bandfall import KernelDescentRegressor, KernelRidgeCV, KernelRidgeMML
from bandfall import _threads as threads
from bandfall._threads import blas_threads_for
from products.test_threads import FAILING, FailingError, blas_threads, data

# Set by a thread that ends, the number belongs to nobody.
thread = threading.Thread(target=threadpool_limits, args=(3, "blas"))
thread.start()
thread.join()
assert set(blas_threads()) == {3}
inside, release, seen = threading.Event(), threading.Event(), []

def waiting_profile(u):
    if np.size(u) >= 800 and not inside.is_set():
        inside.set()
        assert release.wait(60)
        seen.extend(blas_threads())
    return np.exp(-u * u)

def slow():
    KernelRidgeCV(waiting_profile, bandwidths=[1.0], penalties=[0.1], cv=3).fit(*data())

def quick():
    KernelDescentRegressor(max_r2=0.5).fit(*data())
    try:
        KernelRidgeMML(FAILING).fit(*data())
    except FailingError:
        seen.extend(blas_threads())

def at_once(first, second):
    inside.clear(), release.clear(), seen.clear()
    thread = threading.Thread(target=first)
    thread.start()
    assert inside.wait(60)
    second()
    release.set()
    thread.join()

at_once(slow, quick)  # the first to come is the last to leave
assert set(seen) == {1}, seen
assert set(blas_threads()) == {3}

quick()  # the main thread has set limits before
at_once(slow, quick)
assert set(seen) == {1}, seen
assert set(blas_threads()) == {3}

def long():
    with blas_threads_for(1):
        inside.set()
        assert release.wait(60)

inside.clear(), release.clear()
thread = threading.Thread(target=long)
with blas_threads_for(1):
    thread.start()
    assert inside.wait(60)
assert set(blas_threads()) == {1}  # the first to come has left
release.set()
thread.join()
assert set(blas_threads()) == {3}
"""


def test_threads_come_back_when_two_fit_at_once():
    search_path = os.pathsep.join(path for path in sys.path if path)
    run = subprocess.run(
        [sys.executable, "-c", TWO_AT_ONCE],
        env={**os.environ, "PYTHONPATH": search_path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr


def test_an_interrupt_on_the_way_in_leaves_the_threads_alone(monkeypatch, three_threads):
    def interrupted(self, **limits):
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(ThreadpoolController, "limit", interrupted)
    with pytest.raises(KeyboardInterrupt), blas_threads_for(1):
        pass
    assert set(blas_threads()) == {3}
    with blas_threads_for(1):
        assert set(blas_threads()) == {1}
