"""Intervals of the self-tuning regressor."""

import importlib
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall import BandfallRegressor, load_model
from bandfall._files import ModelFileError, dump_bytes, load_bytes
from bandfall._search.clock import Clock
from bandfall._search.settings import Settings

FAST = {"kernels": ("gaussian",), "max_rounds": 0}


def heteroscedastic(n, seed=0):
    """A curve whose noise is ten times as large on the right."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 1))
    noise = np.where(X[:, 0] > 0, 0.5, 0.05)
    return X, np.sin(3 * X[:, 0]) + noise * random.standard_normal(n)


@pytest.fixture(scope="module")
def fitted():
    return BandfallRegressor(**FAST).fit(*heteroscedastic(450))


@pytest.fixture(scope="module")
def test_rows():
    return heteroscedastic(3000, seed=1)


def covered(model, X, y, coverage=0.9):
    ends = model.predict_interval(X, coverage)
    return np.mean((ends[..., 0] <= y) & (y <= ends[..., 1]))


@pytest.mark.parametrize("coverage", [0.5, 0.9, 0.99])
def test_new_rows_are_covered_as_promised(fitted, test_rows, coverage):
    # Of one calibration with n rows, coverage varies by √(c (1 − c) / n); four of these.
    slack = 4 * np.sqrt(coverage * (1 - coverage) / 450)
    assert covered(fitted, *test_rows, coverage) == pytest.approx(coverage, abs=slack)


@pytest.mark.slow
def test_coverage_over_many_trainings_is_the_one_promised():
    """Search, choice and final fit included: exchangeable rows with heavy-tailed, uneven noise."""
    n_trainings, n_rows, coverage = 40, 60, 0.9
    shares = []
    for seed in range(n_trainings):
        random = np.random.default_rng(seed)
        X = random.uniform(-1, 1, (n_rows + 500, 2))
        noise = (0.1 + 0.4 * (X[:, 1] > 0)) * random.standard_t(4, len(X))
        y = np.sin(3 * X[:, 0]) + noise
        model = BandfallRegressor(n_members=1, **FAST).fit(X[:n_rows], y[:n_rows])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some new rows lie far out
            shares.append(covered(model, X[n_rows:], y[n_rows:], coverage))
    # One training's coverage has the deviation of the rank of a new row among n; four of the mean.
    slack = 4 * np.sqrt(coverage * (1 - coverage) / (n_rows + 2) / n_trainings)
    assert np.mean(shares) == pytest.approx(coverage, abs=slack)


@pytest.mark.parametrize(
    "name", ["hundred_levels", "many_levels", "rare_levels", "copied", "heavy_tails"]
)
def test_hard_tables_are_covered_as_promised(monkeypatch, name):
    """Before, levels that fold models share less than the final model covered 0.69 to 0.80."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    attack = importlib.import_module("attack")
    settings = {"n_rows": 150, "n_members": 1, **FAST}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # levels never seen in training
        shares = [attack.coverage(getattr(attack, name), seed, **settings)[0] for seed in range(3)]
    assert np.mean(shares) > 0.86


def test_widths_follow_the_noise(fitted, test_rows):
    X, y = test_rows
    assert fitted.interval_["method"] != "constant"
    assert fitted.interval_["gain"] > 0.1
    width = np.ptp(fitted.predict_interval(X), axis=1)
    right, left = X[:, 0] > 0.2, X[:, 0] < -0.2
    assert width[right].mean() > 4 * width[left].mean()
    for side in (right, left):
        assert covered(fitted, X[side], y[side]) == pytest.approx(0.9, abs=0.09)


def test_shapes_and_order(fitted, test_rows):
    X = test_rows[0][:7]
    assert fitted.predict_interval(X).shape == (7, 2)
    ends = fitted.predict_interval(X, [0.5, 0.9])
    assert ends.shape == (7, 2, 2)
    assert_array_equal(ends[..., 1], fitted.predict_interval(X, 0.9))
    assert np.all(ends[:, 0, 1] < ends[:, 0, 0])
    assert np.all(ends[:, 1, 1] > ends[:, 1, 0])
    assert_array_equal(fitted.predict_quantiles(X, [0.05, 0.95]), fitted.predict_interval(X))
    assert fitted.predict_quantiles(X, 0.3).shape == (7,)
    assert_array_equal(
        fitted.predict_quantiles(X, np.float64(0.3)), fitted.predict_quantiles(X, 0.3)
    )


def test_intervals_widen_far_from_the_data(fitted):
    near, far = np.array([[-0.5]]), np.array([[3.0]])
    assert fitted.novelty(near) <= 1.0
    with pytest.warns(UserWarning, match="far outside"):
        novelty = fitted.novelty(far)
    assert novelty > 10.0
    with pytest.warns(UserWarning, match="far outside"):
        ends = fitted.predict_interval(far)
    assert np.ptp(ends) > 5 * np.ptp(fitted.predict_interval(near))


def test_residuals_are_those_of_the_held_out_rows(fitted):
    _, y = heteroscedastic(450)
    expected = y[fitted.held_out_rows_] - fitted.held_out_predictions_
    assert_allclose(fitted.held_out_residuals_, expected, atol=1e-12)
    assert fitted.interval_["n_rows"] == 450


def test_a_row_held_out_twice_counts_once():
    X, y = heteroscedastic(60)
    model = BandfallRegressor(**FAST).fit(X, y)
    assert len(model.held_out_rows_) == 120
    assert model.interval_["n_rows"] == 60
    assert np.all(np.isfinite(model.predict_interval(X, 0.98)))
    with pytest.warns(UserWarning, match="too few"):
        assert np.all(np.isinf(model.predict_interval(X, 0.99)))


def test_several_targets_weights_and_float32():
    X, y = heteroscedastic(120)
    Y = np.column_stack([y, 100.0 * y**2, np.full(120, 3.0)]).astype(np.float32)
    weights = np.random.default_rng(0).uniform(0, 2, 120)
    model = BandfallRegressor(**FAST).fit(X.astype(np.float32), Y, sample_weight=weights)
    ends = model.predict_interval(X.astype(np.float32), [0.5, 0.9])
    assert ends.shape == (120, 3, 2, 2)
    assert ends.dtype == np.float32
    assert model.predict_quantiles(X.astype(np.float32), 0.9).shape == (120, 3)
    inside = (ends[..., 0, 1] <= Y) & (ends[..., 1, 1] >= Y)
    assert np.all(inside.mean(axis=0) > 0.85)
    assert_allclose(ends[:, 2], 3.0, rtol=1e-6)


def test_copies_in_one_group_do_not_make_intervals_narrow():
    """Copies on both sides of a split look like a perfect model: groups keep them together."""
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (1100, 2))
    y = np.sin(3 * X[:, 0]) + 0.3 * random.standard_t(3, 1100)
    copies = np.repeat(np.arange(100), 4)
    model = BandfallRegressor(**FAST).fit(X[copies], y[copies], groups=copies)
    assert covered(model, X[100:], y[100:]) == pytest.approx(0.9, abs=0.08)


def test_weights_of_rows_count(test_rows):
    X, y = heteroscedastic(300)
    weights = np.where(X[:, 0] > 0, 1.0, 1e-6)
    model = BandfallRegressor(**FAST).fit(X, y, sample_weight=weights)
    X_test, y_test = test_rows
    right = X_test[:, 0] > 0.1
    assert covered(model, X_test[right], y_test[right]) == pytest.approx(0.9, abs=0.1)


def test_a_constant_target_is_certain():
    model = BandfallRegressor(**FAST).fit(np.arange(30.0)[:, None], np.full(30, 7.0))
    assert_array_equal(model.predict_interval(np.array([[3.5]])), [[7.0, 7.0]])


def test_too_few_rows_to_hold_any_out():
    model = BandfallRegressor(**FAST).fit(np.arange(3.0)[:, None], np.arange(3.0))
    with pytest.warns(UserWarning, match="too few"):
        assert_array_equal(model.predict_interval(np.array([[1.0]])), [[-np.inf, np.inf]])


@pytest.mark.parametrize("coverage", [0.0, 1.0, -1, [], [0.5, 2.0], [[0.5]], np.nan])
def test_bad_coverage(fitted, coverage):
    with pytest.raises(ValueError, match="between 0 and 1"):
        fitted.predict_interval(np.zeros((1, 1)), coverage)


def test_the_final_fit_goes_as_far_as_the_fits_that_were_judged():
    # With much noise, R² on training rows hardly rises any more where most is still to be learned
    # on the quiet side: to stop at the least R² of all folds is to stop too early there.
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (6000, 1))
    noise = np.where(X[:, 0] > 0, 0.5, 0.05)
    y = np.sin(3 * X[:, 0]) + noise * random.standard_normal(6000)
    train, test = slice(400, 800), slice(3000, 6000)
    model = BandfallRegressor(**FAST).fit(X[train], y[train])
    quiet = X[train][model.held_out_rows_, 0] < 0
    judged = np.abs(model.held_out_residuals_[quiet]).mean()
    final = np.abs(y[test] - model.predict(X[test]))[X[test, 0] < 0].mean()
    assert final < 1.2 * judged
    assert covered(model, X[test], y[test]) == pytest.approx(0.9, abs=0.04)


class ForFewRows(Clock):
    """No time for final fits of more rows than the fewest."""

    spare = 1e-9


@pytest.mark.filterwarnings("ignore:max_seconds")
def test_members_that_rest_on_fewer_rows_have_intervals_too(test_rows):
    own = {"_clock": ForFewRows(1e6), "_settings": Settings(max_rounds=0, fewest_fitted=300)}
    model = type("Model", (BandfallRegressor,), own)(**FAST)
    model.set_params(max_seconds=1e6).fit(*heteroscedastic(450))
    assert len(model.path_.X) == 300
    assert model.interval_["method"] in ("constant", "prediction")
    assert covered(model, *test_rows) == pytest.approx(0.9, abs=0.06)


def test_a_pickle_gives_the_same_intervals(fitted, test_rows):
    again = pickle.loads(pickle.dumps(fitted))
    X = test_rows[0][:20]
    assert_array_equal(again.predict_interval(X), fitted.predict_interval(X))


@pytest.mark.parametrize("n_targets", [1, 2])
def test_a_model_file_gives_the_same_intervals(tmp_path, n_targets):
    X, y = heteroscedastic(80)
    model = BandfallRegressor(**FAST).fit(X, np.column_stack([y, -y])[:, :n_targets])
    model.save(tmp_path / "model.bandfall")
    loaded = load_model(tmp_path / "model.bandfall")
    assert loaded.interval_ == model.interval_
    assert_array_equal(loaded.predict_interval(X), model.predict_interval(X))
    assert_array_equal(loaded.novelty(X), model.novelty(X))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("held_out_rows_", lambda rows: rows + 1_000),
        ("held_out_rows_", lambda rows: rows[1:]),
        ("_intervals.rows", lambda rows: rows[1:]),
        ("_intervals.residuals", lambda residuals: residuals[1:]),
        ("_intervals.scores", lambda scores: scores * np.nan),
        ("_intervals.weights", lambda weights: 0.0 * weights),
        ("_intervals.method", lambda method: "magic"),
        ("_intervals.bandwidth", lambda bandwidth: -1.0),
        ("_intervals.gain", lambda gain: 2.0),
        ("average_.n_rows", lambda n_rows: 10),
        ("average_.novelty_scale", lambda scale: 0.0),
    ],
)
def test_damaged_evidence_is_refused(fitted, name, damage):
    damaged = pickle.loads(pickle.dumps(fitted))
    *inside, name = name.split(".")
    part = getattr(damaged, inside[0]) if inside else damaged
    object.__setattr__(part, name, damage(getattr(part, name)))
    with pytest.raises(ModelFileError):
        load_bytes(dump_bytes(damaged))


def test_intervals_can_be_drawn(fitted, test_rows):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    from bandfall.plotting import IntervalDisplay

    X, y = test_rows
    display = IntervalDisplay.from_estimator(fitted, X, y)
    assert_allclose(display.shares, display.coverages, atol=0.1)
    drawn = display.axes_[0].lines[1]
    assert_allclose(drawn.get_ydata()[-1], covered(fitted, X, y, display.coverages[-1]))
    # Widths are right everywhere, not on average: small errors have narrow intervals. At the jump
    # of the noise they rise gradually.
    away = np.abs(X[:, 0]) > 0.1
    beside = IntervalDisplay.from_estimator(fitted, X[away], y[away])
    tenths = beside.axes_[1].lines[0]
    assert_allclose(tenths.get_ydata(), tenths.get_xdata(), rtol=0.4)
    pyplot.close(beside.figure_)
    with pytest.raises(ValueError, match="one for each panel"):
        IntervalDisplay.from_estimator(fitted, X, y, axes=display.axes_[0])
    pyplot.close(display.figure_)
