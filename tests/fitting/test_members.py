"""From what a search has found to models that are fitted to all rows."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import pdist

from bandfall import BandfallRegressor
from bandfall._fitting import paths
from bandfall._fitting.members import default_choice, fit_members
from bandfall._fitting.paths import fit_member_path
from bandfall._models.member import Candidate
from bandfall._models.metric import scaled
from bandfall._search.averaging import Tuned
from bandfall._search.parts import Encoded, Rows
from bandfall._search.settings import Settings
from bandfall._search.trials import Trial
from bandfall.descent import Status
from problems import problem
from reference_ladder import staged_sums


def rows_of(n=40, weighted=False, dtype=np.float64):
    X, y, _ = problem(2, n=n)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, n) if weighted else None
    y = ((y - y.mean()) / y.std())[:, None]
    return Rows({"standard": Encoded(X.astype(dtype))}, y, np.arange(n), weights)


def trial_of(n_rounds=0, kernel="gaussian", speed=0.1, max_r2=0.9, score=1.0 - 1e-9):
    return Trial(Candidate("standard", n_rounds, kernel, speed), 0.1, 0.0, score, max_r2, 30)


def choice(members, roots=None):
    nothing = np.zeros(0, dtype=int)
    return Tuned(members, nothing, np.zeros((0, 1)), [], roots or {})


@pytest.mark.parametrize("weighted", [False, True])
def test_a_member_of_one_bandwidth_has_one_stage_and_its_stop(weighted):
    rows, trial = rows_of(weighted=weighted), trial_of(speed=1e-7, max_r2=0.8)
    trial = replace(trial, candidate=replace(trial.candidate, width=0.25))
    ((member,), _) = fit_members(rows, choice([(trial, 1.0)]))
    (bandwidth,) = (stage.bandwidth for stage in member.path)
    assert_allclose(bandwidth, 0.25 * pdist(rows.views["standard"].Z).max())
    assert_allclose(member.path.r2, 0.8, atol=1e-3)
    assert "bandwidth 0.25 of the largest distance" in repr(member)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_r2", [0.3, 0.9, 0.99999])
def test_members_are_trained_to_their_stop(weighted, max_r2):
    rows = rows_of(weighted=weighted)
    kernels = ("gaussian", "matern12")
    chosen = [(trial_of(kernel=kernel, max_r2=max_r2), 0.5) for kernel in kernels]
    members, _ = fit_members(rows, choice(chosen))
    X = rows.views["standard"].Z
    weights = np.ones(len(rows)) if rows.weights is None else rows.weights
    for kernel, member in zip(kernels, members, strict=True):
        assert member.weight == 0.5
        assert member.max_r2 == max_r2
        assert_array_equal(member.root, np.ones(3))
        tolerance = min(Settings.tolerance**2, 0.01 * (1.0 - max_r2)) + 1e-9
        assert_allclose(member.path.r2, max_r2, rtol=0, atol=tolerance)
        coefficients = np.stack([stage.coefficients for stage in member.path])[:, :, None]
        bandwidths = [stage.bandwidth for stage in member.path]
        fitted = staged_sums(kernel, X, X, bandwidths, coefficients)[-1][:, 0] + member.path.offset
        mean = np.average(rows.y, axis=0, weights=weights)
        left = (weights @ (rows.y - fitted) ** 2) / (weights @ (rows.y - mean) ** 2)
        assert_allclose(1.0 - left, member.path.r2, atol=1e-8)


def test_stops_at_the_ends_are_kept_in_reach():
    rows = rows_of(n=20)
    (low, high), _ = fit_members(
        rows, choice([(trial_of(max_r2=0.0), 0.5), (trial_of(max_r2=1.0), 0.5)])
    )
    assert low.max_r2 == 1e-3
    assert high.max_r2 == Settings.max_r2
    assert high.path.r2 >= Settings.max_r2 - 1e-7


@pytest.mark.parametrize("score", [-0.5, 0.0, 0.9, np.nan])
def test_targets_are_not_met_closer_than_the_held_out_error_is_worth(score):
    rows = rows_of(n=20)
    (member,), _ = fit_members(rows, choice([(trial_of(max_r2=1.0, score=score), 1.0)]))
    enough = Settings.max_r2 if np.isnan(score) else 1.0 - 0.03**2 * (1.0 - score)
    assert_allclose(member.max_r2, enough, rtol=1e-12)
    assert member.path.r2 >= enough - 1e-4 * (1.0 - enough) - 1e-7


def test_without_held_out_rows_there_is_no_error_that_float32_could_exceed():
    rows = rows_of(n=20, dtype=np.float32)
    (member,), _ = fit_members(rows, choice([(trial_of(score=np.nan), 1.0)]))
    assert member.path.X.dtype == np.float32


@pytest.mark.parametrize("kernel", ["gaussian", "laplace-1"])
def test_metrics_of_the_search_are_taken_over(kernel):
    rows, trial = rows_of(), trial_of(2, kernel)
    scales = np.array([1.0, 0.5, 0.1])
    root = np.diag(scales) if trial.candidate.metric.mixes else scales
    (member,), _ = fit_members(rows, choice([(trial, 1.0)], {trial.candidate.metric: root}))
    assert_array_equal(member.root, root)
    assert_array_equal(member.path.X, scaled(rows.views["standard"].Z, root))


@pytest.mark.parametrize(
    ("score", "expected"), [(0.8, np.float32), (1.0, np.float64)], ids=["noisy", "exact"]
)
def test_members_are_computed_in_single_precision_where_it_is_enough(score, expected):
    rows = rows_of(weighted=True, dtype=np.float32)
    trial = replace(trial_of(), score=score)
    (member,), _ = fit_members(rows, choice([(trial, 1.0)]))
    assert member.path.X.dtype == expected
    assert member.path.stages[0].coefficients.dtype == expected
    assert_allclose(member.path.r2, 0.9, atol=1e-3)


def test_moving_a_row_by_its_last_digit_hardly_moves_predictions_without_noise():
    random = np.random.default_rng(0)
    X, X_new = random.uniform(-1, 1, (600, 3)), random.uniform(-1, 1, (200, 3))
    y = np.sin(3 * X).sum(axis=1)
    model = BandfallRegressor().fit(X, y)
    moved = np.abs(model.predict(X_new * (1 + 1e-7)) - model.predict(X_new))
    error = math.sqrt(1.0 - model.best_score_)
    assert moved.max() / y.std() < 0.02 * error


def test_a_path_that_rounding_has_ended_is_trained_in_float64(monkeypatch):
    def rounded(rows, train, X, trial, watcher):
        path = fit_member_path(rows, train, X, trial, watcher)
        return path.replace(status=Status.ROUNDING) if X.dtype == np.float32 else path

    monkeypatch.setattr(paths, "fit_member_path", rounded)
    chosen = choice([(trial_of(score=0.8), 1.0)])
    (member,), _ = fit_members(rows_of(dtype=np.float32), chosen)
    assert member.path.X.dtype == np.float64


def test_without_evidence_the_rule_of_the_paper_is_chosen():
    rows = rows_of(n=3)
    tuned = default_choice(3)
    ((trial, weight),) = tuned.members
    assert trial.candidate == Candidate("standard", 0, "gaussian", 0.1)
    assert weight == 1.0
    assert np.isnan([trial.loss, trial.standard_error, trial.score]).all()
    assert tuned.held_out.shape == (0,)
    assert tuned.predictions.shape == (0, 1)
    (member,), _ = fit_members(rows, tuned)
    assert_allclose(member.path.r2, Settings.max_r2, atol=1e-7)
    assert_allclose(member.path.evaluate(rows.views["standard"].Z), rows.y, atol=1e-2)


def test_a_constant_target_needs_no_training():
    rows = rows_of(n=10)
    constant = Rows(rows.views, np.zeros((10, 1)), rows.groups)
    (member,), _ = fit_members(constant, default_choice(10))
    assert_array_equal(member.path.evaluate(rows.views["standard"].Z), 0.0)
