"""
Against boosted trees, losses included
======================================

Kernels do well on smooth relations, trees on steps. Three problems with the same number of rows
show both.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.model_selection import train_test_split

from bandfall import BandfallRegressor

rng = np.random.default_rng(0)

# %%
# - *smooth*: Friedman's first function, ten features of which five matter;
# - *rotated*: waves along slanted directions, which trees have to cut into boxes;
# - *steps*: a staircase of thresholds in single features, which is what trees are made of.

n = 600
X = rng.uniform(-1, 1, (n, 6))
u, v = X @ [0.7, 0.7, 0, 0, 0, 0], X @ [0, 0, 0.7, -0.7, 0, 0]
steps = sum(np.sign(X[:, j] - t) for j, t in ((0, 0.2), (0, -0.5), (1, 0.0), (2, 0.4), (3, -0.3)))
problems = {
    "smooth": make_friedman1(n_samples=n, noise=0.5, random_state=0),
    "rotated": (X, np.sin(4 * u) + np.cos(3 * v) + rng.normal(0, 0.1, n)),
    "steps": (X, steps + (X[:, 0] > 0) * np.sign(X[:, 4]) + rng.normal(0, 0.1, n)),
}
models = {
    "BandfallRegressor": BandfallRegressor(kernels=("gaussian", "matern12"), max_rounds=3),
    "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    "random forest": RandomForestRegressor(random_state=0),
}

scores = {name: [] for name in models}
for title, (features, target) in problems.items():
    split = train_test_split(features, target, test_size=0.5, random_state=0)
    X_train, X_test, y_train, y_test = split
    for name, model in models.items():
        scores[name].append(model.fit(X_train, y_train).score(X_test, y_test))
        print(f"{title:8} {name:22} R² {scores[name][-1]:.3f}")

# %%
# Bandfall wins if the function is smooth, and by a wide margin if it is smooth along slanted
# directions. On the staircase it finds a suitable encoding and comes close, but trees are better,
# and far faster. If your data look like that, use trees.

fig, ax = plt.subplots(figsize=(6.5, 3.2), layout="constrained")
places = np.arange(len(problems))
for shift, (name, values) in zip((-0.27, 0, 0.27), scores.items(), strict=True):
    ax.bar(places + shift, values, width=0.25, label=name)
ax.set(xticks=places, xticklabels=list(problems), ylabel="test R²", ylim=(0, 1.25))
ax.legend(ncols=3, fontsize="small")
