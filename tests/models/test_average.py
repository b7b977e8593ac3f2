"""The average of members: what it gives is the weighted sum of what they give."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bandfall import BandfallRegressor
from bandfall._models.metric import scaled
from bandfall.tables import read_table
from model_files import averaged, table


@pytest.fixture(scope="module")
def average():
    X, y = table(n=30, d=2)
    model = BandfallRegressor(kernels=("gaussian",), max_rounds=0).fit(X, y)
    return averaged(model, X, ("standard", "steps", "quantile")).average_


@pytest.fixture(scope="module")
def new_rows():
    return read_table(table(n=7, d=2, seed=1)[0])


def of_members(average, columns, method):
    return [
        (m.weight, getattr(m.path, method)(scaled(columns[m.candidate.encoding], m.root)))
        for m in average.members
    ]


def test_outputs_are_the_weighted_sum(average, new_rows):
    columns = average.encode(new_rows)
    parts = of_members(average, columns, "evaluate")
    expected = sum(weight * part.astype(float) for weight, part in parts)
    assert_allclose(average.evaluate(columns), expected)


def test_the_last_stage_is_the_model(average, new_rows):
    columns = average.encode(new_rows)
    stages = list(average.staged(columns))
    assert len(stages) == max(len(member.path) for member in average.members)
    assert_allclose(stages[-1], average.evaluate(columns), atol=1e-9)


def test_gradients_are_derivatives_of_outputs(average):
    X = table(n=7, d=2, seed=1)[0]
    rows = read_table(X)
    found = average.gradient(rows, average.encode(rows))
    assert found.shape == (7, 2, 1)
    for feature in range(2):
        step = np.eye(2)[feature] * 1e-5
        ahead, behind = (
            average.evaluate(average.encode(read_table(X + sign * step))) for sign in (1, -1)
        )
        assert_allclose(found[:, feature], (ahead - behind) / 2e-5, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:values far outside")
def test_novelty_is_zero_at_training_rows_and_grows(average):
    X = table(n=30, d=2)[0]
    seen, near, far = (
        average.novelty(average.encode(read_table(X + shift))) for shift in (0.0, 0.5, 50.0)
    )
    assert_allclose(seen, 0.0, atol=1e-6)
    assert np.all(near > 0)
    assert np.all(far > near)


def test_the_plainest_member_measures_novelty(average):
    assert average.plainest.candidate.encoding == "standard"
    without = [m for m in average.members if m.candidate.encoding != "standard"]
    without = [replace(member, weight=0.5) for member in without]
    encoders = {m.candidate.encoding: average.encoders[m.candidate.encoding] for m in without}
    other = replace(average, members=tuple(without), encoders=encoders)
    assert other.plainest is other.heaviest


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        (lambda a: {"members": ()}, "no members"),
        (lambda a: {"members": a.members[:2]}, "do not sum to one"),
        (
            lambda a: {"encoders": {**a.encoders, "extra": a.encoders["steps"]}},
            "different encodings",
        ),
        (lambda a: {"n_rows": 0}, "n_rows=0"),
        (lambda a: {"novelty_scale": -1.0}, "novelty_scale"),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(average, changes, match):
    with pytest.raises((ValueError, TypeError), match=match):
        replace(average, **changes(average))
