"""Figures 2, 3 and 5: the kernel shift, neural networks, and functions along one training run."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from sklearn.metrics import r2_score

from bandfall._estimators import KernelRidgeCV, KernelRidgeRegressor
from bandfall._paper import drawing
from bandfall._paper.experiment import (
    DATASETS,
    FULL,
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
from bandfall._paper.methods import STEP_SIZE, descend
from bandfall.datasets import make_sine, make_two_scale
from bandfall.descent import Path
from bandfall.rivals import permutation_folds
from bandfall.theory import kernel_shift, shift_regions

# Figure 2
N_SPLITS = 100
N_ROWS = 31  # 30 for X, the last one is x*
BANDWIDTHS = np.geomspace(1e-2, 1e3, 200)
# Figure 3
# Widths of the hidden layers (Appendix B); the tangent kernel of the last network is controlled.
NETWORKS: tuple[tuple[int, ...], ...] = ((1,), (3,), (200, 200), (200, 200, 200, 200), (50,))
NETWORK_SEED = 8
# Figure 5
STAGES_SEED = 16
MIN_BANDWIDTH = 1e-4
N_UPDATES = (140, 241, 780, None)  # None: to the end
PENALTIES = (13.5, 8.2, 0.55, 1e-6)


def shift_curve(X: np.ndarray, x_new: np.ndarray) -> Entry:
    """Δk₂ of one new point at all bandwidths."""
    return {"shift": kernel_shift(X, x_new, "gaussian", BANDWIDTHS).tolist()}


def _shift_tasks(data: Data, size: Size) -> list[Task]:
    counts = dict.fromkeys(DATASETS, size.count(N_SPLITS))
    return [
        Task(f"{dataset}/{i}", shift_curve, {"X": s.X_train, "x_new": s.X_test[0]}, cost=0.005)
        for dataset, i, s in data.each_split(counts, N_ROWS, N_ROWS - 1)
    ]


def _summarise_shift(results: Entry, size: Size) -> Outcome:
    sets = sets_of(results)
    figure = drawing.new_figure(1.0, 1.9)
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    claims = []
    for ax, dataset in zip(axes, sets, strict=True):
        curves = [r["shift"] for key, r in results.items() if key.startswith(f"{dataset}/")]
        lower, median, upper = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        claims += _shift_claims(DATASETS[dataset], lower, median, upper)
        ax.plot(BANDWIDTHS, median, color=drawing.DESCENT_COLOUR, linewidth=1.2)
        for quartile in (lower, upper):
            ax.plot(BANDWIDTHS, quartile, ":", color=drawing.DESCENT_COLOUR, linewidth=1.0)
        ax.axhline(1.0, color=drawing.TRUTH_COLOUR, linewidth=0.6)
        ax.set_xscale("log")
        ax.set_title(DATASETS[dataset], fontsize=8)
        ax.set_xlabel("$\\sigma$", fontsize=8)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize=7)
    axes[0].set_ylabel("$\\Delta k_2$", fontsize=8)
    note = (
        "Where the paper's caption speaks of a “fourth quartile”, the third is drawn; the range "
        "of bandwidths, which the paper does not state, is 0.01 to 1000."
    )
    return Outcome(figure=figure, claims=claims, notes=[note])


def _shift_claims(
    name: str, lower: np.ndarray, median: np.ndarray, upper: np.ndarray
) -> list[Claim]:
    regions = shift_regions(BANDWIDTHS, median)
    peak = int(np.argmax(median))
    return [
        Claim(
            f"{name}: Δk₂ goes to 1 as σ goes to 0 and to 0 as σ goes to ∞",
            f"median {median[0]:.4f} at σ = {BANDWIDTHS[0]:g}, {median[-1]:.4f} at "
            f"σ = {BANDWIDTHS[-1]:g}",
            bool(abs(median[0] - 1.0) < 0.02 and median[-1] < 0.02),
        ),
        Claim(
            f"{name}: between them lies a region of randomness where Δk₂ is well above 1",
            f"one-region up to σ = {regions.one_below:.2g}, zero-region from "
            f"{regions.zero_above:.2g}; median {median[peak]:.2f} at σ = {BANDWIDTHS[peak]:.2g} "
            f"with quartiles {upper[peak] - lower[peak]:.2f} apart",
            bool(median[peak] > 2.0 and regions.one_below < BANDWIDTHS[peak] < regions.zero_above),
        ),
    ]


def train_network(
    number: int, max_epochs: int = FULL.max_epochs, seed: int = NETWORK_SEED
) -> Entry:
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


def _network_tasks(data: Data, size: Size) -> list[Task]:
    seconds = (120.0, 120.0, 1000.0, 300.0, 10.0)  # about, without a limit on epochs
    share = min(1.0, size.max_epochs / FULL.max_epochs)
    calls = [{"number": number, "max_epochs": size.max_epochs} for number in range(1, 6)]
    return [
        Task(f"network{call['number']}", train_network, call, cost * share)
        for call, cost in zip(calls, seconds, strict=True)
    ]


def _summarise_networks(results: Entry, size: Size) -> Outcome:
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
    return Outcome(figure=figure, claims=_network_claims(networks))


def _network_claims(networks: list[Entry]) -> list[Claim]:
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


def increasing_complexity() -> Entry:
    """KGD-D at four times, KRR with one bandwidth at four penalties."""
    X, y, X_grid, truth = make_two_scale(random_state=STAGES_SEED)
    linear = np.abs(X_grid[:, 0]) >= 1.0
    path = descend(X, y, "gaussian", min_bandwidth=MIN_BANDWIDTH)
    staged = path.evaluate_staged(X_grid)[:, :, 0]
    descent = [path if n is None else path.truncate(time=n * STEP_SIZE) for n in N_UPDATES]
    chosen = KernelRidgeCV(cv=permutation_folds(len(y), STAGES_SEED)).fit(X, y)
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


def _stage_tasks(data: Data, size: Size) -> list[Task]:
    return [Task("functions", increasing_complexity, {}, cost=2.0)]


def _summarise_stages(results: Entry, size: Size) -> Outcome:
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
    return Outcome(figure=figure, claims=_stage_claims(result))


def _stage_claims(result: Entry) -> list[Claim]:
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


FIGURES = (
    Experiment(
        "figure2",
        "The kernel shift Δk₂ as a function of the bandwidth",
        _shift_tasks,
        _summarise_shift,
        requires=("matplotlib",),
        real_data=True,
    ),
    Experiment(
        "figure3",
        "Neural networks of increasing complexity, the fifth with a controlled tangent kernel",
        _network_tasks,
        _summarise_networks,
        requires=("matplotlib", "torch"),
    ),
    Experiment(
        "figure5",
        "Functions of increasing complexity during training",
        _stage_tasks,
        _summarise_stages,
        requires=("matplotlib",),
        seeded=False,
    ),
)
