"""Rows, settings and searches that the tests of the search share."""

import itertools
from dataclasses import replace

import numpy as np
from numpy.testing import assert_array_equal

from bandfall._products.base import group_rows
from bandfall._search.clock import Clock
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.search import tune
from bandfall._search.settings import Settings
from bandfall._search.splits import rung_splits
from bandfall._search.trainer import Trainer
from bandfall._targets.losses import PowerLoss

FEW = Settings(max_rounds=1)
FOLDS = Settings(few_rows=40, n_folds=4, race_folds=2, max_rounds=2)
ONE_RUNG = Settings(fold_rows=50, fewest_held_out=0, rung_rows=(1000,), max_rounds=1)
TWO_RUNGS = Settings(fold_rows=50, fewest_held_out=0, rung_rows=(40, 60), max_rounds=1)
SLOPES = {"min_gain": -1.0, "likelihood_columns": 0}  # every round passes for a success
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


def ended_after(n_ladders):
    """Arguments for a search that ends after this number of ladders."""
    clock, counter = Clock(), itertools.count(1)
    return {"clock": clock, "tried": lambda trial: next(counter) >= n_ladders and clock.end()}


def trainer_of(parts, judge=None, tried=lambda trial: None, **options):
    return Trainer(parts, judge or PowerLoss(), tried, **options)
