"""A loaded model predicts without the modules that trained it."""

import subprocess
import sys

import pytest
from sklearn.datasets import make_friedman1

from bandfall import BandfallClassifier, BandfallRegressor

PREDICT = """
import sys
import numpy as np
from bandfall import load_model
load_model(sys.argv[1]).predict(np.zeros((2, 5)))
rooms = {".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("bandfall.")}
print(*sorted(rooms & {"bandfall._search", "bandfall._fitting"}))
"""


@pytest.mark.parametrize("kind", [BandfallRegressor, BandfallClassifier])
def test_loading_and_predicting_import_no_search(kind, tmp_path):
    X, y = make_friedman1(40, n_features=5, random_state=0)
    model = kind(kernels="gaussian", max_rounds=0)
    model.fit(X, y > y.mean() if kind is BandfallClassifier else y).save(tmp_path / "model")
    done = subprocess.run(
        [sys.executable, "-c", PREDICT, tmp_path / "model"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []
