"""Figure 5: functions of increasing complexity along one training run."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import r2_score

from bandfall._estimators import KernelRidgeCV, KernelRidgeRegressor
from bandfall._paper import drawing
from bandfall._paper.experiment import Claim, Data, Entry, Experiment, Outcome, Size, Task, plotted
from bandfall._paper.methods import STEP_SIZE, descend
from bandfall.datasets import make_two_scale
from bandfall.descent import Path
from bandfall.rivals import permutation_folds

SEED = 16
MIN_BANDWIDTH = 1e-4
N_UPDATES = (140, 241, 780, None)  # None: to the end
PENALTIES = (13.5, 8.2, 0.55, 1e-6)


def increasing_complexity() -> Entry:
    """KGD-D at four times, KRR with one bandwidth at four penalties."""
    X, y, X_grid, truth = make_two_scale(random_state=SEED)
    linear = np.abs(X_grid[:, 0]) >= 1.0
    path = descend(X, y, "gaussian", min_bandwidth=MIN_BANDWIDTH)
    staged = path.evaluate_staged(X_grid)[:, :, 0]
    descent = [path if n is None else path.truncate(time=n * STEP_SIZE) for n in N_UPDATES]
    chosen = KernelRidgeCV(cv=permutation_folds(len(y), SEED)).fit(X, y)
    ridge = [
        KernelRidgeRegressor(bandwidth=chosen.bandwidth_, penalty=penalty).fit(X, y)
        for penalty in PENALTIES
    ]
    fits = {
        "descent": [step.evaluate(X_grid)[:, 0] for step in descent],
        "ridge": [model.predict(X_grid) for model in ridge],
    }
    parts = {"linear": linear, "sinus": ~linear, "all": linear | ~linear}
    return {
        **plotted(X, y, X_grid, truth),
        "ridge_bandwidth": chosen.bandwidth_,
        "descent_train_r2": [step.r2 for step in descent],
        "ridge_train_r2": [model.score(X, y) for model in ridge],
        "linear_captured": _captured(path, staged[:, linear], truth[linear]),
        "sinus_captured": _captured(path, staged[:, ~linear], truth[~linear]),
        **{name: [f.tolist() for f in values] for name, values in fits.items()},
        **{
            f"{name}_r2": {
                part: [float(r2_score(truth[rows], f[rows])) for f in values]
                for part, rows in parts.items()
            }
            for name, values in fits.items()
        },
    }


def _captured(path: Path, staged: np.ndarray, truth: np.ndarray) -> list[float]:
    """Training time and training R² at the end of the first stage that explains half of a part."""
    for time, r2, f in zip(path.ends, path.stage_r2, staged, strict=True):
        if r2_score(truth, f) >= 0.5:
            return [float(time), float(r2)]
    return [path.time, path.r2]


def _tasks(data: Data, size: Size) -> list[Task]:
    return [Task("functions", increasing_complexity, {}, cost=2.0)]


def _summarise(results: Entry, size: Size) -> Outcome:
    """Training time grows from row to row; KGD-D left, KRR right."""
    result = results["functions"]
    figure = drawing.new_figure(1.0, 7.0)
    axes = figure.subplots(4, 2, sharex=True, sharey=True)
    methods = (("descent", "KGD-D", drawing.DESCENT_COLOUR), ("ridge", "KRR", drawing.RIDGE_COLOUR))
    for column, (key, label, colour) in enumerate(methods):
        for row in range(4):
            ax = axes[row, column]
            fits = {label: (colour, result[key][row])}
            drawing.draw_fit(ax, result, fits, (-2.6, 2.6))
            r2 = result[f"{key}_train_r2"][row]
            ax.text(0.02, 0.92, f"$R^2_{{tr}} = {r2:.2f}$", transform=ax.transAxes, fontsize=7)
        axes[0, column].set_title(label, fontsize=9)
    drawing.shared_legend(figure, *axes[0])
    return Outcome(figure=figure, claims=_claims(result))


def _claims(result: Entry) -> list[Claim]:
    (t_linear, r2_linear), (t_sinus, r2_sinus) = result["linear_captured"], result["sinus_captured"]
    descent, ridge = result["descent_r2"], result["ridge_r2"]
    ours, rival = result["descent_train_r2"], result["ridge_train_r2"]
    gap = max(abs(a - b) for a, b in zip(ours, rival, strict=True))
    return [
        Claim(
            "KGD-D captures the linear parts before the sinusoidal part",
            f"half of the linear parts' variance is explained at time {t_linear:.2f} (training R² "
            f"{r2_linear:.2f}), half of the sinusoidal part's at {t_sinus:.2f} (training R² "
            f"{r2_sinus:.2f})",
            t_linear < t_sinus,
        ),
        Claim(
            "At convergence KGD-D interpolates and does well on both parts",
            f"training R² {ours[-1]:.4f}; R² of the true function {descent['linear'][-1]:.2f} on "
            f"the linear parts, {descent['sinus'][-1]:.2f} on the sinusoidal part",
            ours[-1] > 0.99 and min(descent["linear"][-1], descent["sinus"][-1]) > 0.5,
        ),
        Claim(
            "Where the training error vanishes, the constant bandwidth does worse than KGD-D on "
            "the linear parts and on the whole",
            f"bandwidth {result['ridge_bandwidth']:.3f}; R² of the true function at the smallest "
            f"penalty {ridge['linear'][-1]:.2f} on the linear parts, {ridge['sinus'][-1]:.2f} on "
            f"the sinusoidal part, {ridge['all'][-1]:.2f} in all (KGD-D: {descent['all'][-1]:.2f})",
            ridge["linear"][-1] < descent["linear"][-1] and ridge["all"][-1] < descent["all"][-1],
        ),
        Claim(
            "Both models are shown at the same training R²",
            f"KGD-D {', '.join(f'{r2:.3f}' for r2 in ours)}; "
            f"KRR {', '.join(f'{r2:.3f}' for r2 in rival)}",
            gap < 0.02,
        ),
    ]


FIGURE5 = Experiment(
    "figure5",
    "Functions of increasing complexity during training",
    _tasks,
    _summarise,
    requires=("matplotlib",),
    seeded=False,
)
