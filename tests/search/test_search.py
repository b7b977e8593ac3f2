"""The search: what it looks at, when it ends, and that its evidence is honest."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models.member import Candidate
from bandfall._products.base import group_rows
from bandfall._search.candidates import (
    Request,
    Trial,
    families_for,
    neighbours,
    next_speeds,
)
from bandfall._search.ladder import Ladder
from bandfall._search.losses import trials_of
from bandfall._search.parts import Outcome, Part, run_parts
from bandfall._search.rounds import Found, climbs_from, judge_again, next_round, promising, run
from bandfall._search.rows import Encoded, Rows
from bandfall._search.search import shortlist, tune
from bandfall._search.settings import SPEEDS, Settings
from bandfall._search.splits import rung_splits
from bandfall._search.trainers import LocalTrainer
from bandfall._targets.losses import PowerLoss, mean_r2
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel
from reference import distances

FEW = Settings(max_rounds=1)
FOLDS = Settings(few_rows=40, n_folds=4, race_folds=2, max_rounds=2)
ONE_RUNG = Settings(fold_rows=50, fewest_held_out=0, rung_rows=(1000,), max_rounds=1)
TWO_RUNGS = Settings(fold_rows=50, fewest_held_out=0, rung_rows=(40, 60), max_rounds=1)
THREE_RUNGS = Settings(fold_rows=50, fewest_held_out=0, rung_rows=(20, 40, 60), max_rounds=1)


def rows_of(n=60, d=3, repeated=0, n_outputs=1, encodings=("standard",), weights=None, seed=0):
    """One feature matters, the others do not: a metric is worth learning."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if repeated:
        X[:repeated] = X[repeated : 2 * repeated]
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 0] ** 2])[:, :n_outputs]
    y = y + 0.1 * rng.normal(size=y.shape)
    made = {"standard": X, "curved": np.tanh(X)}
    return Rows(
        {name: Encoded(made[name]) for name in encodings},
        (y - y.mean(axis=0)) / y.std(axis=0),
        group_rows(X)[0],
        weights,
    )


def tuned_on(rows, budget=FEW, seed=0, **options):
    options = {"kernels": ("gaussian",), "n_jobs": 1, **options}
    rows = replace(rows, settings=budget)
    return tune(rows, random=np.random.RandomState(seed), **options)


def rungs_of(rows, settings, seed=0):
    rows = replace(rows, settings=settings)
    splits = rung_splits(rows, np.random.RandomState(seed))
    return [[Part(rows, *split) for split in rung] for rung in splits]


def same(first, second):
    """Whether two searches found the same, to the last digit."""
    assert first.members == second.members
    assert first.trials == second.trials
    assert first.roots.keys() == second.roots.keys()
    assert_array_equal(first.held_out, second.held_out)
    assert_array_equal(first.predictions, second.predictions)


def clock(n_ladders):
    """Time is over after so many ladders."""
    counter = itertools.count(1)
    return lambda trial: next(counter) >= n_ladders


def naive_r2(predictions, y, weights=None):
    weights = np.ones(len(y)) if weights is None else weights
    scores = []
    for target, predicted in zip(y.T, predictions.T, strict=True):
        mean = (weights * target).sum() / weights.sum()
        left = (weights * (target - predicted) ** 2).sum()
        scores.append(1 - left / (weights * (target - mean) ** 2).sum())
    return np.mean(scores)


def score_of(tuned, rows):
    return mean_r2(tuned.predictions, rows.y[tuned.held_out], None)


def trainer_of(parts, judge=None, **options):
    return LocalTrainer(parts, judge or PowerLoss(), **options)


def check_evidence(rows, tuned):
    """What holds for every search."""
    weights = [weight for _, weight in tuned.members]
    assert_allclose(sum(weights), 1.0)
    assert weights == sorted(weights, reverse=True)
    assert min(weights) > 0
    assert tuned.predictions.shape == (len(tuned.held_out), rows.y.shape[1])
    row_weights = None if rows.weights is None else rows.weights[tuned.held_out]
    y = rows.y[tuned.held_out]
    assert_allclose(
        mean_r2(tuned.predictions, y, row_weights), naive_r2(tuned.predictions, y, row_weights)
    )
    assert {trial for trial, _ in tuned.members} <= set(tuned.trials)
    best = min(trial.loss for trial, _ in tuned.members)
    loss = np.average(PowerLoss().losses(tuned.predictions, y), weights=row_weights)
    assert loss <= best + 1e-12
    assert all(0.0 < trial.max_r2 <= 1.0 for trial in tuned.trials)
    assert all(trial.standard_error >= 0 for trial in tuned.trials)


@pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG, TWO_RUNGS, THREE_RUNGS])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_search_gives_honest_evidence(budget, weighted):
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 90) if weighted else None
    rows = rows_of(n=90, repeated=10, n_outputs=2, weights=weights)
    tuned = tuned_on(rows, budget, kernels=("gaussian", "matern12"))
    check_evidence(rows, tuned)
    assert score_of(tuned, rows) > 0.4
    assert len(tuned.members) <= budget.n_members
    kinds = {(trial.candidate.encoding, str(trial.candidate.kernel)) for trial, _ in tuned.members}
    assert kinds <= {("standard", "gaussian"), ("standard", "matern12")}
    metrics = {trial.candidate.metric for trial, _ in tuned.members if trial.candidate.n_rounds}
    assert tuned.roots.keys() == metrics


@pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG, TWO_RUNGS])
def test_held_out_predictions_are_those_of_models_that_have_not_seen_the_rows(budget):
    """A path fitted again to what each part trains on predicts the same for its other rows."""
    rows = rows_of(n=60)
    tuned = tuned_on(rows, replace(budget, max_rounds=0, n_members=1), n_jobs=1)
    ((trial, weight),) = tuned.members
    assert weight == 1.0
    assert trial.candidate.n_rounds == 0
    parts = rungs_of(rows, budget)[-1]
    X, y = rows.views["standard"].Z, rows.y
    start = max(distances(X[part.train], X[part.train]).max() for part in parts)
    predictions = []
    for part in parts:
        path = fit_path(
            X[part.train],
            y[part.train],
            get_kernel("gaussian"),
            solver=Flow(budget.tolerance, budget.max_dimension),
            schedule=MinimumSpeed(trial.candidate.min_speed, budget.shrink),
            stopping=Stopping(max_r2=trial.max_r2),
            bandwidth=start,
        )
        predictions.append(path.evaluate(X[part.held_out]))
    assert_array_equal(tuned.held_out, np.concatenate([part.held_out for part in parts]))
    # The search stops at whole stops and is accurate to its tolerance.
    gap = np.concatenate(predictions) - tuned.predictions
    assert np.sqrt((gap**2).mean()) < 0.1


def test_targets_of_held_out_rows_do_not_touch_their_predictions():
    rows = rows_of(n=60)
    tuned = tuned_on(rows, ONE_RUNG)
    changed = Rows(rows.views, rows.y.copy(), rows.groups)
    changed.y[tuned.held_out] += 100.0
    ((part,),) = rungs_of(changed, ONE_RUNG)
    assert_array_equal(part.held_out, tuned.held_out)
    before = Part(rows, part.train, part.held_out)
    request = Request("standard", 0, "gaussian", [0.1])
    outcomes = [run_parts([one], request, [np.ones(3)], PowerLoss())[0] for one in (before, part)]
    n_stops = min(len(one.predictions) for one in outcomes)  # losses end paths
    assert n_stops > 1
    first, second = (one.predictions[:n_stops] for one in outcomes)
    assert_array_equal(first, second)


@pytest.mark.parametrize("budget", [FEW, FOLDS, TWO_RUNGS])
def test_the_number_of_jobs_does_not_change_the_result(budget):
    budget = replace(budget, n_folds=3, max_rounds=1)
    rows = rows_of(n=60, encodings=("standard", "curved"))
    kernels = ("gaussian", "matern12")
    one, two = (tuned_on(rows, budget, kernels=kernels, n_jobs=n_jobs) for n_jobs in (1, 2))
    same(one, two)


def test_finalists_do_not_learn_a_metric_twice():
    """Two at a time would, and see each other's parts half done."""
    learned = []

    class Counted(LocalTrainer):
        def ladders(self, numbers, request, roots):
            learned.extend((number, request.encoding, request.n_rounds) for number in numbers)
            return super().ladders(numbers, request, roots)

    rows = rows_of(d=4, encodings=("standard", "curved"))
    first, second = rungs_of(rows, replace(FOLDS, worth=-1.0))
    families = families_for(first[0].rows, ("gaussian", "matern12"))
    found = Found().joined(run(climbs_from(families, first[0].rows), trainer_of(first)))
    judge_again(found.finalists, found, Counted(second, PowerLoss()))
    assert {number for number, *_ in learned} == {2, 3}
    assert len(learned) > 4
    assert len(set(learned)) == len(learned)


def test_the_random_state_alone_decides():
    rows = rows_of(d=2)
    first = tuned_on(rows, ONE_RUNG)
    same(first, tuned_on(rows, ONE_RUNG))
    assert np.any(tuned_on(rows, ONE_RUNG, seed=1).held_out != first.held_out)


@pytest.mark.parametrize("budget", [FEW, ONE_RUNG])
def test_weights_of_one_are_no_weights(budget):
    plain = tuned_on(rows_of(), budget)
    weighted = tuned_on(rows_of(weights=np.ones(60)), budget)
    assert [t.candidate for t, _ in plain.members] == [t.candidate for t, _ in weighted.members]
    assert_allclose(plain.predictions, weighted.predictions, atol=1e-8)
    assert_allclose(
        [t.standard_error for t in plain.trials], [t.standard_error for t in weighted.trials]
    )


def test_a_metric_is_learned_where_it_helps():
    tuned = tuned_on(rows_of(n=100, d=6), FOLDS)
    best, _ = tuned.members[0]
    assert best.candidate.n_rounds > 0
    plain = min(t.loss for t in tuned.trials if t.candidate.n_rounds == 0)
    assert best.loss < 0.8 * plain


def test_one_column_has_no_metric_to_learn():
    tuned = tuned_on(rows_of(d=1), Settings(max_rounds=5))
    assert {trial.candidate.n_rounds for trial in tuned.trials} == {0}


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_rounds_end_when_they_have_not_helped_for_long_enough(patience):
    # Hardly anything is worth it: each round after the first is a miss.
    budget = replace(ONE_RUNG, worth=0.99, patience=patience, max_rounds=9)
    tuned = tuned_on(rows_of(), budget)
    assert max(trial.candidate.n_rounds for trial in tuned.trials) == patience


def test_rounds_end_at_their_limit():
    budget = replace(ONE_RUNG, worth=-1.0, max_rounds=3)  # all rounds pass for a success
    tuned = tuned_on(rows_of(), budget)
    assert {trial.candidate.n_rounds for trial in tuned.trials} == {0, 1, 2, 3}


def test_one_kernel_alone_is_tried():
    tuned = tuned_on(rows_of(), ONE_RUNG, kernels=("matern12",))
    assert {str(trial.candidate.kernel) for trial in tuned.trials} == {"matern12"}


def test_the_first_round_tries_most_speeds_and_later_ones_those_beside_the_best():
    tuned = tuned_on(rows_of(), replace(ONE_RUNG, worth=-1.0, max_rounds=2))
    rounds = [[t for t in tuned.trials if t.candidate.n_rounds == number] for number in range(3)]
    assert [t.candidate.min_speed for t in rounds[0]] == list(SPEEDS[:7:2])
    for before, after in itertools.pairwise(rounds):
        best = min(before, key=lambda trial: trial.loss).candidate.min_speed
        place = SPEEDS.index(best)
        assert best in [t.candidate.min_speed for t in after]
        assert {SPEEDS.index(t.candidate.min_speed) - place for t in after} <= {-1, 0, 1}


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


@pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG, TWO_RUNGS])
def test_a_search_may_end_after_any_ladder(budget):
    budget = replace(budget, max_rounds=1, worth=-1.0, n_folds=2)
    rows = rows_of(n=50, d=2, encodings=("standard", "curved"))
    kernels = ("gaussian", "matern12")
    longest = tuned_on(rows, budget, kernels=kernels)
    sizes = []
    for n_ladders in (1, 3, 8, 9):
        tuned = tuned_on(rows, budget, kernels=kernels, interrupted=clock(n_ladders))
        check_evidence(rows, tuned)
        # Every encoding is looked at once at least, whatever the time.
        assert {t.candidate.encoding for t in tuned.trials} == {"standard", "curved"}
        sizes.append(len(tuned.trials))
        assert tuned.trials == longest.trials[: len(tuned.trials)] or n_ladders < 8
    assert sizes == sorted(sizes)
    assert sizes[-1] <= len(longest.trials)


REQUEST = Request("standard", 0, "gaussian", (0.1,))
FINALIST = Trial(Candidate(), 0.5, 0.1, 0.5, 0.9, 10)


def test_finalists_that_come_too_late_are_not_looked_at():
    first, _ = rungs_of(rows_of(), FEW)
    trainer = trainer_of(first, interrupted=lambda trial: True)
    (decided,) = judge_again([FINALIST], Found(), trainer)
    assert len(decided.trials) == 2
    assert trainer.over
    (decided,) = judge_again([FINALIST], Found(), trainer)
    assert not decided.trials


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


class Upwards:
    """A judge to whom too little is ten times as bad as too much."""

    def losses(self, predictions, y):
        error = (predictions - y).mean(axis=-1)
        return np.where(error < 0, -10.0 * error, error)


def test_a_judge_of_ones_own_decides():
    rows = rows_of(n=80)
    tuned = tuned_on(rows, ONE_RUNG, judge=Upwards())
    trial = min(tuned.trials, key=lambda one: one.loss)
    y = rows.y[tuned.held_out]
    assert np.average(Upwards().losses(tuned.predictions, y)) <= trial.loss + 1e-12
    plain = tuned_on(rows, ONE_RUNG)
    assert plain.trials[0].loss != tuned.trials[0].loss


def outcome_of(r2, predictions, part, judge):
    r2 = np.asarray(r2, dtype=float)[:, None]
    stops = len(r2) - 1
    ladder = Ladder(np.ones(stops), np.zeros((stops, 1, 1, 1)), r2)
    predictions = np.asarray(predictions, dtype=float)[:, :, None, None]
    losses = np.stack([judge.losses(stop, part.y[:, None]) for stop in predictions])
    return Outcome(ladder, predictions, losses)


def test_the_stop_is_the_best_for_all_parts_together():
    rows = rows_of()
    parts = [
        Part(rows, np.arange(40), np.arange(40, 42)),
        Part(rows, np.arange(40), np.arange(42, 45)),
    ]
    judge = PowerLoss(2.0)
    y = [part.y[:, 0] for part in parts]
    outcomes = [
        outcome_of([0.0, 0.5, 0.9], [y[0] + 9, y[0] + 0.5, y[0] + 1.0], parts[0], judge),
        outcome_of([0.0, 0.4, 0.8], [y[1] + 9, y[1] + 2.0, y[1] + 0.1], parts[1], judge),
    ]
    # At 0.4 the second part has not got far, from 0.8 on the first one has gone too far.
    (trial,) = trials_of(REQUEST, outcomes, parts)
    expected = np.array([0.25, 0.25, 0.01, 0.01, 0.01])
    assert trial.max_r2 == 0.5
    assert_allclose(trial.loss, expected.mean())
    assert_allclose(trial.standard_error, expected.std() / math.sqrt(5))
    assert trial.n_rows == 40


def test_stops_are_thinned_to_sixty():
    rows = rows_of()
    part = Part(rows, np.arange(40), np.arange(40, 60))
    judge = PowerLoss()
    y = part.y[:, 0]
    r2 = np.linspace(0.0, 0.99, 201)
    outcome = outcome_of(r2, [y + 1.0 - 0.9 * level for level in r2], part, judge)
    (trial,) = trials_of(REQUEST, [outcome], [part])
    assert_allclose(trial.max_r2, 0.99)


def test_targets_that_do_not_vary_have_no_score():
    y = np.full((7, 1), 0.1)  # whose mean is not quite 0.1
    assert math.isnan(mean_r2(np.zeros((7, 1)), y, None))
    both = np.column_stack([y[:, 0], np.arange(7.0)])
    assert_allclose(mean_r2(both + np.array([1.0, 0.0]), both, None), 1.0)


@pytest.mark.parametrize("seed", range(4))
def test_parts_that_teach_nothing_do_not_end_the_search(seed):
    """Four rows, of which each half is constant: nothing to train, and still an answer."""
    X = np.arange(4.0)[:, None]
    y = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    rows = Rows({"standard": Encoded(X)}, y, np.arange(4))
    tuned = tuned_on(rows, FEW, seed=seed)
    assert np.isfinite(tuned.predictions).all()
    assert_allclose(sum(weight for _, weight in tuned.members), 1.0)


def test_a_target_that_varies_in_held_out_rows_alone_does_not_end_the_search():
    rows = rows_of()
    ((part,),) = rungs_of(rows, ONE_RUNG)
    y = np.zeros((60, 1))
    y[part.held_out[0]] = 7.0
    tuned = tuned_on(Rows(rows.views, y, rows.groups), ONE_RUNG)
    assert_array_equal(tuned.predictions, 0.0)


def test_a_row_that_most_rows_repeat_leaves_rows_to_train_on():
    rows = rows_of(n=60)
    X = rows.views["standard"].Z
    X[5:] = X[5]
    rows = Rows(rows.views, rows.y, group_rows(X)[0])
    for seed in range(60):  # in some of them that row comes last
        ((part,),) = rungs_of(rows, ONE_RUNG, seed)
        assert min(len(part), len(part.held_out)) > 0
        assert not set(rows.groups[part.train]) & set(rows.groups[part.held_out])


def test_the_standard_search_needs_no_settings():
    rows = rows_of(n=40, d=2)
    tuned = tune(rows, random=np.random.RandomState(0))
    check_evidence(rows, tuned)
    assert score_of(tuned, rows) > 0.3
    assert {str(trial.candidate.kernel) for trial in tuned.trials} == set(
        Settings().families["standard"]
    )


def test_a_metric_is_learned_and_judged_anew_on_more_rows():
    """Rounds go on where they still help, with stops of their own."""
    rows = rows_of(n=300, d=6)
    budget = Settings(
        fold_rows=50, fewest_held_out=0, rung_rows=(30, 250), max_rounds=6, patience=1
    )
    tuned = tuned_on(rows, budget)
    sizes = {n: [t for t in tuned.trials if t.n_rows == n] for n in (30, 250)}
    rounds = {n: {t.candidate.n_rounds for t in trials} for n, trials in sizes.items()}
    assert rounds[250] == set(range(max(rounds[250]) + 1))
    best = {n: min(trials, key=lambda t: t.loss) for n, trials in sizes.items()}
    assert max(rounds[250]) > best[30].candidate.n_rounds or best[30].candidate.n_rounds == 6
    assert tuned.members[0][0].n_rows == 250
    assert best[250].max_r2 != best[30].max_r2


def test_hopeless_families_and_light_members_go_no_further():
    rows = rows_of(n=90)
    (part,) = rungs_of(rows, ONE_RUNG)[0]
    predictions = {}
    for kernel, loss in (("gaussian", 0.1), ("matern12", 0.13), ("cauchy", 0.3)):
        trial = Trial(Candidate(kernel=kernel), loss, 0.0, 0.0, 0.9, 10)
        predictions[trial] = part.y + loss
    found = Found(predictions=predictions)
    names = [str(t.candidate.kernel) for t in shortlist(found, [part], PowerLoss())]
    assert names == ["gaussian", "matern12"]
    names = [str(t.candidate.kernel) for t in shortlist(found, [part], PowerLoss(), last=True)]
    assert names == ["gaussian"]


def test_strong_and_weak_features_are_both_found():
    """Few rows see the two strong ones alone; on more rows the weak ones come back."""
    random = np.random.default_rng(0)
    X = random.normal(size=(2500, 12))
    y = np.sin(2 * X[:, 0]) * (1 + 0.5 * X[:, 1]) + 0.3 * (np.sin(2 * X[:, 2]) + np.abs(X[:, 3]))
    y = (y + 0.05 * random.normal(size=2500))[:, None]
    y = (y - y.mean()) / y.std()
    rows = Rows({"standard": Encoded(X.astype(np.float32))}, y, np.arange(2500))
    budget = Settings(rung_rows=(300, 2000), max_rounds=6)
    tuned = tuned_on(rows, budget, kernels=("laplace-1",), n_jobs=2)
    trial, _ = tuned.members[0]
    scales = tuned.roots[trial.candidate.metric]
    assert scales[:4].min() > 2 * scales[4:].max()
    assert score_of(tuned, rows) > 0.9


def test_families_that_cannot_catch_up_leave_the_race():
    budget = Settings(race=1.4)
    assert promising([9.0], 0.1, budget)  # one round says nothing about the next
    assert promising([1.0, 0.5], 0.1, budget)  # two more halvings, and it is near
    assert not promising([1.0, 0.9], 0.1, budget)
    assert promising([0.13, 0.2], 0.1, budget)  # its best round counts
    assert promising([0.0, 0.0], 0.0, budget)


def test_a_family_out_of_the_race_is_trained_no_further():
    first, _ = rungs_of(rows_of(), replace(FOLDS, max_rounds=6, patience=7))
    families, rounds = families_for(first[0].rows, ["gaussian"]), []
    for least in (0.0, math.inf):  # no error at all, which no family comes near; and no rival
        (climb,) = climbs_from(families, first[0].rows)
        while not climb.over:
            climb = next_round(climb, least, trainer_of(first))
        rounds.append({trial.candidate.n_rounds for trial in climb.found.trials})
    assert rounds == [{0, 1}, set(range(7))]


def test_what_a_race_finds_does_not_depend_on_threads():
    rows = rows_of(encodings=("standard", "curved"))
    kernels = ("gaussian", "laplace-1", "laplace^1.4")
    one, two = (tuned_on(rows, FOLDS, kernels=kernels, n_jobs=n) for n in (1, 3))
    assert one.trials == two.trials
    assert one.members == two.members


@pytest.mark.parametrize(
    ("n_rows", "classes", "more"),
    [
        (1499, False, set()),
        (1500, False, {("target", "laplace-1")}),
        (20_000, False, {("target", "laplace-1")}),
        (1499, True, set()),
        (1500, True, {("steps", "laplace-1.25")}),
        (5001, True, set()),
    ],
)
def test_more_rows_choose_among_more_families(n_rows, classes, more):
    encodings = ["standard", "steps", "quantile", "target"]
    usual = {(one, kernel) for one in encodings for kernel in Settings().families[one]}
    strata = np.zeros(n_rows, dtype=int) if classes else None
    rows = Rows(dict.fromkeys(encodings), np.zeros((n_rows, 1)), np.arange(n_rows), strata=strata)
    families = families_for(rows)
    assert {(one, str(kernel)) for one, kernel in families} == usual | more


def test_the_search_is_better_than_a_naive_loop_over_the_same_candidates():
    """The loop trains every encoding, kernel, speed and stop without a metric; the best counts."""
    rows = rows_of(n=100, d=5, encodings=("standard", "curved"))
    kernels, errors = ("gaussian", "matern12"), []
    tuned = tuned_on(rows, Settings(few_rows=0, max_rounds=3), kernels=kernels)
    candidates = itertools.product(rows.views.values(), kernels, (0.1, 0.01), (0.7, 0.9))
    for view, kernel, speed, stop in candidates:
        predictions = np.empty_like(rows.y)
        for fold in range(5):
            new = np.arange(100) % 5 == fold
            path = fit_path(
                view.Z[~new],
                rows.y[~new],
                get_kernel(kernel),
                solver=Flow(),
                schedule=MinimumSpeed(speed),
                stopping=Stopping(max_r2=stop),
            )
            predictions[new] = path.evaluate(view.Z[new])
        errors.append(np.mean((predictions - rows.y) ** 2))
    assert np.mean((tuned.predictions - rows.y[tuned.held_out]) ** 2) < min(errors)
