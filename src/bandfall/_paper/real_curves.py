"""Figures 4 and 7: double descent on the real data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bandfall._paper.curves import collect_curves, curve_claims, sweep_scores
from bandfall._paper.drawing import TEXT_WIDTH, draw_error_curves, new_figure, shared_legend
from bandfall._paper.experiment import FULL, Claim, Data, Experiment, Outcome, Results, Size, Task
from bandfall._paper.floors import DATASET_FLOORS, floor_grid
from bandfall._paper.names import DATASETS, KERNELS
from bandfall._paper.summaries import ErrorCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SPLITS = 100
_KERNELS = {"figure4": ("gaussian",), "figure7": ("matern12", "matern32", "matern52", "cauchy")}

Curves = Mapping[tuple[str, str], dict[str, ErrorCurve]]  # by kernel and data set


def _tasks(name: str, data: Data, size: Size) -> list[Task]:
    return [
        Task(
            f"{dataset}/{kernel}/{size.n_floors}/{seed}",
            sweep_scores,
            {
                "X": split.X_train,
                "y": split.y_train,
                "X_test": split.X_test,
                "y_test": split.y_test,
                "kernel": kernel,
                "floors": _floors(dataset, size.n_floors),
            },
            cost=0.26,
        )
        for kernel in _KERNELS[name]
        for dataset in DATASETS
        for seed, split in enumerate(data.splits(dataset, size.count(N_SPLITS)))
    ]


def _summarise(name: str, results: Results, size: Size) -> Outcome:
    curves = {
        (kernel, dataset): collect_curves(
            results[f"{dataset}/{kernel}/{size.n_floors}/{seed}"]
            for seed in range(size.count(N_SPLITS))
        )
        for kernel in _KERNELS[name]
        for dataset in DATASETS
    }
    claims = [
        claim for key, found in curves.items() for claim in _claims(*key, found, size == FULL)
    ]
    return Outcome(figure=_draw(_KERNELS[name], curves, size.n_floors), claims=claims)


def _floors(dataset: str, n_floors: int) -> np.ndarray:
    return floor_grid(*DATASET_FLOORS[dataset], n_floors=n_floors)


def _claims(kernel: str, dataset: str, curves: dict[str, ErrorCurve], judge: bool) -> list[Claim]:
    title = DATASETS[dataset] if kernel == "gaussian" else f"{DATASETS[dataset]}, {KERNELS[kernel]}"
    return curve_claims(title, kernel, curves, judge=judge)


def _draw(kernels: tuple[str, ...], curves: Curves, n_floors: int) -> Figure:
    """A column per data set, a row per kernel; Figure 4 two by two."""
    single = len(kernels) == 1
    n_rows, n_columns = (2, 2) if single else (len(kernels), len(DATASETS))
    figure = new_figure(TEXT_WIDTH * (1.0 if single else 1.5), 2.3 * n_rows + 0.3)
    axes = figure.subplots(n_rows, n_columns).ravel()
    keys = [(kernel, dataset) for kernel in kernels for dataset in DATASETS]
    for i, (ax, (kernel, dataset)) in enumerate(zip(axes, keys, strict=True)):
        draw_error_curves(ax, _floors(dataset, n_floors), curves[kernel, dataset])
        if single or i < n_columns:
            ax.set_title(DATASETS[dataset], fontsize=8)
        if i % n_columns == 0:
            label = "$1 - R^2$" if single else f"{KERNELS[kernel]}\n$1 - R^2$"
            ax.set_ylabel(label, fontsize=8)
        if i >= len(keys) - n_columns:
            ax.set_xlabel("$\\sigma_m$", fontsize=8)
    shared_legend(figure, axes[0])
    return figure


REAL_FIGURES = tuple(
    Experiment(
        name,
        f"Double descent on the four real data sets, {kernels}",
        partial(_tasks, name),
        partial(_summarise, name),
        requires=("matplotlib",),
    )
    for name, kernels in (("figure4", "Gaussian kernel"), ("figure7", "four more kernels"))
)
