"""Fits that must be done in time: the search, and the final fits after it."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import make_friedman1

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._estimators.training import FitProgress
from bandfall._files import dump_bytes, load_bytes
from bandfall._fitting import members
from bandfall._models.member import Candidate
from bandfall._products import NumpyBackend
from bandfall._search.clock import FINAL_FITS, Clock, work
from bandfall._search.pace import member_seconds
from bandfall._search.parts import Encoded, Rows
from bandfall.descent import Status
from shell import press_ctrl_c

pytestmark = pytest.mark.filterwarnings("ignore:max_seconds")


class Time:
    """Stands still, or goes on by a step whenever it is read."""

    def __init__(self, step=0.0):
        self.now, self.step = 0.0, step

    def __call__(self):
        self.now += self.step
        return self.now


class Timed(BandfallRegressor):
    """A regressor with another clock."""

    clock = Clock
    settings: ClassVar = {}

    @property
    def _settings(self):
        known = {"likelihood_columns": 0}  # whose members are trained in one stage
        return replace(super()._settings, **{**known, **self.settings})

    @property
    def _clock(self):
        return self.clock(self.max_seconds)


def timed(rows, clock=Clock, settings=None, **options):
    """Fit a regressor with a clock, which is made from its limit."""
    model = Timed(max_rounds=1, n_jobs=1, **options)
    model.clock, model.settings = clock, settings or {}
    return model.fit(*rows)


def at(time, kind=Clock):
    """Clocks that show this time."""
    return lambda seconds: kind(seconds, now=time)


@pytest.fixture(scope="module")
def rows():
    return make_friedman1(120, n_features=5, noise=2.0, random_state=1)


@pytest.fixture(scope="module")
def unlimited(rows):
    return timed(rows)


def test_nothing_is_skipped_without_a_limit(unlimited):
    assert unlimited.skipped_ == []


def test_a_limit_that_is_far_away_changes_nothing(rows, unlimited):
    model = timed(rows, at(Time()), max_seconds=1e6)
    assert model.skipped_ == []
    assert np.array_equal(model.predict(rows[0]), unlimited.predict(rows[0]))


def test_a_search_that_ends_early_says_so(rows, unlimited):
    time = Time(step=0.1)
    model = timed(rows, at(time), max_seconds=30.0)
    n_trials = len(model.selection_["loss"])
    assert 0 < n_trials < len(unlimited.selection_["loss"])
    assert f"the search ended early, after {n_trials} trials" in model.skipped_
    assert time.now < 40.0


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_limited_fits_are_equal_at_paces_that_differ_a_little(n_jobs, monkeypatch):
    """The pace is measured once, in powers of two; time that has passed decides nothing."""
    X, y = make_friedman1(900, n_features=5, noise=1.0, random_state=1)
    models = []
    for pace in (1.3e-4, 1.5e-4):
        path, ladder = 566 * pace, 150 * pace / work(400)
        monkeypatch.setattr(
            "bandfall._fitting.members.member_seconds", lambda *_, path=path: lambda *_: path
        )
        monkeypatch.setattr("bandfall._search.pace._ladder_pace", lambda *_, ladder=ladder: ladder)
        model = Timed(n_jobs=n_jobs, max_seconds=0.25)
        model.clock = at(Time())
        models.append(model.fit(X, y))
    one, other = models
    assert np.array_equal(one.selection_["loss"], other.selection_["loss"])
    assert "searched on" in " ".join(one.skipped_)
    assert one.skipped_ == other.skipped_
    assert np.array_equal(one.predict(X), other.predict(X))


def test_members_without_time_are_left_out_and_weights_renewed(rows, unlimited):
    assert len(unlimited.members_) > 1
    slow = {"usual_path": (10**9, 10**9)}  # the search is in time, the final fits are not
    model = timed(rows, at(Time(step=1e-6)), slow, max_seconds=1e3)
    (member,) = model.members_
    assert member.candidate == unlimited.members_[0].candidate
    assert member.weight == 1.0
    n = len(unlimited.members_)
    assert model.skipped_[-1] == f"{n - 1} of {n} models were left out of the average"
    assert model.best_score_ <= unlimited.best_score_ + 0.01
    assert not np.array_equal(model.held_out_predictions_, unlimited.held_out_predictions_)
    assert set(model.encoders_) == {member.candidate.encoding}


def test_a_final_fit_that_takes_too_long_is_made_on_fewer_rows(rows):
    slow = {"usual_path": (10**9, 10**9), "fewest_fitted": 50}
    model = timed(rows, settings=slow, max_seconds=1e3)
    assert len(model.path_.X) == 50
    assert "trained on 50 of 120 rows" in model.skipped_
    assert np.all(np.isfinite(model.predict(rows[0])))


def test_matrices_that_are_kept_are_quicker_than_those_evaluated_anew(rows):
    X, y = rows
    ticks = iter([0, 1, 11, 12] * 3)  # 1 s to prepare, 10 to evaluate, 1 to repeat a product
    given = Rows({"standard": Encoded(X)}, y[:, None], np.arange(120), backend=NumpyBackend(2**20))
    seconds = member_seconds(given, Candidate(), lambda: next(ticks))
    n_bandwidths, n_products = given.settings.usual_path
    assert_allclose(seconds(120, 10**5), 1 + 10 * n_bandwidths + n_products)
    many = 1 + 10 * n_bandwidths + 10 * n_products
    assert_allclose(seconds(12_000, 10**5), 100**2 * many)
    leaves = many * given.settings.overlapping * (1.0 + given.settings.leaf_paths)
    assert_allclose(seconds(12_000, 6000), 100**2 * leaves / 2)


def test_a_final_fit_of_many_rows_ends_in_time(rows, unlimited):
    """Whatever was expected of it: a path that is cut off is a model all the same."""
    time = Time(step=1e-6)

    class Late(Clock):
        def task(self, stage, entries):
            if stage == FINAL_FITS:
                time.now = 1e6
            return super().task(stage, entries)

    settings = {"hurried_rows": 100, "usual_path": (0, 0)}
    model = timed(rows, at(time, Late), settings, max_seconds=1e3)
    assert model.path_.status is Status.INTERRUPTED
    assert len(model.path_.bandwidths) == 1
    goal = unlimited.members_[0].max_r2
    told = f"a model was trained to R² {model.path_.r2:.4f} instead of {goal:.4f}"
    assert told in model.skipped_
    assert np.all(np.isfinite(model.predict(rows[0])))


@pytest.mark.parametrize("where", [(FitProgress, "tried"), (members, "_fit_member")])
def test_a_long_fit_that_is_interrupted_keeps_what_takes_seconds(rows, monkeypatch, where):
    """Whether in the search or in the first of the final fits, which may take an hour."""
    press_ctrl_c(monkeypatch, *where)
    model = Timed(max_rounds=1, n_jobs=1)
    model.settings = {"hurried_rows": 100, "fewest_fitted": 0}
    with pytest.raises(KeyboardInterrupt):
        model.fit(*rows)
    assert len(model.members_) == 1
    assert len(model.path_.X) == 100
    assert model.path_.status is not Status.INTERRUPTED
    assert any("trained on 100 of 120 rows" in what for what in model.skipped_)


def test_members_that_are_there_when_a_long_fit_is_interrupted_are_kept(monkeypatch):
    fit_member, fitted = members._fit_member, []

    def second_is_interrupted(*arguments):
        if fitted:
            raise KeyboardInterrupt
        fitted.append(fit_member(*arguments))
        return fitted[0]

    monkeypatch.setattr(members, "_fit_member", second_is_interrupted)
    model = Timed(max_rounds=1, n_jobs=1)
    model.settings = {"hurried_rows": 100}
    with pytest.raises(KeyboardInterrupt):
        model.fit(*make_friedman1(120, n_features=5, noise=1.0, random_state=1))
    assert [member.path for member in model.members_] == [fitted[0].path]
    assert len(model.path_.X) == 120
    assert any("left out of the average" in what for what in model.skipped_)


def test_few_rows_are_all_trained_on(rows):
    model = timed(rows, max_seconds=1e-9)
    assert len(model.path_.X) == 120


@pytest.mark.parametrize("estimator", [BandfallRegressor, BandfallClassifier])
def test_with_no_time_at_all_there_is_a_model_of_some_rows(estimator, no_least_time):
    """However many rows, columns and targets: each piece of the work can be stopped."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 60))
    y = np.column_stack([np.sin(X[:, :4]).sum(axis=1) + random.normal(size=3000)] * 6)
    if estimator is BandfallClassifier:
        y = np.digitize(y[:, 0], [-1.0, 0.0, 1.0])
    model = estimator(max_seconds=1e-9).fit(X, y)
    assert len(model.path_.X) == 200
    assert len(model.encoders_) == 1
    assert len(model.skipped_) >= 4
    loaded = load_bytes(dump_bytes(model)).estimator
    assert_allclose(loaded.predict(X[:50]), model.predict(X[:50]))
    assert model.feature_importances_.shape == (60,)


def test_what_was_left_out_is_named_once_with_the_seconds_it_needs():
    X = np.random.default_rng(0).normal(size=(700, 3))
    with pytest.warns(UserWarning, match="max_seconds") as caught:
        model = timed((X, X[:, 0]), max_seconds=1e-6)
    (told,) = [str(one.message) for one in caught if "left out" in str(one.message)]
    (encoding,) = [what for what in model.skipped_ if "'quantile' was not tried" in what]
    assert encoding in told
    assert "Allow at least" in told
