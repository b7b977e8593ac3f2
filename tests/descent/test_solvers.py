"""Solvers by name and as objects."""

import inspect
import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import GridSearchCV

from bandfall import KernelDescentRegressor, floor_sweep, load_model
from bandfall.descent import Euler, Flow, get_solver
from problems import problem

X, Y, X_NEW = problem(n=15)


def predictions(**parameters):
    return KernelDescentRegressor(max_r2=0.9, **parameters).fit(X, Y).predict(X_NEW)


@pytest.mark.parametrize(
    ("name", "solver"), [("flow", Flow()), ("euler", Euler()), ("euler", Euler(step_size=0.01))]
)
def test_a_name_is_a_solver_with_its_defaults(name, solver):
    assert get_solver(name) == solver
    assert get_solver(solver) is solver
    assert_array_equal(predictions(solver=name), predictions(solver=solver))
    sweeps = [floor_sweep(X, Y, X_NEW, [0.5], solver=s, max_time=5.0) for s in (name, solver)]
    assert_array_equal(sweeps[0].new, sweeps[1].new)


def test_solvers_are_searched_over_as_objects():
    search = GridSearchCV(
        KernelDescentRegressor(max_r2=0.9), {"solver": [Flow(resolution=0.2), Euler(0.05)]}, cv=2
    ).fit(X, Y)
    assert search.best_params_["solver"] in (Flow(resolution=0.2), Euler(0.05))


def test_unknown_keywords_are_refused():
    with pytest.raises(TypeError, match=r"KernelDescentRegressor.* unexpected .*'step_size'"):
        KernelDescentRegressor(step_size=0.1)


def test_thirteen_parameters_are_enough():
    for function in (KernelDescentRegressor.__init__, floor_sweep):
        assert len(set(inspect.signature(function).parameters) - {"self"}) <= 13


@pytest.mark.parametrize("solver", [Flow(resolution=0.3, max_iter=10_000), Euler(0.05)])
def test_solvers_are_stored_with_the_model(solver, tmp_path):
    model = KernelDescentRegressor(solver=solver, max_r2=0.9).fit(X, Y)
    model.save(tmp_path / "model")
    for again in (load_model(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert again.solver == solver
        assert again.path_.solver == solver
        assert_array_equal(again.predict(X_NEW), model.predict(X_NEW))


def test_an_iteration_limit_of_the_solver_does_not_limit_truncation():
    with pytest.warns(UserWarning, match="max_iter=40"):
        model = KernelDescentRegressor(solver=Euler(max_iter=40), max_r2=0.9999).fit(X, Y)
    path = model.path_
    cut = path.truncate(time=0.99 * path.time)
    assert cut.time == pytest.approx(0.99 * path.time)
    assert np.isfinite(cut.evaluate(X_NEW)).all()
