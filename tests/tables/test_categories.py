"""The contract that every encoding of categories keeps."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandfall.tables._categories import OneHot, TargetMean, TargetMeanAndSize
from bandfall.tables._table import categories
from onnx_graphs import run_form

LEVELS = ["red", "green", "blue", "grey", None]


def column(seed, n=60):
    random = np.random.default_rng(seed)
    return categories([LEVELS[i] for i in random.integers(len(LEVELS), size=n)], declared=True)


def targets(seed, n=60, k=2):
    return np.random.default_rng(seed + 1000).normal(size=(n, k))


ENCODINGS = [OneHot, TargetMean, TargetMeanAndSize]


@pytest.fixture(params=ENCODINGS)
def cls(request):
    return request.param


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
@pytest.mark.parametrize("cls", ENCODINGS)
def test_shapes_and_names_agree(cls, seed):
    encoding, encoded = cls.learn(3, column(seed), targets(seed))
    assert encoding.position == 3
    assert encoding.table.shape == (len(encoding.levels) + 1, encoding.width)
    assert encoded.shape == (60, encoding.width) == (60, len(encoding.suffixes))
    assert len(set(encoding.suffixes)) == encoding.width
    assert np.isfinite(encoding.table).all()


def test_rows_of_one_level_are_encoded_alike(cls):
    training = column(0)
    encoding, _ = cls.learn(0, training, targets(0))
    encoded, unseen = encoding.transform(training)
    assert not len(unseen)
    for level in np.unique(training.values):
        rows = encoded[training.values == level]
        np.testing.assert_array_equal(rows, np.broadcast_to(rows[0], rows.shape))


def test_levels_may_come_in_any_order(cls):
    encoding, _ = cls.learn(0, column(0), targets(0))
    values = ["green", None, "red"]
    forwards, backwards = (
        encoding.transform(categories(one, declared=True))[0] for one in (values, values[::-1])
    )
    np.testing.assert_array_equal(forwards, backwards[::-1])


def test_unknown_levels_are_named_and_finite(cls):
    encoding, _ = cls.learn(0, column(0), targets(0))
    encoded, unseen = encoding.transform(categories(["red", "violet"], declared=True))
    assert unseen.tolist() == [1]
    assert np.isfinite(encoded).all()


def test_no_number_of_a_training_row_comes_from_its_own_target(cls):
    y = targets(0)
    changed = y.copy()
    changed[7] += 100.0
    _, before = cls.learn(0, column(0), y)
    _, after = cls.learn(0, column(0), changed)
    np.testing.assert_allclose(np.sign(after[7]), np.sign(before[7]))
    if cls.uses_target:
        # Other rows of the level see it; this one does not see itself jump.
        assert np.abs(after[7] - before[7]).max() < 1.0
        with pytest.raises(ValueError, match="needs the targets"):
            cls.learn(0, column(0))
    else:
        np.testing.assert_array_equal(before, after)


def test_it_is_made_of_its_stored_fields(cls):
    encoding, _ = cls.learn(0, column(0), targets(0))
    state = {field.name: getattr(encoding, field.name) for field in dataclasses.fields(encoding)}
    again = cls(**state)
    new = column(1)
    np.testing.assert_array_equal(again.transform(new)[0], encoding.transform(new)[0])
    for wrong in ({"levels": ("a", "a")}, {"levels": ("",)}, {"levels": ()}):
        with pytest.raises((ValueError, TypeError)):
            cls(**{**state, **wrong})


def test_its_onnx_form_gives_the_same_numbers(cls):
    pytest.importorskip("onnxruntime")
    encoding, _ = cls.learn(0, column(0), targets(0))
    new = categories(["red", "violet", None, "blue"], declared=True)
    found = run_form(encoding.onnx, encoding.places(new))
    np.testing.assert_array_equal(found, encoding.transform(new)[0])
