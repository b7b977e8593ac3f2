"""Test R² of Algorithm 1 against the published scripts' on every stored split."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bandfall import KernelDescentRegressor
from bandfall.datasets import paper_splits
from shared_files import data_directory, shared_file

STORED_NAMES = {
    "cpu": "compactiv",
    "power": "power",
    "superconductors": "superconduct",
    "uk_temperature": "uktemp",
}


def differences(name, solver, start):
    """Our test R² minus the stored one, on all splits of a set at all speeds."""
    stored = json.loads(shared_file("oracle/splits.json").read_text())[STORED_NAMES[name]]
    splits = paper_splits(name, n_splits=len(stored), data_home=data_directory())
    found = [
        KernelDescentRegressor(
            solver=solver,
            min_speed=float(speed),
            bandwidth=start(split),
            min_bandwidth=1e-3,
            max_time=1000.0,
        )
        .fit(split.X_train, split.y_train)
        .score(split.X_test, split.y_test)
        - expected
        for number, split in enumerate(splits)
        for speed, expected in stored[str(number)]["kgdd"].items()
    ]
    assert len(found) == 50
    return np.abs(found)


def start_of_the_scripts(split):
    """The largest distance from any row, test rows included, to a training row."""
    return cdist(np.vstack([split.X_train, split.X_test]), split.X_train).max()


def default_start(split):
    return None


@pytest.mark.parametrize("name", STORED_NAMES)
def test_euler_from_the_scripts_start_gives_their_numbers(name):
    found = differences(name, "euler", start_of_the_scripts)
    # All that is left: the scripts take their first step before they test the speed.
    assert found.max() < 1e-3
    assert np.median(found) < 1e-6


@pytest.mark.parametrize("name", STORED_NAMES)
@pytest.mark.parametrize("solver", ["euler", "flow"])
def test_start_bandwidth_of_the_training_rows_changes_little(name, solver):
    found = differences(name, solver, default_start)
    assert found.max() < 0.02
    assert np.median(found) < 0.002
