"""
Classes and their probabilities
===============================

`BandfallClassifier` uses the same search as `BandfallRegressor`, but judges candidates by log-loss
on held-out rows. That rewards probabilities you can rely on, and not just the right class.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.datasets import make_moons
from sklearn.metrics import log_loss

from bandfall import BandfallClassifier

# %%
# The two classes overlap. With so few rows, the log-loss on held-out rows is a little too good,
# because the same rows also chose the model.

X, y = make_moons(1200, noise=0.3, random_state=0)
X_train, y_train, X_test, y_test = X[:200], y[:200], X[200:], y[200:]
model = BandfallClassifier(kernels=("gaussian",), max_rounds=1, n_jobs=1).fit(X_train, y_train)
probabilities = model.predict_proba(X_test)
print(f"right: {model.score(X_test, y_test):.1%}, log-loss {log_loss(y_test, probabilities):.3f}")
print(f"log-loss expected from held-out rows: {-model.best_score_:.3f}")

# %%
# Of the rows with a predicted probability of about 0.7, about seven in ten should be of that
# class.

fig, ax = plt.subplots(figsize=(4.5, 4), layout="constrained")
CalibrationDisplay.from_estimator(model, X_test, y_test, n_bins=8, strategy="quantile", ax=ax)

# %%
# Training goes from a simple boundary to a bent one, and stops where held-out rows are predicted
# best.

side = np.linspace(-2.5, 3.5, 60)
grid = np.stack(np.meshgrid(side, side), axis=-1)
stages = list(model.staged_predict_proba(grid.reshape(-1, 2)))
shown = np.unique(np.linspace(0, len(stages) - 1, 3).astype(int))
fig, axes = plt.subplots(
    1, len(shown), figsize=(9, 3), layout="constrained", sharey=True, squeeze=False
)
for ax, stage in zip(axes[0], shown, strict=True):
    share = stages[stage][:, 1].reshape(len(side), len(side))
    ax.contourf(side, side, share, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.7)
    ax.scatter(*X_train.T, c=y_train, s=8, cmap="RdBu", edgecolors="white", linewidths=0.3)
    ax.set_title(f"stage {stage + 1} of {len(stages)}")

# %%
# Classes may have names, and there may be more than two. If one is rare,
# ``class_weight="balanced"`` lets it count as much as the others.

names = np.array(["left", "right"])[y_train]
named = BandfallClassifier(kernels=("gaussian",), max_rounds=0, n_jobs=1).fit(X_train, names)
print(named.classes_, named.predict(X_test[:4]))
