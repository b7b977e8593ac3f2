"""
Explaining a model: importance, partial dependence, SHAP
========================================================

Which features matter, in which direction, and where? The gradient of a kernel model is known
exactly, so these questions have exact answers. Tools for any scikit-learn model work too:
permutation importance, partial dependence, and SHAP values from the `shap` package, which takes
`model.predict` as it takes any function.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.inspection import PartialDependenceDisplay

from bandfall import BandfallRegressor, KernelDescentRegressor

X, y = make_friedman1(n_samples=300, n_features=6, noise=0.3, random_state=0)
model = BandfallRegressor(kernels=("gaussian",), max_rounds=3).fit(X[:200], y[:200])

# %%
# Overall: the root mean square slope along each feature. The sixth has no influence.

print(model.feature_importances_.round(2))

# %%
# Feature by feature: partial dependence shows how the prediction changes on average as one feature
# changes.

fig, axes = plt.subplots(1, 3, figsize=(9, 2.8), layout="constrained")
PartialDependenceDisplay.from_estimator(model, X[200:], [2, 3, 5], ax=axes, grid_resolution=25)

# %%
# Row by row: the gradient at each row. We use `KernelDescentRegressor` here, whose path works
# directly on the features. The third feature enters the true function as (x − 0.5)², so the slope
# changes its sign in the middle.

descent = KernelDescentRegressor(kernel="matern52", min_speed=0.02).fit(X[:200], y[:200])
slopes = descent.path_.gradient(X[200:])[:, 2, 0]
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.scatter(X[200:, 2], slopes, s=10, label="of the model")
grid = np.linspace(0, 1, 50)
ax.plot(grid, 40 * (grid - 0.5), color="gray", label="of the true function")
ax.set(xlabel="third feature", ylabel="slope")
ax.legend()
