"""Figures 1, 4, 6 and 7: double descent on the sine data and on the real data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import r2_score

from bandfall._paper import drawing
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
from bandfall._paper.methods import MAX_R2, MAX_TIME, STEP_SIZE
from bandfall.datasets import Split, make_sine
from bandfall.descent import Euler, floor_sweep
from bandfall.descent._sweep import FloorSweep

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
CURVES = ("descent_train", "descent_test", "ridge_train", "ridge_test")
_STYLES = {
    "ridge_train": (drawing.RIDGE_COLOUR, "--", "constant bandwidth (KRR), training rows"),
    "descent_train": (drawing.DESCENT_COLOUR, "--", "falling bandwidth (KGD-D), training rows"),
    "ridge_test": (drawing.RIDGE_COLOUR, "-", "constant bandwidth (KRR), test rows"),
    "descent_test": (drawing.DESCENT_COLOUR, "-", "falling bandwidth (KGD-D), test rows"),
}
_TICKS = (1e5, 100, 10, 5, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001, 0)


def complexity(bandwidth: ArrayLike) -> np.ndarray:
    """The figures' horizontal axis, (σ + 0.01)^(−1/5): finite at 0, and falling with σ."""
    return (np.asarray(bandwidth, dtype=float) + 0.01) ** -0.2


def floor_grid(lowest: float, highest: float, n_floors: int = 100) -> np.ndarray:
    """Floors from `highest` down to `lowest`, evenly spaced in `complexity`.

    >>> floor_grid(1e-4, 1.1, n_floors=4).round(4)
    array([1.100e+00, 1.268e-01, 2.140e-02, 1.000e-04])
    """
    simplest, most_complex = complexity([highest, lowest])
    floors = np.linspace(simplest, most_complex, n_floors) ** -5.0 - 0.01
    # The fifth root rounds the ends; return them as given.
    floors[[0, -1]] = highest, lowest
    return floors


def paper_sweep(
    X: np.ndarray, y: np.ndarray, X_new: np.ndarray, kernel: str, floors: np.ndarray
) -> FloorSweep:
    """`bandfall.floor_sweep` with the paper's settings: v = 0.1, λ = 1/t = 0.001."""
    return floor_sweep(
        X,
        y,
        X_new,
        floors,
        kernel=kernel,
        min_speed=0.1,
        penalty=1e-3,
        max_r2=MAX_R2,
        max_time=MAX_TIME,
        solver=Euler(STEP_SIZE),
    )


def sweep_scores(split: Split, kernel: str, floors: np.ndarray) -> Entry:
    """R² of KGD-D and KRR on training and test data, per floor, for each of `CURVES`."""
    sweep = paper_sweep(split.X_train, split.y_train, split.X_test, kernel, floors)
    truths = 2 * (split.y_train, split.y_test)
    fits = (sweep.train, sweep.new, sweep.ridge_train, sweep.ridge_new)
    return {
        name: r2_of_each(truth, predictions).tolist()
        for name, truth, predictions in zip(CURVES, truths, fits, strict=True)
    }


def r2_of_each(truth: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """R² of every row of `predictions`, in one call: checks take longer than the arithmetic."""
    truths = np.broadcast_to(truth[:, None], predictions.T.shape)
    return np.asarray(r2_score(truths, predictions.T, multioutput="raw_values"))


class ErrorCurve(NamedTuple):
    """Mean and ends of the prediction interval of 1 − R², per floor."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def error_curve(r2: ArrayLike) -> ErrorCurve:
    """Trimmed mean and 90 % interval of 1 − R² per floor, of R² of shape (n_runs, n_floors).

    At each floor the smallest and the largest 5 % of the R² are dropped; of the rest, the mean and
    the 5 % and 95 % quantiles are kept.

    >>> error_curve([[0.0], [0.5], [1.0]])
    ErrorCurve(mean=array([0.5]), lower=array([0.05]), upper=array([0.95]))
    """
    ordered = np.sort(np.asarray(r2, dtype=float), axis=0)
    dropped = len(ordered) // 20
    errors = 1.0 - ordered[dropped : len(ordered) - dropped]
    lower, upper = np.quantile(errors, [0.05, 0.95], axis=0)
    return ErrorCurve(errors.mean(axis=0), lower, upper)


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
        **{f"{name}_test_r2": r2_of_each(truth, f).tolist() for name, f in fits.items()},
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
    """`error_curve` over the runs, for each of `CURVES`."""
    runs = [results[f"{prefix}/{seed}"] for seed in range(size.count(N_RUNS))]
    return {name: error_curve([run[name] for run in runs]) for name in CURVES}


def _draw_error_curves(ax: Axes, floors: np.ndarray, curves: Mapping[str, ErrorCurve]) -> None:
    """Mean and 90 % interval of 1 − R² against σ_m, simple models left."""
    x = complexity(floors)
    for name, (colour, line, label) in _STYLES.items():
        curve = curves[name]
        ax.fill_between(x, curve.lower, curve.upper, color=colour, alpha=0.15, linewidth=0)
        ax.plot(x, curve.mean, line, color=colour, linewidth=1.2, label=label)
    ax.set_xlim(x[0], x[-1])
    means = np.concatenate([curves[name].mean for name in ("ridge_test", "descent_test")])
    top = 1.15 * max(1.0, float(means.max()))
    ax.set_ylim(-0.02 * top, top)
    ax.spines[["top", "right"]].set_visible(False)
    _floor_axis(ax, floors)


def _floor_axis(ax: Axes, floors: np.ndarray) -> None:
    """Label the axis of complexities by bandwidths."""
    lowest, highest = float(np.min(floors)), float(np.max(floors))
    span = float(np.ptp(complexity(floors)))
    ticks: list[float] = []
    for tick in _TICKS:
        inside = 0.999 * lowest <= tick <= 1.001 * highest or (tick == 0 and lowest < 1e-3)
        if inside and (not ticks or complexity(tick) - complexity(ticks[-1]) > 0.09 * span):
            ticks.append(tick)
    ax.set_xticks(
        complexity(np.array(ticks)), ["$10^5$" if tick == 1e5 else f"{tick:g}" for tick in ticks]
    )
    ax.tick_params(labelsize=7)


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
        _draw_error_curves(ax, floor_grid(*FLOORS[kernel], size.n_floors), curves)
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
        _draw_error_curves(ax, floor_grid(*FLOORS[dataset], size.n_floors), curves)
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


class SecondDescent(NamedTuple):
    """The highest rise and fall of an error curve, from simple to complex models."""

    valley: float  # error of the best model before the peak
    peak: float
    end: float  # error of the best model after the peak

    @property
    def height(self) -> float:
        """The smaller of rise and fall: zero for a curve without a second descent."""
        return min(self.peak - self.valley, self.peak - self.end)


def second_descent(error: np.ndarray) -> SecondDescent:
    """Valley, peak and second descent of an error curve; of all peaks, the highest.

    >>> second_descent(np.array([1.0, 0.2, 0.9, 0.3]))
    SecondDescent(valley=0.2, peak=0.9, end=0.3)
    """
    before = np.minimum.accumulate(error)
    after = np.minimum.accumulate(error[::-1])[::-1]
    at = int(np.argmax(np.minimum(error - before, error - after)))
    return SecondDescent(float(before[at]), float(error[at]), float(after[at]))


def curve_claims(title: str, curves: dict[str, ErrorCurve], *, double: bool) -> list[Claim]:
    """The paper's claims about curves: whether the test error of KGD-D falls twice, and its end."""
    visible = 0.03  # share of the target's variance; smaller rises and falls do not count
    mean = curves["descent_test"].mean
    descent = second_descent(mean)
    ends = {name: float(curve.mean[-1]) for name, curve in curves.items()}
    test, ridge = ends["descent_test"], ends["ridge_test"]
    return [
        Claim(
            f"{title}: KGD-D shows {'double descent' if double else 'no double descent'}",
            f"test error {mean[0]:.2f} → {descent.valley:.2f} → {descent.peak:.2f} → "
            f"{descent.end:.2f}: second descent {descent.height:.3f}, counted from {visible:g} on",
            (descent.height > visible) == double,
        ),
        Claim(
            f"{title}: KRR's R² on test data goes to 0 as σ_m goes to 0",
            f"mean R² {1.0 - ridge:.3f} at the smallest σ_m",
            abs(1.0 - ridge) < 0.2,  # the smallest floor is not quite 0
        ),
        Claim(
            f"{title}: at the smallest σ_m KGD-D fits its training data and still generalises",
            f"training error {ends['descent_train']:.4f}, test error {test:.2f} against "
            f"{ridge:.2f} of KRR",
            ends["descent_train"] < 0.01 and test < ridge - 0.1,
        ),
    ]


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
