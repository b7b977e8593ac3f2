"""Figures 1, 4, 6 and 7: double descent on the sine data and on the real data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import r2_score

from bandfall._paper import drawing
from bandfall._paper.curves import (
    ErrorCurve,
    collect_curves,
    complexity,
    curve_claims,
    floor_grid,
    paper_sweep,
    sweep_scores,
)
from bandfall._paper.experiment import (
    DATASETS,
    KERNELS,
    Claim,
    Data,
    Entry,
    Experiment,
    Outcome,
    Size,
    Task,
    plotted,
    sets_of,
)
from bandfall.datasets import Split, make_sine

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Smallest and largest floor, by kernel on the sine data (Figures 1 and 6), by real data set (4, 7).
FLOORS = {
    "gaussian": (1e-4, 1.1),
    "matern12": (1e-4, 1e5),
    "matern32": (1e-4, 20.0),
    "matern52": (1e-4, 20.0),
    "cauchy": (1e-4, 3.0),
    "cpu": (0.2, 1e5),
    "power": (0.1, 1e5),
    "superconductors": (0.2, 1e5),
    "uk_temperature": (0.1, 100.0),
}
PANEL_SEED = 8
N_RUNS = 100  # seeds or splits
_MORE = ("matern12", "matern32", "matern52", "cauchy")


def _panel_floors(kernel: str) -> tuple[float, ...]:
    return (1.0 if kernel == "gaussian" else 5.0, 0.5, 0.1, 0.01)


def sine_panels(kernel: str) -> Entry:
    """The functions inferred with each floor of the top panels, and their R²."""
    X, y, X_grid, truth = make_sine(n_test=300, test_points="grid", random_state=PANEL_SEED)
    sweep = paper_sweep(X, y, X_grid, kernel, np.array(_panel_floors(kernel)))
    fits = {"descent": sweep.new, "ridge": sweep.ridge_new}
    return {
        **plotted(X, y, X_grid, truth),
        **{name: values.tolist() for name, values in fits.items()},
        **{f"{name}_test_r2": [float(r2_score(truth, f)) for f in fits[name]] for name in fits},
    }


def _sine_tasks(kernels: Sequence[str], data: Data, size: Size) -> list[Task]:
    panels = [Task(f"panels/{k}", sine_panels, {"kernel": k}, cost=0.1) for k in kernels]
    seeds = range(size.count(N_RUNS))
    runs = [("", seed, Split(*make_sine(random_state=seed))) for seed in seeds]
    return panels + [task for k in kernels for task in _curve_tasks(runs, k, size)]


def _real_tasks(kernels: Sequence[str], data: Data, size: Size) -> list[Task]:
    runs = data.each_split(dict.fromkeys(DATASETS, size.count(N_RUNS)))
    return [task for kernel in kernels for task in _curve_tasks(runs, kernel, size)]


def _curve_tasks(runs: Sequence[tuple[str, int, Split]], kernel: str, size: Size) -> Iterator[Task]:
    """R² at every floor, for each seed of the sine or each split of a data set."""
    for dataset, seed, split in runs:
        floors = floor_grid(*FLOORS[dataset or kernel], size.n_floors)
        arguments = {"split": split, "kernel": kernel, "floors": floors}
        key = f"{dataset}/{kernel}/{seed}" if dataset else f"{kernel}/{seed}"
        yield Task(key, sweep_scores, arguments, cost=0.26 if dataset else 0.17)


def _curves(results: Entry, prefix: str, size: Size) -> dict[str, ErrorCurve]:
    return collect_curves(results[f"{prefix}/{seed}"] for seed in range(size.count(N_RUNS)))


def _summarise_sine(kernels: Sequence[str], results: Entry, size: Size) -> Outcome:
    """Per kernel: four fits on top, the curves below; the blocks of Figure 6 two by two."""
    single = len(kernels) == 1
    figure = drawing.new_figure(*((1.0, 4.2) if single else (1.6, 8.4)))
    blocks = figure.subfigures(*((1, 1) if single else (2, 2)), squeeze=False).ravel()
    claims = []
    for block, kernel in zip(blocks, kernels, strict=True):
        panels, curves = results[f"panels/{kernel}"], _curves(results, kernel, size)
        claims += curve_claims(KERNELS[kernel], curves, double=kernel != "matern12")
        if single:
            claims.append(_panel_claim(panels))
        else:
            block.suptitle(KERNELS[kernel], fontsize=9)
        axes = block.subplot_mosaic([list("abcd"), ["curves"] * 4], height_ratios=[1.0, 1.3])
        ax = axes["curves"]
        drawing.draw_error_curves(ax, floor_grid(*FLOORS[kernel], size.n_floors), curves)
        ax.set_xlabel("smallest bandwidth allowed, $\\sigma_m$", fontsize=8)
        ax.set_ylabel("$1 - R^2$", fontsize=8)
        for i, floor in enumerate(_panel_floors(kernel)):
            _draw_panel(axes["abcd"[i]], panels, i, floor)
            ax.axvline(float(complexity(floor)), color="black", linewidth=0.8)
    drawing.shared_legend(figure, axes["a"], ax)
    return Outcome(figure=figure, claims=claims)


def _draw_panel(ax: Axes, panels: Entry, i: int, floor: float) -> None:
    fits = {
        "KRR": (drawing.RIDGE_COLOUR, panels["ridge"][i]),
        "KGD-D": (drawing.DESCENT_COLOUR, panels["descent"][i]),
    }
    drawing.draw_fit(ax, panels, fits, (-2.2, 2.2))
    ax.set_title(f"$\\sigma_m = {floor:g}$", fontsize=8)
    ax.set_xticks([-1, 0, 1])
    if i:
        ax.set_yticklabels([])


def _panel_claim(panels: Entry) -> Claim:
    first, second, third, fourth = panels["descent_test_r2"]
    return Claim(
        "Top panels: as σ_m falls, KGD-D's test R² rises, falls and rises above KRR's",
        "test R² of KGD-D at σ_m = 1, 0.5, 0.1, 0.01: "
        f"{first:.2f}, {second:.2f}, {third:.2f}, {fourth:.2f}; of KRR: "
        + ", ".join(f"{r2:.2f}" for r2 in panels["ridge_test_r2"]),
        first < second > third < fourth and fourth > panels["ridge_test_r2"][3],
    )


def _summarise_real(kernels: Sequence[str], results: Entry, size: Size) -> Outcome:
    """A column per data set, a row per kernel; Figure 4 with two columns."""
    sets, single = sets_of(results), len(kernels) == 1
    n_columns = min(2, len(sets)) if single else len(sets)
    n_rows = -(-len(kernels) * len(sets) // n_columns)
    figure = drawing.new_figure(1.0 if single else 1.5, 2.3 * n_rows + 0.3)
    axes = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    panels = [(kernel, dataset) for kernel in kernels for dataset in sets]
    claims = []
    for i, (ax, (kernel, dataset)) in enumerate(zip(axes, panels, strict=False)):
        curves = _curves(results, f"{dataset}/{kernel}", size)
        title = DATASETS[dataset] + ("" if single else f", {KERNELS[kernel]}")
        claims += curve_claims(title, curves, double=kernel != "matern12")
        drawing.draw_error_curves(ax, floor_grid(*FLOORS[dataset], size.n_floors), curves)
        if single or i < n_columns:
            ax.set_title(DATASETS[dataset], fontsize=8)
        if i % n_columns == 0:
            label = "error, $1 - R^2$" if single else f"{KERNELS[kernel]}\n$1 - R^2$"
            ax.set_ylabel(label, fontsize=8)
        if i >= len(panels) - n_columns:
            ax.set_xlabel("smallest bandwidth allowed, $\\sigma_m$", fontsize=8)
    for ax in axes[len(panels) :]:
        ax.set_axis_off()
    drawing.shared_legend(figure, axes[0])
    return Outcome(figure=figure, claims=claims)


DOUBLE_DESCENT = tuple(
    Experiment(
        name,
        f"Double descent on {what}",
        partial(_real_tasks if real_data else _sine_tasks, kernels),
        partial(_summarise_real if real_data else _summarise_sine, kernels),
        requires=("matplotlib",),
        real_data=real_data,
    )
    for name, what, kernels, real_data in (
        ("figure1", "synthetic data, Gaussian kernel", ("gaussian",), False),
        ("figure4", "the four real data sets, Gaussian kernel", ("gaussian",), True),
        ("figure6", "synthetic data, four more kernels", _MORE, False),
        ("figure7", "the four real data sets, four more kernels", _MORE, True),
    )
)
