"""
Noisy targets
=============

If you train the model to the end, it interpolates and fits the noise. Rows held out from training
tell when to stop.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor

rng = np.random.default_rng(1)
X = np.sort(rng.uniform(-1, 1, (120, 1)), axis=0)
y = np.sin(4 * X[:, 0]) + rng.normal(0, 0.5, 120)
X_new = np.linspace(-1, 1, 300)[:, None]
truth = np.sin(4 * X_new[:, 0])

# %%

models = {
    "trained to the end": KernelDescentRegressor(),
    "stopped by a fifth of the rows": KernelDescentRegressor(
        validation_fraction=0.2, random_state=0
    ),
}
fig, axes = plt.subplots(1, 2, figsize=(9, 3.2), sharey=True, layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X, y)
    ax.plot(X[:, 0], y, ".", color="lightgray")
    ax.plot(X_new[:, 0], truth, color="gray", linewidth=1)
    ax.plot(X_new[:, 0], model.predict(X_new))
    ax.set_title(f"{name}: R² {model.score(X_new, truth):.2f}")

# %%
# How it decided where to stop: the error on the held-out rows after each stage.

stopped = models["stopped by a fifth of the rows"]
fig, ax = plt.subplots(figsize=(5.5, 3), layout="constrained")
ax.plot(stopped.validation_errors_, ".-")
ax.axvline(np.argmin(stopped.validation_errors_), color="gray", linewidth=1)
ax.set(xlabel="stage", ylabel="error on held-out rows")
