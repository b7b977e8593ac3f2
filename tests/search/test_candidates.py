"""Candidates: which families and speeds are tried."""

import numpy as np
import pytest

from bandfall._search.candidates import (
    Request,
    families_for,
    neighbours,
    next_speeds,
)
from bandfall._search.rows import Encoded, Rows
from bandfall._search.settings import SPEEDS, Settings


def test_neighbours_of_a_speed():
    assert neighbours(SPEEDS[0]) == SPEEDS[:2]
    assert neighbours(SPEEDS[3]) == SPEEDS[2:5]
    assert neighbours(SPEEDS[-1]) == SPEEDS[-2:]


def test_few_speeds_settle_on_one_that_beats_those_beside_it():
    best = SPEEDS[2]
    for tried, few, expected in [
        (SPEEDS[:7:2], True, SPEEDS[1:4]),
        (SPEEDS[1:4], True, (best,)),
        ((best,), True, (best,)),
        (SPEEDS[1:4], False, SPEEDS[1:4]),
    ]:
        assert next_speeds(Request("standard", 0, "gaussian", tried), best, few) == expected


@pytest.mark.parametrize(
    ("n_rows", "width", "classes", "more"),
    [
        (1499, 9, False, set()),
        (1500, 999, False, {("quantile", "laplace^1.4")}),
        (20_000, 9, False, {("quantile", "laplace^1.4")}),
        (1499, 9, True, set()),
        (1500, 500, True, {("steps", "laplace-1.25")}),
        (1500, 501, True, set()),
        (5001, 9, True, set()),
    ],
)
def test_classes_and_numbers_have_families_of_their_own(n_rows, width, classes, more):
    settings = Settings()
    usual = settings.class_families if classes else settings.families
    strata = np.zeros(n_rows, dtype=int) if classes else None
    views = dict.fromkeys(settings.class_families, Encoded(np.zeros((1, width))))
    rows = Rows(views, np.zeros((n_rows, 1)), np.arange(n_rows), strata=strata)
    expected = {(encoding, kernel) for encoding in usual for kernel in usual[encoding]} | more
    assert {(encoding, str(kernel)) for encoding, kernel in families_for(rows)} == expected
