"""
Double descent: Figure 1 of the paper
=====================================

What happens if the bandwidth may only fall to a certain floor? With a high floor the model
underfits. With a lower one it fits well. Lower still, it swings wildly between the points. But if
the bandwidth may fall almost to zero, the error comes down again: this is double descent.

This notebook computes Figure 1 of the paper, with 20 instead of 100 draws of the data.
``bandfall paper run figure1`` computes all of it.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import floor_sweep
from bandfall.datasets import make_sine
from bandfall.descent import Euler

# The settings of the paper: Algorithm 1 with steps of 0.01, and λ = 1/t = 0.001 in both methods.
settings = {
    "min_speed": 0.1,
    "penalty": 1e-3,
    "max_r2": 0.999,
    "max_time": 1000,
    "solver": Euler(0.01),
}

# %%
# Four floors
# -----------
# Twenty noisy points of a sine, and the functions inferred with four floors. `floor_sweep` trains
# with many floors for about the cost of a few fits, because all runs begin in the same way. It
# also computes kernel ridge regression (KRR) with the floor as its constant bandwidth.

X, y, X_new, truth = make_sine(random_state=8, n_test=300, test_points="grid")
floors = [1.0, 0.5, 0.1, 0.01]
sweep = floor_sweep(X, y, X_new, floors, **settings)

fig, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True, layout="constrained")
for ax, floor, falling, constant in zip(axes, floors, sweep.new, sweep.ridge_new, strict=True):
    ax.plot(X_new[:, 0], truth, color="gray", linewidth=1)
    ax.plot(X_new[:, 0], constant, color="#D55E00", label="constant bandwidth (KRR)")
    ax.plot(X_new[:, 0], falling, color="#0072B2", label="falling bandwidth (KGD-D)")
    ax.plot(X[:, 0], y, ".", color="black")
    r2 = 1 - np.mean((falling - truth) ** 2) / np.var(truth)
    ax.set(title=f"floor {floor:g}: R² {r2:.2f}", ylim=(-2.2, 2.2))
axes[0].legend(loc="lower left", fontsize=7)

# %%
# The curve of errors
# -------------------
# The error on new points, for 60 floors and 20 draws of the data: the mean, and a band with the
# middle 90 % of the draws. The axis runs from simple to complex models and is scaled as in the
# paper, by (σ + 0.01) to the power of −1/5.

floors = np.linspace(1.11**-0.2, 0.0101**-0.2, 60) ** -5 - 0.01
errors = {"falling bandwidth (KGD-D)": [], "constant bandwidth (KRR)": []}
for seed in range(20):
    X, y, X_new, truth = make_sine(random_state=seed)
    sweep = floor_sweep(X, y, X_new, floors, **settings)
    for values, fits in zip(errors.values(), (sweep.new, sweep.ridge_new), strict=True):
        values.append(np.mean((fits - truth) ** 2, axis=1) / np.var(truth))

fig, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
x = (floors + 0.01) ** -0.2
for (label, values), colour in zip(errors.items(), ("#0072B2", "#D55E00"), strict=True):
    lower, upper = np.quantile(values, [0.05, 0.95], axis=0)
    ax.fill_between(x, lower, upper, color=colour, alpha=0.15, linewidth=0)
    ax.plot(x, np.mean(np.sort(values, axis=0)[1:-1], axis=0), color=colour, label=label)
ticks = np.array([1, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.001])
ax.set_xticks((ticks + 0.01) ** -0.2, [f"{tick:g}" for tick in ticks])
ax.set(xlabel="smallest bandwidth allowed", ylabel="error / variance", ylim=(-0.02, 1.6))
ax.legend()
