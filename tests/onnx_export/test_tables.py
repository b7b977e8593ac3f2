"""ONNX models of tables with categories, dates, text and gaps predict what estimators predict."""

import numpy as np
import pandas as pd
import pytest

from bandfall import BandfallClassifier, BandfallRegressor, to_onnx
from bandfall.tables import read_table
from shared_files import suite_files

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

QUICK = {"kernels": ("gaussian",), "max_rounds": 1}
pytestmark = pytest.mark.filterwarnings(
    "ignore:values far outside",
    "ignore:categories never seen",
    "ignore:Column .*text read as",
    "ignore:.*rows repeat an earlier row",
)


def feed(model, encoder, frame):
    """One array for each input: strings as strings, everything else as numbers."""
    table = encoder.schema.check(read_table(frame), warn=False)
    columns = dict(zip(table.names, table.columns, strict=True))
    fed = {}
    for one in model.graph.input:
        column = columns[one.name]
        if column.kind == "category":
            words = np.array([*column.levels, ""], dtype=object)
            fed[one.name] = words[column.values][:, None]
        else:
            fed[one.name] = column.values[:, None]
    return fed


def run(model, encoder, frame):
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, feed(model, encoder, frame))


def assert_equal(estimator, frame, rtol=1e-6):
    """Predictions within `rtol` of their spread; the members compute in float32 from 500 rows."""
    encoder = next(iter(estimator.encoders_.values()))
    found = run(to_onnx(estimator), encoder, frame)[0]
    expected = estimator.predict(frame)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


def mixed(n=150, seed=0):
    random = np.random.default_rng(seed)
    size = random.lognormal(size=n)
    colour = random.choice(["red", "green", "blue", None], n, p=[0.5, 0.3, 0.1, 0.1])
    shop = random.choice([f"shop {i}" for i in range(45)], n)
    when = pd.Timestamp("2021-05-01") + pd.to_timedelta(random.integers(0, 900 * 24, n), unit="h")
    frame = pd.DataFrame(
        {
            "size": np.where(random.random(n) < 0.1, np.nan, size),
            "colour": colour,
            "shop": shop,
            "when": when,
            "lasts": pd.to_timedelta(random.integers(0, 5000, n), unit="s"),
            "price": [f"{value:.2f}".replace(".", ",") for value in random.normal(size=n)],
            "day": [f"{d % 28 + 1}.{d % 12 + 1}.2023" for d in random.integers(0, 365, n)],
            "flag": pd.array(random.choice([True, False, None], n), dtype="boolean"),
            "id": [f"row {seed} {i}" for i in range(n)],
            "constant": 1.0,
        }
    )
    frame.loc[::7, "price"] = "on request"
    frame.loc[::11, "when"] = pd.NaT
    y = np.log(size) + (frame["colour"] == "red") + np.sin(when.month / 2.0)
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def regressor():
    frame, y = mixed()
    with pytest.warns(UserWarning, match="left out: column 'id'"):
        return BandfallRegressor(**QUICK).fit(frame, y)


def test_all_kinds_of_columns(regressor):
    frame, _ = mixed(60, seed=1)
    frame.loc[:3, "colour"] = "violet"  # never seen
    frame.loc[4:6, "when"] = [
        pd.Timestamp(day) for day in ("1955-12-31 23:59", "2096-02-29", "2100-03-01")
    ]
    assert_equal(regressor, frame)


def test_inputs_are_the_columns_that_count(regressor):
    model = to_onnx(regressor)
    kinds = {one.name: one.type.tensor_type.elem_type for one in model.graph.input}
    assert set(kinds) == {*mixed()[0].columns} - {"id", "constant"}
    strings = {name for name, kind in kinds.items() if kind == onnx.TensorProto.STRING}
    assert strings == {"colour", "shop"}
    assert {one.domain: one.version for one in model.opset_import} == {"": 17, "ai.onnx.ml": 3}


def test_inputs_in_float32_but_dates(regressor):
    model = to_onnx(regressor, dtype=np.float32)
    kinds = {one.name: one.type.tensor_type.elem_type for one in model.graph.input}
    assert kinds["size"] == onnx.TensorProto.FLOAT
    assert kinds["when"] == onnx.TensorProto.DOUBLE


def test_intervals_of_mixed_tables(regressor):
    frame, _ = mixed(40, seed=2)
    encoder = next(iter(regressor.encoders_.values()))
    _, lower, upper = run(to_onnx(regressor, coverage=0.9), encoder, frame)
    expected = regressor.predict_interval(frame, 0.9)
    np.testing.assert_allclose(np.column_stack([lower, upper]), expected, rtol=1e-6, atol=1e-6)


def test_classes_from_categories_alone():
    frame, _ = mixed(200)
    y = np.where(frame["colour"].eq("red") ^ frame["shop"].str.endswith("3"), "yes", "no")
    features = frame[["colour", "shop"]]
    model = BandfallClassifier(**QUICK).fit(features, y)
    exported = to_onnx(model)
    new = mixed(50, seed=3)[0][["colour", "shop"]]
    labels, shares = run(exported, next(iter(model.encoders_.values())), new)
    np.testing.assert_allclose(shares, model.predict_proba(new), rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(labels, model.predict(new))


def test_words_for_missing_values_are_missing():
    frame, y = mixed()
    frame = frame[["size", "colour"]].fillna({"colour": "nix"})
    model = BandfallRegressor(**QUICK, missing="nix").fit(frame, y)
    session = onnxruntime.InferenceSession(
        to_onnx(model).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    words = np.array([["nix"], [""]], dtype=object)
    (found,) = session.run(None, {"size": np.ones((2, 1)), "colour": words})
    assert found[0] == found[1]


def test_a_feature_that_is_called_like_an_output_is_refused():
    frame, y = mixed()
    frame = frame[["size", "colour"]].rename(columns={"size": "prediction"})
    model = BandfallRegressor(**QUICK).fit(frame, y)
    with pytest.raises(ValueError, match="feature 'prediction' has the name of an output"):
        to_onnx(model)


def test_names_like_those_of_nodes():
    frame, y = mixed()
    frame = frame[["size", "colour"]].rename(columns={"size": "cast_0", "colour": "constant_1"})
    model = BandfallRegressor(**QUICK).fit(frame, y)
    assert_equal(model, frame[:20])


def suite_table(file):
    """A set of the suite that is more than numbers; text as categories, dates as dates."""
    frame = pd.read_csv(file, keep_default_na=False, na_values=[""])
    y = frame.pop(frame.columns[-1]).astype(float)
    for column in frame.columns[[not pd.api.types.is_numeric_dtype(t) for t in frame.dtypes]]:
        iso = frame[column].dropna().str.fullmatch(r"\d{4}-\d\d-\d\d(T\d\d:\d\d)?")
        kind = "datetime64[us]" if iso.all() else "category"
        frame[column] = frame[column].astype(kind)
    return frame, y


def is_mixed(file):
    head = pd.read_csv(file, nrows=50, keep_default_na=False, na_values=[""])
    return any(not pd.api.types.is_numeric_dtype(dtype) for dtype in head.dtypes[:-1])


@pytest.mark.skipif(not suite_files(), reason="needs the suite: name its home with BANDFALL_DATA")
@pytest.mark.filterwarnings("ignore:columns are left out")
@pytest.mark.parametrize(
    "file", [f for f in suite_files() if is_mixed(f)], ids=lambda file: file.name.split(".")[0]
)
def test_mixed_tables_of_the_suite(file):
    frame, y = suite_table(file)
    rows = np.random.default_rng(0).permutation(len(frame))
    train, new = rows[:300], rows[300:400]
    model = BandfallRegressor(**QUICK).fit(frame.iloc[train], y.iloc[train])
    assert_equal(model, frame.iloc[new])
