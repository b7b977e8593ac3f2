"""Mean targets of pairs of categories: found where columns interact, honest, stored, exported."""

import numpy as np
import pandas as pd
import pytest

from bandfall._files import ModelFileError
from bandfall._files.codec import decode, encode
from bandfall._search.parts import TargetEncoded
from bandfall.tables import TableEncoder, prepare_table, read_table
from onnx_graphs import run_form


def table(n=400, seed=0, levels="xyz"):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({name: random.choice(list(levels), n) for name in "abcd"})
    frame.loc[::9, "a"] = None
    y = ((frame["a"] == "x") ^ (frame["b"] == "y")) + 0.1 * random.normal(size=n)
    return frame, y.to_numpy(dtype=float)


@pytest.fixture(scope="module")
def encoder():
    encoder = TableEncoder(categories="pairs")
    encoder.fit_transform(*table())
    return encoder


def test_the_pair_that_interacts_is_found(encoder):
    assert [name for name in encoder.names_out if name.endswith("_mean")] == ["a_b_mean"]
    assert encoder.describe()[0] == "a: 4 levels → 5 columns (with b)"
    assert encoder.uses_target
    frame, y = table(seed=1)
    column = encoder.transform(frame)[:, -1]
    assert np.corrcoef(column, y)[0, 1] > 0.9


def test_what_single_columns_tell_needs_no_pair():
    frame, _ = table()
    noise = 0.1 * np.random.default_rng(0).normal(size=400)
    y = (frame["a"] == "x") + 2.0 * (frame["b"] == "y") + noise
    encoder = TableEncoder(categories="pairs")
    encoder.fit_transform(frame, y.to_numpy())
    assert not encoder.uses_target


def test_noise_has_no_pairs():
    frame, _ = table()
    for seed in range(20):
        encoder = TableEncoder(categories="pairs")
        encoder.fit_transform(frame, np.random.default_rng(seed).normal(size=400))
        assert not encoder.uses_target


def test_two_levels_by_two_need_no_pair():
    frame, y = table(levels="xy")
    frame["a"] = frame["a"].fillna("y")
    encoder = TableEncoder(categories="pairs")
    encoder.fit_transform(frame, y)
    assert not encoder.uses_target


def test_few_rows_a_cell_have_no_pairs():
    encoder = TableEncoder(categories="pairs")
    encoder.fit_transform(*table(30))
    assert not encoder.uses_target


def test_no_number_of_a_training_row_comes_from_its_own_target():
    frame, y = table()
    changed = y.copy()
    changed[7] += 1.0
    before, after = (TableEncoder(categories="pairs").fit_transform(frame, t) for t in (y, changed))
    # Scale and mean of all targets move a little; its own cell would move by a twentieth.
    assert abs(after[7, -1] - before[7, -1]) < 0.02


def test_unknown_levels_are_neutral(encoder):
    frame, _ = table(3)
    frame.loc[0, "a"] = "new"
    frame.loc[1, "b"] = "new"
    assert not encoder.transform(frame, warn=False)[:2, -1].any()


def test_several_targets():
    frame, y = table()
    encoder = TableEncoder(categories="pairs")
    Z = encoder.fit_transform(frame, np.column_stack([y, -y, np.zeros_like(y)]))
    assert [name for name in encoder.names_out if "mean" in name] == ["a_b_mean0", "a_b_mean1"]
    np.testing.assert_allclose(Z[:, -1], -Z[:, -2])


def test_the_targets_are_needed():
    with pytest.raises(ValueError, match="categories='pairs' needs the targets y"):
        TableEncoder(categories="pairs").fit_transform(table()[0])


def test_held_out_targets_are_in_no_column(encoder):
    frame, y = table()
    prepared = prepare_table(read_table(frame))
    fresh = TableEncoder(categories="pairs")
    Z = fresh.fit_transform(prepared, y)
    train, new = np.arange(300), np.arange(300, 400)
    changed = y.copy()
    changed[new] = 100.0
    columns = [
        TargetEncoded(fresh, prepared, targets[:, None], None, Z).columns(train, new)
        for targets in (y, changed)
    ]
    np.testing.assert_array_equal(columns[0][0], columns[1][0])
    np.testing.assert_array_equal(columns[0][1], columns[1][1])
    alone = TableEncoder(categories="pairs")
    expected = alone.fit_transform(prepared.take(train), y[train])
    np.testing.assert_allclose(columns[0][0][:, -1], expected[:, -1], atol=1e-12)


def test_loaded_equals_saved(encoder):
    arrays = {}
    document = encode(encoder, arrays, "encoder")
    new, _ = table(50, seed=2)
    np.testing.assert_array_equal(decode(document, arrays).transform(new), encoder.transform(new))
    (stored,) = document["state"]["fitted"]["state"]["pairs"]
    (pair,) = encoder.fitted.pairs
    for wrong in (
        {"first": 9},
        {"second": "b"},
        {"means": pair.means[1:]},
        {"means": np.full_like(pair.means, np.nan)},
        {"cells": pair.cells[::-1]},
        {"cells": pair.cells + 1},
        {"cells": pair.cells[:, :1]},
        {"more": 1},
    ):
        damaged = {name: encode(value, arrays, name) for name, value in wrong.items()}
        changed = {**stored, "state": {**stored["state"], **damaged}}
        document["state"]["fitted"]["state"]["pairs"] = [changed]
        with pytest.raises(ModelFileError):
            decode(document, arrays)


def test_columns_of_many_levels_have_pairs_of_few_rows():
    """Such columns are encoded by mean targets themselves; no table of all cells is made."""
    random = np.random.default_rng(0)
    a, b = random.integers(2000, size=6000), random.integers(3, size=6000)
    effects = random.normal(size=(2000, 3))
    frame = pd.DataFrame({"a": [f"a{i}" for i in a], "b": [f"b{i}" for i in b]})
    y = effects[a, b] + 0.1 * random.normal(size=6000)
    encoder = TableEncoder(categories="pairs")
    Z = encoder.fit_transform(frame, y)
    assert sorted(encoder.names_out) == ["a_b_mean", "a_mean", "a_size", "b_b0", "b_b1", "b_b2"]
    (pair,) = encoder.fitted.pairs
    assert len(pair.cells) == len(np.unique(3 * a + b))
    again = encoder.transform(frame)
    assert np.corrcoef(again[:, -1], y)[0, 1] > 0.9 > np.corrcoef(Z[:, -1], y)[0, 1] > 0.4


def test_its_onnx_form_gives_the_same_numbers(encoder):
    pytest.importorskip("onnxruntime")
    (pair,) = encoder.fitted.pairs
    places = np.array([[0, 0], [1, 2], [-1, 1], [2, -1], [-1, -1], [3, 0]])

    def add(graph, rows):
        columns = [graph.op("Gather", rows, graph.constant(j, np.int64), axis=1) for j in (0, 1)]
        return pair.onnx(graph, *columns)

    found = run_form(add, places.astype(float))
    np.testing.assert_array_equal(found, pair.transform(*places.T))
