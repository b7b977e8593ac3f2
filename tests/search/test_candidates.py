"""Candidates: which families and speeds are tried."""

import numpy as np
import pytest

from bandfall._models.member import Candidate
from bandfall._search.parts import Encoded, Rows
from bandfall._search.search import families_for
from bandfall._search.settings import SPEEDS, Settings
from bandfall._search.trials import Trial, neighbouring


@pytest.mark.parametrize(
    ("speed", "expected"),
    [(SPEEDS[0], SPEEDS[:2]), (SPEEDS[3], SPEEDS[2:5]), (SPEEDS[-1], SPEEDS[-2:])],
)
def test_neighbours_of_a_speed(speed, expected):
    trial = Trial(Candidate(min_speed=speed), 0.5, 0.1, 0.5, 0.9, 10)
    assert neighbouring(trial, Settings()).speeds == expected


@pytest.mark.parametrize(
    ("n_rows", "width", "classes", "more"),
    [
        (1499, 9, False, set()),
        (1500, 9, False, {("quantile", "laplace^1.4")}),
        (1500, 501, False, set()),
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
    assert {(one.encoding, str(one.kernel)) for one in families_for(rows)} == expected


@pytest.mark.parametrize(
    ("n_rows", "classes", "tried"), [(499, False, True), (500, False, False), (499, True, False)]
)
def test_few_rows_of_numbers_try_gaussians_of_one_bandwidth(n_rows, classes, tried):
    strata = np.zeros(n_rows, dtype=int) if classes else None
    views = {"standard": Encoded(np.zeros((n_rows, 2)))}
    rows = Rows(views, np.zeros((n_rows, 1)), np.arange(n_rows), strata=strata)
    widths = tuple(one.width for one in families_for(rows) if one.width)
    assert widths == (rows.settings.constant_widths if tried else ())
    assert not any(one.width for one in families_for(rows, ["gaussian"]))
