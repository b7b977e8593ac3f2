"""Scores of numbers and classes, and words about classes without training rows."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from bandfall._targets.scores import confusion, score_numbers, unseen_words

CLASSES = np.array(["a", "b", "c"])


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e300])
def test_scores_of_numbers_neither_overflow_nor_underflow(unit):
    y, predictions = unit * np.array([0.0, 1.0, 2.0]), unit * np.array([0.0, 1.0, 1.0])
    scores = score_numbers(y, predictions)
    assert scores["r2"] == pytest.approx(0.5)
    assert scores["mae"] == pytest.approx(unit / 3)
    assert scores["rmse"] == pytest.approx(unit / np.sqrt(3))


def test_rows_without_weight_are_ignored():
    y, predictions, weights = np.array([1.0, 2.0, 9.0]), np.array([1.0, 1.0, 0.0]), [2.0, 1.0, 0.0]
    scores = score_numbers(y, predictions, np.array(weights))
    assert scores == score_numbers(y[:2], predictions[:2], np.array(weights[:2]))


def test_a_constant_target_has_no_r2():
    assert np.isnan(score_numbers(np.ones(3), np.arange(3.0))["r2"])
    assert np.isnan(score_numbers(np.ones(1), np.ones(1))["r2"])


def test_classes_without_training_rows_are_told():
    assert unseen_words(["a", "c"], CLASSES) == ""
    some = unseen_words(["a", "x", "z", "x"], CLASSES, "held-out rows")
    assert some.startswith("3 of 4 held-out rows are of a class without training rows ('x', 'z')")
    assert "wrong in the accuracy" in some
    assert unseen_words(list("uvwxyz"), CLASSES).count("'") == 10  # five are named
    assert "the accuracy is 0" in unseen_words(["x"], CLASSES)


def test_confusion_counts_rows_of_known_classes():
    probabilities = np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7], [0.5, 0.5]])
    assert_array_equal(confusion(probabilities, np.array([0, 0, 1, -1])), [[1, 1], [0, 1]])
