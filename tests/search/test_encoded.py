"""Views: columns of a table under one encoding, for any split of its rows."""

import numpy as np

from bandfall._search.parts import TargetEncoded
from bandfall.tables import TableEncoder, prepare_table, read_table


def test_mean_targets_are_those_of_the_new_rows_that_are_asked_for():
    """The same training rows serve different new rows, one split after the other."""
    random = np.random.default_rng(0)
    table = prepare_table(read_table({"c": list(random.choice(list("abcdef"), 60))}))
    y = random.normal(size=(60, 1))
    encoder = TableEncoder(categories="target")
    Z = encoder.fit_transform(table, y)
    view, fresh = (TargetEncoded(encoder, table, y, None, Z) for _ in range(2))
    train, first, second = np.arange(40), np.arange(40, 50), np.arange(50, 60)
    view.columns(train, first)
    np.testing.assert_array_equal(view.columns(train, second)[1], fresh.columns(train, second)[1])


def test_mean_targets_come_from_all_rows_that_are_not_new():
    """Also if a search trains on some of them: levels with few rows need them all."""
    random = np.random.default_rng(1)
    table = prepare_table(read_table({"c": list(random.choice(list("abcdef"), 60))}))
    y = random.normal(size=(60, 1))
    encoder = TableEncoder(categories="target")
    view = TargetEncoded(encoder, table, y, None, encoder.fit_transform(table, y))
    some, rest, new = np.arange(30), np.arange(40), np.arange(40, 60)
    alone = TableEncoder(categories="target")
    expected = alone.fit_transform(table.take(rest), y[rest])
    Z, Z_new = view.columns(some, new)
    np.testing.assert_allclose(Z, expected[:30], atol=1e-12)
    np.testing.assert_allclose(Z_new, alone.transform(table.take(new)), atol=1e-12)
