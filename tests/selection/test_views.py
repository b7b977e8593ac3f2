"""Views: columns of a table under one encoding, for any split of its rows."""

import numpy as np

from bandfall.encoding import TableEncoder, prepare_table, read_table
from bandfall.selection.views import TargetEncoded


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
    assert view.columns(train, second) is view.columns(train, second)
