"""Codes of classes, links to probabilities, and the judge of the classifier's search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._search.parts import Encoded, Rows
from bandfall._search.splits import folds, one_split
from bandfall._targets.links import LINKS, Link, LogLoss, all_columns, class_codes

PRIORS = [np.array([0.3, 0.7]), np.array([0.2, 0.3, 0.5])]


@pytest.mark.parametrize("prior", PRIORS)
def test_codes_name_their_class_and_have_no_mean(prior):
    labels = np.repeat(np.arange(len(prior)), (10 * prior).round().astype(int))
    codes = class_codes(labels, prior)
    assert codes.shape == (10, 1 if len(prior) == 2 else len(prior))
    assert_allclose(codes.mean(axis=0), 0.0, atol=1e-15)
    assert_array_equal(all_columns(codes, len(prior)).argmax(axis=1), labels)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("link", LINKS)
def test_nothing_said_is_the_prior(prior, link):
    logs = link.log_probabilities(np.zeros((2, len(prior))), prior)
    assert_allclose(np.exp(logs), [prior, prior])


@pytest.mark.parametrize("link", LINKS)
def test_probabilities_sum_to_one_and_keep_the_order(link):
    random = np.random.default_rng(0)
    outputs = 0.1 * random.standard_normal((50, 3))
    probabilities = np.exp(link.log_probabilities(outputs, np.full(3, 1 / 3)))
    assert_allclose(probabilities.sum(axis=1), 1.0)
    assert np.all(np.isfinite(link.log_probabilities(1e6 * outputs, np.array([0.0, 0.5, 0.5]))))
    assert_array_equal(probabilities.argmax(axis=1), outputs.argmax(axis=1))


def test_clipped_outputs_are_probabilities_as_they_are():
    prior = np.array([0.5, 0.5])
    logs = Link("clip", 0.01).log_probabilities(np.array([[-0.2, 0.2], [-3.0, 3.0]]), prior)
    assert_allclose(np.exp(logs), [[0.3, 0.7], [0.005 / 3.505, 3.5 / 3.505]])


@pytest.mark.parametrize("prior", PRIORS)
def test_the_judge_takes_the_best_link_of_each_column(prior):
    random = np.random.default_rng(1)
    labels = random.choice(len(prior), size=200, p=prior)
    codes = class_codes(labels, prior)
    sure, unsure = codes + 0.1 * random.standard_normal(codes.shape), 0.05 * codes
    stacked = np.stack([sure, unsure], axis=1)  # (m, V, k), as the search has it
    losses = LogLoss(prior).losses(stacked, codes[:, None])
    assert losses.shape == (200, 2)
    assert_allclose(losses[:, 0], LogLoss(prior).losses(sure, codes))
    entropy = -(prior * np.log(prior)).sum()
    assert np.all(losses.mean(axis=0) < entropy)
    # What only shrinks outputs costs little: the link makes up for it.
    assert losses[:, 1].mean() < 0.02


@pytest.mark.parametrize("prior", PRIORS)
def test_the_judge_is_as_good_as_its_links(prior):
    random = np.random.default_rng(2)
    codes = class_codes(random.choice(len(prior), size=100, p=prior), prior)[:, None]
    noise = random.standard_normal((100, 4, codes.shape[-1]))
    outputs = codes * [[0.02], [0.5], [1.0], [1.0]] + noise * [[0.0], [0.3], [0.1], [2.0]]
    judge = LogLoss(prior)
    _, true = judge._outputs_and_true(outputs, codes)
    logs = [link.log_probabilities(all_columns(outputs, len(prior)), prior) for link in LINKS]
    own = np.broadcast_to(true, outputs.shape[:2])[..., None]
    each = [-np.take_along_axis(one, own, axis=-1)[..., 0].mean(axis=0) for one in logs]
    means = judge.losses(outputs, codes).mean(axis=0)
    assert_allclose(means, np.min(each, axis=0), rtol=0.1, atol=1e-12)


def test_a_few_rows_that_are_all_right_are_not_certain():
    prior = np.array([0.5, 0.5])
    losses = {}
    for n_rows in (20, 2000):
        codes = class_codes(np.arange(n_rows) % 2, prior)
        _, losses[n_rows] = LogLoss(prior).best_link(codes, codes, np.ones(n_rows), n_rows)
    assert losses[2000] < 0.1 * losses[20]
    assert losses[20] > 1e-3


def test_a_row_that_repeats_others_counts_as_they_do():
    prior = np.array([0.5, 0.5])
    codes = class_codes(np.arange(30) % 2, prior)
    once = LogLoss(prior).best_link(codes, codes, np.ones(30), 30)
    twice = LogLoss(prior).best_link(
        np.tile(codes, (2, 1)), np.tile(codes, (2, 1)), np.ones(60), 30
    )
    assert once[0] == twice[0]


def rows_of(strata, groups=None):
    n = len(strata)
    groups = np.arange(n) if groups is None else groups
    return Rows({"standard": Encoded(np.zeros((n, 1)))}, np.zeros((n, 1)), groups, strata=strata)


def test_every_fold_has_its_share_of_each_class():
    strata = np.array([0] * 80 + [1] * 15 + [2] * 5)
    for train, held_out in folds(rows_of(strata), np.random.RandomState(0), 5):
        assert_array_equal(np.sort(np.concatenate([train, held_out])), np.arange(100))
        counts = np.bincount(strata[held_out], minlength=3)
        assert_allclose(counts, [16, 3, 1], atol=2)
        assert np.all(np.bincount(strata[train], minlength=3) > 0)


def test_any_stretch_of_the_order_has_its_share_of_each_class():
    strata = np.random.default_rng(0).permutation(np.arange(1000) % 4)
    order = np.concatenate(one_split(rows_of(strata), np.random.RandomState(0))[::-1])
    assert_array_equal(np.sort(order), np.arange(1000))
    assert_allclose(np.bincount(strata[order[:100]]), 25, atol=2)
    assert not np.array_equal(
        order, np.concatenate(one_split(rows_of(strata), np.random.RandomState(1))[::-1])
    )


def test_groups_stay_together_whatever_their_classes():
    groups = np.arange(60) // 3
    strata = np.arange(60) % 2
    for train, held_out in folds(rows_of(strata, groups), np.random.RandomState(0), 4):
        assert not set(groups[train]) & set(groups[held_out])
