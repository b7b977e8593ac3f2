"""Figure 2: the kernel shift Δk₂ as a function of the bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bandfall._paper.drawing import DESCENT_COLOUR, TEXT_WIDTH, new_figure
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
)
from bandfall._paper.names import DATASETS
from bandfall.theory import kernel_shift, shift_regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_SPLITS = 100
N_ROWS = 31  # 30 for X, the last one is x*
BANDWIDTHS = np.geomspace(1e-2, 1e3, 200)


def shift_curve(X: np.ndarray, x_new: np.ndarray) -> Result:
    """Δk₂ of one new point at all bandwidths."""
    return {"shift": kernel_shift(X, x_new, "gaussian", BANDWIDTHS).tolist()}


def _tasks(data: Data, size: Size) -> list[Task]:
    return [
        Task(
            f"{dataset}/{seed}",
            shift_curve,
            {"X": split.X_train, "x_new": split.X_test[0]},
            cost=0.005,
        )
        for dataset in DATASETS
        for seed, split in enumerate(
            data.splits(dataset, size.count(N_SPLITS), size=N_ROWS, n_train=N_ROWS - 1)
        )
    ]


def _summarise(results: Results, size: Size) -> Outcome:
    shifts = {
        dataset: np.array(
            [results[f"{dataset}/{seed}"]["shift"] for seed in range(size.count(N_SPLITS))]
        )
        for dataset in DATASETS
    }
    claims = [claim for dataset, shift in shifts.items() for claim in _claims(dataset, shift, size)]
    note = (
        "Where the paper's caption speaks of a “fourth quartile”, the third is drawn; the range "
        "of bandwidths, which the paper does not state, is 0.01 to 1000."
    )
    return Outcome(figure=_draw(shifts), claims=claims, notes=[note])


def _claims(dataset: str, shift: np.ndarray, size: Size) -> list[Claim]:
    median = np.median(shift, axis=0)
    judge = size == FULL
    regions = shift_regions(BANDWIDTHS, median)
    peak = int(np.argmax(median))
    spread = np.ptp(np.quantile(shift[:, peak], [0.25, 0.75]))
    one, zero = median[0], median[-1]
    name = DATASETS[dataset]
    return [
        Claim(
            f"{name}: Δk₂ goes to 1 as σ goes to 0 and to 0 as σ goes to ∞",
            f"median {one:.4f} at σ = {BANDWIDTHS[0]:g}, {zero:.4f} at σ = {BANDWIDTHS[-1]:g}",
            (abs(one - 1.0) < 0.02 and zero < 0.02) if judge else None,
        ),
        Claim(
            f"{name}: between them lies a region of randomness where Δk₂ is well above 1",
            f"one-region up to σ = {regions.one_below:.2g}, zero-region from "
            f"{regions.zero_above:.2g}; median {median[peak]:.2f} at σ = {BANDWIDTHS[peak]:.2g} "
            f"with quartiles {spread:.2f} apart",
            (median[peak] > 2.0 and regions.one_below < BANDWIDTHS[peak] < regions.zero_above)
            if judge
            else None,
        ),
    ]


def _draw(shifts: dict[str, np.ndarray]) -> Figure:
    figure = new_figure(TEXT_WIDTH, 1.9)
    axes = figure.subplots(1, len(shifts))
    for ax, (dataset, shift) in zip(axes, shifts.items(), strict=True):
        lower, median, upper = np.quantile(shift, [0.25, 0.5, 0.75], axis=0)
        ax.plot(BANDWIDTHS, median, color=DESCENT_COLOUR, linewidth=1.2)
        for quartile in (lower, upper):
            ax.plot(BANDWIDTHS, quartile, ":", color=DESCENT_COLOUR, linewidth=1.0)
        ax.axhline(1.0, color="#8a8a8a", linewidth=0.6)
        ax.set_xscale("log")
        ax.set_title(DATASETS[dataset], fontsize=8)
        ax.set_xlabel("$\\sigma$", fontsize=8)
        ax.tick_params(labelsize=7)
    axes[0].set_ylabel("$\\Delta k_2$", fontsize=8)
    return figure


FIGURE2 = Experiment(
    "figure2",
    "The kernel shift Δk₂ as a function of the bandwidth",
    _tasks,
    _summarise,
    requires=("matplotlib",),
)
