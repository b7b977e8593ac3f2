"""
Double descent
==============

What happens if the bandwidth may only fall to a certain floor? With a high floor the model
underfits. With a lower one it fits well. Lower still, it swings wildly between the points. But if
the bandwidth may fall almost to zero, the error comes down again: this is double descent.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor, floor_sweep
from bandfall.datasets import make_sine

X, y, X_new, y_new = make_sine(random_state=8)
order = np.argsort(X_new[:, 0])  # to draw curves
X_new, y_new = X_new[order], y_new[order]

# %%
# `floor_sweep` trains with many floors for about the cost of a few fits, because all runs begin
# in the same way. For comparison it also computes kernel ridge regression with the floor as its
# constant bandwidth.

floors = np.geomspace(0.01, 2, 60)
sweep = floor_sweep(X, y, X_new, floors, max_time=1000.0)
variance = np.var(y_new)
falling = np.mean((sweep.new - y_new) ** 2, axis=1) / variance
constant = np.mean((sweep.ridge_new - y_new) ** 2, axis=1) / variance

fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.plot(floors, falling, label="bandwidth falls to the floor")
ax.plot(floors, constant, label="constant bandwidth (ridge)")
ax.set(xscale="log", yscale="log", xlabel="floor of the bandwidth", ylabel="error / variance")
ax.invert_xaxis()
ax.legend()

# %%
# Four of these models, from simple to complex:

fig, axes = plt.subplots(1, 4, figsize=(11, 2.8), sharey=True, layout="constrained")
for ax, floor in zip(axes, (1.0, 0.5, 0.1, 0.01), strict=True):
    model = KernelDescentRegressor(min_bandwidth=floor, max_time=1000.0).fit(X, y)
    ax.plot(X_new[:, 0], y_new, color="gray", linewidth=1)
    ax.plot(X_new[:, 0], model.predict(X_new))
    ax.plot(X[:, 0], y, ".", color="black")
    ax.set(title=f"floor {floor}, R² {model.score(X_new, y_new):.2f}", ylim=(-2, 2))
