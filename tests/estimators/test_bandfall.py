"""The self-tuning regressor: what it promises, on problems small enough to check."""

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
    load_model,
)
from bandfall._models.metric import (
    gradient_outer_product,
    learned_root,
    metric_root,
    scaled,
    slopes,
)
from bandfall._products import HOST, NumpyBackend
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.kernels import Kernel, get_kernel
from problems import problem

FAST = {"kernels": ("gaussian",), "max_rounds": 2}
FASTEST = {"kernels": ("gaussian",), "max_rounds": 0, "n_members": 1}
CHOSEN = ("encoding", "n_rounds", "kernel", "min_speed")


@pytest.fixture(scope="module")
def friedman():
    X, y = make_friedman1(260, n_features=8, noise=0.3, random_state=0)
    return X[:160], y[:160], X[160:], y[160:]


@pytest.fixture(scope="module")
def fitted(friedman):
    X, y, _, _ = friedman
    return BandfallRegressor(**FAST).fit(X, y)


def test_it_beats_the_fixed_rule_where_features_differ(friedman, fitted):
    X, y, X_test, y_test = friedman
    fixed = KernelDescentRegressor().fit((X - X.mean(0)) / X.std(0), y)
    fixed_score = fixed.score((X_test - X.mean(0)) / X.std(0), y_test)
    assert fitted.score(X_test, y_test) > fixed_score + 0.05
    assert fitted.best_params_["n_rounds"] > 0 or fitted.best_params_["likelihood"]


def test_importances_find_the_features_that_matter(fitted):
    importances = fitted.feature_importances_
    assert_allclose(importances.sum(), 1.0)
    assert importances[:5].min() > 3 * importances[5:].max()


def test_everything_tried_is_kept(fitted):
    table = fitted.selection_
    assert len({len(column) for column in table.values()}) == 1
    assert {"encoding", "n_rounds", "kernel", "min_speed", "loss", "score", "n_rows"} < set(table)
    first = {key: table[key][0] for key in CHOSEN}
    assert first == {
        "encoding": "standard",
        "n_rounds": 0,
        "kernel": "gaussian",
        "min_speed": 0.1,
    }
    tried = set(zip(*(table[key].tolist() for key in CHOSEN), strict=True))
    for member in fitted.members_:
        assert tuple(member.candidate.summary()[key] for key in CHOSEN) in tried


def test_members_are_an_average_with_the_heaviest_first(friedman, fitted):
    _, _, X_test, _ = friedman
    weights = [member.weight for member in fitted.members_]
    assert weights == sorted(weights, reverse=True)
    assert_allclose(sum(weights), 1.0)
    assert fitted.path_ is fitted.members_[0].path
    assert fitted.metric_ is fitted.members_[0].root
    assert fitted.best_params_["encoding"] == fitted.members_[0].candidate.encoding
    assert set(fitted.encoders_) == {member.candidate.encoding for member in fitted.members_}
    parts = []
    for member in fitted.members_:
        alone = clone(fitted)
        vars(alone).update(vars(fitted), members_=[replace(member, weight=1.0)])
        parts.append(alone.predict(X_test))
    assert_allclose(fitted.predict(X_test), np.average(parts, axis=0, weights=weights))


def test_evidence_is_in_the_units_of_the_target(friedman, fitted):
    """Rows held out are predicted nearly as well as new ones, and give the score."""
    _, y, X_test, y_test = friedman
    truth = y[fitted.held_out_rows_]
    found = r2_score(truth, fitted.held_out_predictions_)
    assert_allclose(found, fitted.best_score_, rtol=1e-6)
    assert abs(found - fitted.score(X_test, y_test)) < 0.05


def test_the_same_seed_gives_the_same_model(friedman, fitted):
    X, y, X_test, _ = friedman
    again = clone(fitted).fit(X, y)
    assert_array_equal(again.predict(X_test), fitted.predict(X_test))


def test_jobs_do_not_change_the_model(friedman, fitted):
    X, y, X_test, _ = friedman
    again = clone(fitted).set_params(n_jobs=2).fit(X, y)
    assert_array_equal(again.predict(X_test), fitted.predict(X_test))


def test_a_torch_device_gives_the_same_model(friedman, fitted):
    pytest.importorskip("torch")
    X, y, X_test, _ = friedman
    again = clone(fitted).set_params(device="torch").fit(X, y)
    for name in CHOSEN:
        assert again.best_params_[name] == fitted.best_params_[name]
    assert_allclose(again.best_score_, fitted.best_score_, rtol=1e-4)
    assert_allclose(again.predict(X_test), fitted.predict(X_test), rtol=1e-3)
    assert_allclose(again.gradient(X_test), fitted.gradient(X_test), rtol=1e-2, atol=1e-3)


def test_units_of_features_do_not_matter(friedman, fitted):
    X, y, X_test, _ = friedman
    scale, shift = np.geomspace(1e-3, 1e4, X.shape[1]), np.arange(X.shape[1]) * 100.0
    other = clone(fitted).fit(X * scale + shift, y)
    for name in CHOSEN:
        assert other.best_params_[name] == fitted.best_params_[name]
    assert_allclose(other.predict(X_test * scale + shift), fitted.predict(X_test), atol=1e-3)


def test_order_of_columns_does_not_matter(friedman, fitted):
    """Neither for the model nor for which rows are held out."""
    X, y, X_test, _ = friedman
    order = np.random.default_rng(0).permutation(X.shape[1])
    permuted = clone(fitted).fit(X[:, order], y)
    assert_array_equal(permuted.held_out_rows_, fitted.held_out_rows_)
    assert_allclose(permuted.predict(X_test[:, order]), fitted.predict(X_test), rtol=1e-6)
    assert_allclose(permuted.feature_importances_, fitted.feature_importances_[order], rtol=1e-5)


def test_training_rows_are_known_by_their_bits(friedman, fitted):
    """Stages of bandwidth zero act on rows that equal a training row."""
    X, *_ = friedman
    assert_array_equal(fitted._model_rows(X), fitted.path_.X)


def test_order_of_columns_tips_no_choice_in_float32():
    """Rounding of sums over columns would, where many rows are searched in single precision."""
    X, y = make_friedman1(560, noise=1.0, random_state=0)
    table = {f"x{j}": column for j, column in enumerate(X.T)}
    table["colour"] = np.array(["red", "green", "blue", "grey"])[(4 * X[:, 5]).astype(int)]
    search = BandfallRegressor(kernels=("gaussian",), max_rounds=2)
    first = clone(search).fit(table, y)
    other = clone(search).fit(dict(reversed(table.items())), y)
    assert first.path_.X.dtype == np.float32
    for name, values in first.selection_.items():
        assert_array_equal(other.selection_[name], values)
    rows = {name: values[:50] for name, values in table.items()}
    turned = dict(reversed(rows.items()))
    assert_allclose(other.predict(turned), first.predict(rows), atol=1e-4)
    assert_allclose(other.feature_importances_[::-1], first.feature_importances_, rtol=1e-4)
    expected = first.predict_interval(rows)
    assert_allclose(other.predict_interval(turned), expected, atol=1e-3)


def test_repetition_of_columns_hardly_matters(friedman, fitted):
    X, y, X_test, y_test = friedman
    base = fitted.score(X_test, y_test)
    twice = clone(fitted).fit(np.hstack([X, X]), y)
    assert_allclose(twice.score(np.hstack([X_test, X_test]), y_test), base, atol=0.01)


def test_gradient_is_the_gradient(friedman, fitted):
    _, _, X_test, _ = friedman
    rows, step = X_test[:5], 1e-4
    gradient = fitted.gradient(rows)
    for feature in range(rows.shape[1]):
        shift = step * np.eye(rows.shape[1])[feature]
        slope = (fitted.predict(rows + shift) - fitted.predict(rows - shift)) / (2 * step)
        assert_allclose(gradient[:, feature], slope, atol=1e-3 * np.abs(gradient).max())


def test_staged_predictions_end_with_the_prediction(friedman, fitted):
    _, _, X_test, _ = friedman
    *_, last = fitted.staged_predict(X_test)
    assert_allclose(last, fitted.predict(X_test), rtol=1e-9)


def test_tables_with_categories_and_gaps():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    n = 240
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], size=n),
            "flag": rng.random(n) < 0.5,
            "constant": 3.0,
        }
    )
    y = frame["size"] + 2.0 * (frame["colour"] == "red") - 1.0 * frame["flag"]
    frame.loc[rng.random(n) < 0.1, "size"] = np.nan
    frame.loc[rng.random(n) < 0.1, "colour"] = None
    model = BandfallRegressor(**FAST).fit(frame[:180], y[:180])
    assert model.score(frame[180:], y[180:]) > 0.6
    assert model.feature_importances_.shape == (4,)
    assert model.feature_importances_[3] == 0.0
    unseen = frame[180:].assign(colour="violet")
    with pytest.warns(UserWarning, match="categories never seen in training: .*'violet'"):
        assert np.all(np.isfinite(model.predict(unseen)))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["colour", "size", "flag", "constant"]])
    frame.loc[0, "size"] = np.inf
    with pytest.raises(ValueError, match="column 'size' holds infinite"):
        BandfallRegressor(**FAST).fit(frame, y)


def test_encodings_with_the_same_distances_are_tried_once():
    random = np.random.default_rng(0)
    bits = (random.uniform(size=(90, 12)) < 0.3).astype(float)
    y = bits @ random.normal(size=12)
    tried = BandfallRegressor(**FASTEST).fit(bits, y).selection_["encoding"]
    assert set(tried) == {"standard", "quantile"}  # a column of 0 and 1 has one step
    thirds = bits + (random.uniform(size=bits.shape) < 0.3)
    tried = BandfallRegressor(**FASTEST).fit(thirds, y).selection_["encoding"]
    assert set(tried) == {"standard", "steps", "quantile"}  # all, for kernels that the user chose
    tried = BandfallRegressor(max_rounds=0).fit(thirds, y).selection_["encoding"]
    assert set(tried) == {"standard", "quantile"}


def test_mean_targets_are_compared_in_the_1_norm():
    """The effects of levels add up."""
    random = np.random.default_rng(0)
    city, size = random.integers(0, 40, 300), random.normal(size=300)
    y = random.normal(size=40)[city] + np.sin(size) + 0.1 * random.normal(size=300)
    table = {"city": [f"c{i}" for i in city], "size": size}
    tried = BandfallRegressor(max_rounds=0, n_members=1).fit(table, y).selection_
    kernels = set(tried["kernel"][tried["encoding"] == "target"])
    assert {get_kernel(str(kernel)).geometry.p for kernel in kernels} == {1.0}


@pytest.mark.parametrize("n", [40, 1600])
@pytest.mark.parametrize("n_different", [2, 5])
def test_few_different_rows(n, n_different):
    """Nearly all rows are equal, on both sides of every split."""
    X = np.zeros((n, 2))
    X[:n_different, 0] = np.arange(n_different)
    y = X[:, 0] + np.random.default_rng(0).normal(size=n)
    assert np.all(np.isfinite(BandfallRegressor(**FASTEST).fit(X, y).predict(X)))


def test_missing_values_in_arrays(friedman):
    X, y, X_test, y_test = friedman
    X = X.copy()
    X[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    assert BandfallRegressor(**FAST).fit(X, y).score(X_test, y_test) > 0.6


def test_weights_and_several_targets(friedman):
    X, y, X_test, _ = friedman
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    model = BandfallRegressor(**FAST).fit(X, np.column_stack([y, -y]), sample_weight=weights)
    predictions = model.predict(X_test)
    assert_allclose(predictions[:, 1], -predictions[:, 0], atol=1e-6)
    assert model.path_.X.shape[0] == np.count_nonzero(weights)


@pytest.mark.filterwarnings("ignore:max_seconds")
def test_time_budget_returns_the_best_so_far(friedman, no_least_time):
    X, y, X_test, _ = friedman
    model = BandfallRegressor(max_seconds=1e-9).fit(X, y)
    assert any("the search ended early" in one for one in model.skipped_)
    with pytest.warns(DeprecationWarning, match="given_up_ is now skipped_"):
        assert model.given_up_ == model.skipped_
    assert np.all(np.isfinite(model.predict(X_test)))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 9])
@pytest.mark.filterwarnings(
    "ignore:values far outside:UserWarning", "ignore:columns are left out:UserWarning"
)
def test_hardly_any_rows(n):
    X, y, X_new = problem(n=n)
    model = BandfallRegressor(**FAST).fit(X, y)
    assert np.all(np.isfinite(model.predict(X_new)))


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.ones((12, 2)), np.arange(12.0)),  # nothing to tell rows apart by
        (np.arange(24.0).reshape(12, 2), np.full(12, 7.0)),  # nothing to learn
        (np.full((12, 1), np.nan), np.arange(12.0)),  # nothing known
    ],
)
@pytest.mark.filterwarnings("ignore:columns are left out:UserWarning")
def test_degenerate_data_predict_the_mean(X, y):
    assert_allclose(BandfallRegressor(**FAST).fit(X, y).predict(X), y.mean(), atol=1e-6)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"max_seconds": 0}, "'max_seconds' .* float in the range"),
        ({"max_rounds": -1}, "'max_rounds' .* int in the range"),
        ({"max_rounds": 2.5}, "'max_rounds' .* int in the range .* Got 2.5"),
        ({"n_members": 0}, "'n_members' .* int in the range"),
        ({"search_rows": 2}, "'search_rows' .* int in the range"),
        ({"kernels": ("rbf",)}, "kernel='rbf' is unknown; allowed: gaussian"),
        ({"kernels": ()}, r"kernels=\(\) leaves nothing to choose from"),
        ({"kernels": 3}, "'kernels' "),
        ({"memory_budget": 0}, "'memory_budget' .* int in the range"),
        ({"memory_budget": np.inf}, "'memory_budget' .* int in the range .* Got inf"),
        ({"device": "tpu"}, "device='tpu' is unknown"),
        ({"device": 0}, "'device' .* Got 0"),
    ],
)
def test_bad_parameters_are_named(bad, message):
    with pytest.raises((ValueError, TypeError), match=message):
        BandfallRegressor(**bad).fit(np.eye(5), np.arange(5.0))


def test_sparse_matrices_are_refused():
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.dok_matrix):  # the last is a dict
        with pytest.raises(TypeError, match=r"sparse matrices are not supported"):
            BandfallRegressor().fit(kind(np.eye(5)), np.arange(5.0))


def test_only_the_kernels_that_were_named(friedman):
    X, y, _, _ = friedman
    model = BandfallRegressor(kernels=("matern12",), max_rounds=1).fit(X[:60], y[:60])
    assert {str(member.candidate.kernel) for member in model.members_} == {"matern12"}
    assert {member.path.kernel.name for member in model.members_} == {"matern12"}
    assert set(model.selection_["kernel"]) == {"matern12"}


def test_a_kernel_is_kept_as_it_is_given_whatever_its_name(friedman):
    X, y, X_test, _ = friedman
    laplace = get_kernel("laplace")
    own = Kernel("gaussian", 1, laplace.profile, laplace.slope)
    model = BandfallRegressor(kernels=(own,), max_rounds=0).fit(X[:60], y[:60])
    assert {member.path.kernel for member in model.members_} == {own}
    same = BandfallRegressor(kernels=("laplace",), max_rounds=0).fit(X[:60], y[:60])
    assert_array_equal(model.predict(X_test), same.predict(X_test))


def test_a_norm_with_axes_has_a_metric_of_scales(friedman):
    X, y, _, _ = friedman
    model = BandfallRegressor(kernels=("laplace-1.5",), max_rounds=2).fit(X[:60], y[:60])
    assert {member.root.ndim for member in model.members_} == {1}
    assert set(model.selection_["kernel"]) == {"laplace-1.5"} == {model.best_params_["kernel"]}
    assert model.novelty(X[:60]).max() == 0.0
    assert model.novelty(X[60:]).max() > 0.0


def test_one_member(friedman, fitted):
    X, y, _, _ = friedman
    model = clone(fitted).set_params(n_members=1).fit(X, y)
    assert [member.weight for member in model.members_] == [1.0]
    assert len(model.encoders_) == 1


def test_parameters_changed_after_fit_change_no_prediction(friedman, fitted):
    X, y, X_test, _ = friedman
    model = clone(fitted).fit(X, y)
    model.set_params(kernels=("cauchy",), max_rounds=0, n_members=1, search_rows=10)
    model.set_params(max_seconds=1.0, random_state=5, n_jobs=2, device=None)
    assert_array_equal(model.predict(X_test), fitted.predict(X_test))
    assert_array_equal(model.gradient(X_test[:3]), fitted.gradient(X_test[:3]))


def smooth(n, seed=0, d=2):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, 100.0 * np.sin(2.0 * X[:, 0]) + 50.0 * X[:, 1]


@pytest.mark.parametrize("n", [200, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("ignore:values far outside:UserWarning")
def test_a_large_offset_of_the_target_costs_nothing(n, dtype):
    """Seconds since 1970: float32 cannot tell them apart, whatever the features are."""
    X, y = smooth(n + 100)
    X = X.astype(dtype)
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=1).fit(X[:n], 1.7e9 + y[:n])
    assert model.score(X[n:], 1.7e9 + y[n:]) > 0.99


def test_wide_tables_are_fitted_in_float32():
    """Compiled loops, which need it, take a fifth of the time with hundreds of columns."""
    X = np.random.default_rng(0).standard_normal((110, 900))
    y = X[:, 0] + 0.5 * X[:, 1] ** 2
    for n_columns, dtype in ((900, np.float32), (20, np.float64)):
        model = BandfallRegressor(**FASTEST).fit(X[:, :n_columns], y)
        assert model.path_.X.dtype == dtype


def test_float32_gives_float32():
    X, y = smooth(60)
    X = X.astype(np.float32)
    model = BandfallRegressor(**FASTEST).fit(X, y.astype(np.float32))
    assert model.predict(X).dtype == np.float32
    assert all(stage.dtype == np.float32 for stage in model.staged_predict(X))


def test_weights_count_relative_to_each_other(friedman):
    X, y, X_test, _ = friedman
    weights = np.random.default_rng(0).uniform(0.5, 2.0, size=len(y))
    shares = BandfallRegressor(**FAST).fit(X, y, sample_weight=weights / weights.sum())
    counts = BandfallRegressor(**FAST).fit(X, y, sample_weight=weights * len(y))
    assert_allclose(shares.predict(X_test), counts.predict(X_test), rtol=1e-9)
    equal = BandfallRegressor(**FAST).fit(X, y, sample_weight=np.full(len(y), 1 / len(y)))
    plain = BandfallRegressor(**FAST).fit(X, y)
    assert_array_equal(equal.predict(X_test), plain.predict(X_test))


@pytest.mark.parametrize(
    ("of_features", "of_targets"), [(1e-300, 1.0), (1e155, 1.0), (1.0, 1e-300), (1.0, 1e304)]
)
@pytest.mark.filterwarnings("ignore:values far outside:UserWarning")
def test_magnitudes_change_nothing(of_features, of_targets):
    X, y = smooth(160)
    plain = BandfallRegressor(**FASTEST).fit(X[:100], y[:100])
    model = BandfallRegressor(**FASTEST).fit(of_features * X[:100], of_targets * y[:100])
    found = model.predict(of_features * X[100:]) / of_targets
    score = r2_score(y[100:], plain.predict(X[100:]))
    assert_allclose(r2_score(y[100:], found), score, atol=1e-6)


def test_magnitudes_that_no_number_can_hold_are_refused_by_column():
    X, y = smooth(20)
    X[3, 1] = 1e303
    with pytest.raises(ValueError, match="column 1 holds values beyond"):
        BandfallRegressor(**FASTEST).fit(X, y)


def test_every_kind_of_table_gives_the_same_model():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    random = np.random.default_rng(0)
    columns = {
        "size": random.normal(size=80).tolist(),
        "colour": random.choice(["red", "green", "blue"], 80).tolist(),
        "flag": (random.random(80) < 0.5).tolist(),
        "when": (np.datetime64("2024-01-01") + 31 * np.arange(80)).astype(object).tolist(),
    }
    columns["size"][3] = columns["colour"][5] = None
    y = random.normal(size=80) + np.array([c == "red" for c in columns["colour"]])
    frames = [columns, pd.DataFrame(columns), pl.DataFrame(columns)]
    models = [BandfallRegressor(**FASTEST).fit(frame, y) for frame in frames]
    expected = models[0].predict(columns)
    for model in models:
        assert list(model.feature_names_in_) == list(columns)
        assert model.best_params_ == models[0].best_params_
        for frame in frames:
            assert_array_equal(model.predict(frame), expected)


def test_works_inside_cross_validation(friedman):
    X, y, _, _ = friedman
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=1)
    assert cross_val_score(model, X[:90], y[:90], cv=2).min() > 0.3


def test_metric_from_a_function_of_one_feature():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    path = fit_path(
        X,
        np.sin(2 * X[:, :1]),
        get_kernel("gaussian"),
        solver=Flow(),
        schedule=MinimumSpeed(0.02, 0.1),
        stopping=Stopping(),
    )
    product = gradient_outer_product(path.model, X, path.scale, HOST)
    assert_allclose(product, np.einsum("mik,mjk->ij", *2 * [path.gradient(X) / path.scale]) / 200)
    steep = slopes(path.model, path.scale, np.ones(4))
    assert_allclose(steep, np.sqrt(np.diag(product)))
    assert steep[1:].max() < 0.5 * steep[0]
    root = metric_root(product, np.ones(4))
    assert_allclose(root, root.T, atol=1e-12)
    assert_allclose(np.linalg.eigvalsh(root).max(), 1.0)
    assert np.argmax(np.diag(root)) == 0


def test_metric_in_the_coordinates_of_the_one_before():
    """A linear function has the same metric in whichever coordinates its gradient was taken."""
    rng = np.random.default_rng(0)
    slope, A = rng.normal(size=3), rng.normal(size=(3, 3))
    root = A @ A.T
    inner = np.linalg.solve(root, slope)  # f = slopeᵀx = innerᵀ(root x)
    assert_allclose(scaled(np.eye(3), root) @ inner, slope)
    product = np.outer(inner, inner)
    full = metric_root(product, root, shrinkage=0.0, floor=0.0)
    assert_allclose(full, np.outer(slope, slope) / (slope @ slope), atol=1e-7)
    alone = metric_root(product, root, shrinkage=1.0, floor=0.0)
    assert_allclose(alone, np.diag(np.abs(slope)) / np.abs(slope).max(), atol=1e-7)


@pytest.mark.parametrize("root", [np.array([1.0, 0.3, 2.0]), np.diag([1.0, 0.3, 2.0]) + 0.1])
def test_slopes_and_roots_do_not_depend_on_the_memory_for_gradients(root):
    rng = np.random.default_rng(0)
    model = KernelSum(
        scaled(rng.normal(size=(50, 3)), root),
        get_kernel("gaussian"),
        np.array([2.0, 0.5]),
        rng.normal(size=(2, 50, 2)),
        np.zeros(2),
    )
    scale = np.array([2.0, 0.0])  # the second target does not vary
    gradient = scaled(model.gradient(model.X)[:, :, 0] / 2.0, root)
    for backend in (NumpyBackend(), NumpyBackend(1000)):
        expected = np.sqrt((gradient**2).mean(axis=0))
        assert_allclose(slopes(model, scale, root, backend=backend), expected)
        alone = learned_root(model, scale, root, diagonal=True, backend=backend)
        assert_allclose(alone, np.maximum(expected / expected.max(), 1e-3))
        whole = learned_root(model, scale, root, backend=backend)
        inner = model.gradient(model.X)[:, :, 0] / 2.0
        assert_allclose(whole, metric_root(inner.T @ inner / 50, root))


def test_metric_of_a_constant_function_is_flat():
    assert_allclose(metric_root(np.zeros((3, 3)), np.eye(3)), np.eye(3))
    assert_allclose(metric_root(np.diag([1.0, 0.0]), np.ones(2)), np.diag([1.0, 1e-3]))


def test_metric_of_very_many_features_scales_each_alone():
    squares = np.linspace(0.0, 1.0, 1001)
    root = metric_root(np.diag(squares), np.ones(1001))
    assert_allclose(root, np.maximum(np.sqrt(squares), 1e-3))
    X = np.ones((2, 1001), np.float32)
    assert_allclose(scaled(X, root), [root, root], rtol=1e-6)
    assert scaled(X, root).dtype == np.float32


def test_metric_of_more_features_than_rows_can_tell_of_scales_each_alone():
    product = np.full((17, 17), 0.5) + np.diag(np.linspace(0.0, 1.0, 17))
    assert metric_root(product, np.ones(17)).shape == (17, 17)
    assert metric_root(product, np.ones(17), n_rows=3).shape == (17, 17)
    scales = metric_root(product, np.ones(17), n_rows=2)
    assert_allclose(scales, np.sqrt(np.diag(product) / np.diag(product).max()))


def test_members_show_themselves_in_consoles():
    X, y = make_friedman1(60, random_state=0)
    model = BandfallRegressor(max_rounds=1)
    model.fit(X, y)
    first = model.members_[0]
    text = repr(first)
    assert f"{first.weight:.2f} of {first.candidate.encoding} columns" in text
    assert len(text) < 120  # not the arrays


def test_held_out_rows_are_those_of_x_whatever_their_weights(friedman, tmp_path):
    X, y, X_test, _ = friedman
    weights = np.where(np.arange(len(y)) < 60, 0.0, 1.0)
    model = BandfallRegressor(**FASTEST).fit(X, y, weights)
    assert model.held_out_rows_.min() >= 60
    truth = y[model.held_out_rows_]
    assert_allclose(truth - model.held_out_predictions_, model.held_out_residuals_, atol=1e-10)
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert_array_equal(loaded.held_out_rows_, model.held_out_rows_)
    assert_array_equal(loaded.predict_interval(X_test), model.predict_interval(X_test))
    alone = BandfallRegressor(**FASTEST).fit(X[60:], y[60:])
    assert_array_equal(alone.held_out_rows_ + 60, model.held_out_rows_)
    assert_array_equal(alone.predict_interval(X_test), model.predict_interval(X_test))


def test_held_out_rows_of_a_constant_target_are_those_of_x():
    weights = np.array([0.0, 1.0, 1.0, 0.0, 1.0])
    model = BandfallRegressor().fit(np.arange(5.0)[:, None], np.ones(5), weights)
    assert_array_equal(model.held_out_rows_, [1, 2, 4])


@pytest.mark.parametrize("frame", [False, True])
def test_a_fitted_model_keeps_no_raw_copy_of_its_rows(frame):
    random = np.random.default_rng(0)
    X, y = random.normal(size=(60, 2)), random.normal(size=60)
    table = pd.DataFrame(X, columns=["a", "b"]) if frame else X
    for model in (BandfallRegressor(kernels="gaussian", max_rounds=0), KernelRidgeRegressor()):
        data = pickle.dumps(model.fit(table, y))
        assert not hasattr(model, "_training_rows")
        assert np.ascontiguousarray(y).tobytes() not in data


@pytest.mark.filterwarnings("ignore:y holds one class")
@pytest.mark.parametrize(
    "model",
    [KernelDescentRegressor(), BandfallRegressor(**FAST), BandfallClassifier(**FAST)],
    ids=lambda model: type(model).__name__,
)
def test_staged_predictions_have_one_item_at_least(model):
    X = np.random.default_rng(0).normal(size=(30, 2))
    model.fit(X, np.ones(30))
    name = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    staged = list(getattr(model, f"staged_{name}")(X))
    assert_array_equal(staged, [getattr(model, name)(X)])
