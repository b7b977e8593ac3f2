"""
From simple to exact, stage by stage
====================================

A fitted model is a sum over bandwidths. Its partial sums are models too, from the simplest to the
one that interpolates. You get them at no extra cost.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor
from bandfall.datasets import make_two_scale

X, y, X_new, y_new = make_two_scale(random_state=16)
order = np.argsort(X_new[:, 0])  # to draw curves
X_new, y_new = X_new[order], y_new[order]
model = KernelDescentRegressor().fit(X, y)
print(model.path_)

# %%
# The target has broad and fine structure. The broad structure is learned first.

predictions = list(model.staged_predict(X_new))
r2 = [1 - np.mean((p - y_new) ** 2) / np.var(y_new) for p in predictions]
chosen = [2, len(predictions) // 3, len(predictions) - 1]
fig, axes = plt.subplots(1, 3, figsize=(11, 3), sharey=True, layout="constrained")
for ax, stage in zip(axes, chosen, strict=True):
    ax.plot(X_new[:, 0], y_new, color="gray", linewidth=1)
    ax.plot(X_new[:, 0], predictions[stage])
    ax.plot(X[:, 0], y, ".", color="black", markersize=3)
    bandwidth = model.path_.bandwidths[stage]
    ax.set_title(f"stage {stage + 1}, bandwidth {bandwidth:.2g}, R² {r2[stage]:.2f}")

# %%
# `truncate` goes back to any moment, `compress` merges stages to make predictions cheaper.

half = model.path_.truncate(r2=0.5)
small = model.path_.compress(1e-3)
print(f"{len(model.path_)} stages; {len(half)} up to R² 0.5; {len(small)} after compression")
