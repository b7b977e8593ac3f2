"""Metrics: what paths teach, part by part, against sums written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bandfall._models import metric
from bandfall._models.member import Candidate, MetricKey
from bandfall._models.metric import learned_root, mean_root, metric_root, scaled
from bandfall._products.base import group_rows
from bandfall._search import metrics
from bandfall._search.metrics import completed, next_root, roots_of
from bandfall._search.parts import Encoded, Part, Rows
from bandfall._search.splits import folds
from bandfall._search.trials import Request, Trial, train_parts
from bandfall.descent._sum import KernelSum
from bandfall.kernels import get_kernel
from problems import problem
from reference_ladder import gaussian_gradient

SPEEDS = (0.1, 0.01)
STANDARD = MetricKey("standard", True, 0)
ONES = np.ones(3)


def rows_of(n=40, n_outputs=1, weighted=False, dtype=np.float64):
    """Rows in two encodings, of which six are repeated."""
    X, y, _ = problem(3, n=n)
    X[:6] = X[6:12]
    y = np.column_stack([y, np.cos(3 * X[:, 1])])[:, :n_outputs]
    weights = None
    if weighted:
        weights = np.random.default_rng(4).uniform(0.3, 2.0, n)
        weights /= weights.mean()
    views = {"standard": Encoded(X.astype(dtype)), "curved": Encoded(np.tanh(X).astype(dtype))}
    return Rows(views, (y - y.mean(0)) / y.std(0), group_rows(X)[0], weights)


def part_of(rows):
    (train, held_out), *_ = folds(rows, np.random.RandomState(0), 4)
    return Part(rows, train, held_out)


def trial_of(encoding="standard", n_rounds=0, kernel="gaussian", speed=0.1, max_r2=0.9):
    return Trial(Candidate(encoding, n_rounds, kernel, speed), 0.0, 0.0, 0.0, max_r2, 30)


def train(parts, request, root=ONES):
    return train_parts(
        parts, request, [p.scaled(request.candidate.encoding, root)[0] for p in parts]
    )


def root_after(part, ladder, root, scout, speed):
    path = ladder.until(speed, ladder.reached(speed, scout.max_r2))
    return next_root(part, root, scout, path)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_metric_comes_from_gradients_at_the_scouts_stop(weighted):
    rows = rows_of(n_outputs=2, weighted=weighted)
    part = part_of(rows)
    (before,) = roots_of({}, STANDARD, [part])
    assert_array_equal(before, np.ones(3))
    for n_rounds in range(2):
        (ladder,) = train(
            [part], Request(Candidate("standard", n_rounds, "gaussian"), SPEEDS), before
        )
        scout = trial_of(n_rounds=n_rounds, max_r2=0.8)
        root = root_after(part, ladder, before, scout, 1)
        stops = ladder.reached(1, 0.8)
        assert ladder.r2[stops, 1] >= 0.8 - 1e-9
        Z = scaled(rows.views["standard"].Z[part.train], before)
        gradient = gaussian_gradient(
            Z, Z, ladder.bandwidths[:stops], ladder.coefficients[:stops, :, 1]
        )
        product = np.zeros((3, 3))
        for row in gradient / part.scale:
            product += row @ row.T / len(gradient)
        expected = metric_root(product, before)
        assert_allclose(root, expected, atol=1e-8)
        before = expected


def test_many_rows_are_thinned_before_gradients_are_taken():
    """Every third of 4,500 rows: at most 2,000 are enough."""
    random = np.random.default_rng(0)
    Z, coefficients = random.normal(size=(4500, 3)), random.normal(size=(2, 4500, 1))
    bandwidths, scale = np.array([1.0, 0.5]), np.array([2.0])
    total = KernelSum(Z, get_kernel("gaussian"), bandwidths, coefficients, np.zeros(1))
    gradient = total.gradient(Z[::3]) / scale
    product = np.einsum("mdk,mek->de", gradient, gradient) / 1500
    assert_allclose(learned_root(total, scale, ONES), metric_root(product, ONES), atol=1e-8)


def test_metrics_learned_from_scratch_are_those_learned_step_by_step():
    scouts = {
        STANDARD.after(0): trial_of(speed=0.1, max_r2=0.7),
        STANDARD.after(1): trial_of(n_rounds=1, kernel="matern12", speed=0.01, max_r2=0.9),
        STANDARD.after(2): trial_of(n_rounds=2, speed=0.03, max_r2=0.8),
    }
    part, root, slowly = part_of(rows_of()), ONES, {}
    for number in range(3):
        scout = scouts[STANDARD.after(number)]
        one = scout.candidate
        request = Request(Candidate("standard", number, one.kernel), [one.min_speed], scout.max_r2)
        (ladder,) = train([part], request, root)
        root = root_after(part, ladder, root, scout, 0)
        slowly[STANDARD.after(number + 1)] = root
    at_once = completed([part], {}, [STANDARD.after(3)], scouts)
    assert at_once.keys() == slowly.keys()
    for key, (root,) in at_once.items():
        assert_array_equal(root, slowly[key])


def test_metrics_that_are_known_are_not_learned_again():
    part = part_of(rows_of())
    known = {STANDARD.after(n): (np.diag([1.0, 0.5, 0.25]),) for n in (1, 2)}
    keys = [STANDARD.after(2), MetricKey("curved", True, 0)]
    assert completed([part], known, keys, {}) == known


def test_parts_that_lack_a_metric_learn_it_alone(monkeypatch):
    rows = rows_of()
    parts = [Part(rows, *split) for split in folds(rows, np.random.RandomState(0), 3)]
    scouts = {STANDARD.after(n): trial_of(n_rounds=n, max_r2=0.8) for n in range(2)}
    few = completed(parts[:2], {}, [STANDARD.after(2)], scouts)
    trained = []

    def counted(lacking, *given, **named):
        trained.append([parts.index(part) for part in lacking])
        return train_parts(lacking, *given, **named)

    monkeypatch.setattr(metrics, "train_parts", counted)
    every = completed(parts, few, [STANDARD.after(2)], scouts)
    assert trained == [[2], [2]]
    for key, roots in every.items():
        assert len(roots) == 3
        assert all(a is b for a, b in zip(roots, few[key], strict=False))


def test_roots_of_many_columns_are_those_of_few_up_to_rounding(monkeypatch):
    slopes = np.random.default_rng(0).normal(size=(50, 320)) * np.geomspace(1, 1e-4, 320)
    before = metric_root(np.eye(320), np.geomspace(1, 0.1, 320))
    found = metric_root(slopes.T @ slopes, before)
    monkeypatch.setattr(metric, "_COARSE", 320)
    expected = metric_root(slopes.T @ slopes, before)
    assert found.dtype == expected.dtype == np.float64
    assert np.abs(found - expected).max() > 0.0
    assert_allclose(found, expected, atol=2e-4)
    assert np.linalg.eigvalsh(found)[0] > 0.99e-3  # the floor


def test_norms_that_depend_on_the_axes_have_metrics_of_their_own():
    """Columns are scaled one by one for them; the Euclidean norm may also mix columns."""
    part, roots = part_of(rows_of()), []
    for kernel in ("matern12", "laplace-1"):
        (ladder,) = train([part], Request(Candidate("standard", 0, kernel), [0.1]))
        roots.append(root_after(part, ladder, ONES, trial_of(kernel=kernel, max_r2=0.8), 0))
    mixing, scales = roots
    assert mixing.shape == (3, 3)
    assert scales.shape == (3,)
    assert scales.max() == 1.0


def test_the_metric_of_all_rows_is_the_mean_of_those_of_the_parts():
    expected = np.sqrt(np.array([0.52, 0.625, 0.01]) / 0.625)
    scales = np.array([1.0, 0.5, 0.1]), np.array([0.2, 1.0, 0.1])
    assert_allclose(mean_root(scales), expected, atol=1e-12)
    matrices = tuple(map(np.diag, scales))
    assert_allclose(mean_root(matrices), np.diag(expected), atol=1e-12)
    assert mean_root(matrices[:1]) is matrices[0]
