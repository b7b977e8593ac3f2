"""The classifier that tunes itself: what it promises, on problems small enough to check."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, make_moons
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from bandfall import BandfallClassifier, load_model
from bandfall._files import ModelFileError, dump_bytes, load_bytes
from bandfall._targets import Numbers

FAST = {"kernels": ("gaussian",), "max_rounds": 0}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])
    return train_test_split(X, names[y], random_state=0, stratify=y)


@pytest.fixture(scope="module")
def fitted(iris):
    X, _, y, _ = iris
    return BandfallClassifier(**FAST).fit(X, y)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(400, noise=0.2, random_state=0)
    return X[:100], y[:100], X[100:], y[100:]


@pytest.fixture(scope="module")
def binary(moons):
    return BandfallClassifier(**FAST).fit(*moons[:2])


@pytest.mark.filterwarnings("ignore:values far outside")  # half of these rows train
@pytest.mark.parametrize(
    ("load", "n_rows", "accuracy", "loss"),
    [
        (load_iris, 150, 0.93, 0.25),
        (load_breast_cancer, 240, 0.93, 0.2),
        (load_digits, 400, 0.93, 0.3),
    ],
)
def test_classes_are_found_and_probabilities_fit(load, n_rows, accuracy, loss):
    X, y = load(return_X_y=True)
    X, X_test, y, y_test = train_test_split(
        X, y, random_state=0, stratify=y, train_size=n_rows // 2
    )
    model = BandfallClassifier(**FAST).fit(X, y)
    assert model.score(X_test, y_test) > accuracy
    assert log_loss(y_test, model.predict_proba(X_test)) < loss


def test_text_labels_and_shapes(iris, fitted):
    _, X_test, _, y_test = iris
    assert is_classifier(fitted)
    assert_array_equal(fitted.classes_, ["setosa", "versicolor", "virginica"])
    probabilities = fitted.predict_proba(X_test)
    assert probabilities.shape == (len(X_test), 3)
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert_array_equal(fitted.predict(X_test), fitted.classes_[probabilities.argmax(axis=1)])
    assert_allclose(fitted.decision_function(X_test), np.log(probabilities))
    assert_allclose(fitted.predict_log_proba(X_test), np.log(probabilities))
    assert fitted.score(X_test, y_test) == np.mean(fitted.predict(X_test) == y_test)


def test_two_classes_decide_by_log_odds(moons, binary):
    X_test = moons[2]
    probabilities = binary.predict_proba(X_test)
    odds = binary.decision_function(X_test)
    assert odds.shape == (len(X_test),)
    assert_allclose(odds, np.log(probabilities[:, 1] / probabilities[:, 0]))
    assert_array_equal(binary.predict(X_test), (odds > 0).astype(int))


def test_far_from_the_data_the_prior_comes_out():
    X, y = make_moons((90, 30), noise=0.2, random_state=0)
    model = BandfallClassifier(**FAST).fit(X, y)
    # The other encodings take values beyond those seen for the nearest one seen.
    plain = next(one for one in model.members_ if one.candidate.encoding == "standard")
    encoders = {"standard": model.encoders_["standard"]}
    alone = (replace(plain, weight=1.0),)
    model.average_ = replace(model.average_, members=alone, encoders=encoders)
    assert_allclose(model.prior_, [0.75, 0.25])
    far = np.array([[1e4, -1e4]])
    with pytest.warns(UserWarning, match="far outside"):
        probabilities = model.predict_proba(far)
    assert_allclose(probabilities, [[0.75, 0.25]], atol=1e-6)
    with pytest.warns(UserWarning, match="far outside"):
        novelty = model.novelty(far)
    assert novelty > 100


def test_the_last_stage_is_the_model(moons):
    X, y = make_moons(100, noise=0.1, random_state=0)
    X_test = moons[2]
    model = BandfallClassifier(**FAST).fit(X, y)
    stages = list(model.staged_predict_proba(X_test))
    assert len(stages) > 1
    assert_allclose(stages[-1], model.predict_proba(X_test), rtol=1e-6)
    losses = [log_loss(y, stage) for stage in model.staged_predict_proba(X)]
    shares = np.tile(model.prior_, (len(y), 1))  # before the first stage
    # A single stage of log-odds may be worse than the prior: wide and narrow stages cancel.
    assert losses[-1] < min(losses[0], log_loss(y, shares))


def test_evidence_is_kept(moons, binary):
    _, y = moons[:2]
    rows = binary.held_out_rows_
    assert_array_equal(np.unique(rows), np.arange(100))
    assert binary.held_out_probabilities_.shape == (len(rows), 2)
    assert -binary.best_score_ == pytest.approx(log_loss(y[rows], binary.held_out_probabilities_))
    assert binary.best_score_ > -np.log(2)


def test_class_weights_move_the_prior(moons):
    X, y = make_moons((90, 30), noise=0.3, random_state=0)
    plain = BandfallClassifier(**FAST).fit(X, y)
    balanced = BandfallClassifier(class_weight="balanced", **FAST).fit(X, y)
    assert_allclose(balanced.prior_, [0.5, 0.5])
    assert balanced.predict(X).mean() > plain.predict(X).mean()
    explicit = BandfallClassifier(**FAST).fit(X, y, sample_weight=np.where(y == 1, 3.0, 1.0))
    assert_allclose(explicit.predict_proba(X), balanced.predict_proba(X))
    by_name = BandfallClassifier(class_weight={0: 1.0, 1: 3.0}, **FAST).fit(X, y)
    assert_allclose(by_name.predict_proba(X), balanced.predict_proba(X))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_class_weights_are_positive_numbers(moons, weight):
    with pytest.raises(ValueError, match=r"Negative values|contains (NaN|infinity)"):
        BandfallClassifier(class_weight={0: weight, 1: 1.0}, **FAST).fit(*moons[:2])


@pytest.mark.parametrize("memory", [2**30, 2**17], ids=["log-loss", "squared error"])
@pytest.mark.parametrize("class_weight", [None, "balanced"])
def test_a_class_of_two_rows_has_probabilities_between_0_and_1(memory, class_weight):
    X, y = load_iris(return_X_y=True)
    X, y = np.concatenate([X[::2], [[9, 9, 9, 9], [9, 9, 9, 8.9]]]), np.append(y[::2], [3, 3])
    model = BandfallClassifier(class_weight=class_weight, memory_budget=memory, **FAST).fit(X, y)
    # The matrices of the log-loss do not fit into a small memory.
    assert any(one.candidate.penalty > 0 for one in model.members_) == (memory > 2**20)
    far = np.array([[4.0, 2, 1, 0], [9.0, 9, 9, 9], [10.0, 1, 10, 0]])
    for rows in (X, far):
        probabilities = model.predict_proba(rows)
        assert probabilities.shape == (len(rows), 4)
        assert np.all((probabilities > 0) & (probabilities < 1))
        assert np.isfinite(model.predict_log_proba(rows)).all()
    low, high = (0.15, 0.25) if class_weight else (0.02, 0.03)  # few rows cannot outweigh all
    assert low < model.prior_[3] < high


def test_a_class_of_weight_zero_is_never_predicted(moons):
    X, y = moons[:2]
    y = np.where(np.arange(100) < 5, 2, y)
    model = BandfallClassifier(**FAST).fit(X, y, sample_weight=(y < 2).astype(float))
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.prior_[2] == 0
    assert model.predict_proba(X)[:, 2].max() < 1e-3


def test_tables_with_categories_and_missing_values():
    pandas = pytest.importorskip("pandas")
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, 120)
    kind = random.choice(["a", "b"], 120)
    y = np.where((x > 0) == (kind == "a"), "yes", "no")
    table = pandas.DataFrame({"x": x, "kind": kind})
    table.loc[::10, "x"] = np.nan
    model = BandfallClassifier(**FAST).fit(table, y)
    assert model.score(table, y) > 0.85
    assert_array_equal(model.feature_names_in_, ["x", "kind"])


@pytest.mark.filterwarnings("ignore:y holds one class")
def test_one_class_and_few_rows():
    X = np.arange(10.0)[:, None]
    model = BandfallClassifier(**FAST).fit(X, np.full(10, "only"))
    assert_array_equal(model.predict(X), np.full(10, "only"))
    assert_array_equal(model.predict_proba(X), np.ones((10, 1)))
    model = BandfallClassifier(**FAST).fit(X[:3], [0, 1, 1])
    assert_array_equal(model.predict(X[:3]), [0, 1, 1])


@pytest.mark.filterwarnings("ignore:column .* alone it explains")
@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_probabilities_are_never_0_or_1(scale):
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    X = (y[:, None] + 0.01 * random.normal(size=(120, 2))) * scale
    for dtype in (np.float32, np.float64):
        model = BandfallClassifier(**FAST).fit(X.astype(dtype), y)
        probabilities = model.predict_proba(X.astype(dtype))
        assert probabilities.dtype == dtype
        assert probabilities.min() > 0
        assert probabilities.max() < 1
        assert np.all(np.isfinite(model.predict_log_proba(X.astype(dtype))))
        assert np.all(np.isfinite(model.decision_function(X.astype(dtype))))


@pytest.mark.parametrize("n_rows", [2, 3])
def test_a_class_of_two_rows(moons, n_rows):
    X, y = moons[:2]
    rare = np.arange(100) < n_rows
    X = np.where(rare[:, None], [5.0, 5.0], X) + 0.01 * X
    model = BandfallClassifier(**FAST).fit(X, np.where(rare, 2, y))
    probabilities = model.predict_proba(X)
    assert np.all((probabilities > 0) & (probabilities < 1))
    assert np.isfinite(model.best_score_)
    assert np.all(probabilities[rare, 2] > model.prior_[2])
    assert np.all(probabilities[~rare, 2] < 0.1)


def test_a_class_of_one_row(moons):
    X, y = moons[:2]
    y = np.where(np.arange(100) == 7, 2, y)
    probabilities = BandfallClassifier(**FAST).fit(X, y).predict_proba(X)
    assert np.all(np.isfinite(probabilities))


def test_float32_in_float32_out(moons):
    X, y, X_test, _ = moons
    model = BandfallClassifier(**FAST).fit(X.astype(np.float32), y)
    assert model.predict_proba(X_test.astype(np.float32)).dtype == np.float32
    assert model.decision_function(X_test.astype(np.float32)).dtype == np.float32


def test_the_same_seed_gives_the_same_model(moons, binary):
    again = clone(binary).fit(*moons[:2])
    assert_array_equal(again.predict_proba(moons[2]), binary.predict_proba(moons[2]))
    copied = pickle.loads(pickle.dumps(binary))
    assert_array_equal(copied.predict_proba(moons[2]), binary.predict_proba(moons[2]))


def test_continuous_targets_are_refused():
    with pytest.raises(ValueError, match="label type"):
        BandfallClassifier(**FAST).fit(np.arange(8.0)[:, None], np.linspace(0, 1, 8))


@pytest.mark.parametrize("labels", [["no", "yes"], [0, 1], [False, True], [1.0, 2.0]])
def test_a_model_file_gives_the_same_probabilities(tmp_path, moons, labels):
    X, y, X_test, _ = moons
    labels = np.array(labels)
    weights = {labels[0].item(): 1.0, labels[1].item(): 2.0}
    model = BandfallClassifier(class_weight=weights, **FAST).fit(X[:40], labels[y[:40]])
    model.save(tmp_path / "model.bandfall")
    loaded = load_model(tmp_path / "model.bandfall")
    assert loaded.class_weight == weights
    assert_array_equal(loaded.predict(X_test), model.predict(X_test))
    assert_array_equal(loaded.predict_proba(X_test), model.predict_proba(X_test))
    assert_array_equal(loaded.novelty(X_test), model.novelty(X_test))


@pytest.mark.parametrize("dtype", ["i1", "u2", "u8", "f2", ">i4", ">f8"])
def test_labels_of_any_numbers_are_stored(tmp_path, moons, dtype):
    X, y, X_test, _ = moons
    model = BandfallClassifier(**FAST).fit(X[:40], y[:40].astype(dtype))
    model.save(tmp_path / "model.bandfall")
    loaded = load_model(tmp_path / "model.bandfall").predict(X_test)
    assert loaded.dtype == np.dtype(dtype).newbyteorder("=")
    assert_array_equal(loaded, model.predict(X_test))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("average_.target.labels", lambda classes: classes[:1]),
        ("average_.target.labels", lambda classes: classes * 0),
        ("average_.target.labels", lambda classes: 3),
        ("average_.target.prior", lambda prior: prior * 2),
        ("average_.target.prior", lambda prior: prior - 0.6),
        ("average_.target.link", lambda link: 1.0),
        ("average_.target.link.kind", lambda kind: "magic"),
        ("average_.target.link.parameter", lambda parameter: 0.0),
        ("average_.target.link.stray", lambda stray: 2.0),
        ("average_.target", lambda target: Numbers.plain()),
        ("held_out_probabilities_", lambda probabilities: probabilities[1:]),
        ("average_.members", lambda members: ()),
    ],
)
def test_damaged_files_are_refused(binary, name, damage):
    part = damaged = pickle.loads(pickle.dumps(binary))
    *inside, name = name.split(".")
    for one in inside:
        part = getattr(part, one)
    object.__setattr__(part, name, damage(getattr(part, name)))
    with pytest.raises(ModelFileError):
        load_bytes(dump_bytes(damaged))
