"""Self-tuning estimators of many rows: leaf by leaf, with everything that one leaf can do."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    load_model,
    to_onnx,
)
from bandfall._files.parts import check_partition
from bandfall._fitting import paths
from bandfall._search.settings import Settings
from bandfall.descent._partition import PartitionedSum
from bandfall.theory import fine_log

SETTINGS = {
    "kernels": ("gaussian",),
    "max_rounds": 1,
    "n_members": 2,
    "search_rows": 500,
    "device": None,
}
N = 1900


@pytest.fixture(scope="module")
def data():
    X, y = make_friedman1(N + 2000, n_features=6, noise=1.0, random_state=0)
    return X[:N], y[:N], X[N:], y[N:]


@pytest.fixture(scope="module")
def model(data):
    X, y, *_ = data
    return BandfallRegressor(leaf_rows=600, **SETTINGS).fit(X, y)


@pytest.fixture(scope="module")
def one_leaf(data):
    X, y, *_ = data
    return BandfallRegressor(leaf_rows=N, **SETTINGS).fit(X, y)


def test_rows_beyond_leaf_rows_are_divided(model):
    for member in model.members_:
        assert isinstance(member.path.model, PartitionedSum)
        assert member.path.n_leaves >= 4
        assert all(len(leaf.model.X) <= 600 for leaf in member.path.model.leaves)
        assert len(member.path.X) == N
        assert "leaves" in repr(member.path)


def test_one_leaf_is_the_model_without_leaves_bit_for_bit(data, one_leaf):
    X, y, X_new, _ = data
    other = BandfallRegressor(leaf_rows=10**9, **SETTINGS).fit(X, y)
    assert one_leaf.path_.n_leaves == 1
    assert np.array_equal(one_leaf.predict(X_new), other.predict(X_new))
    assert np.array_equal(one_leaf.held_out_predictions_, other.held_out_predictions_)


def test_leaves_are_as_accurate_as_one_leaf(data, model, one_leaf):
    *_, X_new, y_new = data
    errors = [np.sqrt(np.mean((one.predict(X_new) - y_new) ** 2)) for one in (model, one_leaf)]
    assert errors[0] < 1.05 * errors[1]


def test_held_out_rows_of_all_leaves_are_the_evidence(data, model):
    _, y, X_new, y_new = data
    assert N // 8 < len(model.held_out_rows_) < N // 5
    assert len(np.unique(model.held_out_rows_)) == len(model.held_out_rows_)
    residuals = y[model.held_out_rows_] - model.held_out_predictions_
    assert np.allclose(residuals, model.held_out_residuals_)
    assert model.best_score_ == pytest.approx(1 - residuals.var() / y.var(), abs=0.02)
    assert abs(model.best_score_ - model.score(X_new, y_new)) < 0.03
    low, high = model.predict_interval(X_new, 0.9).T
    assert 0.84 <= np.mean((low <= y_new) & (y_new <= high)) <= 0.96


@pytest.mark.parametrize("again", [False, True])
def test_the_evidence_is_predicted_by_leaves_that_have_not_seen_it(data, again):
    X, y, *_ = data
    settings = {**SETTINGS, "max_rounds": 0, "n_members": 1}

    class Regressor(BandfallRegressor):
        @property
        def _settings(self):
            return replace(super()._settings, again_rows=10**9 if again else 0)

    model = Regressor(leaf_rows=600, **settings).fit(X, y)
    rows = model.held_out_rows_
    predicted = model.predict(X[rows])
    same = np.allclose(predicted, model.held_out_predictions_, rtol=1e-4, atol=1e-4)
    assert same != again  # the model itself, unless it was trained again, on all rows
    if again:
        assert np.std(y[rows] - predicted) < 0.9 * np.std(model.held_out_residuals_)


def test_intervals_cover_what_they_promise_with_little_noise():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, size=(9000, 3))
    y = np.sin(4 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2 + 0.01 * random.standard_normal(len(X))
    settings = {**SETTINGS, "n_members": 1}
    model = BandfallRegressor(leaf_rows=1000, **settings).fit(X[:4000], y[:4000])
    low, high = model.predict_interval(X[4000:], 0.9).T
    assert 0.87 <= np.mean((low <= y[4000:]) & (y[4000:] <= high)) <= 0.93


def test_leaves_that_need_float64_are_not_trained_in_float32_first(data, monkeypatch):
    class Exact(BandfallRegressor):
        _settings = Settings(rung_rows=(500,), max_rounds=1, n_members=1, rounded=1e-9)

    dtypes, original = [], paths.fit_member_path

    def noted(rows, train, X, *given):
        dtypes.append(X.dtype)
        return original(rows, train, X, *given)

    monkeypatch.setattr(paths, "fit_member_path", noted)
    X, y, *_ = data
    leaves = Exact(kernels="gaussian", leaf_rows=1000).fit(X, y).path_.model.leaves
    assert {leaf.model.X.dtype for leaf in leaves} == {np.dtype(np.float64)}
    assert dtypes == [np.float64] * (2 * len(leaves))  # again with the evidence


def test_every_region_has_held_out_rows_and_its_coverage(data, model):
    _, _, X_new, y_new = data
    partition = model.path_.model.partition
    low, high = model.predict_interval(X_new, 0.9).T
    inside = (low <= y_new) & (y_new <= high)
    rows = model._model_rows(X_new)
    held_out = model.path_.X[model.held_out_rows_]
    assert {leaf for leaf, *_ in partition.shares(held_out)} == set(range(partition.n_leaves))
    for _, numbers, _ in partition.shares(rows):
        assert np.mean(inside[numbers]) > 0.75


def test_the_model_does_not_depend_on_jobs_or_threads(data, model):
    X, y, X_new, _ = data
    other = BandfallRegressor(leaf_rows=600, n_jobs=2, **SETTINGS).fit(X, y)
    assert np.array_equal(model.predict(X_new), other.predict(X_new))
    assert np.array_equal(model.held_out_predictions_, other.held_out_predictions_)


def test_predictions_are_continuous_where_leaves_meet(model):
    partition = model.path_.model.partition
    start, end = np.full((1, 6), 0.05), np.full((1, 6), 0.95)
    share = np.linspace(0, 1, 4001)[:, None]
    line = start + share * (end - start)
    touched = {leaf for leaf, *_ in partition.shares(model._model_rows(line))}
    assert len(touched) > 2
    steps = np.abs(np.diff(model.predict(line)))
    assert steps.max() < 20 * np.median(steps) + 0.02


def test_gradients_are_those_of_differences(data):
    X, y, X_new, _ = data
    model = BandfallRegressor(leaf_rows=150, **SETTINGS).fit(X[:400], y[:400])  # float64
    assert model.path_.n_leaves > 2
    gradient, step = model.gradient(X_new[:30]), 1e-5
    for column in range(6):
        shift = step * np.eye(6)[column]
        ahead, behind = model.predict(X_new[:30] + shift), model.predict(X_new[:30] - shift)
        assert np.allclose(gradient[:, column], (ahead - behind) / (2 * step), rtol=0.02, atol=0.05)


def test_stages_importances_and_novelty(data, model, one_leaf):
    *_, X_new, _ = data
    staged = list(model.staged_predict(X_new))
    assert np.allclose(staged[-1], model.predict(X_new), rtol=1e-4, atol=1e-4)
    assert len(staged) == max(len(member.path) for member in model.members_)
    assert np.allclose(model.feature_importances_, one_leaf.feature_importances_, atol=0.05)
    assert np.all(model.novelty(X_new) < 3)
    with pytest.warns(UserWarning, match="far outside"):
        assert model.novelty(X_new[:1] + 10.0) > 3


def test_files_and_pickles_give_the_same_model(data, model, tmp_path):
    *_, X_new, _ = data
    file = tmp_path / "leaves.bandfall"
    model.save(file)
    for other in (load_model(file), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(other.predict(X_new), model.predict(X_new))
        assert np.array_equal(other.predict_interval(X_new), model.predict_interval(X_new))
        assert repr(other.path_) == repr(model.path_)


def test_onnx_gives_the_same_predictions_and_intervals(data, model):
    onnxruntime = pytest.importorskip("onnxruntime")
    *_, X_new, _ = data
    graph = to_onnx(model, dtype=np.float64, coverage=0.9).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    prediction, lower, upper = session.run(None, {"X": X_new})
    spread = np.ptp(model.predict(X_new))
    assert np.abs(prediction - model.predict(X_new)).max() < 1e-3 * spread
    ends = model.predict_interval(X_new)
    assert np.abs(np.column_stack([lower, upper]) - ends).max() < 2e-3 * spread


def test_compression_keeps_predictions(data, model):
    *_, X_new, _ = data
    light = model._compressed(1e-2)
    assert np.std(light.predict(X_new) - model.predict(X_new)) < 0.03 * np.std(data[1])


def test_weights_count(data):
    X, y, X_new, _ = data
    weights = np.where(X[:, 0] < 0.5, 1.0, 1e-3)
    model = BandfallRegressor(leaf_rows=600, **SETTINGS).fit(X, y, sample_weight=weights)
    assert model.path_.n_leaves > 1
    assert np.all(np.isfinite(model.predict(X_new)))


def test_rows_of_a_group_are_held_out_together(data):
    X, y, *_ = data
    groups = np.arange(N) // 5
    model = BandfallRegressor(leaf_rows=600, **SETTINGS).fit(X, y, groups=groups)
    held_out = set(groups[model.held_out_rows_].tolist())
    others = np.setdiff1d(np.arange(N), model.held_out_rows_)
    shared = held_out & set(groups[others].tolist())
    # A row may be missing from the evidence, but none of its group taught the model judged by it.
    assert len(shared) < 0.1 * len(held_out)


@pytest.mark.filterwarnings("ignore:max_seconds")
def test_time_that_is_over_leaves_a_whole_model(data):
    X, y, X_new, y_new = data
    model = BandfallRegressor(leaf_rows=600, max_seconds=1e-6, **SETTINGS).fit(X, y)
    assert np.all(np.isfinite(model.predict(X_new)))
    assert model.score(X_new, y_new) > 0.5


def test_classes_in_leaves(data):
    X, y, X_new, y_new = data
    labels, new = np.digitize(y, [11, 17]), np.digitize(y_new, [11, 17])
    model = BandfallClassifier(leaf_rows=700, **SETTINGS).fit(X, labels)
    whole = BandfallClassifier(leaf_rows=N, **SETTINGS).fit(X, labels)
    assert model.path_.n_leaves > 1
    assert np.allclose(model.predict_proba(X_new).sum(axis=1), 1.0)
    assert model.score(X_new, new) > whole.score(X_new, new) - 0.04


def test_theory_refuses_a_path_of_several_leaves(model):
    with pytest.raises(ValueError, match="leaves"):
        fine_log(model)
    with pytest.raises(ValueError, match="leaves"):
        _ = model.path_.stages


def test_a_file_whose_cuts_make_no_tree_is_refused(model):
    partition = model.path_.model.partition
    children = partition.children.copy()
    children[-1] = 0
    for changed in ({"children": children}, {"highs": partition.lows}):
        with pytest.raises(ValueError, match=r"tree|empty"):
            check_partition(replace(partition, **changed))
