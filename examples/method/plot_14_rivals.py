"""
The rivals: a constant bandwidth, well chosen
=============================================

How does one untuned fit with a falling bandwidth compare with a search over bandwidth and penalty?
Bandfall contains all kernel methods of the paper's comparison, fast enough to run next to every
fit.
"""

import time

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman3

from bandfall import KernelDescentRegressor, KernelFlowCV, KernelRidgeCV, KernelRidgeMML

models = {
    "falling bandwidth": KernelDescentRegressor(),
    "ridge, cross-validation": KernelRidgeCV(),
    "flow, cross-validation": KernelFlowCV(),
    "ridge, marginal likelihood": KernelRidgeMML(fit_amplitude=True),
}
problems = {
    "Friedman 1": make_friedman1(n_samples=400, noise=0.5, random_state=0),
    "Friedman 3": make_friedman3(n_samples=400, noise=0.02, random_state=0),
    "diabetes": load_diabetes(return_X_y=True),
}

# %%
# We train on eighty rows and test on the others.

rows = []
for problem, (X, y) in problems.items():
    X = (X - X[:80].mean(axis=0)) / X[:80].std(axis=0)
    for name, model in models.items():
        start = time.perf_counter()
        score = model.fit(X[:80], y[:80]).score(X[80:], y[80:])
        rows.append((problem, name, score, 1000 * (time.perf_counter() - start)))

table = pd.DataFrame(rows, columns=["problem", "model", "test R²", "milliseconds"])
scores = table.pivot(index="model", columns="problem", values="test R²")
scores.round(3)

# %%

fig, ax = plt.subplots(figsize=(7.5, 3.4), layout="constrained")
scores.loc[list(models)[::-1]].plot.barh(ax=ax, width=0.75)
ax.set(xlabel="test R²", ylabel="")
ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)

# %%
# On noisy data such as diabetes, interpolating is the wrong thing to do, and the searches win.
# `BandfallRegressor` does not have that weakness, because it stops where held-out rows are
# predicted best.

table.groupby("model")["milliseconds"].mean().round().astype(int).to_frame()
