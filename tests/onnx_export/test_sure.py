"""ONNX models with intervals and of classifiers say what the estimators say."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallClassifier, BandfallRegressor, KernelDescentRegressor, to_onnx
from bandfall._targets.links import Link

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

FAST = {"kernels": ("gaussian",), "max_rounds": 0}


def run_onnx(model, X):
    """All outputs by name."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def noisy(n, seed=0, noise=(0.05, 0.5)):
    """Noise differs between the left and the right half."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (n, 2))
    sizes = np.where(X[:, 0] > 0, noise[1], noise[0])
    return X, np.sin(3 * X[:, 0]) + sizes * random.standard_normal(n)


def new_rows():
    """Near, on top of, and far from the training rows, more than one block of them."""
    far = np.array([[3.0, 0.0], [0.0, -50.0], [np.nan, 0.3]])
    return np.concatenate([noisy(4000, seed=1)[0], noisy(300)[0], far])


@pytest.mark.filterwarnings("ignore:values far outside", "ignore:missing values")
@pytest.mark.parametrize("method", ["constant", "prediction", "metric"])
@pytest.mark.parametrize("n_targets", [1, 2])
def test_ends_are_those_of_predict_interval(method, n_targets):
    X, y = noisy(300, noise=(0.3, 0.3) if method == "constant" else (0.05, 0.5))
    Y = y if n_targets == 1 else np.column_stack([y, np.full(300, 7.0)])
    model = BandfallRegressor(**FAST).fit(X, Y)
    bandwidth = 0.0 if method == "constant" else 0.3
    model._intervals = replace(model._intervals, method=method, bandwidth=bandwidth)
    rows = new_rows()
    outputs = run_onnx(to_onnx(model, coverage=0.8), rows)
    assert list(outputs) == ["prediction", "lower", "upper"]
    expected = model.predict_interval(rows, 0.8)
    scale = np.abs(expected).max()
    for name, end in (("lower", expected[..., 0]), ("upper", expected[..., 1])):
        assert outputs[name].shape == end.shape
        assert_allclose(outputs[name], end, rtol=0, atol=1e-5 * scale)
    assert_allclose(outputs["prediction"], model.predict(rows), rtol=0, atol=1e-5 * scale)


@pytest.mark.filterwarnings("ignore:values far outside")
@pytest.mark.parametrize("kernel", ["laplace-1.5", "laplace-1^0.7"])
def test_novelty_is_measured_in_the_norm_of_the_kernel(kernel):
    """Intervals far from the training rows widen with the distance to the nearest one."""
    X, y = noisy(300)
    model = BandfallRegressor(kernels=(kernel,), max_rounds=0).fit(X, y)
    rows = np.concatenate([noisy(50, seed=1)[0], [[3.0, 0.0], [3.0, -3.0], [0.0, -50.0]]])
    assert model.average_.plainest.path.kernel.geometry.p < 2
    assert (model.novelty(rows) > 1).any()
    outputs = run_onnx(to_onnx(model, coverage=0.8), rows)
    expected = model.predict_interval(rows, 0.8)
    for name, end in (("lower", expected[:, 0]), ("upper", expected[:, 1])):
        assert_allclose(outputs[name], end, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_intervals_of_a_pipeline_in_float32():
    X, y = noisy(120)
    model = make_pipeline(StandardScaler(), BandfallRegressor(**FAST)).fit(X, y)
    X_new = noisy(120, seed=1)[0]
    outputs = run_onnx(to_onnx(model, dtype=np.float32, coverage=0.9), X_new.astype(np.float32))
    expected = model[-1].predict_interval(model[:-1].transform(X_new))
    assert outputs["lower"].dtype == np.float32
    assert_allclose(outputs["lower"], expected[:, 0], atol=1e-4)


def test_what_has_no_intervals_is_refused_by_name():
    X, y = noisy(30)
    model = BandfallRegressor(**FAST).fit(X, y)
    with pytest.raises(ValueError, match="30 held-out rows are too few"):
        to_onnx(model, coverage=0.999)
    with pytest.raises(ValueError, match="between 0 and 1"):
        to_onnx(model, coverage=90)
    with pytest.raises(TypeError, match="KernelDescentRegressor has no intervals"):
        to_onnx(KernelDescentRegressor().fit(X, y), coverage=0.9)
    with pytest.raises(TypeError, match="BandfallClassifier has no intervals"):
        to_onnx(BandfallClassifier(**FAST).fit(X, y > 0), coverage=0.9)


@pytest.mark.filterwarnings("ignore:values far outside")
@pytest.mark.parametrize("link", [Link("clip", 0.01), Link("softmax", 0.2)])
@pytest.mark.parametrize(
    "labels",
    [["no", "yes"], [3, 7], [False, True], [1.0, 2.0], ["setosa", "versicolor", "virginica"]],
    ids=["text", "numbers", "truth", "floats", "three"],
)
def test_classes_and_probabilities_are_those_of_the_classifier(labels, link):
    labels = np.array(labels)
    X, y = load_iris(return_X_y=True) if len(labels) == 3 else make_moons(90, random_state=0)
    model = BandfallClassifier(**FAST).fit(X, labels[y])
    target = replace(model.average_.target, link=link)
    model.average_ = replace(model.average_, target=target)
    rows = np.concatenate([X, X + 0.3, X[:1] + 100.0])
    proto = to_onnx(model)
    outputs = run_onnx(proto, rows)
    assert list(outputs) == ["prediction", "probability"]
    assert_allclose(outputs["probability"], model.predict_proba(rows), atol=1e-9)
    assert_array_equal(outputs["prediction"], model.predict(rows))
    properties = {one.key: one.value for one in proto.metadata_props}
    assert json.loads(properties["classes"]) == labels.tolist()


@pytest.mark.filterwarnings("ignore:columns are left out")
def test_tables_of_constants():
    X, y = np.ones((30, 2)), np.arange(30.0)
    model = BandfallRegressor(**FAST).fit(X, np.column_stack([y, y**2]))
    outputs = run_onnx(to_onnx(model, coverage=0.8), X[:5])
    assert_allclose(outputs["prediction"], model.predict(X[:5]))
    ends = np.stack([outputs["lower"], outputs["upper"]], axis=-1)
    assert_allclose(ends, model.predict_interval(X[:5], 0.8))
    classifier = BandfallClassifier(**FAST).fit(X, y % 3)
    outputs = run_onnx(to_onnx(classifier), X[:5])
    assert_allclose(outputs["probability"], classifier.predict_proba(X[:5]))


def test_rows_that_cannot_be_divided():
    X = (np.arange(40) == 3)[:, None] * 1.0
    model = BandfallRegressor(leaf_rows=10, search_rows=10, **FAST).fit(X, np.arange(40.0))
    assert model.path_.n_leaves == 1
    assert_allclose(run_onnx(to_onnx(model), X)["prediction"], model.predict(X))


@pytest.mark.filterwarnings("ignore:y holds one class")
def test_a_classifier_of_one_class_in_float32():
    X = np.arange(10.0)[:, None]
    model = BandfallClassifier(**FAST).fit(X, np.full(10, "only"))
    outputs = run_onnx(to_onnx(model, dtype=np.float32), X.astype(np.float32))
    assert_array_equal(outputs["prediction"], model.predict(X))
    assert_array_equal(outputs["probability"], np.ones((10, 1), np.float32))


def test_a_classifier_of_text_features():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"x": np.arange(20.0), "kind": list("ab") * 10})
    model = BandfallClassifier(**FAST).fit(table, list("ab") * 10)
    assert [one.name for one in to_onnx(model).graph.input] == ["x", "kind"]
