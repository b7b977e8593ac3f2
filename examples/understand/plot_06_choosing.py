"""
How the search chooses
======================

`BandfallRegressor` tries many models and keeps a record of all of them. This example shows how to
read that record.
"""

import pandas as pd
from matplotlib import pyplot as plt
from sklearn.datasets import make_friedman1

from bandfall import BandfallRegressor

# %%
# Five features matter in this function, five are noise.

X, y = make_friedman1(n_samples=400, n_features=10, noise=0.5, random_state=0)
X_train, X_test, y_train, y_test = X[:200], X[200:], y[:200], y[200:]
model = BandfallRegressor(kernels=("gaussian", "matern32"), max_rounds=4, n_jobs=1)
model.fit(X_train, y_train)
print(f"test R² {model.score(X_test, y_test):.3f}")
print(model.best_params_)

# %%
# Everything it tried, best first. `score` is R² on held-out rows. The search decides by `loss`,
# which single large errors affect less.

table = pd.DataFrame(model.selection_)
table.sort_values("loss").head(8).round(4)

# %%
# The same as a picture: what the rounds of the metric and the speed do to the score.

fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained", sharey=True)
for ax, column in zip(axes, ("n_rounds", "min_speed"), strict=True):
    for encoding, trials in table.groupby("encoding"):
        best = trials.groupby(column)["score"].max()
        ax.plot(best.index, best, "o-", label=encoding)
    ax.set_xlabel(column)
axes[0].set_ylabel("R² on held-out rows, best trial")
axes[1].set_xscale("log")
axes[1].legend()

# %%
# The learned metric has found out which five features are noise.

print(model.feature_importances_.round(3))
