"""Figure 3: four plain networks of growing size, and one whose tangent kernel is controlled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import joblib
import numpy as np

from bandfall.datasets import make_sine

__all__ = ["NETWORKS", "NetworkRecord", "figure3"]

# Name, widths of the hidden layers; the last one is controlled (Appendix B).
NETWORKS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("1", (1,)),
    ("2", (3,)),
    ("3", (200, 200)),
    ("4", (200, 200, 200, 200)),
    ("5", (50,)),
)
CONTROLLED = "5"
_LONGEST_FIRST = ("3", "4", "1", "2", "5")
_WIDE = 10  # from this width on arithmetic outweighs call overhead, and float32 halves it

Progress = Callable[[str, int, float], object]


@dataclass(frozen=True)
class NetworkRecord:
    """One panel.

    Attributes
    ----------
    name : str
        "1" to "5" as in the figure.
    hidden : tuple of int
    controlled : bool
    epochs : int
        N_e, updates until training R² exceeded the limit, or the most allowed.
    train_r2, test_r2 : float
        The latter against the noise-free curve on the grid.
    grid, prediction : ndarray of shape (101,)
    """

    name: str
    hidden: tuple[int, ...]
    controlled: bool
    epochs: int
    train_r2: float
    test_r2: float
    grid: np.ndarray
    prediction: np.ndarray


def figure3(
    seed: int = 8,
    *,
    names: tuple[str, ...] = ("1", "2", "3", "4", "5"),
    max_r2: float = 0.999,
    max_epochs: int = 10**7,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> list[NetworkRecord]:
    """Train the networks of Figure 3.

    Plain networks: learning rate 0.001, momentum 0.95, output layer started at zero, until
    training R² exceeds `max_r2` or `max_epochs` (no other stopping rule). The controlled
    network: `bandfall.neural.TangentDescent` with its defaults, the grid as anchors.

    Parameters
    ----------
    seed : int
        Of the data and of the initial weights; the paper's is 8.
    names : tuple of str
        Which networks.
    max_r2, max_epochs
        The paper's stopping rule.
    n_jobs : int
        Processes. The networks are independent; number 3 takes most of the time.
    progress : callable, optional
        ``progress(name, epoch, train_r2)``, now and then with ``n_jobs=1``, else once a
        network is done. An exception raised there ends the run.

    Returns
    -------
    list of NetworkRecord, in the order of `names`
    """
    unknown = set(names) - {name for name, _ in NETWORKS}
    if unknown:
        raise ValueError(f"names={names!r} has unknown {sorted(unknown)}; allowed: '1' to '5'")
    inside = progress if n_jobs == 1 else None
    done = {}
    tasks = [name for name in _LONGEST_FIRST if name in names]
    results = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(_train)(name, seed, max_r2, max_epochs, inside) for name in tasks
    )
    for record in results:
        done[record.name] = record
        if progress is not None and n_jobs != 1:
            progress(record.name, record.epochs, record.train_r2)
    return [done[name] for name in names]


def _train(
    name: str, seed: int, max_r2: float, max_epochs: int, progress: Progress | None
) -> NetworkRecord:
    hidden = dict(NETWORKS)[name]
    X, y, grid, y_grid = make_sine(random_state=seed, test_points="grid", n_test=101)
    train = _train_controlled if name == CONTROLLED else _train_plain
    prediction, epochs, train_r2 = train(
        X,
        y,
        grid,
        hidden,
        seed,
        max_r2,
        max_epochs,
        None if progress is None else lambda epoch, r2: progress(name, epoch, r2),
    )
    test_r2 = 1.0 - np.mean((prediction - y_grid) ** 2) / np.var(y_grid)
    return NetworkRecord(
        name,
        hidden,
        name == CONTROLLED,
        epochs,
        float(train_r2),
        float(test_r2),
        grid[:, 0],
        prediction,
    )


def _train_plain(X, y, grid, hidden, seed, max_r2, max_epochs, progress):  # type: ignore[no-untyped-def]
    from bandfall.neural import train_plain

    network = train_plain(
        X,
        y,
        hidden,
        max_r2=max_r2,
        max_epochs=max_epochs,
        seed=seed,
        dtype=np.float32 if max(hidden) >= _WIDE else np.float64,
        progress=progress,
    )
    return network.predict(grid).astype(float), network.epochs, network.r2


def _train_controlled(X, y, grid, hidden, seed, max_r2, max_epochs, progress):  # type: ignore[no-untyped-def]
    import torch

    from bandfall.neural import (
        TangentDescent,
        fit_network,
        make_network,
        predict_arrays,
        seeded_generator,
    )

    generator = seeded_generator(seed)
    model = make_network(1, hidden, generator=generator)
    optimizer = TangentDescent(model, torch.tensor(grid), generator=generator)
    log, _ = fit_network(
        model,
        torch.tensor(X),
        torch.tensor(y),
        optimizer=optimizer,
        max_r2=max_r2,
        max_iter=max_epochs,
        progress=None if progress is None else lambda row: progress(row.epoch, row.r2),
    )
    return predict_arrays(model, grid)[:, 0], len(log), optimizer.r2
