"""
A kernel of your own
====================

A kernel is a function of the distance divided by the bandwidth. It is 1 at zero, never rises, and
falls to 0 far away. You can write your own.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor
from bandfall.datasets import make_sine

X, y, X_new, y_new = make_sine(random_state=8)
order = np.argsort(X_new[:, 0])  # to draw curves
X_new, y_new = X_new[order], y_new[order]

# %%
# A rational quadratic kernel, which lies between the Gaussian and the Cauchy kernel, takes one
# line.


def rational(u):
    """Rational quadratic kernel with shape 2."""
    return (1 + u**2 / 4) ** -2.0


fig, ax = plt.subplots(figsize=(6.5, 3.4), layout="constrained")
ax.plot(X[:, 0], y, ".", color="black", label="training points")
for kernel in ("gaussian", "cauchy", rational):
    model = KernelDescentRegressor(kernel=kernel).fit(X, y)
    name = kernel if isinstance(kernel, str) else kernel.__name__
    ax.plot(X_new[:, 0], model.predict(X_new), label=f"{name}, R² {model.score(X_new, y_new):.2f}")
ax.legend()

# %%
# Not every such function is a kernel: it must be positive definite. You cannot see that from the
# function, but training notices and raises an error.


def box(u):
    """Flat, then zero: not positive definite."""
    return np.where(u < 1, 1.0, 0.0)


try:
    KernelDescentRegressor(kernel=box).fit(X, y)
except ValueError as error:
    print(error)
