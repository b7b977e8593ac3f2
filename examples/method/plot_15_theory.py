"""
The theory on your data
=======================

Why does a falling bandwidth help? The quantities that the paper uses to explain it can be computed
for any fitted model, so you can look at them on your own problem.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from bandfall import KernelDescentRegressor, theory
from bandfall.plotting import KernelShiftDisplay, PathDisplay

X, y = load_diabetes(return_X_y=True)
X = StandardScaler().fit_transform(X)
X_train, X_new, y_train, y_new = X[:150], X[150:200], y[:150], y[150:200]
model = KernelDescentRegressor().fit(X_train, y_train)

# %%
# During training, the bandwidth falls in such a way that R² keeps rising at the threshold speed.
# At the end it collapses to zero.

PathDisplay.from_estimator(model)

# %%
# The kernel shift says how differently the kernel sees a new point and the training rows. It is
# large at medium bandwidths. The dots show at which bandwidths the model was trained.

KernelShiftDisplay.from_estimator(model, X_new)

# %%
# How complex is the model after each stage? The degrees of freedom rise towards the number of
# rows. Because these targets are noisy, the best model is an early one.

staged = theory.staged_degrees_of_freedom(model)
errors = [np.mean((p - y_new) ** 2) / np.var(y_new) for p in model.staged_predict(X_new)]
fig, ax = plt.subplots(figsize=(5.5, 3.2), layout="constrained")
ax.plot(staged.value[1:], errors, ".-")
ax.set(xlabel="degrees of freedom", ylabel="error / variance on new rows")
