"""The contract that every kind of target keeps."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models.member import Candidate
from bandfall._search.trials import Trial
from bandfall._targets import Classes, Numbers
from onnx_graphs import run_form


def numbers(seed, n=40, columns=1):
    y = np.random.default_rng(seed).normal(1e3, 5.0, size=(n, columns))
    return y[:, 0] if columns == 1 else y


def classes(seed, n=40, names=("a", "b", "c")):
    labels = np.random.default_rng(seed).integers(len(names), size=n)
    labels[: len(names)] = range(len(names))
    return np.array(names)[labels]


KINDS = {
    "numbers": (Numbers, numbers),
    "several": (Numbers, lambda seed: numbers(seed, columns=3)),
    "classes": (Classes, classes),
    "two": (Classes, lambda seed: classes(seed, names=(3, 7))),
}


def coded(name, seed, weights=None):
    kind, draw = KINDS[name]
    y = draw(seed)
    target, values = kind.learn(y)
    return y, values, *target.coded(values, weights, np.dtype(np.float64))


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), weighted=st.booleans())
def test_codes_are_columns_of_zero_mean(name, seed, weighted):
    weights = np.random.default_rng(seed).uniform(0.1, 3.0, 40) if weighted else None
    _, values, target, codes = coded(name, seed, weights)
    assert len(values) == 40
    assert codes.shape == (40, target.n_columns)
    assert codes.dtype == np.float64
    assert_allclose(np.average(codes, axis=0, weights=weights), 0.0, atol=1e-9)


@pytest.mark.parametrize("name", KINDS)
def test_perfect_outputs_have_the_best_score_and_none_that_of_the_start(name):
    y, _, target, codes = coded(name, 0)
    values = target.read(y)
    answers = np.reshape(target.answer(codes), (40, -1))
    nothing = np.reshape(target.answer(np.zeros_like(codes)), (40, -1))
    start = np.broadcast_to(target.start(values), nothing.shape)
    assert_allclose(nothing, start, rtol=1e-9, atol=1e-9)
    assert target.loss(values, answers) < 0.01 < target.loss(values, nothing)
    found, worse = (target.scores(values, one) for one in (answers, nothing))
    assert found.keys() == worse.keys()
    assert target.measure in target.words(target.loss(values, answers))
    assert np.isfinite(target.score(target.loss(values, answers)))


@pytest.mark.parametrize("name", KINDS)
def test_what_messages_show_is_a_number_of_a_trial(name):
    trial = Trial(Candidate(), 0.5, 0.1, 0.9, 0.99, 40)
    assert getattr(trial, KINDS[name][0].trial_column) in (0.5, 0.9)


@pytest.mark.parametrize("name", KINDS)
def test_files_hold_targets_whole(name):
    from bandfall._files.codec import decode, encode

    *_, target, codes = coded(name, 0)
    arrays = {}
    again = decode(encode(target, arrays, "target"), arrays)
    assert type(again) is type(target)
    assert_array_equal(again.answer(codes), target.answer(codes))


@pytest.mark.parametrize("name", KINDS)
def test_onnx_gives_the_same_answers(name):
    pytest.importorskip("onnxruntime")
    *_, target, codes = coded(name, 0)

    def form(graph, outputs):
        found, _ = target.onnx(graph, outputs)
        return found[-1].value

    assert_allclose(run_form(form, 0.3 * codes), target.answer(0.3 * codes), atol=1e-12)


@pytest.mark.parametrize("name", KINDS)
def test_a_search_that_found_nothing_leaves_the_target_able_to_answer(name):
    *_, target, codes = coded(name, 0)
    settled, score = target.settled(codes[:0], codes[:0], None, 0)
    assert np.isnan(score)
    assert_array_equal(settled.answer(codes), target.answer(codes))


class TestNumbers:
    def test_outputs_and_predictions_are_inverse(self):
        *_, target, codes = coded("several", 0)
        predictions = target.answer(codes)
        assert_allclose(target.outputs(predictions), codes, atol=1e-9)
        assert_allclose(target.residuals(codes, codes + 0.1) / target.scale, 0.1)

    def test_float32_is_not_for_numbers_that_it_would_round_away(self):
        y = 1.7e9 + np.arange(10.0)
        target, values = Numbers.learn(y)
        assert target.coded(values, None, np.dtype(np.float32))[0].dtype == np.float64

    @pytest.mark.parametrize(
        ("changes", "match"),
        [
            ({"scale": np.zeros(1)}, "positive"),
            ({"offset": np.zeros(2)}, "does not fit k"),
            ({"ndim": 3}, "ndim=3"),
        ],
    )
    def test_parts_that_do_not_fit_together_are_refused(self, changes, match):
        with pytest.raises(ValueError, match=match):
            replace(Numbers.plain(), **changes)


class TestClasses:
    def test_unknown_classes_are_none_of_the_known(self):
        *_, target, _ = coded("classes", 0)
        assert_array_equal(target.read(["b", "x", "a"]), [1, -1, 0])

    def test_strata_are_the_classes(self):
        _, values, target, _ = coded("classes", 0)
        assert_array_equal(target.strata(values), values)
