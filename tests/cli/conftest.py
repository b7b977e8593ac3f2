"""What tests of commands share."""

import pytest

from bandfall import BandfallClassifier
from bandfall._cli import training
from shell import quick_flagship


@pytest.fixture
def quick_models(monkeypatch):
    """Commands train models with little to choose from."""

    def quick_classifier(**parameters):
        return BandfallClassifier(kernels=("gaussian",), max_rounds=0, **parameters)

    monkeypatch.setattr(training.bandfall, "BandfallClassifier", quick_classifier)
    monkeypatch.setattr(training.bandfall, "BandfallRegressor", quick_flagship)
