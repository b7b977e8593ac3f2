"""Damaged, foreign and hostile model files end in ModelFileError, soon and with little memory."""

import base64
import copy
import json
import os
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import save
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import (
    BandfallClassifier,
    BandfallRegressor,
    KernelDescentRegressor,
    KernelRidgeRegressor,
    ModelFileError,
    load_model,
)
from bandfall._files import dump_bytes, load_bytes
from bandfall._files.container import MAX_HEADER_BYTES
from bandfall._files.parts import MAX_STAGES
from bandfall.descent import Flow
from model_files import averaged, put_together, table, taken_apart

RAW_MUTANTS = 10_000
STRUCTURED_MUTANTS = 4_000


@pytest.fixture(scope="module")
def data():
    X, y = table(n=6, d=2)
    model = make_pipeline(
        StandardScaler(), KernelDescentRegressor(solver=Flow(resolution=1.0))
    ).fit(X, y)
    return dump_bytes(model, notes={"target": "y"})


@pytest.fixture
def parts(data):
    return taken_apart(data)


def refused(data, match=None):
    with pytest.raises(ModelFileError, match=match):
        load_bytes(data)


def test_unchanged_parts_load(parts, data):
    assert load_bytes(put_together(*parts)).notes == load_bytes(data).notes


class TestNotAModelFile:
    def test_empty(self):
        refused(b"", "does not start like a model file")

    def test_text(self):
        refused(b"a,b,c\n1,2,3\n" * 100, "does not start like a model file")

    def test_only_a_length(self):
        refused((10).to_bytes(8, "little"), "truncated")

    def test_huge_header_length(self):
        refused((2**63).to_bytes(8, "little") + b"{}", "does not start like")
        refused((MAX_HEADER_BYTES + 1).to_bytes(8, "little") + b"{}", "does not start like")

    def test_pickle(self, tmp_path):
        """A pickle would run code on load; here nothing runs."""
        evil = b"cos\nsystem\n(S'touch " + os.fsencode(tmp_path / "pwned") + b"'\ntR."
        (tmp_path / "m").write_bytes(evil)
        with pytest.raises(ModelFileError, match="m cannot be read as a bandfall model"):
            load_model(tmp_path / "m")
        assert not (tmp_path / "pwned").exists()

    def test_other_safetensors(self):
        refused(save({"a": np.zeros(3)}), "no bandfall model")

    @pytest.mark.parametrize("header", [b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 10_000])
    def test_header_is_no_object(self, header):
        refused(len(header).to_bytes(8, "little") + header, "header is not|valid JSON")

    def test_directory_and_device(self, tmp_path):
        with pytest.raises(IsADirectoryError):
            load_model(tmp_path)
        if os.path.exists("/dev/zero"):
            with pytest.raises(ModelFileError, match="not a regular file"):
                load_model("/dev/zero")

    def test_pipe_does_not_block(self, tmp_path):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="not a regular file"):
            load_model(tmp_path / "pipe")


class TestDamaged:
    def test_truncated_anywhere(self, data):
        for length in range(0, len(data), 37):
            refused(data[:length])

    def test_extended(self, data):
        refused(data + b"\0", "truncated or extended")

    def test_one_bit_of_an_array(self, data):
        refused(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], "checksum differs")

    def test_header_changed(self, parts):
        document, entries, raw = parts
        document["notes"] = {"target": "z"}
        refused(put_together(document, entries, raw, repair=False), "header is damaged")

    def test_newer_format(self, parts):
        document, entries, raw = parts
        document["format_version"] = 2
        refused(put_together(document, entries, raw), "newer bandfall.*upgrade")

    @pytest.mark.parametrize("version", [None, 0, -1, True, "1", 1.0])
    def test_no_format(self, parts, version):
        document, entries, raw = parts
        document["format_version"] = version
        refused(put_together(document, entries, raw), "format version is missing")


class TestHostile:
    """Checksums fit; the content does not."""

    @pytest.mark.parametrize(
        "shape", [[2**40], [2**40, 0], [-1], [1.5], ["a"], [True], "ab", [1] * 50, None, [2**70]]
    )
    def test_shapes(self, parts, shape):
        document, entries, raw = parts
        next(iter(entries.values()))["shape"] = shape
        refused(put_together(document, entries, raw), "malformed")

    @pytest.mark.parametrize("offsets", [[0, 2**60], [-8, 8], [8, 0], [0], [0, "8"], None, [0, 9]])
    def test_offsets(self, parts, offsets):
        document, entries, raw = parts
        next(iter(entries.values()))["data_offsets"] = offsets
        refused(put_together(document, entries, raw), "malformed")

    @pytest.mark.parametrize("code", ["F16", "C128", "O", 8, None, "BF16"])
    def test_dtypes(self, parts, code):
        document, entries, raw = parts
        next(iter(entries.values()))["dtype"] = code
        refused(put_together(document, entries, raw), "malformed")

    def test_overlap(self, parts):
        document, entries, raw = parts
        sized = [e for e in entries.values() if e["data_offsets"][0] != e["data_offsets"][1]]
        same = [e for e in sized if e["shape"] == sized[0]["shape"]]
        same[1]["data_offsets"] = same[0]["data_offsets"]
        refused(put_together(document, entries, raw), "overlap|truncated or extended")

    @pytest.mark.parametrize("number", [np.nan, np.inf])
    @pytest.mark.parametrize("where", ["coefficients", "model.X", "mean_", "residual"])
    def test_numbers_that_are_none(self, parts, where, number):
        document, entries, raw = parts
        name = next(name for name in entries if name.endswith(where))
        begin = entries[name]["data_offsets"][0]
        raw = raw[:begin] + np.float64(number).tobytes() + raw[begin + 8 :]
        refused(put_together(document, entries, raw), "finite")

    @pytest.mark.parametrize("name", ["os.system", "Ridge", "builtins.eval", "", 3, None])
    def test_classes(self, parts, name):
        document, entries, raw = parts
        document["model"]["class"] = name
        refused(put_together(document, entries, raw), "does not know")

    def test_attributes(self, parts):
        document, entries, raw = parts
        document["model"]["state"]["steps"][1][1]["state"]["fitted"]["predict"] = 3
        refused(put_together(document, entries, raw), "unknown fields: predict")

    def test_parameters(self, parts):
        document, entries, raw = parts
        document["model"]["state"]["steps"][1][1]["state"]["parameters"]["min_speed"] = -1
        refused(put_together(document, entries, raw), r"'min_speed'.* Got -1")

    def test_nesting(self, parts):
        document, entries, raw = parts
        deep = []
        for _ in range(100):
            deep = [deep]
        document["notes"] = {"deep": deep}
        refused(put_together(document, entries, raw), "nested too deeply")

    def test_more_stages_than_anyone_can_wait_for(self):
        """Each costs a prediction some microseconds, however few rows there are."""
        model = KernelDescentRegressor(solver=Flow(resolution=1.0)).fit(*table(n=2, d=1))
        path = model.path_
        many = np.zeros(MAX_STAGES + 1, dtype=int)
        model.path_ = path.replace(
            bandwidths=path.bandwidths[many], coefficients=path.coefficients[many]
        )
        with pytest.raises(ModelFileError, match="65,537 stages, over 65,536"):
            dump_bytes(model)

    def test_bare_path_is_no_estimator(self, parts):
        document, entries, raw = parts
        document["model"] = document["model"]["state"]["steps"][0][1]
        refused(put_together(document, entries, raw), "no estimator")

    def test_wrong_number_of_features(self, parts):
        document, entries, raw = parts
        document["model"]["state"]["steps"][1][1]["state"]["fitted"]["n_features_in_"] = 7
        refused(put_together(document, entries, raw), "n_features_in_")


def mutated_bytes(data, random):
    """Some bytes changed, cut, doubled or moved."""
    data = bytearray(data)
    for _ in range(random.integers(1, 6)):
        at, to = sorted(random.integers(0, len(data) + 1, 2))
        kind = random.integers(0, 6)
        if kind <= 1 and at < len(data):
            data[at] = random.integers(0, 256)
        elif kind == 2 and at < len(data):
            data[at] ^= 1 << random.integers(0, 8)
        elif kind == 3:
            del data[at : at + random.integers(1, 50)]
        elif kind == 4:
            data[at:at] = data[at : min(to, at + 200)]
        else:
            data[at:at] = random.bytes(random.integers(1, 20))
    return bytes(data)


STRANGE = [None, True, -1, 0, 1, 2, 2**31, 2**63, 2**80, -1.5, 1e308, 1e-320, "", "inf", "X", "é"]
STRANGE += ["float64", "gaussian", "../../etc/passwd", "__class__", "\ud800", [], {}, [[]], [1, 2]]
STRANGE += [{"$": "float", "value": v} for v in ("inf", "-inf", "nan", 3)]
STRANGE += [{"$": "tuple", "items": []}, {"$": "strings", "items": ["a"]}, {"$": []}, {"$": "x"}]
STRANGE += [{"$": "dtype", "name": "float32"}, {"$": "kernel", "name": "cauchy"}]
STRANGE += [{"$": "object", "class": "Plan", "state": {}}, {"$": "object", "class": "Path"}]


def mutated_structure(parts, random):
    """Some values of the document or of the array table replaced, dropped or swapped."""
    document, entries, raw = parts
    document, entries = json.loads(json.dumps([document, entries]))
    for _ in range(random.integers(1, 4)):
        places = list(_places(document if random.random() < 0.8 else entries))
        places = [place for place in places if place[1] != "sha256"]
        holder, key = places[random.integers(len(places))]
        kind = random.integers(0, 5)
        if kind <= 2:
            holder[key] = copy.deepcopy(STRANGE[random.integers(len(STRANGE))])
        elif kind == 3:
            other, other_key = places[random.integers(len(places))]
            holder[key] = copy.deepcopy(other[other_key])
        elif isinstance(holder, dict):
            holder.pop(key)
    return put_together(document, entries, raw)


def _places(value):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _places(item)


def load_or_refuse(mutant, X):
    """Whether the mutant loads; then it must also predict, as the estimators promise."""
    try:
        loaded = load_bytes(mutant)
    except ModelFileError:
        return False
    assert np.shape(loaded.estimator.predict(X))[0] == len(X)
    return True


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:values far outside the range:UserWarning")  # it was changed
@pytest.mark.parametrize("kind", ["raw", "structured"])
def test_fuzz(kind, data):
    """More than 10,000 mutants: no other exception, no hang, no large allocation."""
    X, _ = table(n=2, d=2)
    flagship = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(*table(n=8, d=2))
    files = [data, dump_bytes(flagship)]
    parts = [taken_apart(file) for file in files]
    random = np.random.default_rng(20)
    n_mutants = RAW_MUTANTS if kind == "raw" else STRUCTURED_MUTANTS
    n_loaded, slowest = 0, 0.0
    for i in range(n_mutants):
        if kind == "raw":
            mutant = mutated_bytes(files[i % 2], random)
        else:
            mutant = mutated_structure(parts[i % 2], random)
        tracemalloc.start()
        start = time.perf_counter()
        n_loaded += load_or_refuse(mutant, X)
        slowest = max(slowest, time.perf_counter() - start)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 2**21
    assert slowest < 5.0
    # Harmless changes, such as of a note, may load; the fuzzer must reach both sides.
    assert n_loaded < n_mutants / 2
    assert kind == "raw" or n_loaded > 0


def averaged_model():
    X, y = table(n=12, d=2)
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, y)
    return averaged(model, X, ("standard", "steps"))


def changed(part, **fields):
    """A frozen part with fields that it would refuse, as a file may hold them."""
    for name, value in fields.items():
        object.__setattr__(part, name, value)


def with_members(model, *members):
    changed(model.average_, members=members)


def with_encoders(model, **encoders):
    known = {**model.encoders_, **encoders}
    known = {name: encoder for name, encoder in known.items() if encoder is not None}
    changed(model.average_, encoders=known)


def with_first(model, **fields):
    changed(model.average_.members[0], **fields)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda m: with_members(m), "the average has no members"),
        (lambda m: with_members(m, m.members_[0]), "weights of the members do not sum to one"),
        (lambda m: with_first(m, weight=-0.5), "weight=-0.5 must be a number in"),
        (
            lambda m: with_members(m, replace(m.members_[0], weight=1.0)),
            "members and encoders have different encodings",
        ),
        (lambda m: with_first(m, root=np.ones(3)), "root has shape"),
        (lambda m: with_first(m, root=np.full(2, np.inf)), "root must be finite"),
        (
            lambda m: with_encoders(m, standard=m.encoders_["steps"]),
            "an encoder and the path of its member differ",
        ),
        (lambda m: with_encoders(m, steps=None), "members and encoders have different encodings"),
        (lambda m: changed(m.average_.target, scale=np.zeros(1)), "scale must be positive"),
        (lambda m: changed(m.average_.target, scale=np.full(1, np.inf)), "scale must be finite"),
        (lambda m: changed(m.average_.target, offset=np.zeros(2)), "does not fit k"),
        (lambda m: setattr(m, "n_features_in_", 3), "does not fit n_features_in_"),
        (lambda m: setattr(m, "held_out_rows_", np.zeros(2)), "held_out_rows_ must hold integers"),
        (lambda m: setattr(m, "_used_rows", np.arange(2)), "_used_rows must hold the indices"),
        (
            lambda m: setattr(m, "_used_rows", np.arange(m.average_.n_rows)[::-1]),
            "of the used rows, in order",
        ),
        (lambda m: setattr(m, "_used_rows", "all"), "_used_rows must be"),
        (
            lambda m: setattr(m, "_used_rows", 10**6 + np.arange(m.average_.n_rows)),
            "held_out_rows_ points outside",
        ),
        (lambda m: m.selection_.update(score=np.zeros(1)), "selection_ differ in length"),
    ],
)
def test_averages_that_do_not_fit_together(damage, match):
    model = averaged_model()
    damage(model)
    with pytest.raises(ModelFileError, match=match):
        dump_bytes(model)


def test_golden_text_is_a_model_file(data):
    """The base64 text of a file is not the file."""
    refused(base64.b64encode(data), "does not start like a model file")


def test_duplicate_keys_do_not_slip_through(parts):
    """Readers differ on which of two equal keys counts; the checksum settles it."""
    document, entries, raw = parts
    text = json.dumps(document)
    text = text[:-1] + ', "notes": {"target": "other"}}'
    header = json.dumps({"__metadata__": {"bandfall": text}, **entries}).encode()
    refused(len(header).to_bytes(8, "little") + header + raw, "header is damaged")


def test_ridge_without_rows():
    data = dump_bytes(KernelRidgeRegressor().fit(*table(n=4, d=2)))
    document, entries, raw = taken_apart(data)
    name = "model.fitted.kernel_sum_.X"
    begin, end = entries[name]["data_offsets"]
    length = end - begin
    for other in entries.values():
        if other["data_offsets"][0] >= end:
            other["data_offsets"] = [offset - length for offset in other["data_offsets"]]
    entries[name] = {"dtype": "F64", "shape": [0, 2], "data_offsets": [begin, begin]}
    refused(put_together(document, entries, raw[:begin] + raw[end:]), "not usable")


def extreme_files(data):
    """Files with one number, the first of an array or one of the document, that is extreme."""
    document, entries, raw = taken_apart(data)
    for value in (np.nan, -np.inf, 1e308, -1e155, 1e-310):
        for entry in entries.values():
            begin, end = entry["data_offsets"]
            if entry["dtype"] == "F64" and begin < end:
                number = np.float64(value).tobytes()
                changed = raw[:begin] + number + raw[begin + 8 :]
                yield put_together(document, entries, changed)
        for holder, key in list(_places(document["model"])):
            if isinstance(holder[key], float):
                finite = value if np.isfinite(value) else {"$": "float", "value": repr(value)}
                with_number, holder[key] = holder[key], finite
                yield put_together(document, entries, raw)
                holder[key] = with_number


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::UserWarning")
@pytest.mark.parametrize("kind", ["descent", "ridge", "regressor", "classifier"])
def test_extreme_numbers_are_refused_or_harmless(kind):
    """No prediction of a file that loads is NaN."""
    X, y = table(n=20, d=2)
    rows = {"a": X[:, 0], "b": X[:, 1], "town": np.where(X[:, 0] > 0, "Rom", "Oslo")}
    quick = {"kernels": "gaussian", "max_rounds": 1}
    if kind in ("descent", "ridge"):
        rows = X
        model = KernelDescentRegressor() if kind == "descent" else KernelRidgeRegressor()
    else:
        flagship = BandfallRegressor if kind == "regressor" else BandfallClassifier
        model = flagship(**quick)
    model.fit(rows, y > 0.5 if kind == "classifier" else y)
    methods = {"regressor": ["novelty"], "classifier": ["novelty", "predict_proba"]}
    n_refused = 0
    for data in extreme_files(dump_bytes(model)):
        try:
            loaded = load_bytes(data).estimator
        except ModelFileError:
            n_refused += 1
            continue
        for method in ("predict", *methods.get(kind, [])):
            assert not np.isnan(np.asarray(getattr(loaded, method)(rows), dtype=float)).any()
        if kind == "regressor":
            assert not np.isnan(loaded.predict_interval(rows, 0.5)).any()
    assert n_refused > 5
