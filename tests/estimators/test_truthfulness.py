"""What a fitted model says of itself is true: recomputed plainly from what it holds.

Over random data, dtypes, weights, offsets, scales and stops, every R², status, log, score and
error that an estimator reports is computed again by naive sums over its stored coefficients.
"""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import expm

import reference
from bandfall import (
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
from bandfall._targets.losses import evidence_weights
from bandfall.descent import Euler, Status
from bandfall.kernels._kernel import KERNELS
from problems import seeds

pytestmark = pytest.mark.filterwarnings(
    "ignore:sample_weight sums to",
    "ignore:step_size=",
    "ignore:training ended",
    "ignore:the network has",
    "ignore:values far outside",  # a row of weight zero
)
FEW = settings(deadline=None, max_examples=25)
FEWER = settings(deadline=None, max_examples=8)


@dataclass(frozen=True)
class Case:
    """Rows as a user might have them; `unit` is the standard deviation of y."""

    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    unit: float
    spread: float

    @property
    def columns(self):
        """Targets (n, k) in float64, as they were given."""
        return np.asarray(self.y, dtype=np.float64).reshape(len(self.y), -1)

    @property
    def counts(self):
        """How often each row counts."""
        return np.ones(len(self.X)) if self.weights is None else self.weights

    def used(self):
        """Rows X and y in float64 that count at all, and how often."""
        rows = self.counts > 0
        return self.X[rows].astype(np.float64), self.columns[rows], self.counts[rows]

    def rounding(self, model_dtype):
        """What the dtype leaves unknown of a target, in its standard deviations."""
        size = float(np.abs(self.columns).max()) / self.unit
        return float(np.finfo(model_dtype).eps) + float(np.finfo(np.float64).eps) * size


@st.composite
def cases(draw, weighted=True, single=False, distinct=False, most=14):
    """Random rows; float32 has less room for offsets and scales than float64."""
    rng = np.random.default_rng(draw(seeds))
    n, d = draw(st.integers(4, most)), draw(st.integers(1, 3))
    dtype = draw(st.sampled_from([np.float64, np.float64, np.float32]))
    room = 100 if dtype == np.float64 else 12
    spread, unit = (10.0 ** draw(st.sampled_from([0, 0, -room, room])) for _ in range(2))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3, 1e6, 1e9]))
    X = rng.normal(size=(n, d)) + draw(st.sampled_from([0.0, 10.0]))
    if not distinct and draw(st.booleans()):
        X[-1] = X[0]  # a row repeated, with another target
    y = np.sin(2 * X[:, :1] - X[:, -1:]) + 0.1 * rng.normal(size=(n, 1))
    extra = draw(st.sampled_from(["none", "none", "second", "constant"]))
    if extra != "none" and not single:
        y = np.hstack([y, rng.normal(size=(n, 1)) if extra == "second" else np.full((n, 1), 0.3)])
    y = unit * (y / y[:, 0].std() + offset)
    weights = draw(st.sampled_from(["none", "counts", "shares", "uneven"])) if weighted else "none"
    weights = {
        "none": None,
        "counts": rng.integers(0, 4, size=n).astype(float),
        "shares": np.full(n, 1.0 / n),
        "uneven": 10.0 ** rng.uniform(-3, 3, size=n),
    }[weights]
    if weights is not None and np.count_nonzero(weights) < 3:
        weights = np.ones(n)
    y = y[:, 0] if y.shape[1] == 1 and draw(st.booleans()) else y
    return Case((spread * X).astype(dtype), y, weights, unit, spread)


def check_path(
    path, X, y, weights, rounding, *, max_r2=None, max_time=math.inf, floor=math.inf, cut_from=None
):
    """Residual, R², log and status of a path over the rows X, with targets y."""
    name = path.kernel.name
    coefficients = path.coefficients.astype(np.float64)
    sums = reference.kernel_sum(name, X, X, path.bandwidths, coefficients)
    residuals = (y - path.offset) - sums
    residuals[:, :, np.ptp(y, axis=0) == 0] = 0.0
    r2 = [reference.pooled_r2(y, residual, weights) for residual in residuals]
    unit = path.scale.max() / math.sqrt(weights.sum())
    # Errors of a solver and of rounding are shares of ‖y‖, per stage; those of kernel entries
    # are multiplied by the coefficients.
    slack = (1e-7 + 200 * rounding) * (1 + len(path.stages))
    if unit > 0:
        slack += entry_rounding(cut_from or path) / unit
    assert_allclose(path.residual, residuals[-1], rtol=0, atol=slack * unit * math.sqrt(len(y)))
    assert path.r2 == pytest.approx(r2[-1], abs=slack)
    assert path.log.duration.sum() == pytest.approx(path.time, rel=1e-9)
    for i, stage in enumerate(path.stages):
        row = int(np.flatnonzero(path.log.time == stage.time)[0])
        assert path.log.bandwidth[row] == stage.bandwidth
        assert path.log.r2[row] == pytest.approx(r2[i], abs=slack)
        speed = reference.r2_speed(name, X, y, residuals[i], weights, stage.bandwidth)
        assert path.log.speed[row] == pytest.approx(speed, rel=1e-3, abs=slack * weights.sum())
    check_status(path, r2[-1], slack, max_r2, max_time, floor)


def entry_rounding(path):
    """What rounding of kernel entries makes of a path's sums."""
    sizes = np.abs(path.coefficients).sum(axis=(0, 1), dtype=np.float64)
    return 20 * float(np.finfo(path.X.dtype).eps) * float(sizes.max())


def check_status(path, r2, slack, max_r2, max_time, floor):
    """The status says what is so."""
    if path.status is Status.R2_REACHED:
        assert r2 >= max_r2 - slack
    elif path.status is Status.TIME_REACHED:
        assert path.time == max_time
    elif path.status is Status.STALLED:
        assert r2 < max_r2
        assert path.bandwidth <= floor
    elif path.status is Status.CONSTANT_TARGET:
        assert not path.scale.any()
    else:
        assert path.status is Status.CUT_BACK
    if path.status is not Status.CUT_BACK:
        assert path.time <= max_time


def naive_score(y, predictions, weights):
    """R² of predictions, the mean over targets, as scikit-learn defines it."""
    centred = y - np.average(y - y[0], axis=0, weights=weights) - y[0]
    left = (weights[:, None] * (y - predictions) ** 2).sum(axis=0)
    total = (weights[:, None] * centred**2).sum(axis=0)
    varying = total > 0
    scores = np.where(varying, 1 - left / np.where(varying, total, 1.0), (left == 0) * 1.0)
    return float(scores.mean())


def check_predictions(model, case, predictions, rounding):
    """`predict` and `score` at the rows of a case."""
    predicted = model.predict(case.X).reshape(predictions.shape)
    digits = float(np.finfo(predicted.dtype).eps)
    slack = (1e-7 + 400 * rounding) * case.unit
    assert_allclose(predicted, predictions, rtol=max(1e-12, digits), atol=slack)
    if np.ptp(case.columns, axis=0).all():  # else scikit-learn asks for equality to the bit
        score = model.score(case.X, case.y, sample_weight=case.weights)
        truth = naive_score(case.columns, predicted.astype(np.float64), case.counts)
        check_score(score, truth, case)


def check_score(score, truth, case):
    """A score, whose mean of y is scikit-learn's to round."""
    slack = 1e-9 + 100 * case.rounding(np.float64)
    assert score == pytest.approx(truth, rel=slack, abs=slack)


STOPS = {
    "max_r2": st.sampled_from([0.3, 0.9, 0.999, 1.0]),
    "max_time": st.sampled_from([None, 0.5, 20.0]),
    "min_speed": st.sampled_from([0.02, 0.1, 0.5]),
}


@FEW
@given(
    case=cases(),
    kernel=st.sampled_from(sorted(KERNELS)),
    solver=st.sampled_from(["flow", "flow", Euler(0.05)]),
    floor=st.sampled_from([0.0, 0.0, 0.3]),
    stops=st.fixed_dictionaries(STOPS),
)
def test_descent(case, kernel, solver, floor, stops):
    if solver != "flow":
        stops = {**stops, "max_time": 20.0, "max_r2": min(stops["max_r2"], 0.999)}
    model = KernelDescentRegressor(
        kernel, solver=solver, min_bandwidth=floor * case.spread, **stops
    ).fit(case.X, case.y, sample_weight=case.weights)
    path, (X, y, weights) = model.path_, case.used()
    limits = {"max_r2": stops["max_r2"], "max_time": stops["max_time"] or math.inf}
    rounding = case.rounding(case.X.dtype)
    check_path(path, X, y, weights, rounding, floor=floor * case.spread, **limits)
    sums = reference.kernel_sum(
        kernel, X, case.X.astype(np.float64), path.bandwidths, path.coefficients.astype(float)
    )
    rounding += entry_rounding(path) / case.unit
    check_predictions(model, case, path.offset + sums[-1], rounding)
    if path.stages:
        check_compression(path, X, y, weights, rounding)
        check_truncation(path, X, y, weights, case.rounding(case.X.dtype))


def check_compression(path, X, y, weights, rounding):
    """A compressed path: error, R² and residual are its own, and add up."""
    exact = reference.kernel_sum(
        path.kernel.name, X, X, path.bandwidths, path.coefficients.astype(float)
    )[-1]
    compressed = path.compress(0.3)
    again = compressed.compress(0.6)
    for merged in (compressed, again):
        coefficients = merged.coefficients.astype(float)
        sums = reference.kernel_sum(path.kernel.name, X, X, merged.bandwidths, coefficients)[-1]
        size = math.sqrt(np.mean(exact**2))
        error = math.sqrt(np.mean((sums - exact) ** 2)) / size if size else 0.0
        slack = (1e-6 + 200 * rounding) * (1 + len(path.stages))
        assert error <= merged.compression_error + slack
        residual = y - path.offset - sums
        residual[:, np.ptp(y, axis=0) == 0] = 0.0
        assert merged.r2 == pytest.approx(reference.pooled_r2(y, residual, weights), abs=slack)


def check_truncation(path, X, y, weights, rounding):
    """A path cut short is what it says it is."""
    for limits in ({"time": 0.5 * path.time}, {"r2": 0.5 * max(path.r2, 0.0)}):
        cut = path.truncate(**limits)
        goals = {"max_r2": limits.get("r2", math.inf), "max_time": limits.get("time", math.inf)}
        check_path(cut, X, y, weights, rounding, **goals, cut_from=path)


@FEW
@given(case=cases(single=True), seed=st.integers(0, 9), stops=st.fixed_dictionaries(STOPS))
def test_descent_with_rows_held_out(case, seed, stops):
    model = KernelDescentRegressor(validation_fraction=0.3, random_state=seed, **stops)
    model.fit(case.X, case.y, sample_weight=case.weights)
    path, (X, y, weights) = model.path_, case.used()
    order = np.random.RandomState(seed).permutation(len(X))
    n_held_out = math.ceil(0.3 * len(X))
    held_out, train = np.sort(order[:n_held_out]), np.sort(order[n_held_out:])
    assert_allclose(path.X, X[train], rtol=1e-6)
    limits = {"max_r2": stops["max_r2"], "max_time": stops["max_time"] or math.inf}
    rounding = case.rounding(case.X.dtype)
    check_path(path, X[train], y[train], weights[train], rounding, floor=0.0, **limits)
    if not path.stages:
        return
    coefficients = path.coefficients.astype(np.float64)
    sums = reference.kernel_sum("gaussian", X[train], X[held_out], path.bandwidths, coefficients)
    variance = np.average((y[train] - path.offset)[:, 0] ** 2, weights=weights[train])
    errors = ((y[held_out] - path.offset - sums[1:]) ** 2)[:, :, 0] / variance
    errors = np.average(errors, axis=1, weights=weights[held_out])
    kept = model.validation_errors_[: len(errors)]
    assert_allclose(kept, errors, rtol=1e-3, atol=1e-6 + 400 * rounding)
    assert np.argmin(model.validation_errors_) == len(errors) - 1


@FEW
@given(
    case=cases(),
    kernel=st.sampled_from(sorted(KERNELS)),
    bandwidth=st.sampled_from([0.0, 0.3, 2.0, math.inf]),
    penalty=st.sampled_from([1e-3, 1.0]),
    fit_intercept=st.booleans(),
)
def test_ridge(case, kernel, bandwidth, penalty, fit_intercept):
    model = KernelRidgeRegressor(
        kernel, bandwidth=bandwidth * case.spread, penalty=penalty, fit_intercept=fit_intercept
    ).fit(case.X, case.y, sample_weight=case.weights)
    X, y, weights = case.used()
    check_offset(model, y, weights, fit_intercept, case)
    K = kernel_matrix(kernel, X, X, model.bandwidth)
    # (K + λ/w) c = y − ȳ: a row of weight w pays a w-th of the penalty (Equation 4).
    left = (
        K @ model.kernel_sum_.coefficients[0]
        + penalty / weights[:, None] * model.kernel_sum_.coefficients[0]
    )
    check_equal(left, y - model.kernel_sum_.offset, y - model.kernel_sum_.offset)
    check_sum(model, case)


@FEW
@given(
    case=cases(),
    kernel=st.sampled_from(sorted(KERNELS)),
    bandwidth=st.sampled_from([0.0, 0.3, 2.0, math.inf]),
    time=st.sampled_from([0.0, 0.1, 10.0, 1e3]),
    fit_intercept=st.booleans(),
)
def test_flow(case, kernel, bandwidth, time, fit_intercept):
    model = KernelFlowRegressor(
        kernel, bandwidth=bandwidth * case.spread, time=time, fit_intercept=fit_intercept
    ).fit(case.X, case.y, sample_weight=case.weights)
    X, y, weights = case.used()
    check_offset(model, y, weights, fit_intercept, case)
    root = np.sqrt(weights)[:, None]
    K = root * kernel_matrix(kernel, X, X, model.bandwidth) * root.T
    # S K c = (I − e^{−tSKS}) S (y − ȳ) with S = √w (Equation 3).
    gained = (np.eye(len(X)) - expm(-time * K)) @ (root * (y - model.kernel_sum_.offset))
    check_equal(
        K @ (model.kernel_sum_.coefficients[0] / root),
        gained,
        root * (y - model.kernel_sum_.offset),
    )
    check_sum(model, case)


def kernel_matrix(name, A, B, bandwidth):
    """`reference.kernel`, with its limit at infinity."""
    return (
        np.ones((len(A), len(B)))
        if bandwidth == math.inf
        else reference.kernel(name, A, B, bandwidth)
    )


def check_offset(model, y, weights, fit_intercept, case):
    """The mean of the target, or nothing."""
    mean = y[0] + np.average(y - y[0], axis=0, weights=weights)
    assert_allclose(
        model.kernel_sum_.offset, mean * fit_intercept, rtol=1e-14, atol=1e-14 * case.unit
    )


def check_equal(actual, desired, targets):
    """Columns agree to nine digits of the largest target."""
    size = np.abs(targets).max(axis=0)
    size = np.where(size > 0, size, 1.0)
    assert_allclose(actual / size, desired / size, rtol=0, atol=1e-9)


def check_sum(model, case):
    """Predictions are the sum over the stored coefficients."""
    K = kernel_matrix(model.kernel, case.X.astype(np.float64), model.kernel_sum_.X, model.bandwidth)
    check_predictions(
        model,
        case,
        model.kernel_sum_.offset + K @ model.kernel_sum_.coefficients[0],
        case.rounding(case.X.dtype),
    )


GRIDS = {
    KernelRidgeCV: ("penalty", "penalties", [1e-2, 1.0], reference.ridge),
    KernelFlowCV: ("time", "times", [1.0, 30.0], reference.flow),
}


@FEWER
@given(
    case=cases(weighted=False, single=True, distinct=True),
    estimator=st.sampled_from(list(GRIDS)),
    kernel=st.sampled_from(["gaussian", "matern12"]),
    cv=st.sampled_from([2, 3, "loo"]),
)
def test_cross_validation(case, estimator, kernel, cv):
    name, plural, values, fit = GRIDS[estimator]
    bandwidths = case.spread * np.array([0.5, 2.0])
    model = estimator(kernel, bandwidths=bandwidths, cv=cv, **{plural: values})
    model.fit(case.X, case.y)
    X, y, _ = case.used()
    X, y = X / case.spread, (y[:, 0] - y[0, 0]) / case.unit
    n = len(X)
    folds = np.array_split(np.arange(n), n if cv == "loo" else cv)
    table = []
    for parameters in model.cv_results_["params"]:
        scores = []
        for fold in folds:
            train = np.setdiff1d(np.arange(n), fold)
            settings_ = {"bandwidth": parameters["bandwidth"] / case.spread, name: parameters[name]}
            predictions = fit(X[train], y[train], X[fold], name=kernel, **settings_)
            scores.append(-np.mean((predictions - y[fold]) ** 2))
        table.append(np.mean(scores))
    slack = 1e-6 + 1e3 * case.rounding(np.float64)
    means = model.cv_results_["mean_test_score"] / case.unit**2
    assert_allclose(means, table, rtol=1e-5, atol=slack)
    assert model.best_score_ == model.cv_results_["mean_test_score"].max()
    assert model.best_params_ == model.cv_results_["params"][int(np.argmax(means))]
    check_sum(model.best_estimator_, Case(X * case.spread, case.columns, None, case.unit, 1.0))


@FEWER
@given(case=cases(weighted=False, single=True), kernel=st.sampled_from(["gaussian", "matern32"]))
def test_marginal_likelihood(case, kernel):
    bounds = (0.1 * case.spread, 5.0 * case.spread)
    model = KernelRidgeMML(
        kernel, fit_amplitude=True, bandwidth_bounds=bounds, penalty_bounds=(1e-2, 1.0), n_starts=1
    ).fit(case.X, case.y)
    X, y, _ = case.used()
    centred = y[:, 0] - y[0, 0] - np.mean(y[:, 0] - y[0, 0])
    A = reference.kernel(kernel, X, X, model.bandwidth_) + model.penalty_ * np.eye(len(X))
    fit = centred / case.unit @ np.linalg.solve(A, centred / case.unit)
    amplitude = fit / len(X) * case.unit**2
    slack = 1e-6 + 1e3 * case.rounding(case.X.dtype)
    assert_allclose(model.amplitude_, amplitude, rtol=slack)
    criterion = len(X) * (math.log(amplitude) + 1) + np.linalg.slogdet(A)[1]
    assert model.criterion_ == pytest.approx(criterion, abs=len(X) * slack)
    assert model.criterion_ == model.optima_[:, 2].min()
    check_sum(model.best_estimator_, Case(X, case.columns, None, case.unit, case.spread))


@FEWER
@given(case=cases(weighted=False), epochs=st.sampled_from([1, 25]))
def test_the_papers_network(case, epochs):
    # Its targets are taken as they are: standardised ones, on rows of any scale.
    scale = case.unit * max(1.0, float(np.abs(case.columns).max()) / case.unit)
    X, y = (case.X / case.spread).astype(case.X.dtype), case.columns / scale
    model = PaperMLPRegressor(hidden_size=5, max_epochs=epochs, random_state=0).fit(X, y)
    (W1, W2, W3), (b1, b2, b3) = model.weights_, model.biases_
    outputs = np.tanh(np.tanh(X.astype(float) @ W1 + b1) @ W2 + b2) @ W3 + b3
    assert_allclose(model.predict(X), outputs, atol=10 * np.finfo(X.dtype).eps)
    assert model.n_iter_ == epochs
    n_held_out = max(1, len(X) // 10)
    if epochs == 1:  # the validation rows are looked at after the first epoch
        last = np.mean((outputs - y)[-n_held_out:] ** 2)
        assert model.validation_errors_[-1] == pytest.approx(last, rel=1e-6)


@pytest.mark.slow
@FEWER
@given(
    case=cases(weighted=False),
    control=st.booleans(),
    max_r2=st.sampled_from([0.2, 0.9]),
    max_iter=st.sampled_from([1, 40]),
)
def test_the_network_with_a_controlled_kernel(case, control, max_r2, max_iter):
    pytest.importorskip("torch")
    model = NeuralDescentRegressor(
        (8,), tangent_control=control, anchors=5, max_r2=max_r2, max_iter=max_iter, random_state=0
    )
    X = case.X / np.asarray(case.spread, dtype=case.X.dtype)
    model.fit(X, case.y)
    y, predictions = case.columns, model.predict(X).reshape(case.columns.shape)
    residual = (y - predictions) * (np.ptp(y, axis=0) > 0)
    r2 = reference.pooled_r2(y, residual, np.ones(len(y)))
    slack = 1e-6 + 1e3 * case.rounding(np.float64)
    assert np.isfinite(predictions).all()
    if model.status_ == "r2_reached":
        assert r2 > max_r2 - slack
    else:
        assert model.status_ in ("iteration_limit", "stalled")
        assert r2 <= max_r2 + slack
    assert model.n_iter_ == len(model.log_) <= max_iter
    if control:  # a step that raises the loss is undone
        assert np.all(np.diff([*model.log_.r2, r2]) >= -slack)


@settings(deadline=None, max_examples=4)
@given(case=cases(most=24))
def test_the_self_tuning_regressor(case):
    model = BandfallRegressor(kernels=("gaussian", "matern12"), max_rounds=1, device=None)
    model.fit(case.X, case.y, sample_weight=case.weights)
    _, y, weights = case.used()
    varying = np.ptp(y, axis=0) > 0
    standard = (y - y.mean(axis=0))[:, varying] / y.std(axis=0)[varying]
    average = np.zeros_like(standard)
    for member in model.members_:
        path = member.path
        slack = 1e-6 + 1e3 * case.rounding(path.X.dtype)
        own, X = path.y.astype(np.float64), path.X.astype(np.float64)
        trained = (own - own.mean(axis=0))[:, varying] / own.std(axis=0)[varying]
        assert_allclose(trained, standard, atol=slack)
        # Weights are relative to each other; no row counts for more than a tenth of the evidence.
        counts = np.ones(len(y)) if path.weights is None else path.weights.astype(np.float64)
        heaviest = 100.0 * evidence_weights(weights).max()  # in training
        assert_allclose(counts / counts.mean(), relative(np.minimum(weights, heaviest)), rtol=1e-5)
        reached = 1.0 if path.status is Status.STALLED else path.r2
        check_path(path, X, own, counts, slack, max_r2=reached, floor=0.0)
        coefficients = path.coefficients.astype(np.float64)
        sums = reference.kernel_sum(path.kernel.name, X, X, path.bandwidths, coefficients)[-1]
        fitted = (path.offset + sums - own.mean(axis=0))[:, varying] / own.std(axis=0)[varying]
        average += member.weight * fitted
    assert sum(member.weight for member in model.members_) == pytest.approx(1.0)
    predictions = np.asarray(model.predict(case.X), dtype=float).reshape(case.columns.shape)
    inside = (predictions[case.counts > 0] - y.mean(axis=0))[:, varying] / y.std(axis=0)[varying]
    assert_allclose(inside, average, atol=1e-4 + slack)
    assert_allclose(predictions[:, ~varying], case.columns[:, ~varying], rtol=1e-6)
    if varying.all():
        truth = naive_score(case.columns, predictions, case.counts)
        check_score(model.score(case.X, case.y, sample_weight=case.weights), truth, case)
    check_evidence(model, case, slack)


def relative(weights):
    """Weights whose mean is one."""
    return weights / weights.mean()


def check_evidence(model, case, slack):
    """The score on held-out rows is that of the predictions that are kept."""
    rows = model.held_out_rows_
    if not len(rows):
        return
    assert np.all(case.counts[rows] > 0)
    held_out = model.held_out_predictions_.reshape(len(rows), -1)
    if np.ptp(case.columns[case.counts > 0], axis=0).all():
        evidence = np.zeros(len(case.counts))
        evidence[case.counts > 0] = evidence_weights(case.counts[case.counts > 0])
        truth = naive_score(case.columns[rows], held_out, evidence[rows])
        assert model.best_score_ == pytest.approx(truth, abs=1e-6 + slack)
