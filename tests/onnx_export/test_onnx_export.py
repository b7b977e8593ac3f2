"""ONNX models predict what the estimators predict, in bounded memory, with standard operators."""

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, PolynomialFeatures, StandardScaler

from bandfall import (
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
    PaperMLPRegressor,
    datasets,
    to_onnx,
)
from bandfall.kernels._kernel import KERNELS
from model_files import averaged, estimators, table
from reference import OTHER_KERNELS
from shared_files import data_directory

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
builder = pytest.importorskip("bandfall._graphs")

KERNEL_ESTIMATORS = [name for name in estimators() if name != "mlp"]


def run_onnx(model, X):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"X": X})[0]


def is_pipeline(model):
    return isinstance(model, Pipeline)


def rounding(model):
    """eps Σ|c|, of an average the members' in the units of the target."""
    members = getattr(model, "members_", None)
    if members is None:
        sums = [(model.kernel_sum_.coefficients, 1.0)]
    else:
        sums = [
            (m.path.coefficients, m.weight * model.average_.target.scale.max()) for m in members
        ]
    return sum(np.finfo(c.dtype).eps * np.abs(c).sum() * size for c, size in sums)


def assert_equal_predictions(model, X, dtype=None, rtol=1e-5):
    """Within `rtol` of the size of the predictions, in the shape of `predict`.

    `predict` of a float32 model itself rounds by eps Σ|c|, which counts where ridge
    regression with a small penalty has large coefficients.
    """
    X = X if dtype is None else X.astype(dtype)
    predictions, expected = run_onnx(to_onnx(model, dtype=dtype), X), model.predict(X)
    assert predictions.dtype == X.dtype
    assert predictions.shape == expected.shape
    atol = rtol * np.abs(expected).max() + rounding(model[-1] if is_pipeline(model) else model)
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_equals_predict(name, dtype, outputs):
    """At training rows too, where stages of bandwidth zero act, and at new ones."""
    X, y = table(outputs=outputs, dtype=dtype)
    model = estimators()[name].fit(X, y)
    X_new = np.concatenate([X, table(seed=1, dtype=dtype)[0]])
    assert_equal_predictions(model, X_new)


@pytest.mark.parametrize("name", [*KERNELS, *OTHER_KERNELS])
def test_every_kernel_far_below_the_goal(name):
    X, y = table()
    model = KernelDescentRegressor(name).fit(X, y)
    # onnxruntime folds a factor before a product (Matérn 5/2 has one) into a float32 attribute.
    rtol = 1e-7 if name == "matern52" else 1e-12
    assert_equal_predictions(model, table(seed=1)[0], rtol=rtol)


@pytest.mark.parametrize("name", OTHER_KERNELS)
def test_other_norms_and_exponents_at_training_rows_and_far_away(name):
    """Where distances are zero, stages of bandwidth zero act, and powers grow large."""
    X, y = table(dtype=np.float32)
    model = KernelDescentRegressor(name).fit(X, y)
    assert_equal_predictions(model, np.concatenate([X, 1e6 * X[:3], X[:3] + 1e-6]))


def test_float32_service_of_a_float64_model():
    X, y = table()
    model = make_pipeline(MinMaxScaler(clip=True), StandardScaler(), KernelDescentRegressor())
    assert_equal_predictions(model.fit(X, y), table(seed=1)[0], np.float32)


def test_float64_service_of_a_float32_model():
    X, y = table(dtype=np.float32)
    model = make_pipeline(MaxAbsScaler(), KernelDescentRegressor()).fit(X, y)
    assert_equal_predictions(model, table(seed=1)[0], np.float64)


def test_large_offset_does_not_cancel():
    """Features around 1e4 with differences around 1: float32 rows, distances in float64."""
    X, y = table(n=40)
    X = (X + 1e4).astype(np.float32)
    assert_equal_predictions(KernelDescentRegressor().fit(X, y.astype(np.float32)), X)


def test_zero_bandwidth_acts_at_equal_rows_only():
    X, y = table()
    model = KernelRidgeRegressor(bandwidth=0.0, penalty=0.0).fit(X, y)
    np.testing.assert_allclose(run_onnx(to_onnx(model), X), y, rtol=1e-12)
    moved = run_onnx(to_onnx(model), X + 1e-9)
    np.testing.assert_array_equal(moved, np.full(len(X), model.kernel_sum_.offset[0]))
    np.testing.assert_allclose(model.kernel_sum_.offset, y.mean(), rtol=1e-15)


def test_infinite_bandwidth():
    X, y = table()
    model = KernelRidgeRegressor(bandwidth=np.inf).fit(X, y)
    assert_equal_predictions(model, 10 * table(seed=1)[0])


def test_kernel_given_as_a_function():
    X, y = table()
    model = KernelDescentRegressor(lambda u: np.exp(-np.sqrt(1.0 + u**2) + 1.0)).fit(X, y)
    assert_equal_predictions(model, table(seed=1)[0], rtol=1e-12)


@pytest.mark.parametrize("rows", [1, 2, 261, 262, 263, 1000])
def test_any_number_of_rows(rows):
    """Around the edges of blocks, which hold 262 rows here."""
    X, y = table(n=2000, d=2)
    model = KernelRidgeRegressor(bandwidth=0.5, penalty=1.0).fit(X[:4], y[:4])
    model.kernel_sum_ = replace(model.kernel_sum_, X=X, coefficients=y[None, :, None])
    assert_equal_predictions(model, table(n=rows, d=2, seed=1)[0], rtol=1e-9)


DATA = {
    "cpu": datasets.load_cpu,
    "power": datasets.load_power,
    "superconductors": datasets.load_superconductors,
    "uk_temperature": datasets.load_uk_temperature,
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DATA)
def test_real_data(name, dtype):
    X, y = DATA[name](data_home=data_directory(), return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:400]
    X, y = np.asarray(X, dtype)[rows], np.asarray(y, dtype)[rows]
    model = make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(X[:200], y[:200])
    assert_equal_predictions(model, X)


def skewed_table(n, missing=False, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 4)) ** 3
    X[:, 3] = np.round(X[:, 3])  # ties
    y = 100.0 + np.cbrt(X[:, 0]) + X[:, 3]
    if missing:
        X[::7, 1] = np.nan
    return X, y


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize(
    "encodings",
    [
        ("standard",),
        ("quantile",),
        ("steps",),
        ("steps", "standard", "quantile"),
    ],
)
@pytest.mark.filterwarnings("ignore:values far outside:UserWarning")
def test_self_tuning_regressor(encodings, missing):
    X, y = skewed_table(120, missing)
    X_new = np.concatenate([X[:30], skewed_table(30, seed=1)[0], [[1e9, -1e9, 0, 0]]])
    if missing:
        X_new[::5, 1:3] = np.nan
    model = BandfallRegressor(kernels=("matern32",), max_rounds=1).fit(X, y)
    averaged(model, X, encodings)  # whichever won
    assert_equal_predictions(model, X_new, rtol=1e-9)


def test_self_tuning_regressor_in_float32():
    """From 500 rows on, members compute in float32."""
    X, y = skewed_table(520, missing=True)
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, y)
    averaged(model, X, ("steps", "quantile"))
    assert model.path_.X.dtype == np.float32
    assert_equal_predictions(model, X[:60].astype(np.float32), np.float32)


def test_booleans_and_columns_that_are_left_out():
    X, y = skewed_table(60)
    frame = pd.DataFrame(X, columns=list("abcd"))
    frame["flag"] = X[:, 0] > 0
    frame["constant"] = 3.0
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(frame, y)
    averaged(model, frame, ("steps", "standard"))
    found = run_onnx(to_onnx(model), frame.to_numpy(dtype=np.float64))
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-9)


def test_normal_quantile():
    """Algorithm AS 241 against SciPy, from end to end."""
    graph = builder.Graph()
    graph.normal_quantile("X")
    graph.nodes[-1].output[0] = "y"
    info = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["rows"])
        for name in ("X", "y")
    ]
    proto = onnx.helper.make_model(
        graph.finish("quantile", info[:1], info[1:]),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=8,
    )
    shares = np.concatenate([[1e-12, 1e-7, 1e-3, 0.5, 1 - 1e-7], np.linspace(0.001, 0.999, 97)])
    np.testing.assert_allclose(run_onnx(proto, shares), ndtri(shares), rtol=1e-13, atol=1e-15)


def test_standard_operators_only():
    model = to_onnx(make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(*table()))
    assert [opset.domain for opset in model.opset_import] == [""]
    onnx.checker.check_model(model, full_check=True)


def test_feature_names_travel_along():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = to_onnx(make_pipeline(StandardScaler(), KernelDescentRegressor()).fit(frame, y))
    properties = {p.key: p.value for p in model.metadata_props}
    assert json.loads(properties["feature_names"]) == ["a", "b", "c"]
    assert properties["estimator"] == "KernelDescentRegressor"


MEMORY_SCRIPT = """
import resource, sys
import numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
X = np.random.default_rng(0).normal(size=(int(sys.argv[2]), 2))
session.run(None, {"X": X})
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_memory_stays_bounded(tmp_path):
    """10,000 rows against 2,000 would be 153 MiB at once; in blocks they need as 500 do."""
    pytest.importorskip("resource")
    X, y = table(n=2000, d=2)
    model = to_onnx(KernelRidgeRegressor(bandwidth=0.5, penalty=1.0).fit(X, y))
    onnx.save(model, tmp_path / "m.onnx")
    peaks = [
        int(
            subprocess.run(
                [sys.executable, "-c", MEMORY_SCRIPT, tmp_path / "m.onnx", str(rows)],
                capture_output=True,
                check=True,
            ).stdout
        )
        for rows in (500, 10_000)
    ]
    assert peaks[1] - peaks[0] < 60 * 1024


class TestRefused:
    def test_dtype(self):
        with pytest.raises(ValueError, match="float16 must be float32 or float64"):
            to_onnx(KernelRidgeRegressor().fit(*table()), dtype=np.float16)

    def test_transformer(self):
        model = make_pipeline(PolynomialFeatures(), KernelRidgeRegressor()).fit(*table())
        with pytest.raises(ValueError, match="PolynomialFeatures cannot be exported"):
            to_onnx(model)

    def test_no_kernel_estimator(self):
        with pytest.raises(TypeError, match="PaperMLPRegressor is not a kernel estimator"):
            to_onnx(PaperMLPRegressor(max_epochs=1).fit(*table()))

    def test_kernel_beyond_elementwise_functions(self):
        model = KernelRidgeRegressor(lambda u: 1.0 - np.arctan(u) * 2.0 / np.pi).fit(*table())
        with pytest.raises(ValueError, match=r"np\.arctan has no counterpart"):
            to_onnx(model)
