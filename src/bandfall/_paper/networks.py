"""Figure 3: neural networks of increasing complexity, the last with a controlled tangent kernel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bandfall._paper.drawing import DESCENT_COLOUR, TEXT_WIDTH, draw_fit, new_figure, shared_legend
from bandfall._paper.experiment import (
    FULL,
    Claim,
    Data,
    Experiment,
    Outcome,
    Result,
    Results,
    Size,
    Task,
    plotted,
)
from bandfall.datasets import make_sine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Widths of the hidden layers (Appendix B); the tangent kernel of the last network is controlled.
NETWORKS: tuple[tuple[int, ...], ...] = ((1,), (3,), (200, 200), (200, 200, 200, 200), (50,))
SEED = 8
N_GRID = 101
_WIDE = 10  # from this width on, arithmetic outweighs call overhead, and float32 halves it
# Approximate seconds per network without a limit on epochs.
_COST = (120.0, 120.0, 1000.0, 300.0, 10.0)


def train_network(number: int, max_epochs: int = FULL.max_epochs, seed: int = SEED) -> Result:
    """Train one of the five networks, by default on the data of Figure 1's panels.

    Data and start weights follow from the seed. Training ends at R² > 0.999.
    """
    X, y, X_grid, truth = make_sine(random_state=seed, test_points="grid", n_test=N_GRID)
    hidden = NETWORKS[number - 1]
    train = _train_controlled if number == len(NETWORKS) else _train_plain
    with _one_torch_thread():
        prediction, epochs, train_r2 = train(X, y, X_grid, hidden, seed, max_epochs)
    return {
        **plotted(X, y, X_grid, truth),
        "prediction": prediction.tolist(),
        "hidden": list(hidden),
        "parameters": sum((a + 1) * b for a, b in pairwise((1, *hidden, 1))),
        "epochs": epochs,
        "train_r2": float(train_r2),
        "test_r2": float(1.0 - np.mean((prediction - truth) ** 2) / np.var(truth)),
    }


def _train_plain(
    X: np.ndarray,
    y: np.ndarray,
    grid: np.ndarray,
    hidden: tuple[int, ...],
    seed: int,
    max_epochs: int,
) -> tuple[np.ndarray, int, float]:
    from bandfall.neural import train_plain

    dtype = np.float32 if max(hidden) >= _WIDE else np.float64
    network = train_plain(X, y, hidden, max_epochs=max_epochs, seed=seed, dtype=dtype)
    return network.predict(grid).astype(float), network.epochs, network.r2


def _train_controlled(
    X: np.ndarray,
    y: np.ndarray,
    grid: np.ndarray,
    hidden: tuple[int, ...],
    seed: int,
    max_epochs: int,
) -> tuple[np.ndarray, int, float]:
    import torch

    from bandfall import neural

    generator = neural.seeded_generator(seed)
    model = neural.make_network(1, hidden, generator=generator)
    optimizer = neural.TangentDescent(model, torch.tensor(grid), generator=generator)
    log, _ = neural.fit_network(
        model, torch.tensor(X), torch.tensor(y), optimizer=optimizer, max_iter=max_epochs
    )
    return neural.predict_arrays(model, grid)[:, 0], len(log), optimizer.r2


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """One torch thread: the engine limits only libraries loaded before its first task."""
    import torch

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


def _tasks(data: Data, size: Size) -> list[Task]:
    return [
        Task(
            f"network{number}/{size.max_epochs}",
            train_network,
            {"number": number, "max_epochs": size.max_epochs},
            cost=cost * min(1.0, size.max_epochs / FULL.max_epochs),
        )
        for number, cost in enumerate(_COST, start=1)
    ]


def _summarise(results: Results, size: Size) -> Outcome:
    networks = list(results.values())
    return Outcome(figure=_draw(networks), claims=_claims(networks, size == FULL))


def _claims(networks: list[Result], judge: bool) -> list[Claim]:
    r2 = [network["test_r2"] for network in networks]
    epochs = [network["epochs"] for network in networks]
    return [
        Claim(
            "Plain networks: with their size test R² rises, falls and rises again",
            "test R² " + ", ".join(f"{value:.2f}" for value in r2[:4]),
            (r2[0] < r2[1] > r2[2] < r2[3]) if judge else None,
        ),
        Claim(
            "The fifth network, with a controlled tangent kernel, generalises better than the "
            "fourth",
            f"test R² {r2[4]:.3f} against {r2[3]:.3f}",
            r2[4] > r2[3] if judge else None,
        ),
        Claim(
            "It reaches training R² 0.999 in fewer epochs than the fourth",
            f"{epochs[4]:,} epochs (training R² {networks[4]['train_r2']:.4f}) against "
            f"{epochs[3]:,} ({networks[3]['train_r2']:.4f})",
            (epochs[4] < epochs[3] and networks[4]["train_r2"] > 0.999) if judge else None,
        ),
    ]


def _draw(networks: list[Result]) -> Figure:
    """Five panels side by side, each with its number of parameters, epochs and test R²."""
    figure = new_figure(TEXT_WIDTH * 1.2, 2.2)
    axes = figure.subplots(1, len(networks), sharey=True)
    for ax, network in zip(axes, networks, strict=True):
        fits = {"network": (DESCENT_COLOUR, network["prediction"])}
        draw_fit(ax, network, fits, (-2.2, 2.2))
        ax.set_title(
            f"$p = {network['parameters']}$, $N_e = {_short(network['epochs'])}$\n"
            f"$R^2_{{te}} = {network['test_r2']:.2f}$",
            fontsize=7.5,
        )
        ax.set_xticks([-1, 0, 1])
    shared_legend(figure, axes[0])
    return figure


def _short(epochs: int) -> str:
    """An epoch count to two digits.

    Examples
    --------
    >>> _short(10_000_000), _short(18_284), _short(900)
    ('1 \\\\cdot 10^{7}', '1.8 \\\\cdot 10^{4}', '900')
    """
    if epochs < 1000:
        return str(epochs)
    exponent = int(np.floor(np.log10(epochs)))
    return f"{float(f'{epochs / 10**exponent:.1f}'):g} \\cdot 10^{{{exponent}}}"


FIGURE3 = Experiment(
    "figure3",
    "Neural networks of increasing complexity, the fifth with a controlled tangent kernel",
    _tasks,
    _summarise,
    requires=("matplotlib", "torch"),
)
