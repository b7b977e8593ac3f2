"""
A network under control
=======================

A network trained by gradient descent acts like kernel regression with its own tangent kernel.
`NeuralDescentRegressor` moves that kernel to the identity while the network trains, as if a
bandwidth fell to zero. It reaches in hundreds of epochs what plain descent needs many thousands
for.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from bandfall import KernelDescentRegressor, NeuralDescentRegressor
from bandfall.datasets import make_sine
from bandfall.plotting import TangentLogDisplay

X, y, X_new, y_new = make_sine(random_state=8)
order = np.argsort(X_new[:, 0])  # to draw curves
X_new, y_new = X_new[order], y_new[order]

# %%
# Both networks are trained for the same 400 epochs, which is not the end for either.

warnings.simplefilter("ignore", ConvergenceWarning)
controlled = NeuralDescentRegressor(hidden=(50,), max_iter=400, random_state=0).fit(X, y)
plain = NeuralDescentRegressor(
    hidden=(50,), max_iter=400, tangent_control=False, random_state=0
).fit(X, y)
kernel = KernelDescentRegressor().fit(X, y)

models = {"controlled network": controlled, "plain network": plain, "kernel descent": kernel}
fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
ax.plot(X[:, 0], y, ".", color="black")
for name, model in models.items():
    label = f"{name}: training R² {model.score(X, y):.3f}, test {model.score(X_new, y_new):.2f}"
    ax.plot(X_new[:, 0], model.predict(X_new), label=label)
ax.set(ylim=(-2, 2.6))
ax.legend(fontsize="small")

# %%
# What happened during training of the controlled one: `blend` is 1 for plain descent and 0 for
# the identity.

TangentLogDisplay.from_estimator(controlled)

# %%
# With a single feature this works well. On tables with many features it does not beat kernel
# descent; :doc:`the page on networks </neural>` has the figures.
