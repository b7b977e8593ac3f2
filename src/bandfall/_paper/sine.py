"""Figures 1 and 6: double descent on the sine data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import r2_score

from bandfall._paper.curves import collect_curves, curve_claims, paper_sweep, sweep_scores
from bandfall._paper.drawing import (
    DESCENT_COLOUR,
    RIDGE_COLOUR,
    TEXT_WIDTH,
    draw_error_curves,
    draw_fit,
    new_figure,
    shared_legend,
)
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
from bandfall._paper.floors import KERNEL_FLOORS, complexity, floor_grid
from bandfall._paper.names import KERNELS
from bandfall._paper.summaries import ErrorCurve
from bandfall.datasets import make_sine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_SEED = 8
N_SEEDS = 100
N_GRID = 300
_PANEL_FLOORS = {"figure1": (1.0, 0.5, 0.1, 0.01), "figure6": (5.0, 0.5, 0.1, 0.01)}
_KERNELS = {"figure1": ("gaussian",), "figure6": ("matern12", "matern32", "matern52", "cauchy")}


def sine_panels(kernel: str, floors: Sequence[float]) -> Result:
    """The functions inferred with each floor, on the seed of the top panels."""
    X, y, X_grid, truth = make_sine(n_test=N_GRID, test_points="grid", random_state=PANEL_SEED)
    sweep = paper_sweep(X, y, X_grid, kernel, np.array(floors))
    return {
        **plotted(X, y, X_grid, truth),
        "descent": sweep.new.tolist(),
        "ridge": sweep.ridge_new.tolist(),
        "descent_test_r2": [float(r2_score(truth, f)) for f in sweep.new],
        "ridge_test_r2": [float(r2_score(truth, f)) for f in sweep.ridge_new],
    }


def sine_curves(kernel: str, seed: int, n_floors: int) -> Result:
    """R² at every floor for one realisation of the data."""
    X, y, X_test, y_test = make_sine(random_state=seed)
    return sweep_scores(X, y, X_test, y_test, kernel, _floors(kernel, n_floors))


def _tasks(name: str, data: Data, size: Size) -> list[Task]:
    tasks = []
    for kernel in _KERNELS[name]:
        panels = {"kernel": kernel, "floors": _PANEL_FLOORS[name]}
        tasks.append(Task(f"{kernel}/panels", sine_panels, panels, cost=0.1))
        for seed in range(size.count(N_SEEDS)):
            arguments = {"kernel": kernel, "seed": seed, "n_floors": size.n_floors}
            tasks.append(
                Task(f"{kernel}/{size.n_floors}/{seed}", sine_curves, arguments, cost=0.17)
            )
    return tasks


def _summarise(name: str, results: Results, size: Size) -> Outcome:
    kernels = _KERNELS[name]
    panels = {kernel: results[f"{kernel}/panels"] for kernel in kernels}
    curves = {
        kernel: collect_curves(
            results[f"{kernel}/{size.n_floors}/{seed}"] for seed in range(size.count(N_SEEDS))
        )
        for kernel in kernels
    }
    return Outcome(
        figure=_draw(name, panels, curves, size.n_floors),
        claims=[
            claim
            for kernel in kernels
            for claim in _claims(name, kernel, panels[kernel], curves[kernel], size == FULL)
        ],
    )


def _floors(kernel: str, n_floors: int) -> np.ndarray:
    return floor_grid(*KERNEL_FLOORS[kernel], n_floors=n_floors)


def _claims(
    name: str, kernel: str, panels: Result, curves: dict[str, ErrorCurve], judge: bool
) -> list[Claim]:
    claims = curve_claims(KERNELS[kernel], kernel, curves, judge=judge)
    if name == "figure1":
        first, second, third, fourth = panels["descent_test_r2"]
        claims.append(
            Claim(
                "Top panels: as σ_m falls, KGD-D's test R² rises, falls and rises above KRR's",
                "test R² of KGD-D at σ_m = 1, 0.5, 0.1, 0.01: "
                f"{first:.2f}, {second:.2f}, {third:.2f}, {fourth:.2f}; of KRR: "
                + ", ".join(f"{r2:.2f}" for r2 in panels["ridge_test_r2"]),
                first < second > third < fourth and fourth > panels["ridge_test_r2"][3],
            )
        )
    return claims


def _draw(
    name: str,
    panels: Mapping[str, Result],
    curves: Mapping[str, dict[str, ErrorCurve]],
    n_floors: int,
) -> Figure:
    """Per kernel: four fits on top, the curves below; the blocks of Figure 6 two by two."""
    kernels = list(panels)
    side = 1 if len(kernels) == 1 else 2
    figure = new_figure(TEXT_WIDTH * (1.0 if side == 1 else 1.6), 4.2 * (1 if side == 1 else 2))
    blocks = figure.subfigures(side, side, squeeze=False).ravel()
    for block, kernel in zip(blocks, kernels, strict=True):
        if side > 1:
            block.suptitle(KERNELS[kernel], fontsize=9)
        axes = block.subplot_mosaic(
            [[f"panel{i}" for i in range(4)], ["curves"] * 4], height_ratios=[1.0, 1.3]
        )
        floors = _PANEL_FLOORS[name]
        for i, floor in enumerate(floors):
            _draw_panel(axes[f"panel{i}"], panels[kernel], i, floor)
        ax = axes["curves"]
        draw_error_curves(ax, _floors(kernel, n_floors), curves[kernel])
        for floor in floors:
            ax.axvline(float(complexity(floor)), color="black", linewidth=0.8)
        ax.set_xlabel("minimum allowed bandwidth, $\\sigma_m$", fontsize=8)
        ax.set_ylabel("$1 - R^2$", fontsize=8)
    shared_legend(figure, axes["panel0"], ax)
    return figure


def _draw_panel(ax: Axes, panels: Result, i: int, floor: float) -> None:
    fits = {
        "KRR": (RIDGE_COLOUR, panels["ridge"][i]),
        "KGD-D": (DESCENT_COLOUR, panels["descent"][i]),
    }
    draw_fit(ax, panels, fits, (-2.2, 2.2))
    ax.set_title(f"$\\sigma_m = {floor:g}$", fontsize=8)
    ax.set_xticks([-1, 0, 1])
    if i:
        ax.set_yticklabels([])


SINE_FIGURES = tuple(
    Experiment(
        name,
        f"Double descent on synthetic data, {kernels}",
        partial(_tasks, name),
        partial(_summarise, name),
        requires=("matplotlib",),
    )
    for name, kernels in (("figure1", "Gaussian kernel"), ("figure6", "four more kernels"))
)
