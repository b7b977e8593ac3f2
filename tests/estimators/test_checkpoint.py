"""Training that is cut off goes on where it was, and nowhere else."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import KernelDescentRegressor
from bandfall._files import ModelFileError, load_model
from bandfall._files.checkpoint import load_path, save_path
from bandfall.descent import Euler, Flow
from problems import problem

X, y, X_NEW = problem(n=60)


class CutOff(Exception):
    """Stands for whatever ends a process."""


class CutsOff:
    """A callback that raises after some stages."""

    def __init__(self, n_stages):
        self.n_stages = n_stages

    def setup(self, estimator, context): ...

    def teardown(self, estimator, context): ...

    def on_fit_task_begin(self, estimator, context): ...

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.n_stages -= 1
        if self.n_stages == 0:
            raise CutOff
        return False


def cut_off(model, file, n_stages, **weights):
    pytest.importorskip("sklearn.callback")
    with pytest.raises(CutOff):
        model.set_callbacks(CutsOff(n_stages)).fit(X, y, checkpoint=file, **weights)
    return model.set_callbacks()


@pytest.mark.parametrize("solver", [Flow(), Euler(0.01)])
@pytest.mark.parametrize("device", [None, "torch"])
@pytest.mark.parametrize("n_stages", [1, 4])
def test_goes_on_as_if_nothing_had_happened(tmp_path, solver, device, n_stages):
    file = tmp_path / "fit.checkpoint"
    model = KernelDescentRegressor(solver=solver, device=device, max_r2=0.95)
    cut_off(model, file, n_stages)
    begun = load_path(file)
    assert len(begun) == n_stages
    assert begun.time > 0
    whole = KernelDescentRegressor(solver=solver, device=device, max_r2=0.95).fit(X, y)
    model.fit(X, y, checkpoint=file)
    assert_allclose(model.path_.log.bandwidth, whole.path_.log.bandwidth, rtol=1e-7)
    assert_allclose(model.path_.log.time, whole.path_.log.time, atol=1e-5)
    assert_allclose(model.predict(X_NEW), whole.predict(X_NEW), atol=1e-5)


def test_weights_and_held_out_rows(tmp_path):
    options = {"validation_fraction": 0.2, "random_state": 0}
    weights = {"sample_weight": 1.0 + np.arange(len(y)) % 3}
    file = tmp_path / "fit.checkpoint"
    model = cut_off(KernelDescentRegressor(**options), file, 3, **weights)
    whole = KernelDescentRegressor(**options).fit(X, y, **weights)
    model.fit(X, y, checkpoint=file, **weights)
    assert_allclose(model.predict(X_NEW), whole.predict(X_NEW), atol=1e-5)
    assert_allclose(model.validation_errors_, whole.validation_errors_, rtol=1e-4)


def test_a_finished_fit_is_not_repeated_and_can_be_prolonged(tmp_path):
    file = tmp_path / "fit.checkpoint"
    first = KernelDescentRegressor(max_r2=0.8).fit(X, y, checkpoint=file)
    again = KernelDescentRegressor(max_r2=0.8).fit(X, y, checkpoint=file)
    assert again.path_.n_products < 1.1 * first.path_.n_products
    assert_allclose(again.predict(X_NEW), first.predict(X_NEW), atol=1e-6)
    longer = KernelDescentRegressor(max_r2=0.9).fit(X, y, checkpoint=file)
    assert longer.path_.r2 > 0.89
    shorter = KernelDescentRegressor(max_r2=0.7).fit(X, y, checkpoint=file)
    assert_allclose(shorter.path_.r2, 0.7, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "rows", "what"),
    [
        ({}, X + 1.0, "X"),
        ({"kernel": "matern32"}, X, "kernel"),
        ({"solver": Euler(0.001)}, X, "solver"),
        ({"solver": Flow(resolution=0.2)}, X, "settings of the solver"),
        ({"min_speed": 0.5}, X, "min_speed"),
        ({"bandwidth": 0.3}, X, "bandwidth"),
    ],
)
def test_a_file_of_another_fit_is_refused(tmp_path, options, rows, what):
    file = tmp_path / "fit.checkpoint"
    KernelDescentRegressor(max_r2=0.5).fit(X, y, checkpoint=file)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=f"of another fit .*{what}"):
        KernelDescentRegressor(max_r2=0.5, **options).fit(rows, y, checkpoint=file)
    with pytest.raises(ValueError, match=r"of another fit .*y"):
        KernelDescentRegressor(max_r2=0.5).fit(X, 2 * y, checkpoint=file)
    assert file.read_bytes() == before


def test_a_file_of_another_start_bandwidth_is_refused(tmp_path):
    file = tmp_path / "fit.checkpoint"
    KernelDescentRegressor(bandwidth=0.3, max_r2=0.5).fit(X, y, checkpoint=file)
    for bandwidth in (None, 3.0):
        with pytest.raises(ValueError, match=r"of another fit .*bandwidth"):
            KernelDescentRegressor(bandwidth=bandwidth, max_r2=0.5).fit(X, y, checkpoint=file)
    again = KernelDescentRegressor(bandwidth=0.3, max_r2=0.9).fit(X, y, checkpoint=file)
    whole = KernelDescentRegressor(bandwidth=0.3, max_r2=0.9).fit(X, y)
    assert_allclose(again.predict(X_NEW), whole.predict(X_NEW), atol=1e-5)


def test_a_path_without_stages_is_continued(tmp_path):
    """An empty path is a path: its fit is as much another one as that of any other."""
    file = tmp_path / "fit.checkpoint"
    KernelDescentRegressor().fit(X, np.ones_like(y), checkpoint=file)
    with pytest.raises(ValueError, match=r"of another fit .*y"):
        KernelDescentRegressor().fit(X, y, checkpoint=file)


def test_an_unwritable_checkpoint_fails_before_training(tmp_path):
    with pytest.raises(FileNotFoundError):
        KernelDescentRegressor().fit(X, y, checkpoint=tmp_path / "nowhere" / "file")
    with pytest.raises(ModelFileError, match="never code"):
        KernelDescentRegressor(kernel=lambda u: np.exp(-u)).fit(X, y, checkpoint=tmp_path / "f")


def test_checkpoints_and_models_are_told_apart(tmp_path):
    model = KernelDescentRegressor(max_r2=0.5).fit(X, y, checkpoint=tmp_path / "path")
    model.save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="holds no Path"):
        load_path(tmp_path / "model")
    with pytest.raises(ModelFileError, match="holds no estimator"):
        load_model(tmp_path / "path")
    (tmp_path / "path").write_bytes((tmp_path / "path").read_bytes()[:-9])
    with pytest.raises(ModelFileError):
        KernelDescentRegressor(max_r2=0.5).fit(X, y, checkpoint=tmp_path / "path")
    save_path(model.path_, tmp_path / "path")
    assert_allclose(load_path(tmp_path / "path").coefficients, model.path_.coefficients)
