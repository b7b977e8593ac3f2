"""The fast plain loop against torch, and the networks of Figure 3."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

torch = pytest.importorskip("torch")

from bandfall import NeuralDescentRegressor, neural  # noqa: E402
from bandfall._paper.figures import NETWORKS, train_network  # noqa: E402
from bandfall.datasets import make_sine  # noqa: E402
from bandfall.neural import PlainDescent, PlainNetwork, train_plain  # noqa: E402


@pytest.mark.parametrize("hidden", [(1,), (3,), (6, 5), (4, 4, 4)])
def test_plain_loop_is_torch_sgd(hidden):
    """200 epochs of the hand-written loop equal autograd and SGD with momentum."""
    X, y, _, _ = make_sine(random_state=8, test_points="grid", n_test=101)
    options = {"learning_rate": 0.05, "momentum": 0.9, "seed": 3}
    start = train_plain(X, y, hidden, max_epochs=0, **options)
    layers = []
    for weights in start.weights:
        layer = torch.nn.Linear(*(np.array(weights.shape) - [1, 0]).tolist(), dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(weights[:-1].T))
            layer.bias.copy_(torch.tensor(weights[-1]))
        layers += [layer, torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers[:-1])
    sgd = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(200):
        sgd.zero_grad()
        (0.5 * (model(torch.tensor(X))[:, 0] - torch.tensor(y)).square().mean()).backward()
        sgd.step()
    network = train_plain(X, y, hidden, max_epochs=200, **options)
    assert network.epochs == 200
    outputs = model(torch.tensor(X))[:, 0].detach().numpy()
    np.testing.assert_allclose(network.predict(X), outputs, rtol=1e-9, atol=1e-11)
    r2 = 1 - np.sum((y - outputs) ** 2) / np.sum((y - y.mean()) ** 2)
    assert network.r2 == pytest.approx(r2, rel=1e-9)


def test_plain_stops_by_the_rule():
    X, y, _, _ = make_sine(random_state=8, test_points="grid", n_test=101)
    network = train_plain(X, y, (20,), learning_rate=0.1, max_r2=0.3)
    assert network.r2 > 0.3
    assert isinstance(network, PlainNetwork)


def test_plain_bad_input():
    with pytest.raises(ValueError, match=r"X \(n, d\) and y \(n,\)"):
        train_plain(np.zeros((3, 1)), np.zeros(4), (2,))
    with pytest.raises(ValueError, match="at least two values"):
        train_plain(np.zeros((3, 1)), np.ones(3), (2,))


def test_divergence_ends_training():
    X, y, _, _ = make_sine(random_state=8, test_points="grid", n_test=101)
    with np.errstate(all="ignore"):
        network = train_plain(X, y, (5,), learning_rate=1e30, max_epochs=10_000)
    assert network.epochs < 10_000
    assert not np.isfinite(network.r2)


@pytest.mark.parametrize("number", range(1, len(NETWORKS) + 1))
def test_networks_of_figure3_train_for_as_many_epochs_as_allowed(number):
    network = train_network(number, max_epochs=40)
    assert network["epochs"] == 40
    assert network["hidden"] == list(NETWORKS[number - 1])
    assert len(network["prediction"]) == len(network["truth"]) == 101


def test_figure3_controlled_network_overfits_benignly():
    """The paper's seed: R² > 0.999 in far fewer epochs than a plain network takes."""
    network = train_network(5)
    assert network["train_r2"] > 0.999
    assert network["epochs"] < 5000
    assert network["test_r2"] > 0.5


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lr", [0.2, 50.0])
def test_plain_descent_does_not_diverge(seed, lr):
    X, y, _, _ = make_sine(random_state=seed)
    model = NeuralDescentRegressor(
        tangent_control=False, lr=lr, max_iter=300, max_r2=0.9, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    assert model.status_ in ("r2_reached", "iteration_limit")
    assert 0.0 < model.score(X, y) <= 1.0


def test_plain_descent_stays_below_the_largest_eigenvalue():
    X, _, _, _ = make_sine(random_state=0)
    rows = torch.tensor(X)
    network = neural.make_network(1, (20,), generator=torch.Generator().manual_seed(0))
    descent = PlainDescent(network, rows, lr=1e3, momentum=0.9)
    kernel = neural.empirical_ntk(network, rows, rows).reshape(len(X), len(X))
    assert descent.accept(1.0)
    largest = float(torch.linalg.eigvalsh(kernel)[-1]) / len(X)
    assert descent.param_groups[0]["lr"] == pytest.approx(1.0 / largest, rel=0.05)


def test_plain_descent_steps_back_when_the_loss_explodes():
    X, _, _, _ = make_sine(random_state=0)
    network = neural.make_network(1, (5,), generator=torch.Generator().manual_seed(0))
    descent = PlainDescent(network, torch.tensor(X), lr=0.1, momentum=0.9)
    assert descent.accept(1.0)
    start = [p.detach().clone() for p in network.parameters()]
    for loss in (4.1, float("nan"), float("inf")):
        with torch.no_grad():
            next(network.parameters()).add_(1.0)
        longest = descent.longest
        assert not descent.accept(loss)
        assert descent.longest == longest / 2
        assert all(torch.equal(a, b) for a, b in zip(network.parameters(), start, strict=True))


def test_plain_descent_that_cannot_go_on_has_stalled(monkeypatch):
    X, y, _, _ = make_sine(random_state=0)
    monkeypatch.setattr(PlainDescent, "accept", lambda self, loss: setattr(self, "longest", 0.0))
    model = NeuralDescentRegressor(tangent_control=False, random_state=0)
    with pytest.warns(ConvergenceWarning, match="lower lr"):
        model.fit(X, y)
    assert model.status_ == "stalled"
    assert np.isfinite(model.predict(X)).all()
