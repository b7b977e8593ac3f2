"""TangentDescent as an optimizer: limits, closed forms, state, mini-batches, bad input."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from bandfall.datasets import make_sine  # noqa: E402
from bandfall.neural import (  # noqa: E402
    TangentDescent,
    TangentStatus,
    empirical_ntk,
    fit_network,
    make_network,
    mixed_anchors,
    uniform_anchors,
)


def network(seed=0, d=1, hidden=(50,), n_outputs=1):
    return make_network(d, hidden, n_outputs, generator=torch.Generator().manual_seed(seed))


def sine(seed=8):
    return tuple(
        torch.as_tensor(a) for a in make_sine(random_state=seed, test_points="grid", n_test=101)
    )


def test_without_control_it_is_gradient_descent():
    """min_speed = 0 keeps α = 1; the trajectory is torch's SGD to rounding."""
    X, y, _, _ = sine()
    ours, theirs = network(), network()
    optimizer = TangentDescent(ours, lr=0.01, min_speed=0.0)
    sgd = torch.optim.SGD(theirs.parameters(), lr=0.01)
    for _ in range(50):
        optimizer.step(X, y)
        sgd.zero_grad()
        (0.5 * (theirs(X)[:, 0] - y).square().mean()).backward()
        sgd.step()
    assert optimizer.blend == 1.0
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


class Linearised(torch.nn.Module):
    """f₀(x) + ∂f₀/∂θ·w: a network whose tangent kernel does not change."""

    def __init__(self, jacobian):
        super().__init__()
        self.jacobian = jacobian
        self.w = torch.nn.Parameter(torch.zeros(jacobian.shape[1], dtype=torch.float64))

    def forward(self, index):
        return self.jacobian[index[:, 0].long()] @ self.w


def test_linearised_network_is_kernel_gradient_descent():
    """f ← f + h K r with the NTK, at training rows and elsewhere (Equation 1)."""
    from bandfall.neural._tangent import TangentModel

    X, y, X_new, _ = sine()
    model = network()
    rows = torch.cat([X, X_new])
    K = empirical_ntk(model, rows, X)
    linear = Linearised(torch.cat(TangentModel(model).jacobian_parts(rows), dim=1))
    index = torch.arange(len(rows), dtype=torch.float64)[:, None]
    h = 0.5 / float(torch.linalg.eigvalsh(K[:20])[-1])
    optimizer = TangentDescent(linear, index[20:25], lr=20 * h, min_speed=0.0)
    outputs = torch.zeros(len(rows), dtype=torch.float64)
    for _ in range(100):
        optimizer.step(index[:20], y)
        outputs = outputs + h * (K @ (y - outputs[:20]))
    torch.testing.assert_close(linear(index).detach(), outputs, rtol=1e-10, atol=1e-12)
    assert optimizer.log.kernel_drift.max() < 1e-12


def test_flow_with_a_constant_ntk_equals_the_closed_form():
    """Small steps of a linearised network follow f = (I − e^{−tK})y (Equation 3)."""
    from bandfall.neural._tangent import TangentModel

    X, y, _, _ = sine()
    model = network()
    jacobian = torch.cat(TangentModel(model).jacobian_parts(X), dim=1)
    K = jacobian @ jacobian.T
    index = torch.arange(20, dtype=torch.float64)[:, None]
    time = 20.0 / float(torch.linalg.eigvalsh(K)[-1])
    exact = y - torch.linalg.matrix_exp(-time * K) @ y
    errors = []
    for n_steps in (200, 400):
        linear = Linearised(jacobian)
        optimizer = TangentDescent(linear, index[:3], lr=20 * time / n_steps, min_speed=0.0)
        for _ in range(n_steps):
            optimizer.step(index, y)
        errors.append(float((linear(index).detach() - exact).norm()))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(1.0, abs=0.05)  # Euler: order one


def test_anchors_hold_where_the_network_is_linear():
    """α = 0 from the start: outputs at the anchors stay, training residuals shrink by 1 − h."""
    from bandfall.neural._tangent import TangentModel

    model = network(d=2, hidden=(60,))
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(12, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(8, generator=generator, dtype=torch.float64)
    linear = Linearised(torch.cat(TangentModel(model).jacobian_parts(rows), dim=1))
    index = torch.arange(12, dtype=torch.float64)[:, None]
    optimizer = TangentDescent(linear, index[8:], lr=0.3, min_speed=1e9, damping=1e-15)
    for _ in range(20):
        optimizer.step(index[:8], y)
    assert optimizer.blend == 0.0
    outputs = linear(index).detach()
    # Damping floor 1e-15·λ_max against the smallest eigenvalue of a 12-row Gram matrix.
    assert float(outputs[8:].norm()) < 1e-5
    torch.testing.assert_close(y - outputs[:8], 0.7**20 * y, rtol=1e-3, atol=1e-5)


def test_controlled_training_interpolates():
    X, y, X_new, _ = sine()
    model = network()
    optimizer = TangentDescent(model, X_new)
    log, status = fit_network(model, X, y, optimizer=optimizer, max_r2=0.99, max_iter=5000)
    assert status is TangentStatus.R2_REACHED
    assert optimizer.r2 > 0.99
    assert np.all(np.diff(log.blend) <= 0)
    assert np.all(np.diff(log.r2) >= 0)  # a step that lowers R² is undone
    assert log.blend[0] == 1.0


def test_state_dict_round_trip():
    X, y, X_new, _ = sine()
    model = network()
    optimizer = TangentDescent(model, X_new)
    for _ in range(40):
        optimizer.step(X, y)
    assert optimizer.blend < 1
    weights = {k: v.clone() for k, v in model.state_dict().items()}
    state = optimizer.state_dict()
    twin = network(seed=5)
    twin.load_state_dict(weights)
    resumed = TangentDescent(twin, lr=9.0)
    resumed.load_state_dict(state)
    for _ in range(10):
        assert optimizer.step(X, y) == resumed.step(X, y)
    assert len(resumed.log) == 50


def test_learning_rate_schedulers_work():
    X, y, X_new, _ = sine()
    optimizer = TangentDescent(network(), X_new, lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        optimizer.step(X, y)
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1 / 8)


def test_mini_batches_and_default_anchors():
    X, y, _, _ = sine()
    generator = torch.Generator().manual_seed(0)
    model = network()
    optimizer = TangentDescent(model, n_anchors=30, generator=generator, lr=0.1)
    for _ in range(20):
        for batch in torch.randperm(20, generator=generator).split(10):
            optimizer.step(X[batch], y[batch])
    assert optimizer.anchors.shape == (30, 1)
    assert len(optimizer.log) == 40
    squares = (model(X)[:, 0].detach() - y).square().sum()
    assert 1 - float(squares / (y - y.mean()).square().sum()) > 0


def test_dtype_follows_the_model():
    X, y, X_new, _ = sine()
    model = network().float()
    optimizer = TangentDescent(model, X_new)
    for _ in range(30):
        row = optimizer.step(X, y)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert optimizer.anchors.dtype == torch.float32
    assert row.r2 > 0


def test_several_outputs():
    X, y, X_new, _ = sine()
    model = network(hidden=(150,), n_outputs=2)
    optimizer = TangentDescent(model, X_new)
    Y = torch.stack([y, -2 * y], dim=1)
    for _ in range(30):
        row = optimizer.step(X, Y)
    assert row.blend < 1
    assert optimizer.r2 > 0.1


def test_too_few_parameters_warns():
    X, y, X_new, _ = sine()
    optimizer = TangentDescent(network(hidden=(3,)), X_new)
    with pytest.warns(UserWarning, match="10 parameters for 121 outputs"):
        optimizer.step(X, y)
    for _ in range(30):
        optimizer.step(X, y)
    assert math.isfinite(optimizer.r2)


def test_huge_learning_rate_never_leaves_the_last_good_parameters():
    X, y, X_new, _ = sine()
    model = network()
    optimizer = TangentDescent(model, X_new, lr=1e6)
    for _ in range(60):
        optimizer.step(X, y)
    assert not optimizer.log.accepted[0]
    assert np.all(np.diff(optimizer.log.r2) >= 0)
    assert bool(torch.isfinite(torch.cat([p.reshape(-1) for p in model.parameters()])).all())


def test_not_finite_parameters_are_restored():
    X, y, X_new, _ = sine()
    model = network()
    optimizer = TangentDescent(model, X_new)
    optimizer.step(X, y)
    good = optimizer.tangent.vector()
    with torch.no_grad():
        model[0].weight.fill_(math.nan)
    row = optimizer.step(X, y)
    assert math.isnan(row.r2)
    assert not row.accepted
    assert optimizer.status is TangentStatus.NOT_FINITE
    assert torch.equal(optimizer.tangent.vector(), good)


def test_constant_target_does_not_crash():
    X, _, X_new, _ = sine()
    model = network()
    optimizer = TangentDescent(model, X_new, lr=0.01)
    for _ in range(5):
        row = optimizer.step(X, torch.ones(20))
    assert row.r2 == -math.inf
    assert row.blend == 1.0


def test_bad_input():
    X, y, X_new, _ = sine()
    model = network()
    frozen = network().requires_grad_(False)
    with pytest.raises(ValueError, match="no parameter that requires a gradient"):
        TangentDescent(frozen)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        TangentDescent("network")
    for name, value in [
        ("lr", 0.0),
        ("lr", math.nan),
        ("min_speed", -1.0),
        ("damping", -1.0),
        ("damping", math.inf),
    ]:
        with pytest.raises(ValueError, match=name):
            TangentDescent(model, **{name: value})
    with pytest.raises(ValueError, match=r"damping_filter='magic'.*allowed"):
        TangentDescent(model, damping_filter="magic")
    with pytest.raises(TypeError, match="lr='fast'"):
        TangentDescent(model, lr="fast")
    with pytest.raises(ValueError, match="n_anchors=-1"):
        TangentDescent(model, n_anchors=-1)
    with pytest.raises(ValueError, match="anchors must be finite"):
        TangentDescent(model, torch.full((3, 1), math.nan))
    with pytest.raises(ValueError, match="anchors must have rows like X"):
        TangentDescent(model, torch.zeros(3, 2)).step(X, y)
    with pytest.raises(ValueError, match="same number of rows"):
        TangentDescent(model, X_new).step(X, y[:5])
    with pytest.raises(ValueError, match="outputs of the shape of y"):
        TangentDescent(model, X_new).step(X, torch.zeros(20, 3))
    with pytest.raises(ValueError, match="y must be finite"):
        TangentDescent(model, X_new).step(X, torch.full((20,), math.nan))

    class Cube(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X)[:, :, None]

    with pytest.raises(ValueError, match="model must map 20 rows"):
        TangentDescent(Cube(1, 1, dtype=torch.float64), X_new).step(X, y)


@pytest.mark.parametrize(("draw", "margin"), [(uniform_anchors, 0.1), (mixed_anchors, 0.0)])
def test_anchors_lie_within_the_rows(draw, margin):
    X = torch.randn(30, 4, dtype=torch.float64)
    anchors = draw(X, 50, torch.Generator().manual_seed(0))
    assert anchors.shape == (50, 4)
    low, high = X.amin(0), X.amax(0)
    assert bool((anchors >= low - margin * (high - low)).all())
    assert bool((anchors <= high + margin * (high - low)).all())
    assert torch.equal(anchors, draw(X, 50, torch.Generator().manual_seed(0)))
