"""Settings for the whole suite."""

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

# Without a GPU, Triton's kernels run in its interpreter, which must be chosen before import.
if importlib.util.find_spec("torch") is not None:
    import torch

    if not torch.cuda.is_available():
        os.environ["TRITON_INTERPRET"] = "1"

busy = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a machine may be
settings.register_profile("bandfall", max_examples=20, derandomize=True, **busy)
settings.register_profile("thorough", max_examples=200, **busy)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "bandfall"))


# What `make quick` leaves out: browsers, Node.js, Dask, torch, the paper, programs, many fits.
SLOW = (
    "cli/",
    "explore/",
    "neural/",
    "onnx_export/",
    "paper/",
    "products/",
    "report/",
    "rivals/",
    "test_benchmarks.py",
    "test_cluster.py",
    "test_dask_",
    "test_demo.py",
    "test_docs.py",
    "test_oracle.py",
    "test_site.py",
    "estimators/test_estimator_checks.py",
    "estimators/test_exchangeable_rows.py",
    "estimators/test_mlp.py",
    "estimators/test_neural_estimator.py",
    "files/test_hostile.py",
    "fitting/test_class_loss.py",
    "fitting/test_leaves.py",
    "targets/test_weights.py",
    "theory/test_bound.py",
)


def pytest_collection_modifyitems(items):
    """Mark the tests of slow files."""
    for item in items:
        _, _, place = item.path.as_posix().rpartition("/tests/")
        if place.startswith(SLOW):
            item.add_marker("slow")


@pytest.fixture
def no_least_time(monkeypatch):
    """Fits may take as little as `max_seconds` says."""
    monkeypatch.setattr("bandfall._estimators.self_tuning.SelfTuning._shortest", 0.0)


@pytest.fixture(scope="session")
def chromium():
    """A real browser, shared by all tests of a worker."""
    from browsers import Browser

    browser = Browser()
    yield browser
    browser.close()
