"""The search: what it looks at, when it ends, and that its evidence is honest."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models.member import Candidate
from bandfall._products.base import group_rows
from bandfall._search import metrics
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.rounds import Found
from bandfall._search.search import shortlist, tune
from bandfall._search.settings import Settings
from bandfall._search.trials import Request, Trial, run_parts
from bandfall._targets.losses import PowerLoss, mean_r2
from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._schedules import MinimumSpeed
from bandfall.kernels import get_kernel
from reference import distances
from search_rows import (
    FEW,
    FOLDS,
    ONE_RUNG,
    SLOPES,
    THREE_RUNGS,
    TWO_RUNGS,
    ended_after,
    rows_of,
    rungs_of,
    same,
    tuned_on,
)


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
    best = min((trial for trial, _ in tuned.members), key=lambda trial: trial.loss)
    loss = np.average(PowerLoss().losses(tuned.predictions, y), weights=row_weights)
    settings = tuned.parts[0].rows.settings
    caution = settings.caution if len(rows) < settings.few_rows else 0.0
    assert loss <= best.loss + caution * best.standard_error + 1e-12
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
    keys = [trial.candidate.metric for trial, _ in tuned.members]
    assert tuned.roots.keys() == {key for key in keys if key.learned}


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
    request = Request(Candidate(), [0.1])
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


def test_one_kernel_alone_is_tried():
    tuned = tuned_on(rows_of(), ONE_RUNG, kernels=("matern12",))
    assert {str(trial.candidate.kernel) for trial in tuned.trials} == {"matern12"}


@pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG, TWO_RUNGS])
def test_a_search_may_end_after_any_ladder(budget):
    budget = replace(budget, **SLOPES, max_rounds=1, n_folds=2)
    rows = rows_of(n=50, d=2, encodings=("standard", "curved"))
    kernels = ("gaussian", "matern12")
    longest = tuned_on(rows, budget, kernels=kernels)
    sizes = []
    for n_ladders in (1, 3, 8, 9):
        tuned = tuned_on(rows, budget, kernels=kernels, **ended_after(n_ladders))
        check_evidence(rows, tuned)
        sizes.append(len(tuned.trials))
        assert tuned.trials == longest.trials[: len(tuned.trials)]
    assert sizes == sorted(sizes)
    assert sizes[-1] <= len(longest.trials)


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


@pytest.mark.parametrize("seed", range(4))
def test_parts_that_teach_nothing_do_not_end_the_search(seed):
    """Four rows, of which each half is constant: nothing to train, and still an answer."""
    X = np.arange(4.0)[:, None]
    y = np.array([[-1.0], [-1.0], [1.0], [1.0]])
    rows = Rows({"standard": Encoded(X)}, y, np.arange(4))
    tuned = tuned_on(rows, FEW, seed=seed)
    assert np.isfinite(tuned.predictions).all()
    assert_allclose(sum(weight for _, weight in tuned.members), 1.0)


@pytest.mark.parametrize("leaf_rows", [30, 100])
def test_the_largest_rung_learns_metrics_anew_unless_leaves_will(monkeypatch, leaf_rows):
    learned, original = [], metrics.train_parts

    def noted(parts, request, *given, **named):
        learned.extend(len(part) for part in parts)
        return original(parts, request, *given, **named)

    monkeypatch.setattr(metrics, "train_parts", noted)
    settings = replace(THREE_RUNGS, min_gain_rows=-100.0, growth=1.2, **SLOPES)
    tuned = tuned_on(replace(rows_of(n=80, d=6), leaf_rows=leaf_rows), settings)
    assert [rows for rows in learned if rows > 40] == ([] if leaf_rows == 30 else [60])
    assert max(trial.n_rows for trial in tuned.trials) == 60
    assert any(trial.candidate.n_rounds for trial, _ in tuned.members)


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


@pytest.mark.slow
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
