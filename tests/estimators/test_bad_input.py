"""Bad input: every refusal names the parameter, its value and what is allowed."""

import re
from numbers import Integral

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_param_validation

from bandfall import (
    BandfallClassifier,
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
from bandfall._checks import check_number
from bandfall._products import check_dense_budget
from bandfall.descent import Euler, Flow, Stopping
from bandfall.descent._schedules import MinimumSpeed
from problems import problem

DESCENT, RIDGE, FLOW = KernelDescentRegressor(), KernelRidgeRegressor(), KernelFlowRegressor()
ALL = [DESCENT, RIDGE, FLOW]
X, Y, X_NEW = problem(n=12)
NUMBERS_OF = {
    # parameter: (estimators, values out of range)
    "min_speed": ([DESCENT], [0, 0.0, -0.1, np.nan, np.inf]),
    "bandwidth": (ALL, [-1, -1e-300, np.nan, -np.inf]),
    "min_bandwidth": ([DESCENT], [-0.5, np.nan, np.inf]),
    "max_r2": ([DESCENT], [0, -1, 1.0000001, np.nan, np.inf]),
    "max_time": ([DESCENT], [0, -1, np.nan]),
    "validation_fraction": ([DESCENT], [0, -0.5, 1.5, np.nan]),
    "penalty": ([RIDGE], [-1e-9, np.nan, np.inf]),
    "time": ([FLOW], [-1, np.nan]),
    "memory_budget": (ALL, [0, -1]),
}
OUT_OF_RANGE = [
    (estimator, name, value)
    for name, (estimators, values) in NUMBERS_OF.items()
    for estimator in estimators
    for value in values
]
WRONG_TYPE = [
    (estimator, name, value)
    for name, (estimators, _) in NUMBERS_OF.items()
    for estimator in estimators
    for value in ("1", [1.0], True, 1j)
]


def refusal(name, allowed, value):
    """What every refusal says: the parameter, what is allowed, the value."""
    return (
        rf"^The '{name}' parameter of \w+ must be {allowed}.*\. Got {re.escape(repr(value))} inst"
    )


@pytest.mark.parametrize(("estimator", "name", "value"), OUT_OF_RANGE)
def test_numbers_out_of_range(estimator, name, value):
    message = refusal(name, r"an? (float|int) in the range [\[(].*[\])]", value)
    with pytest.raises(ValueError, match=message):
        clone(estimator).set_params(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(("estimator", "name", "value"), WRONG_TYPE)
def test_values_that_are_no_numbers(estimator, name, value):
    message = refusal(name, "an? (float|int) in the range", value)
    with pytest.raises(TypeError, match=message):
        clone(estimator).set_params(**{name: value}).fit(X, Y)


@pytest.mark.parametrize("value", [1.5, 1e9, np.inf])
def test_counts_are_integers(value):
    with pytest.raises(TypeError, match=refusal("memory_budget", "an int", value)):
        clone(DESCENT).set_params(memory_budget=value).fit(X, Y)
    with pytest.raises(TypeError, match=f"max_iter={value!r} must be an integer"):
        Euler(max_iter=value)


COUNTS = [
    (estimator, name)
    for estimator in (
        BandfallClassifier,
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
    for name, allowed in estimator._parameter_constraints.items()
    if any(getattr(one, "type", one) is Integral for one in allowed)
]


@pytest.mark.parametrize(("estimator", "name"), COUNTS)
def test_a_truth_value_is_no_integer(estimator, name):
    """Python counts True as 1; who writes max_rounds=True means something else."""
    with pytest.raises((TypeError, ValueError), match=f"'{name}' parameter .* Got True"):
        estimator(**{name: True}).fit(X, Y > 0)


def test_every_count_is_among_them():
    names = {name for _, name in COUNTS}
    assert {"memory_budget", "max_rounds", "n_members", "search_rows", "n_jobs"} <= names
    assert {"max_iter", "anchors", "n_starts"} <= names


@pytest.mark.parametrize(
    ("solver", "name", "values"),
    [
        (Flow, "resolution", [0, -0.1, 1e-20, np.nan, np.inf]),
        (Flow, "tolerance", [-1e-9, np.nan, np.inf]),
        (Flow, "max_dimension", [0, -1]),
        (Flow, "max_iter", [0, -5]),
        (Euler, "step_size", [0, -0.1, np.nan, np.inf]),
        (Euler, "max_iter", [0, -5]),
    ],
)
def test_settings_of_solvers(solver, name, values):
    for value in values:
        with pytest.raises(ValueError, match=f"{name}={value!r} must be an? (number|integer) in"):
            solver(**{name: value})
    for value in ("1", [1.0], True, 1j):
        with pytest.raises(TypeError, match=f"{name}=.*; got {type(value).__name__}"):
            solver(**{name: value})


def test_steps_too_small_to_shrink_by():
    with pytest.raises(ValueError, match=r"step_size=1e-20.*shrink of at least 1e-08"):
        KernelDescentRegressor(solver=Euler(1e-20)).fit(X, Y)


@pytest.mark.parametrize("scalar", [np.float32, np.float64, np.int64])
def test_numpy_scalars_are_numbers(scalar):
    model = clone(DESCENT).set_params(bandwidth=scalar(3), min_speed=scalar(1))
    assert np.all(np.isfinite(model.fit(X, Y).predict(X)))


def test_a_start_at_infinity_is_refused_and_a_constant_one_is_not():
    with pytest.raises(ValueError, match=r"'bandwidth'.* range \[0.0, inf\) or None\. Got inf"):
        clone(DESCENT).set_params(bandwidth=np.inf).fit(X, Y)
    assert np.all(np.isfinite(clone(RIDGE).set_params(bandwidth=np.inf).fit(X, Y).predict(X)))


def test_floor_above_the_start():
    with pytest.raises(ValueError, match=r"min_bandwidth=2.0 must not be above bandwidth=1.0"):
        KernelDescentRegressor(min_bandwidth=2.0, bandwidth=1.0).fit(X, Y)


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        ("rbf", ValueError, "kernel='rbf' is unknown; allowed: gaussian.*laplace.*profile"),
        (None, TypeError, r"'kernel'.* must be .*'str', a callable or .*Kernel'\. Got None"),
        (lambda u: 1 + u, ValueError, "infinity"),
    ],
)
def test_kernels(estimator, kernel, error, message):
    with pytest.raises(error, match=message):
        clone(estimator).set_params(kernel=kernel).fit(X, Y)


@pytest.mark.parametrize("solver", ["Flow", "", None, 3])
def test_solvers(solver):
    with pytest.raises(ValueError, match=rf"'solver'.*'flow'.* Got {solver!r} instead"):
        KernelDescentRegressor(solver=solver).fit(X, Y)


def test_flags():
    with pytest.raises(TypeError, match=r"'fit_intercept'.* must be .*'bool'.*Got 'yes'"):
        KernelRidgeRegressor(fit_intercept="yes").fit(X, Y)
    with pytest.raises(TypeError, match=r"'fit_intercept'.* must be .*'bool'.*Got 1"):
        KernelRidgeRegressor(fit_intercept=1).fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [
        *ALL,
        KernelRidgeCV(),
        KernelFlowCV(),
        KernelRidgeMML(),
        PaperMLPRegressor(),
        NeuralDescentRegressor(),
    ],
)
def test_every_parameter_declares_what_it_may_be(estimator):
    assert set(estimator._parameter_constraints) == set(estimator.get_params(deep=False))
    check_param_validation(type(estimator).__name__, estimator)


def with_value(array, value):
    array = np.array(array, dtype=float)
    array.flat[3] = value
    return array


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("rows", "target", "error", "message"),
    [
        (with_value(X, np.nan), Y, ValueError, "X contains NaN"),
        (with_value(X, np.inf), Y, ValueError, "X contains infinity"),
        (X, with_value(Y, np.nan), ValueError, "y contains NaN"),
        (X, with_value(Y, -np.inf), ValueError, "y contains infinity"),
        (X[:0], Y[:0], ValueError, r"0 sample\(s\)"),
        (X[:, :0], Y, ValueError, r"0 feature\(s\)"),
        (X[:, 0], Y, ValueError, "Expected 2D array, got 1D"),
        (X[None], Y, ValueError, "dim 3"),
        (X, Y[:-1], ValueError, "inconsistent numbers of samples"),
        (X, np.zeros((12, 2, 2)), ValueError, "dim 3"),
        (X, None, ValueError, "requires y"),
        (X * 1j, Y, ValueError, "Complex data not supported"),
        (sparse.csr_array(X), Y, TypeError, "[Ss]parse data"),
        (X, ["a"] * 12, ValueError, "could not convert string to float: .*'a'"),
        (X, Y * 1j, ValueError, "Complex data not supported"),
        ([["a", "b"]] * 12, Y, ValueError, "could not convert string to float: 'a'"),
        (1e200 * X, Y, ValueError, "X has .* too large for float64, where at most"),
        (X, 1e307 * Y, ValueError, "y has .* too large for float64, where .* rescale"),
        (X.astype(np.float32), 1e39 * Y, ValueError, "y has .* too large for float32"),
    ],
)
def test_data(estimator, rows, target, error, message):
    with pytest.raises(error, match=message):
        clone(estimator).fit(rows, target)


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[:, :2], "X has 2 features, but .* is expecting 3"),
        (with_value(X, np.nan), "X contains NaN"),
        (X[0], "Expected 2D array, got 1D"),
        (X[:0], r"0 sample\(s\)"),
        (1e200 * X, "X has .* too large"),
        (pd.DataFrame({"a": [1.0], "b": [2.0], "c": ["x"]}), "could not convert string"),
    ],
)
def test_new_rows(estimator, rows, message):
    model = clone(estimator).fit(X, Y)
    # Feature names that were not there in fit are warned of by scikit-learn first.
    rows_names = getattr(rows, "columns", None)
    if rows_names is not None:
        model = clone(estimator).fit(pd.DataFrame(X, columns=rows_names), Y)
    with pytest.raises(ValueError, match=message):
        model.predict(rows)


@pytest.mark.parametrize("estimator", ALL)
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(12), "Negative values in data passed to `sample_weight`"),
        (np.zeros(12), "at least one"),
        (with_value(np.ones(12), np.nan), "sample_weight contains NaN"),
        (np.ones(11), r"sample_weight.shape == \(11,\), expected \(12,\)"),
    ],
)
def test_weights(estimator, weights, message):
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(X, Y, sample_weight=weights)


@pytest.mark.parametrize("estimator", [RIDGE, FLOW])
def test_matrices_over_the_budget_are_refused_before_allocation(estimator):
    rows = np.zeros((200, 1))
    with pytest.raises(MemoryError, match=r"200 rows need 0.00 GiB, over the memory_budget of"):
        clone(estimator).set_params(memory_budget=1000).fit(rows, rows[:, 0])
    with pytest.raises(MemoryError, match=r"100000 rows need 149.01 GiB.*memory_budget of 1.00"):
        check_dense_budget(100_000, np.dtype(np.float64), 2**30)


@pytest.mark.parametrize("estimator", [RIDGE, FLOW, KernelRidgeMML(), KernelRidgeCV()])
def test_a_fit_that_failed_leaves_no_fitted_model(estimator):
    model = clone(estimator).set_params(memory_budget=1000)
    with pytest.raises(MemoryError):
        model.fit(np.random.default_rng(0).normal(size=(200, 1)), np.arange(200.0))
    with pytest.raises(NotFittedError):
        model.predict(np.zeros((2, 1)))


def test_schedules():
    for bad in ({"min_speed": 0.0}, {"min_speed": 0.1, "shrink": 0.0}):
        with pytest.raises(ValueError, match="must be a number in"):
            MinimumSpeed(**bad)


def test_helpers_tell_intervals_apart():
    check_number("a", np.inf, low=0)
    check_number("a", None, low=0, allow_none=True)
    with pytest.raises(ValueError, match=r"a=inf must be a number in \[0, inf\)"):
        check_number("a", np.inf, low=0, finite=True)
    with pytest.raises(ValueError, match=r"a=-1 must be a number in \(0, 1\] or None"):
        check_number("a", -1, low=0, high=1, low_open=True, allow_none=True)
    with pytest.raises(ValueError, match=r"a=2 must be a number in \(-inf, 1\]"):
        check_number("a", 2, high=1)
    assert Stopping().check(r2=0.5, time=1.0) is None


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("size", [5e-324, 1e-323, 1e-310])
@pytest.mark.parametrize("model", [BandfallRegressor(), *ALL, KernelRidgeCV(), KernelRidgeMML()])
def test_a_target_of_subnormal_numbers_is_refused(model, size, outputs):
    tiny = np.where(np.median(Y) < Y, size, 0.0)
    y = tiny if outputs == 1 else np.column_stack([Y, tiny])
    with pytest.raises(ValueError, match=r"y varies by no more than .*; rescale the target"):
        clone(model).fit(X, y)
