"""Rounds of a metric: who is judged, when they end, and what finalists need."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from bandfall._models.member import Candidate
from bandfall._search import metrics
from bandfall._search.clock import Clock
from bandfall._search.rounds import Found, judge_again, promising, race
from bandfall._search.search import families_among, families_for
from bandfall._search.settings import SPEEDS, Settings
from bandfall._search.trials import Trial
from search_rows import (
    FEW,
    FOLDS,
    ONE_RUNG,
    SLOPES,
    TWO_RUNGS,
    rows_of,
    rungs_of,
    trainer_of,
    tuned_on,
)


def test_finalists_do_not_learn_a_metric_twice(monkeypatch):
    learned, original = [], metrics.train_parts

    def counted(parts, request, *given, **named):
        learned.extend((len(part.held_out), part, request) for part in parts)
        return original(parts, request, *given, **named)

    monkeypatch.setattr(metrics, "train_parts", counted)
    rows = rows_of(d=4, encodings=("standard", "curved"))
    first, second = rungs_of(rows, replace(FOLDS, **SLOPES))
    families = families_for(first[0].rows, ("gaussian", "matern12"))
    found = race(families, trainer_of(first))
    judge_again(found.finalists, found, trainer_of(second))
    taught = {
        (second.index(part), one.candidate.encoding, one.candidate.n_rounds)
        for _, part, one in learned
    }
    assert {number for number, *_ in taught} == {2, 3}
    assert len(taught) == len(learned) > 3


def test_a_metric_is_learned_where_it_helps():
    tuned = tuned_on(rows_of(n=100, d=6), FOLDS)
    best, _ = tuned.members[0]
    assert best.candidate.metric.learned
    plain = min(t.loss for t in tuned.trials if not t.candidate.metric.learned)
    assert best.loss < 0.8 * plain


@pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG])
def test_likelihood_scales_columns_and_the_directions_of_the_best_round(budget):
    tuned = tuned_on(rows_of(n=100, d=6), replace(budget, max_rounds=2, min_gain=-1.0))
    rounds = [t for t in tuned.trials if not t.candidate.likelihood]
    best = min(rounds, key=lambda trial: trial.loss).candidate.n_rounds
    scaled = {t.candidate.n_rounds for t in tuned.trials if t.candidate.likelihood}
    assert {0} <= scaled <= {0, best}
    assert {t.candidate.n_rounds for t in rounds} == {0, 1, 2}


def test_likelihood_is_learned_again_on_more_rows():
    tuned = tuned_on(rows_of(n=100, d=6), TWO_RUNGS)
    chosen = {t.candidate.metric for t in tuned.trials if t.n_rows == 60 and t.candidate.likelihood}
    assert chosen & tuned.roots.keys()


@pytest.mark.parametrize("change", [{"max_rounds": 0}, {"likelihood_columns": 2}])
def test_no_likelihood_without_a_metric_and_for_too_many_columns(change):
    tuned = tuned_on(rows_of(), replace(ONE_RUNG, **change))
    assert not any(trial.candidate.likelihood for trial in tuned.trials)


def test_one_column_has_no_metric_to_learn():
    tuned = tuned_on(rows_of(d=1), Settings(max_rounds=5))
    assert {trial.candidate.n_rounds for trial in tuned.trials} == {0}


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_rounds_end_when_they_have_not_helped_for_long_enough(patience):
    # Hardly anything is worth it: each round after the first is a miss.
    budget = replace(ONE_RUNG, min_gain=0.99, patience=patience, max_rounds=9)
    tuned = tuned_on(rows_of(), budget)
    assert max(trial.candidate.n_rounds for trial in tuned.trials) == patience


def test_rounds_end_at_their_limit():
    budget = replace(ONE_RUNG, min_gain=-1.0, max_rounds=3)  # all rounds pass for a success
    tuned = tuned_on(rows_of(), budget)
    assert {trial.candidate.n_rounds for trial in tuned.trials} == {0, 1, 2, 3}


def test_the_first_round_tries_most_speeds_and_later_ones_those_beside_the_best():
    tuned = tuned_on(rows_of(), replace(ONE_RUNG, **SLOPES, max_rounds=2))
    rounds = [[t for t in tuned.trials if t.candidate.n_rounds == number] for number in range(3)]
    assert [t.candidate.min_speed for t in rounds[0]] == list(SPEEDS[:7:2])
    for before, after in itertools.pairwise(rounds):
        best = min(before, key=lambda trial: trial.loss).candidate.min_speed
        place = SPEEDS.index(best)
        assert best in [t.candidate.min_speed for t in after]
        assert {SPEEDS.index(t.candidate.min_speed) - place for t in after} <= {-1, 0, 1}


FINALIST = Trial(Candidate(), 0.5, 0.1, 0.5, 0.9, 10)


def test_finalists_that_come_too_late_are_not_looked_at():
    first, _ = rungs_of(rows_of(), FEW)
    clock = Clock()
    trainer = trainer_of(first, clock=clock, tried=lambda trial: clock.end())
    assert len(judge_again([FINALIST], Found(), trainer).trials) == 2
    assert clock.search_over()
    assert not judge_again([FINALIST], Found(), trainer).predictions


def test_finalists_are_the_best_of_every_kind():
    losses = {
        ("standard", 0, "gaussian"): 0.5,
        ("standard", 1, "gaussian"): 0.3,
        ("standard", 1, "matern12"): 0.4,
        ("curved", 0, "matern12"): 0.2,
    }
    trials = [Trial(Candidate(*key), loss, 0.0, 0.0, 0.9, 10) for key, loss in losses.items()]
    found = Found(predictions=dict.fromkeys(trials, np.zeros((3, 1))))
    assert [
        (t.candidate.encoding, t.candidate.n_rounds, str(t.candidate.kernel))
        for t in found.finalists
    ] == [
        ("curved", 0, "matern12"),
        ("standard", 1, "gaussian"),
        ("standard", 1, "matern12"),
    ]


def test_families_that_cannot_catch_up_leave_the_race():
    budget = Settings(max_ratio_folds=1.4)
    assert promising([9.0], 0.1, budget)  # one round says nothing about the next
    assert promising([1.0, 0.5], 0.1, budget)  # two more halvings, and it is near
    assert not promising([1.0, 0.9], 0.1, budget)
    assert promising([0.13, 0.2], 0.1, budget)  # its best round counts
    assert promising([0.0, 0.0], 0.0, budget)


@pytest.mark.parametrize(("max_ratio_folds", "n_rounds"), [(0.0, 2), (math.inf, 7)])
def test_a_family_out_of_the_race_is_trained_no_further(max_ratio_folds, n_rounds):
    budget = replace(FOLDS, max_rounds=6, patience=7, max_ratio_folds=max_ratio_folds)
    first, _ = rungs_of(rows_of(), budget)
    found = race(families_for(first[0].rows, ["gaussian"]), trainer_of(first))
    rounds = {trial.candidate.n_rounds for trial in found.trials if not trial.candidate.likelihood}
    assert rounds == set(range(n_rounds))


@pytest.mark.parametrize(("share", "tried"), [(0.0, {"standard"}), (1.0, {"standard", "curved"})])
def test_targets_almost_free_of_noise_try_more_families(share, tried):
    rows = rows_of(encodings=("standard", "curved"))
    first, _ = rungs_of(rows, replace(FOLDS, exact=share))
    families, exact = (
        families_among(first[0].rows, {name: ["gaussian"]}) for name in ("standard", "curved")
    )
    found = race(families, trainer_of(first), exact)
    assert {trial.candidate.encoding for trial in found.trials} == tried
    first, _ = rungs_of(rows, replace(FOLDS, exact=0.5, many_rows=30, exact_of_many=share))
    found = race(families, trainer_of(first), exact)
    assert {trial.candidate.encoding for trial in found.trials} == tried


def test_what_a_race_finds_does_not_depend_on_threads():
    rows = rows_of(encodings=("standard", "curved"))
    kernels = ("gaussian", "laplace-1", "laplace^1.4")
    one, two = (tuned_on(rows, FOLDS, kernels=kernels, n_jobs=n) for n in (1, 3))
    assert one.trials == two.trials
    assert one.members == two.members


def test_paths_of_one_bandwidth_teach_no_metric_and_compete_as_families_of_their_own():
    rows = rows_of()
    first, second = rungs_of(rows, FEW)
    families = families_for(first[0].rows)
    widths = {one.width for one in families if one.width}
    found = race(families, trainer_of(first))
    assert {trial.candidate.width for trial in found.trials} == {0.0, *widths}
    assert not any(trial.candidate.width for trial in found.scouts.values())
    finalists = {trial.candidate.family for trial in found.finalists}
    assert len(finalists) == len(found.finalists) == len(families)
    again = judge_again(found.finalists, found, trainer_of(second))
    assert {trial.candidate.family for trial in again.finalists} == finalists
