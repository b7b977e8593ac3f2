"""The blended step: equal to Appendix D, right in its limits, engines agree."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from bandfall.neural import empirical_ntk, make_network, tangent_step  # noqa: E402
from bandfall.neural._step import anchored_part, largest_eigenvalue, next_blend  # noqa: E402
from bandfall.neural._tangent import TangentModel, gram  # noqa: E402
from reference_neural import (  # noqa: E402
    filtered_step,
    jacobian_by_differences,
    jacobian_by_rows,
    preconditioned_step,
)


def problem(seed=0, n=6, n_anchors=5, d=3, hidden=(7,), n_outputs=1):
    """A network with more parameters than outputs, rows, anchors and residuals."""
    generator = torch.Generator().manual_seed(seed)
    model = make_network(d, hidden, n_outputs, generator=generator)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    return model, draw(n, d), draw(n_anchors, d), draw(n, n_outputs)


def step(model, X, residual, anchors, **options):
    options = {"total": 1.0, "damping": 1e-15, **options}
    return tangent_step(TangentModel(model), X, residual, anchors, **options)


def relative(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def jacobian_of(tangent, X):
    return torch.cat(tangent.jacobian_parts(X), dim=1)


# -- Jacobian and tangent kernel ---------------------------------------------------------
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_jacobian_against_differences_and_rows(n_outputs):
    model, X, _, _ = problem(hidden=(4, 3), n_outputs=n_outputs)
    jacobian = jacobian_of(TangentModel(model), X).numpy()
    assert relative(jacobian, jacobian_by_rows(model, X)) < 1e-13
    assert relative(jacobian, jacobian_by_differences(model, X)) < 1e-8


@given(seed=st.integers(0, 10**6), n_outputs=st.integers(1, 3), budget=st.sampled_from([1, 9000]))
@settings(max_examples=10, deadline=None)
def test_ntk_is_the_product_of_jacobians(seed, n_outputs, budget):
    model, X, Z, _ = problem(seed, n_outputs=n_outputs)
    exact = jacobian_by_rows(model, X) @ jacobian_by_rows(model, Z).T
    assert relative(empirical_ntk(model, X, Z), exact) < 1e-13
    tangent = TangentModel(model)
    assert relative(gram(tangent, X, Z, budget)[0], exact) < 1e-13
    assert relative(gram(tangent, X, None, budget)[0], empirical_ntk(model, X, X)) < 1e-13


def test_products_with_the_jacobian():
    model, X, _, residual = problem(n_outputs=2)
    tangent = TangentModel(model)
    jacobian = jacobian_of(tangent, X)
    v = residual.reshape(-1)
    assert relative(tangent.row_product(X, v)[0], jacobian.T @ v) < 1e-13
    direction = torch.linspace(-1, 1, tangent.n_parameters, dtype=torch.float64)
    assert relative(tangent.column_product(X, direction), jacobian @ direction) < 1e-13
    assert relative(tangent.kernel_product(X, v), jacobian @ (jacobian.T @ v)) < 1e-13


def test_frozen_parameters_take_no_part():
    model, X, _, _ = problem()
    model[0].weight.requires_grad_(False)
    jacobian = jacobian_of(TangentModel(model), X).numpy()
    assert jacobian.shape[1] == sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert relative(jacobian, jacobian_by_rows(model, X)) < 1e-13


# -- the step ----------------------------------------------------------------------------
@given(seed=st.integers(0, 10**6), blend=st.floats(0, 1))
@settings(max_examples=25, deadline=None)
def test_step_equals_the_preconditioned_gradient(seed, blend):
    """Δθ = αΦ_tᵀr + (1−α)Φ⁺[r; 0] is P(t) applied to the gradient (Appendix D)."""
    model, X, anchors, residual = problem(seed, hidden=(12,))
    phi_t = jacobian_by_rows(model, X)
    phi = np.vstack([phi_t, jacobian_by_rows(model, anchors)])
    expected = preconditioned_step(phi_t, phi, residual.numpy()[:, 0], blend)
    found = step(model, X, residual, anchors, blend=blend).direction
    condition = np.linalg.cond(phi)
    assert relative(found, expected) < 1e-13 * condition**2 + 1e-12


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_blend_one_is_gradient_descent(seed):
    model, X, anchors, residual = problem(seed)
    y = residual + TangentModel(model).outputs(X)
    loss = 0.5 * (model(X) - y).square().sum()
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, model.parameters())])
    assert relative(step(model, X, residual, anchors).direction, -gradient) < 1e-14


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_blend_zero_holds_linearised_anchors(seed):
    model, X, anchors, residual = problem(seed, hidden=(12,))
    direction = step(model, X, residual, anchors, blend=0.0).direction
    tangent = TangentModel(model)
    condition = float(torch.linalg.cond(jacobian_of(tangent, torch.cat([X, anchors]))))
    tolerance = 1e-14 * condition**2 * float(residual.norm()) + 1e-12
    assert float(tangent.column_product(anchors, direction).norm()) < tolerance
    moved = tangent.column_product(X, direction)
    assert float((moved - residual[:, 0]).norm()) < tolerance


@pytest.mark.parametrize("damping", [1e-2, 1e-5])
def test_filters_vanish_with_the_singular_value(damping):
    """More rows than rank: each filter is what its formula says, and stays bounded."""
    model, X, anchors, residual = problem(n=30, n_anchors=20, d=1, hidden=(4,))
    phi = jacobian_by_rows(model, torch.cat([X, anchors]))
    target = np.concatenate([residual.numpy()[:, 0], np.zeros(20)])
    filters = {
        "tikhonov": lambda s, largest: s / (s**2 + damping * largest**2),
        "lifted": lambda s, largest: s / (s + damping * largest) ** 2,
    }
    # The Gram matrix knows s² to rounding of λ_max, s itself only to its root.
    rounding = {"tikhonov": 1e-13 / damping, "lifted": 1e-7 / damping}
    for name, weight in filters.items():
        direction, moved = anchored_part(
            TangentModel(model),
            X,
            residual[:, 0],
            anchors,
            damping=damping,
            damping_filter=name,
        )
        assert relative(direction, filtered_step(phi, target, weight)) < rounding[name]
        assert relative(moved, phi[:30] @ direction.numpy()) < rounding[name]


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_largest_eigenvalue_is_close_from_below(n_outputs):
    model, X, anchors, _ = problem(n=15, n_anchors=10, hidden=(20,), n_outputs=n_outputs)
    tangent, rows = TangentModel(model), torch.cat([X, anchors])
    phi = jacobian_of(tangent, rows)
    largest = largest_eigenvalue(tangent, rows, torch.zeros(len(phi), dtype=phi.dtype))
    assert 0.7 < largest / float(torch.linalg.eigvalsh(phi @ phi.T)[-1]) < 1 + 1e-12


def test_gram_blocks_agree():
    model, X, _, _ = problem(n=11)
    tangent = TangentModel(model)
    assert relative(gram(tangent, X, None, 1)[0], gram(tangent, X)[0]) < 1e-14


def test_speed_is_the_derivative_of_r2():
    model, X, anchors, residual = problem(seed=3, hidden=(30,))
    tangent = TangentModel(model)
    y = residual + tangent.outputs(X)
    total = float((y - y.mean()).square().sum())
    found = step(model, X, residual, anchors, blend=0.5, damping=1e-3, total=total)
    theta, h = tangent.vector(), 1e-6

    def r2_at(t):
        tangent.set_vector(theta + t * found.direction)
        return 1 - float((y - tangent.outputs(X)).square().sum()) / total

    assert found.speed == pytest.approx((r2_at(h) - r2_at(-h)) / (2 * h), rel=1e-6)


# -- the rule for α ----------------------------------------------------------------------
@given(blend=st.floats(0, 1), plain=st.floats(0, 2), anchored=st.floats(0, 2), v=st.floats(1e-3, 1))
def test_next_blend_is_the_first_fast_enough(blend, plain, anchored, v):
    found = next_blend(blend, plain, anchored, v)
    assert 0 <= found <= blend

    def speed(a):
        return a * plain + (1 - a) * anchored

    grid = np.linspace(blend, 0, 1001)
    fast = grid[speed(grid) > v * (1 + 1e-12)]
    if len(fast):
        assert fast[0] <= found + 1e-9
        assert found <= fast[0] + blend / 1000 + 1e-9
    else:
        assert found in (0, blend) or speed(found) == pytest.approx(v, rel=1e-6)


def test_no_output_moves():
    """A network whose trainable parameters do nothing gets a zero step, not NaN."""

    class Dead(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

        def forward(self, X):
            return 0.0 * (X @ self.w)

    X = torch.ones(3, 2, dtype=torch.float64)
    residual = torch.ones(3, 1, dtype=torch.float64)
    found = step(Dead(), X, residual, X, blend=0.0)
    assert bool((found.direction == 0).all())


def test_batch_normalisation_in_training_mode_is_named():
    model = torch.nn.Sequential(
        torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1)
    )
    with pytest.raises(ValueError, match=r"layer '1' of model .* call model.eval\(\) first"):
        empirical_ntk(model, torch.zeros(4, 2))
    model.eval()
    assert empirical_ntk(model, torch.zeros(4, 2)).shape == (4, 4)
