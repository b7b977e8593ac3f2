"""What a fit prints with ``verbose=``."""

import re

import numpy as np
import pytest

from bandfall import BandfallClassifier, BandfallRegressor
from bandfall._progress import observed_by

FAST = {"kernels": ("gaussian",), "max_rounds": 1}
X = np.random.default_rng(0).normal(size=(60, 2))
Y = X[:, 0] + 0.1 * X[:, 1]


@pytest.mark.parametrize("estimator", [BandfallRegressor, BandfallClassifier])
def test_silence_is_the_default(estimator, capsys):
    estimator(**FAST).fit(X, Y > 0)
    printed = capsys.readouterr()
    assert printed.out == printed.err == ""


def lines_of(model, y, capsys):
    model.fit(X, y)
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_improvements_are_printed(capsys):
    first, *_, last, end = lines_of(BandfallRegressor(**FAST, verbose=True), Y, capsys)
    form = r"\[bandfall\] +[\d.]+ s  trial 1: R² -?[\d.]+ on held-out rows "
    details = r"\(new best; Gaussian kernel, standard columns, speed [\d.]+\)$"
    assert re.match(form + details, first)
    assert "to 60 rows" in last
    assert end.endswith("s  done")


def test_every_trial_is_printed(capsys):
    few = lines_of(BandfallRegressor(**FAST, verbose=1, n_jobs=1), Y, capsys)
    all_of_them = lines_of(BandfallRegressor(**FAST, verbose=2, n_jobs=1), Y, capsys)
    assert len(few) < len(all_of_them)
    assert "Gaussian kernel, quantile columns" in "".join(all_of_them)
    n_trials, n_speeds = map(int, re.search(r"(\d+) trials of (\d+) ", all_of_them[-2]).groups())
    assert n_speeds > n_trials == len(all_of_them) - 2  # a line shows the best of several speeds


def test_classes_are_reported_by_their_log_loss(capsys):
    lines = lines_of(BandfallClassifier(**FAST, verbose=1), Y > 0, capsys)
    assert "log-loss" in lines[0]


@pytest.mark.filterwarnings("ignore:max_seconds")
def test_what_was_cut_short_is_printed(capsys, no_least_time):
    lines = lines_of(BandfallRegressor(**FAST, verbose=1, max_seconds=1e-6), Y, capsys)
    assert any("skipped: the search ended early" in line for line in lines)


def test_it_changes_no_model(capsys):
    quiet = BandfallRegressor(**FAST).fit(X, Y).predict(X)
    np.testing.assert_array_equal(BandfallRegressor(**FAST, verbose=2).fit(X, Y).predict(X), quiet)
    capsys.readouterr()


@pytest.mark.parametrize("verbose", [-1, "yes", None])
def test_other_values_are_refused(verbose):
    with pytest.raises(ValueError, match="verbose"):
        BandfallRegressor(verbose=verbose).fit(X, Y)


@pytest.mark.parametrize("n_rows", [60, 350, 1600])
def test_progress_ends_where_the_fit_ends(n_rows):
    """Every task that was announced is done or taken back, finalists included."""
    rows = np.random.default_rng(1).normal(size=(n_rows, 2))
    clocks = []
    with observed_by(clocks.append):
        BandfallRegressor(**FAST).fit(rows, rows[:, 0] * rows[:, 1])
    (clock,) = clocks
    assert clock.share() == pytest.approx(1.0)
