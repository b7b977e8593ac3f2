"""Model files hold every estimator, survive crashes while written, and stay readable."""

import errno
import functools
import os
import pickle
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bandfall
from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeCV,
    KernelRidgeRegressor,
    ModelFileError,
    load_model,
    save_model,
)
from bandfall._files import dump_bytes, load_bytes, read_model_document, read_model_file
from bandfall._files.codec import decode
from model_files import averaged, estimators, table, taken_apart


@functools.cache
def small_ridge():
    return KernelRidgeRegressor().fit(*table(n=5))


def assert_same_state(a, b):
    """Equal parameters and fitted attributes, through every container."""
    assert type(a) is type(b) or isinstance(a, str)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype or a.dtype.kind == "U"  # text comes back as objects
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            assert_same_state(left, right)
    elif isinstance(a, dict):
        assert set(a) == set(b)
        for key in a:
            assert_same_state(a[key], b[key])
    elif isinstance(a, float) and a != a:
        assert b != b
    elif is_dataclass(a) and not isinstance(
        a, BaseEstimator
    ):  # what it caches beside its fields may differ
        for field in fields(a):
            assert_same_state(getattr(a, field.name), getattr(b, field.name))
    elif hasattr(a, "__dict__") and type(a).__module__.startswith(("bandfall", "sklearn")):
        unstored = ("n_samples_seen_",)
        assert_same_state({k: v for k, v in vars(a).items() if k not in unstored}, vars(b))
    else:
        assert a == b


@pytest.mark.parametrize("name", estimators())
@pytest.mark.parametrize("outputs", [None, 2])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loaded_equals_saved(name, outputs, dtype, tmp_path):
    X, y = table(outputs=outputs, dtype=dtype)
    model = estimators()[name].fit(X, y)
    save_model(model, tmp_path / "model.bandfall")
    loaded = load_model(tmp_path / "model.bandfall")
    assert_same_state(model, loaded)
    # Sums may round differently where coefficients lay in another order in memory, and the
    # coefficients of ridge regression reach |y|/penalty.
    atol = 1e4 * np.finfo(dtype).eps * np.abs(y).max()
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=0, atol=atol)


@pytest.mark.parametrize("kernel", ["laplace-1.5", "laplace-1.3^0.7", "cauchy^1"])
def test_norm_and_exponent_are_kept(kernel):
    X, y = table()
    for model in (
        KernelRidgeRegressor(kernel=kernel).fit(X, y),
        BandfallRegressor(kernels=(kernel,), max_rounds=1).fit(X, y),
    ):
        loaded = load_bytes(dump_bytes(model)).estimator
        assert_same_state(model, loaded)
        np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=0, atol=1e-10)
        assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize(
    "kernel",
    [
        {"$": "kernel", "name": "gaussian-1.5"},
        {"$": "kernel", "name": "laplace-3"},
        {"$": "kernel", "name": "laplace^-1"},
        {"$": "kernel", "name": "laplace-1.2.3"},
        {"$": "kernel", "name": "rbf"},
        {"$": "kernel", "name": ["laplace"]},
    ],
)
def test_kernels_that_are_none_are_refused(kernel):
    with pytest.raises(ModelFileError, match=r"its kernel is not usable|malformed"):
        decode(kernel, {})


@pytest.mark.parametrize("name", estimators())
def test_feature_names_are_kept(name):
    X, y = table()
    frame = pd.DataFrame(X, columns=["wide", "höhe", "x 3"])
    loaded = load_bytes(dump_bytes(estimators()[name].fit(frame, y))).estimator
    assert list(loaded.feature_names_in_) == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"wide": "narrow"}))


@pytest.mark.parametrize(
    "columns",
    [
        pd.RangeIndex(3),
        pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")]),
        pd.to_datetime(["2024-01-01", "2024-01-02", "2024-02-01"]),
        pd.Index([0.5, 1.5, 2.5]),
    ],
    ids=["integers", "tuples", "dates", "floats"],
)
@pytest.mark.parametrize("name", estimators())
def test_a_model_of_columns_with_names_that_are_no_strings_is_stored(name, columns):
    X, y = table()
    frame = pd.DataFrame(X, columns=columns)
    model = estimators()[name].fit(frame, y)
    loaded = load_bytes(dump_bytes(model)).estimator
    assert_same_state(model, loaded)
    np.testing.assert_allclose(loaded.predict(frame), model.predict(frame), rtol=1e-9)
    if isinstance(model, BandfallRegressor):  # finds columns by name, in memory and from a file
        turned = frame[frame.columns[::-1]]
        np.testing.assert_array_equal(loaded.predict(turned), loaded.predict(frame))


NO_COLUMN = {
    "constant columns": (np.ones((20, 2)), None),
    "one row": (np.arange(2.0)[None], None),
    "one row with a weight": (np.arange(40.0).reshape(20, 2), np.eye(20)[3]),
}


@pytest.mark.filterwarnings("ignore:y holds one class", "ignore:columns are left out")
@pytest.mark.parametrize("case", NO_COLUMN)
@pytest.mark.parametrize("kind", [BandfallRegressor, BandfallClassifier])
def test_a_model_without_usable_columns_is_stored(kind, case, tmp_path):
    X, weights = NO_COLUMN[case]
    y = np.arange(len(X)) % 2
    model = kind().fit(X, y, sample_weight=weights)
    model.save(tmp_path / "model.bandfall")
    loaded = load_model(tmp_path / "model.bandfall")
    assert_same_state(model, loaded)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("name", estimators())
def test_pickle_and_skops(name):
    skops_io = pytest.importorskip("skops.io")
    X, y = table()
    model = estimators()[name].fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))
    data = skops_io.dumps(model)
    loaded = skops_io.loads(data, trusted=skops_io.get_untrusted_types(data=data))
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-10)


def mixed_table(n=120):
    random = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "a": random.normal(size=n) ** 3,
            "b": random.choice(["red", "green", None], n),
            "c": random.random(n) > 0.5,
            "d": pd.Categorical(random.choice([1, 2], n)),
            "e": pd.date_range("2024-01-01", periods=n, freq="31h"),
        }
    )
    table.loc[::7, "a"] = np.nan
    return table, (table["a"].fillna(0.0) + table["c"]).to_numpy()


@pytest.mark.parametrize(
    "encodings",
    [("standard",), ("quantile",), ("steps",), ("steps", "standard", "quantile")],
)
@pytest.mark.filterwarnings("ignore:categories never seen:UserWarning")
def test_bandfall_with_categories_dates_and_missing_values(encodings):
    table, y = mixed_table()
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(table, y)
    model = averaged(model, table, encodings)  # whichever won
    loaded = load_bytes(dump_bytes(model)).estimator
    assert_same_state(model, loaded)
    for rows in (table, table.assign(b="blue")):
        np.testing.assert_allclose(loaded.predict(rows), model.predict(rows), rtol=1e-10)
        np.testing.assert_allclose(loaded.gradient(rows), model.gradient(rows), rtol=1e-10)


def test_heaviest_member_is_stored_once():
    X, y = table()
    document, _, _ = taken_apart(dump_bytes(BandfallRegressor(max_rounds=0).fit(X, y)))
    assert not {"path_", "metric_", "best_params_"} & set(document["model"]["state"]["fitted"])


def test_loaded_path_can_go_on(tmp_path):
    X, y = table()
    model = KernelDescentRegressor(max_time=3.0).fit(X, y)
    model.save(tmp_path / "m")
    path = load_model(tmp_path / "m").path_
    assert path.status is model.path_.status
    np.testing.assert_array_equal(
        path.truncate(time=1.0).evaluate(X), model.path_.truncate(time=1.0).evaluate(X)
    )


def test_compressed_path():
    X, y = table()
    model = KernelDescentRegressor().fit(X, y)
    model.path_ = model.path_.compress(1e-3)
    loaded = load_bytes(dump_bytes(model)).estimator
    assert np.isnan(loaded.path_.stages[0].time)
    assert loaded.path_.compression_error == model.path_.compression_error > 0
    np.testing.assert_allclose(loaded.predict(X), model.predict(X), rtol=1e-10)


def test_device_stays_behind():
    """A model trained on a GPU loads where there is none."""
    X, y = table()
    model = KernelDescentRegressor().fit(X, y)
    model.set_params(device="cuda")
    assert load_bytes(dump_bytes(model)).estimator.device == "auto"
    assert model.device == "cuda"


def test_constant_target():
    X, _ = table()
    model = KernelDescentRegressor().fit(X, np.full(len(X), 3.0))
    assert load_bytes(dump_bytes(model)).estimator.predict(X).tolist() == [3.0] * len(X)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=4).filter(lambda key: key != "$"), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(notes=st.dictionaries(st.sampled_from("abc"), values))
def test_notes_of_any_kind(notes):
    assert load_bytes(dump_bytes(small_ridge(), notes=notes)).notes == notes


def test_notes_hold_arrays(tmp_path):
    notes = {"held_out": {"X": np.arange(6.0).reshape(2, 3), "rows": np.array([3, 4])}}
    save_model(small_ridge(), tmp_path / "m", notes=notes)
    assert_same_state(read_model_file(tmp_path / "m").notes, notes)


def test_equal_models_give_equal_bytes():
    X, y = table()
    assert dump_bytes(KernelDescentRegressor().fit(X, y)) == dump_bytes(
        KernelDescentRegressor().fit(X, y)
    )


def test_any_safetensors_reader_opens_it():
    X, y = table()
    model = KernelRidgeRegressor().fit(X, y)
    arrays = load(dump_bytes(model))
    np.testing.assert_array_equal(arrays["model.fitted.kernel_sum_.X"], X)


def test_header_names_versions_and_dtypes(tmp_path):
    save_model(small_ridge(), tmp_path / "m")
    document = read_model_document(tmp_path / "m")
    assert document["versions"]["bandfall"] == bandfall.__version__
    assert document["format_version"] == 1
    assert document["model"]["state"]["fitted"]["_dtype"]["name"] == "float64"


class TestRefusedWhenSaving:
    def test_not_fitted(self, tmp_path):
        with pytest.raises(NotFittedError):
            save_model(KernelRidgeRegressor(), tmp_path / "m")

    @pytest.mark.parametrize(
        ("model", "match"),
        [
            (KernelRidgeRegressor(lambda u: np.exp(-u)), "kernel is <function"),
            (KernelRidgeCV(bandwidths=[1.0], penalties=[1.0], cv=KFold(3)), "cv is KFold"),
            (make_pipeline(PolynomialFeatures(), KernelRidgeRegressor()), "PolynomialFeatures"),
            (make_pipeline(StandardScaler(), Ridge()), "Ridge"),
        ],
    )
    def test_code_and_strangers(self, model, match, tmp_path):
        file = tmp_path / "m"
        file.write_bytes(b"what was there")
        with pytest.raises(ModelFileError, match=match):
            save_model(model.fit(*table()), file)
        assert file.read_bytes() == b"what was there"

    def test_broken_model(self):
        model = KernelRidgeRegressor().fit(*table())
        broken = np.full_like(model.kernel_sum_.coefficients, np.nan)
        model.kernel_sum_ = replace(model.kernel_sum_, coefficients=broken)
        with pytest.raises(ModelFileError, match="coefficients must be finite"):
            dump_bytes(model)


class TestWritingIsAtomic:
    @pytest.mark.parametrize("step", ["fsync", "replace"])
    def test_disk_full_or_crash(self, step, tmp_path, monkeypatch):
        file = tmp_path / "m"
        save_model(small_ridge(), file)
        before = file.read_bytes()

        def fail(*arguments):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(os, step, fail)
        with pytest.raises(OSError, match="No space left"):
            save_model(KernelRidgeRegressor().fit(*table(n=9)), file)
        assert file.read_bytes() == before
        assert os.listdir(tmp_path) == ["m"]

    def test_mode_and_link_are_kept(self, tmp_path):
        target, link = tmp_path / "target", tmp_path / "link"
        target.write_bytes(b"")
        target.chmod(0o640)
        link.symlink_to(target)
        save_model(small_ridge(), link)
        assert link.is_symlink()
        assert target.stat().st_mode & 0o777 == 0o640
        load_model(target)

    def test_missing_directory(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            save_model(small_ridge(), tmp_path / "no" / "m")


def test_document_lists_every_array():
    document, entries, _ = taken_apart(dump_bytes(small_ridge()))
    assert set(document["arrays"]) == set(entries)
