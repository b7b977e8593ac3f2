"""Splits: which rows train and which are held out, rung by rung."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bandfall._search.parts import Rows
from bandfall._search.splits import folds, one_split
from problems import seeds
from search_rows import FEW, FOLDS, ONE_RUNG, THREE_RUNGS, TWO_RUNGS, rows_of, rungs_of


class TestRungs:
    def split(self, rows, budget, seed=0):
        return rungs_of(rows, budget, seed)

    @pytest.mark.parametrize("budget", [FEW, FOLDS, ONE_RUNG, TWO_RUNGS])
    def test_equal_rows_are_never_held_out_and_trained_on(self, budget):
        rows = rows_of(repeated=25)
        for seed in range(10):
            for part in itertools.chain(*self.split(rows, budget, seed)):
                assert not set(rows.groups[part.train]) & set(rows.groups[part.held_out])
                assert min(len(part), len(part.held_out)) > 0

    def test_few_rows_see_two_partitions(self):
        rows = rows_of()
        first, second = self.split(rows, FEW)
        assert len(first) == 5
        for one, other in zip(first, second[:5], strict=True):
            assert one.held_out is other.held_out
        held_out = np.concatenate([part.held_out for part in second])
        assert_array_equal(np.sort(held_out), np.repeat(np.arange(60), 2))
        again = {tuple(part.held_out) for part in second[5:]}
        assert not again & {tuple(part.held_out) for part in first}

    def test_more_rows_race_on_some_folds(self):
        first, second = self.split(rows_of(), FOLDS)
        assert len(first) == 2
        for one, other in zip(first, second[:2], strict=True):
            assert one.held_out is other.held_out
        held_out = np.concatenate([part.held_out for part in second])
        assert_array_equal(np.sort(held_out), np.arange(60))

    def test_many_rows_are_held_out_once(self):
        rows = rows_of()
        ((only,),) = self.split(rows, ONE_RUNG)
        assert len(only.held_out) == 10
        assert_array_equal(np.sort(np.append(only.train, only.held_out)), np.arange(60))

    @pytest.mark.parametrize("n_rarer", [6, 30])
    def test_rows_of_classes_are_held_out_in_turn(self, n_rarer):
        budget = replace(ONE_RUNG, few_rows=0)
        rows = replace(rows_of(), strata=(np.arange(60) < n_rarer).astype(int))
        first, second = self.split(rows, budget)
        assert (len(first), len(second)) == (1, 3)
        held_out = np.concatenate([part.held_out for part in second])
        assert_array_equal(np.sort(held_out), np.arange(60))
        for part in second:
            assert np.count_nonzero(rows.strata[part.held_out]) == n_rarer // len(second)
        one_part = replace(budget, class_rows=59)
        assert [len(parts) for parts in self.split(rows, one_part)] == [1]

    def test_folds_of_many_rows_of_classes_train_on_some_and_judge_by_some(self):
        budget = replace(ONE_RUNG, few_rows=0, rung_rows=(12, 1000), class_train_rows=20)
        rows = replace(rows_of(), strata=np.arange(60) % 2)
        (race,), finals = self.split(rows, replace(budget, held_out_rows=15))
        assert (len(race), len(race.held_out)) == (12, 15)
        assert_array_equal(race.held_out, finals[0].held_out)
        assert len(np.unique(np.concatenate([part.held_out for part in finals]))) == 45
        for part in finals:
            assert len(part) == 20
            assert not set(part.train) & set(part.held_out)

    def test_enough_rows_are_held_out_for_intervals(self):
        for n, fewest, expected in ((90, 20, 20), (90, 40, 30), (150, 20, 25), (150, 0, 25)):
            budget = replace(ONE_RUNG, fewest_held_out=fewest)
            ((part,),) = self.split(rows_of(n=n), budget)
            assert len(part.held_out) == expected

    def test_stages_grow_by_half_at_least(self):
        budget = replace(THREE_RUNGS, rung_rows=(20, 40, 1000))
        sizes = {n: [len(part) for (part,) in self.split(rows_of(n=n), budget)] for n in (50, 66)}
        assert sizes == {50: [20, 42], 66: [20, 55]}
        for n_rows, stages in ((1000, (20, 40, 1000)), (30, (20, 30)), (10, (10,))):
            assert budget.up_to(n_rows).rung_rows == stages

    def test_finalists_see_more_rows_and_the_same_held_out(self):
        (small,), (large,) = self.split(rows_of(n=90), TWO_RUNGS)
        assert (len(small), len(large)) == (40, 60)
        assert_array_equal(small.held_out, large.held_out)
        assert_array_equal(small.train, large.train[:40])
        (small,), _ = self.split(rows_of(n=90), replace(TWO_RUNGS, held_out_rows=7))
        assert len(small.held_out) == 7


def grouped(groups):
    """Rows of which only the groups matter."""
    return Rows({}, np.zeros((len(groups), 1)), groups)


@given(seeds, st.integers(2, 40), st.integers(1, 40), st.integers(2, 8))
def test_folds_are_a_partition_that_keeps_groups_together(seed, n, n_groups, n_folds):
    groups = np.unique(np.random.default_rng(seed).integers(0, n_groups, n), return_inverse=True)[1]
    if groups.max() < 1:
        groups[0] = 1
        groups[1] = 0
    splits = folds(grouped(groups), np.random.RandomState(seed), n_folds)
    assert 2 <= len(splits) <= n_folds
    assert_array_equal(np.sort(np.concatenate([held_out for _, held_out in splits])), np.arange(n))
    for train, held_out in splits:
        assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(n))
        assert min(len(train), len(held_out)) > 0
        assert not set(groups[train]) & set(groups[held_out])


@given(seeds, st.integers(1, 40), st.integers(1, 40))
def test_shuffled_rows_keep_groups_together(seed, n, n_groups):
    groups = np.unique(np.random.default_rng(seed).integers(0, n_groups, n), return_inverse=True)[1]
    train, held_out = one_split(grouped(groups), np.random.RandomState(seed))
    order = np.concatenate([held_out, train])
    assert_array_equal(np.sort(order), np.arange(n))
    n_changes = np.count_nonzero(np.diff(groups[order]))
    assert n_changes == groups.max()


def test_shuffling_depends_on_the_random_state_alone():
    groups = np.arange(30)
    first, again, other = (
        np.concatenate(one_split(grouped(groups), np.random.RandomState(seed)))
        for seed in (0, 0, 1)
    )
    assert_array_equal(first, again)
    assert np.any(first != other)
