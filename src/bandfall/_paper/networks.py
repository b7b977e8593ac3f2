"""Figure 3: neural networks of increasing complexity, the last with a controlled tangent kernel."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bandfall._paper import drawing
from bandfall._paper.experiment import (
    FULL,
    Claim,
    Data,
    Entry,
    Experiment,
    Outcome,
    Size,
    Task,
    plotted,
)
from bandfall.datasets import make_sine

# Widths of the hidden layers (Appendix B); the tangent kernel of the last network is controlled.
NETWORKS: tuple[tuple[int, ...], ...] = ((1,), (3,), (200, 200), (200, 200, 200, 200), (50,))
SEED = 8


def train_network(number: int, max_epochs: int = FULL.max_epochs, seed: int = SEED) -> Entry:
    """Train one of the five networks, by default on the data of Figure 1's panels.

    Data and start weights follow from the seed. Training ends at R² > 0.999.
    """
    import torch

    from bandfall import neural
    from bandfall.neural._training import predict_arrays

    X, y, X_grid, truth = make_sine(random_state=seed, test_points="grid", n_test=101)
    hidden = NETWORKS[number - 1]
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a run limits only libraries that are loaded before its first task
    try:
        if number == len(NETWORKS):
            generator = torch.Generator().manual_seed(seed)
            model = neural.make_network(1, hidden, generator=generator)
            optimizer = neural.TangentDescent(model, torch.tensor(X_grid), generator=generator)
            rows, target = torch.tensor(X), torch.tensor(y)
            neural.fit_network(model, rows, target, optimizer=optimizer, max_iter=max_epochs)
            prediction = predict_arrays(model, X_grid)[:, 0]
            epochs, train_r2 = len(optimizer.log), optimizer.r2
        else:
            # In wide networks arithmetic outweighs call overhead, and float32 halves it.
            dtype = np.float32 if max(hidden) >= 10 else np.float64
            plain = neural.train_plain(X, y, hidden, max_epochs=max_epochs, seed=seed, dtype=dtype)
            prediction = plain.predict(X_grid).astype(float)
            epochs, train_r2 = plain.epochs, plain.r2
    finally:
        torch.set_num_threads(n_threads)
    return {
        **plotted(X, y, X_grid, truth),
        "prediction": prediction.tolist(),
        "hidden": list(hidden),
        "parameters": sum((a + 1) * b for a, b in pairwise((1, *hidden, 1))),
        "epochs": epochs,
        "train_r2": float(train_r2),
        "test_r2": float(1.0 - np.mean((prediction - truth) ** 2) / np.var(truth)),
    }


def _tasks(data: Data, size: Size) -> list[Task]:
    seconds = (120.0, 120.0, 1000.0, 300.0, 10.0)  # about, without a limit on epochs
    share = min(1.0, size.max_epochs / FULL.max_epochs)
    calls = [{"number": number, "max_epochs": size.max_epochs} for number in range(1, 6)]
    return [
        Task(f"network{call['number']}", train_network, call, cost * share)
        for call, cost in zip(calls, seconds, strict=True)
    ]


def _summarise(results: Entry, size: Size) -> Outcome:
    """Five panels side by side, each with its number of parameters, epochs and test R²."""
    networks = list(results.values())
    figure = drawing.new_figure(1.2, 2.2)
    axes = figure.subplots(1, len(networks), sharey=True)
    for ax, network in zip(axes, networks, strict=True):
        fits = {"network": (drawing.DESCENT_COLOUR, network["prediction"])}
        drawing.draw_fit(ax, network, fits, (-2.2, 2.2))
        ax.set_title(
            f"$p = {network['parameters']}$, $N_e = {_short(network['epochs'])}$\n"
            f"$R^2_{{te}} = {network['test_r2']:.2f}$",
            fontsize=7.5,
        )
        ax.set_xticks([-1, 0, 1])
    drawing.shared_legend(figure, axes[0])
    return Outcome(figure=figure, claims=_claims(networks))


def _claims(networks: list[Entry]) -> list[Claim]:
    r2 = [network["test_r2"] for network in networks]
    (fourth, rival_r2), (fifth, train_r2) = [(n["epochs"], n["train_r2"]) for n in networks[3:]]
    return [
        Claim(
            "Plain networks: with their size test R² rises, falls and rises again",
            "test R² " + ", ".join(f"{value:.2f}" for value in r2[:4]),
            r2[0] < r2[1] > r2[2] < r2[3],
        ),
        Claim(
            "The fifth network, with a controlled tangent kernel, generalises better than the "
            "fourth",
            f"test R² {r2[4]:.3f} against {r2[3]:.3f}",
            r2[4] > r2[3],
        ),
        Claim(
            "It reaches training R² 0.999 in fewer epochs than the fourth",
            f"{fifth:,} epochs (training R² {train_r2:.4f}) against {fourth:,} ({rival_r2:.4f})",
            fifth < fourth and train_r2 > 0.999,
        ),
    ]


def _short(epochs: int) -> str:
    """An epoch count to two digits.

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
