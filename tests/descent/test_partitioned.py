"""One sum a leaf, blended: the same interface as one sum, and a function without a jump."""

import pickle

import numpy as np
import pytest

from bandfall.descent import Flow, Stopping, fit_path
from bandfall.descent._partition import Leaf, PartitionedSum, partition_rows
from bandfall.descent._schedules import MinimumSpeed
from bandfall.descent._sum import KernelSum
from bandfall.kernels import get_kernel
from bandfall.kernels._geometry import scaled
from onnx_graphs import run_form
from tolerances import rounding


def target(X):
    return np.column_stack([np.sin(2 * X[:, 0]) + X[:, -1] ** 2, np.cos(X[:, 0])])


def leaf_of(X, kernel, root=None, min_speed=0.1):
    rows = X if root is None else scaled(X, root)
    path = fit_path(
        rows,
        target(X).astype(X.dtype),
        get_kernel(kernel),
        solver=Flow(),
        schedule=MinimumSpeed(min_speed, 0.2),
        stopping=Stopping(max_r2=0.9),
    )
    return Leaf(path.model, root)


def build(n=400, kernel="gaussian", roots=True, leaf_rows=150, dtype=np.float64, d=2):
    X = np.random.default_rng(0).normal(size=(n, d)).astype(dtype)
    partition = partition_rows(X, leaf_rows, overlap=0.3)
    choices = [None, np.linspace(0.5, 1.5, d), np.eye(d) + 0.2] if roots else [None]
    leaves = [
        leaf_of(X[rows], kernel, choices[leaf % len(choices)], 0.1 / (1 + leaf))
        for leaf, rows, _ in partition.shares(X)
    ]
    return PartitionedSum(X, partition, tuple(leaves))


def naive(model, x):
    """f at one row, from the definition: product of smooth steps times the sum of the leaf."""
    total = np.zeros(model.n_outputs)

    def visit(place, weight):
        nonlocal total
        if place < 0:
            leaf = model.leaves[~place]
            root = 1.0 if leaf.root is None else leaf.root
            z = x * root if np.ndim(root) < 2 else x @ root
            value = leaf.model.offset.copy()
            for bandwidth, block in zip(
                leaf.model.bandwidths, leaf.model.coefficients, strict=True
            ):
                distances = np.linalg.norm(leaf.model.X - z, axis=1)
                value += np.exp(-0.5 * (distances / bandwidth) ** 2) @ block
            total += weight * value
            return
        part = model.partition
        along = float(x @ part.directions[place])
        step = min(max((along - part.lows[place]) / (part.highs[place] - part.lows[place]), 0), 1)
        right = 3 * step**2 - 2 * step**3
        visit(part.children[place, 0], weight * (1 - right))
        visit(part.children[place, 1], weight * right)

    visit(0, 1.0)
    return total


def test_it_is_the_weighted_sum_of_its_leaves():
    model = build()
    new = np.random.default_rng(1).normal(size=(20, 2))
    expected = np.array([naive(model, x) for x in new])
    assert np.allclose(model.evaluate(new), expected, rtol=rounding(float, 1e6), atol=1e-9)


def test_one_leaf_is_the_sum_itself_bit_for_bit():
    X = np.random.default_rng(0).normal(size=(60, 2))
    leaf = leaf_of(X, "gaussian")
    one = PartitionedSum(X, partition_rows(X, 60), (leaf,))
    new = np.random.default_rng(1).normal(size=(30, 2))
    assert np.array_equal(one.evaluate(new), leaf.model.evaluate(new))
    assert np.array_equal(one.evaluate_staged(new), leaf.model.evaluate_staged(new))
    assert np.array_equal(one.gradient(new), leaf.model.gradient(new))
    assert np.array_equal(one.bandwidths, leaf.model.bandwidths)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace-1.5"])
def test_gradients_are_those_of_differences_inside_bands_too(kernel):
    model = build(kernel=kernel)
    new, step = np.random.default_rng(2).normal(size=(40, 2)), 1e-5
    gradient = model.gradient(new)
    for column in range(2):
        shift = step * np.eye(2)[column]
        difference = (model.evaluate(new + shift) - model.evaluate(new - shift)) / (2 * step)
        assert np.allclose(gradient[:, column], difference, rtol=1e-3, atol=1e-3)


def test_values_and_gradients_are_continuous_across_borders():
    x = np.linspace(-2, 2, 600)[:, None]
    partition = partition_rows(x, 200)
    leaves = [leaf_of(x[rows], "gaussian") for _, rows, _ in partition.shares(x)]
    model = PartitionedSum(x, partition, tuple(leaves))
    for border in np.concatenate([partition.lows, partition.highs]):
        beside = border + np.array([[-1e-9], [1e-9]])
        before, after = model.evaluate(beside)
        assert np.allclose(before, after, atol=1e-6)
        before, after = model.gradient(beside)
        assert np.allclose(before, after, atol=1e-4)


def test_stages_keep_step_and_end_where_the_model_does():
    model = build()
    new = np.random.default_rng(3).normal(size=(25, 2))
    staged = model.evaluate_staged(new)
    longest = max(len(leaf.model) for leaf in model.leaves)
    assert len(staged) == len(model) == len(model.bandwidths) == longest
    assert len({len(leaf.model) for leaf in model.leaves}) > 1
    assert np.allclose(staged[-1], model.evaluate(new), rtol=rounding(float, 1e4))
    assert np.all(np.diff(model.bandwidths) <= 0)


def test_a_leaf_without_stages_is_constant():
    X = np.linspace(0, 1, 20)[:, None]
    partition = partition_rows(X, 12)
    empty = KernelSum(
        X[:1], get_kernel("gaussian"), np.zeros(0), np.zeros((0, 1, 1)), np.full(1, 3.0)
    )
    model = PartitionedSum(X, partition, (Leaf(empty), Leaf(empty)))
    assert np.array_equal(model.evaluate(X), np.full((20, 1), 3.0))
    assert model.evaluate_staged(X).shape == (0, 20, 1)
    assert len(model.bandwidths) == 0


def test_leaves_must_be_as_many_as_the_partition_has():
    model = build()
    with pytest.raises(ValueError, match="leaves do not fit a partition of"):
        PartitionedSum(model.X, model.partition, model.leaves[:-1])


def test_compression_keeps_the_function_within_its_tolerance():
    model = build(n=300, roots=False)
    smaller, change = model.compress(1e-2)
    assert sum(len(leaf.model) for leaf in smaller.leaves) < sum(
        len(leaf.model) for leaf in model.leaves
    )
    assert 0 < change <= 1e-2
    exact, close = model.evaluate(model.X), smaller.evaluate(model.X)
    assert np.sqrt(np.mean((exact - close) ** 2)) < 2e-2 * exact.std()
    assert smaller.compress(1e-2)[0] is smaller


def test_pickle_and_bytes():
    model = build(dtype=np.float32)
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.evaluate(model.X), model.evaluate(model.X))
    assert again.nbytes == model.nbytes > model.X.nbytes


@pytest.mark.parametrize("kernel", ["gaussian", "matern12"])
def test_onnx_gives_the_same_values(kernel):
    pytest.importorskip("onnxruntime")
    from bandfall._onnx.sums import add_partitioned

    model = build(kernel=kernel)
    for n_rows in (50, 1):
        new = np.random.default_rng(4).normal(size=(n_rows, 2))
        found = run_form(
            lambda graph, rows: add_partitioned(graph, rows, 2, model, lambda _, x: x, 0.0), new
        )
        assert np.allclose(found, model.evaluate(new), rtol=1e-9, atol=1e-9)
