"""Draw the pictures of docs/theory.md: ``python docs/make_theory_figures.py``."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import numpy as np
from matplotlib import pyplot as plt

from bandfall import KernelDescentRegressor, KernelRidgeRegressor, theory
from bandfall.datasets import make_sine
from bandfall.plotting import BoundDisplay, DoubleDescentDisplay, KernelShiftDisplay, PathDisplay

IMAGES = Path(__file__).parent / "images"
FLOORS = (1.0, 0.5, 0.1, 0.01)
NAMES = ("low", "moderate", "high", "very high")
X, y, X_new, y_new = make_sine(random_state=8, n_test=300, test_points="grid")


def descent(floor):
    """Trained to t = 1000, as in Figure 1."""
    return KernelDescentRegressor(min_bandwidth=floor, max_time=1000, max_r2=1.0).fit(X, y)


def save(figure, name):
    figure.savefig(IMAGES / f"theory_{name}.png", dpi=80, pil_kwargs={"optimize": True})
    plt.close(figure)


def four_panels(height=3.1):
    return plt.subplots(1, 4, figsize=(12.5, height), sharey=True, layout="constrained")


def draw_fits(models):
    figure, axes = four_panels()
    for ax, floor, name, model in zip(axes, FLOORS, NAMES, models, strict=True):
        ridge = KernelRidgeRegressor(bandwidth=floor, penalty=1e-3).fit(X, y)
        ax.plot(X_new[:, 0], y_new, color="#bbbbbb", lw=3, label="true function")
        ax.plot(
            X_new[:, 0], ridge.predict(X_new), color="#E69F00", lw=1.2, label="ridge, constant σ"
        )
        ax.plot(
            X_new[:, 0], model.predict(X_new), color="#0072B2", lw=1.6, label="descent, floor σ"
        )
        ax.plot(X[:, 0], y, "o", color="black", ms=3.5, label="data")
        ax.set(title=f"{name} complexity, σ = {floor:g}", xlabel="x", ylim=(-2.2, 2.2))
        ax.text(
            0.03,
            0.03,
            f"test $R^2$: descent {model.score(X_new, y_new):.2f}, "
            f"ridge {ridge.score(X_new, y_new):.2f}",
            transform=ax.transAxes,
            fontsize=8.5,
        )
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8, loc="upper left", ncols=2)
    axes[0].set_ylabel("y")
    save(figure, "fits")


def draw_shifts(models):
    figure, axes = four_panels()
    for ax, floor, model in zip(axes, FLOORS, models, strict=True):
        KernelShiftDisplay.from_estimator(
            model, X_new, bandwidths=np.geomspace(1e-3, 30, 150), ax=ax
        )
        ax.set_title(f"floor σ = {floor:g}", pad=16)
        if ax is not axes[0]:
            ax.get_legend().remove()
            ax.set_ylabel("")
    axes[0].set_ylim(0, 12.5)
    save(figure, "shift")


def draw_bounds(models):
    figure, axes = four_panels()
    for ax, floor, model in zip(axes, FLOORS, models, strict=True):
        BoundDisplay.from_estimator(model, X_new, y_new, residual="measured", ax=ax)
        ax.set(title=f"floor σ = {floor:g}", ylim=(1e-3, 1e5), xlim=(1e-2, 1e3), xscale="log")
        if ax is not axes[0]:
            ax.get_legend().remove()
            ax.set_ylabel("")
    save(figure, "bound")


def draw_double_descent():
    floors = np.geomspace(1.5, 2e-3, 48)
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 3.6), sharey=True, layout="constrained")
    for model, label, color in (
        (KernelDescentRegressor(max_time=1000, max_r2=1.0), "falling to σ", "#0072B2"),
        (KernelRidgeRegressor(penalty=1e-3), "constant σ", "#E69F00"),
    ):
        display = DoubleDescentDisplay.from_estimator(
            model, X, y, X_new, y_new, bandwidths=floors, label=label, color=color, ax=axes[0]
        )
        display.plot(x="degrees_of_freedom", ax=axes[1], label=label, color=color)
    for floor in FLOORS:
        axes[0].axvline(floor, color="#666666", lw=0.8)
    axes[1].get_legend().remove()
    axes[1].set_ylabel("")
    save(figure, "double_descent")


def print_table(models):
    """The numbers of the table in theory.md."""
    for floor, model in zip(FLOORS, models, strict=True):
        bound = theory.generalization_bound(model, X_new)
        seen = theory.generalization_bound(model, X_new, residual="measured")
        row = (
            f"{floor:g}",
            f"{theory.degrees_of_freedom(model):.1f}",
            f"{model.path_.r2:.4f}",
            f"{model.score(X_new, y_new):.2f}",
            f"{np.median(bound.mean_kernel_shift[-1]):.1f}",
            f"{bound.training[-1]:.2g}",
            f"{seen.training[-1]:.2g}",
            f"{np.median(bound.shift[-1]):.3g}",
            f"{np.median(seen.shift[-1]):.3g}",
        )
        print("| " + " | ".join(row) + " |")  # noqa: T201


def main():
    IMAGES.mkdir(exist_ok=True)
    PathDisplay.from_estimator(KernelDescentRegressor().fit(X, y))
    save(plt.gcf(), "path")
    models = [descent(floor) for floor in FLOORS]
    draw_fits(models)
    draw_shifts(models)
    draw_bounds(models)
    draw_double_descent()
    print_table(models)


if __name__ == "__main__":
    main()
