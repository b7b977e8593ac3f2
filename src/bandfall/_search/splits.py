"""Which rows train and which are held out: folds or one part, by groups and classes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from bandfall._search.parts import Rows

Split: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Numbers of training rows and of held-out rows."""


def rung_splits(rows: Rows, random: np.random.RandomState) -> list[list[Split]]:
    """Splits for all candidates, and for their finalists, rung by rung.

    If rows are few, later rungs judge by more folds; otherwise they train on more rows, at least
    half as many again each.
    """
    settings, n, n_folds = rows.settings, len(rows), folds_for(rows)
    if n_folds:
        splits = folds(rows, random, n_folds)
        n_first = min(settings.race_folds, n_folds // 2)
        if n < settings.few_rows:  # one partition is too noisy
            n_first = len(splits)
            splits += folds(rows, random, n_folds)
        most = min(settings.class_train_rows, settings.rung_rows[-1])
        splits = [capped(split, most, settings.held_out_rows, random) for split in splits]
        first = splits[:n_first]
        if settings.growth * settings.rung_rows[0] <= len(splits[0][0]):
            few = settings.rung_rows[0]
            first = [capped(split, few, settings.held_out_rows, random) for split in first]
        return [first, splits] if n_first < len(splits) else [splits]
    others, held_out = one_split(rows, random)
    sizes = [min(len(others), settings.rung_rows[-1])]
    for size in reversed(settings.rung_rows[:-1]):
        if settings.growth * size <= sizes[0]:
            sizes.insert(0, size)
    return [[(others[:size], held_out)] for size in sizes]


def folds_for(rows: Rows) -> int:
    """Number of folds in which each row is held out once; 0 if one part is held out."""
    settings, n = rows.settings, len(rows)
    if rows.ordered:
        return 0
    if n < settings.fold_rows:
        return settings.n_folds
    if rows.strata is None or n > settings.class_rows:
        return 0
    return settings.class_folds


def folds(rows: Rows, random: np.random.RandomState, n_folds: int) -> list[Split]:
    """One partition into folds; rows of a group stay together."""
    order = shuffled_groups(rows, random)
    parts = np.array_split(order, max(2, min(n_folds, len(order) // 2)))
    inside = [np.isin(rows.groups, part) for part in parts]
    return [(np.flatnonzero(~held_out), np.flatnonzero(held_out)) for held_out in inside]


def capped(split: Split, n_train: int, n_held_out: int, random: np.random.RandomState) -> Split:
    """A split with at most `n_train` and `n_held_out` of its rows, chosen at random."""
    train, held_out = (
        numbers if len(numbers) <= most else random.permutation(numbers)[:most]
        for numbers, most in zip(split, (n_train, n_held_out), strict=True)
    )
    return train, held_out


def one_split(rows: Rows, random: np.random.RandomState) -> Split:
    """One part held out, and all other rows in random order; rows of a group are on one side."""
    settings, n, groups = rows.settings, len(rows), rows.groups
    order = shuffled_groups(rows, random)
    ranks = np.empty(len(order), dtype=int)
    ranks[order] = np.arange(len(order))
    order = np.argsort(ranks[groups], kind="stable")  # rows of a group one after the other
    border = max(n // 6, min(n // 3, settings.fewest_held_out))
    border = min(border, settings.held_out_rows)
    while border < n and groups[order[border]] == groups[order[border - 1]]:
        border += 1
    if border == n:  # nearly all are of one group
        border = int(np.argmax(groups[order] == groups[order[-1]]))
    others = random.permutation(order[border:]) if rows.ordered else order[border:]
    return others, order[:border]


def shuffled_groups(rows: Rows, random: np.random.RandomState) -> np.ndarray:
    """Numbers of all groups in random order, every stretch with its share of each class.

    Groups of a class are spread evenly: the j-th of n at a random place in [j/n, (j + 1)/n). Groups
    that are times come in reverse order.
    """
    n_groups = int(rows.groups.max()) + 1
    if rows.ordered:
        return np.arange(n_groups)[::-1]
    order = random.permutation(n_groups)
    if rows.strata is None:
        return order
    classes = np.empty(len(order), dtype=int)
    classes[rows.groups] = rows.strata
    places = np.empty(len(order))
    for label in np.unique(classes):
        members = order[classes[order] == label]
        places[members] = (np.arange(len(members)) + random.uniform()) / len(members)
    return np.argsort(places, kind="stable")
