"""Encoders in model files: equal after loading, and refused where they do not hold together."""

import copy

import numpy as np
import pytest

from bandfall._files.codec import decode, encode
from bandfall._files.container import ModelFileError
from bandfall.tables import TableEncoder, read_table
from bandfall.tables._encoder import CATEGORIES
from bandfall.tables._numbers import NUMBERS


def table(n=60, seed=0):
    random = np.random.default_rng(seed)
    number = random.normal(size=n)
    number[::7] = np.nan
    days = np.datetime64("2023-01-01") + np.arange(n) * np.timedelta64(37, "h")
    return {
        "number": number,
        "skewed": random.lognormal(size=n),
        "text": random.choice(["red", "green", "blue", None], n),
        "flag": random.random(n) > 0.5,
        "when": list(days),
        "amount": [f"{value:.2f}".replace(".", ",") for value in random.normal(size=n)],
        "id": [f"row {i}" for i in range(n)],
    }


@pytest.fixture(params=[(n, c) for n in NUMBERS for c in CATEGORIES], ids="-".join)
def encoder(request):
    encoder = TableEncoder(*request.param)
    encoder.fit_transform(table(), np.random.default_rng(1).normal(size=60), warn=False)
    return encoder


def test_loaded_equals_saved(encoder):
    arrays = {}
    loaded = decode(encode(encoder, arrays, "encoder"), arrays)
    new = table(30, seed=2)
    np.testing.assert_array_equal(loaded.transform(new), encoder.transform(new))
    np.testing.assert_array_equal(loaded.jacobian(new), encoder.jacobian(new))
    assert loaded.describe() == encoder.describe()
    assert loaded.names_out == encoder.names_out
    assert loaded.schema.levels == encoder.schema.levels
    assert (loaded.numbers, loaded.categories, loaded.n_steps, loaded.suspicious) == (
        *(encoder.numbers, encoder.categories, encoder.n_steps, encoder.suspicious),
    )


def test_nothing_learned_cannot_be_stored():
    arrays = {}
    with pytest.raises(ModelFileError, match="is not fitted"):
        decode(encode(TableEncoder(), arrays, "encoder"), arrays)


VALUES = [
    *(None, True, -1, 0, 1, 10**9, 1.5, "", "number", [], {}, [0], ["a", "a"], [None]),
    *({"kind": []}, {"$": "float", "value": "nan"}, {"$": "dtype", "name": "float32"}),
]
ARRAYS = [
    *(np.zeros(3), np.zeros((0, 0)), np.full(2, np.nan), np.array([10**9]), np.array([-1])),
    *(np.array([True]), np.array(1.0), np.array(["a"], dtype=object)),
]


def places(document, path=()):
    """Every place of a document that can be tampered with."""
    yield path
    if isinstance(document, dict | list):
        items = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in items:
            yield from places(value, (*path, key))


def with_value(document, path, value):
    document = copy.deepcopy(document)
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return document


def tampered(document, arrays, random):
    """Documents with one value changed, and arrays one of which is damaged."""
    for path in places(document):
        if not path or path[-1] == "$":
            continue
        inner = document
        for key in path:
            inner = inner[key]
        values = [VALUES[i] for i in random.choice(len(VALUES), 6, replace=False)]
        if isinstance(inner, list) and inner:
            values += [inner[1:], inner[::-1], [*inner, inner[0]]]
        for value in values:
            yield with_value(document, path, value), arrays
    for name, array in arrays.items():
        values = list(ARRAYS)
        if array.size:
            values += [array[1:], -array if array.dtype != bool else ~array, array[::-1]]
            values += [array.astype(np.float32), array[None], np.append(array, array[-1:], axis=0)]
        for value in values:
            yield document, {**arrays, name: value}


def test_tampered_files_are_refused_or_harmless(encoder):
    """Whatever is loaded encodes any table of the right columns, or says why not."""
    new, arrays = read_table(table(5, seed=3)), {}
    document = encode(encoder, arrays, "encoder")
    n_refused = 0
    for changed, changed_arrays in tampered(document, arrays, np.random.default_rng(0)):
        try:
            loaded = decode(changed, changed_arrays)
        except ModelFileError:
            n_refused += 1
            continue
        if not isinstance(loaded, TableEncoder):
            continue
        loaded.describe(), loaded.names_out, loaded.sources
        try:
            with np.errstate(all="ignore"):
                encoded = loaded.transform(new, warn=False)
        except ValueError as error:
            message = str(error)
            assert "column" in message or "fitted to" in message
            continue
        assert encoded.shape == (5, loaded.width)
        assert not np.isnan(encoded).any()
    assert n_refused > 500


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda state: state.update(surprise=1), "unknown fields: surprise"),
        (lambda state: state.pop("order"), "lacks fields: order"),
        (lambda state: state["scaling"].update({"class": "Robust"}), "does not know"),
        (lambda state: state["schema"]["state"]["levels"].reverse(), "levels of the schema"),
    ],
)
def test_wrong_fields_are_named(encoder, change, match):
    arrays = {}
    document = encode(encoder, arrays, "encoder")
    change(document["state"]["fitted"]["state"])
    with pytest.raises(ModelFileError, match=match):
        decode(document, arrays)


def test_a_model_file_names_the_class(encoder):
    arrays = {}
    document = encode(encoder, arrays, "encoder")
    document["state"]["n_steps"] = -1
    with pytest.raises(ModelFileError, match="its TableEncoder is not usable"):
        decode(document, arrays)
