"""Encoders in model files: equal after loading, and refused where they do not hold together."""

import copy

import numpy as np
import pytest

from bandfall._files.codec import decode, encode
from bandfall._files.container import ModelFileError
from bandfall._files.encodings import from_state, to_state
from bandfall.tables import CATEGORIES, NUMBERS, TableEncoder, read_table


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
    with pytest.raises(ValueError, match="is not fitted"):
        to_state(TableEncoder())


VALUES = [
    *(None, True, -1, 0, 1, 10**9, 1.5, float("nan"), float("inf"), "", "number", [], {}),
    *([0], ["a", "a"], [None], {"kind": []}, np.zeros(3), np.zeros((0, 0)), np.full(2, np.nan)),
    *(np.array([10**9]), np.array([-1]), np.array([True]), np.array(1.0), np.dtype(float)),
]


def places(state, path=()):
    """Every place of a state that can be tampered with."""
    yield path
    if isinstance(state, dict | list):
        items = state.items() if isinstance(state, dict) else enumerate(state)
        for key, value in items:
            yield from places(value, (*path, key))


def with_value(state, path, value):
    state = copy.deepcopy(state)
    inner = state
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return state


def tampered(state):
    """States with one value changed, an entry missing, one too many, or an array damaged."""
    for path in places(state):
        if not path:
            continue
        inner = state
        for key in path:
            inner = inner[key]
        values = list(VALUES)
        if isinstance(inner, np.ndarray) and inner.size:
            values += [inner[1:], -inner if inner.dtype != bool else ~inner, inner[::-1]]
            values += [inner.astype(np.float32), inner[None], np.append(inner, inner[-1:], axis=0)]
        if isinstance(inner, list) and inner:
            values += [inner[1:], inner[::-1], [*inner, inner[0]]]
        for value in values:
            yield with_value(state, path, value)


def test_tampered_states_are_refused_or_harmless(encoder):
    """Whatever is loaded encodes any table of the right columns, or says why not."""
    new = read_table(table(5, seed=3))
    n_refused = 0
    for state in tampered(to_state(encoder)):
        try:
            loaded = from_state(state)
        except (ValueError, TypeError):
            n_refused += 1
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


def test_unknown_and_missing_fields_are_named(encoder):
    state = to_state(encoder)
    with pytest.raises(ValueError, match="unknown fields: surprise"):
        from_state({**state, "surprise": 1})
    del state["order"]
    with pytest.raises(ValueError, match="lacks fields: order"):
        from_state(state)


def test_an_encoding_of_another_version_is_named(encoder):
    with pytest.raises(ValueError, match="numbers='robust' is not an encoding of this version"):
        from_state({**to_state(encoder), "numbers": "robust"})


def test_a_model_file_names_the_class(encoder):
    arrays = {}
    document = encode(encoder, arrays, "encoder")
    document["state"]["n_steps"] = -1
    with pytest.raises(ModelFileError, match="its TableEncoder is not usable"):
        decode(document, arrays)
