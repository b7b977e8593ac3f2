"""
How the search chooses
======================

`BandfallRegressor` tries many models and keeps a record of all of them. This example shows how to
read that record.
"""

import pandas as pd
from sklearn.datasets import make_friedman1

from bandfall import BandfallRegressor
from bandfall.plotting import SelectionDisplay

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
# The same as a picture: the effect of the metric's rounds on the left, of the speed on the right.

SelectionDisplay.from_estimator(model)

# %%
# The learned metric has found out which five features are noise.

print(model.feature_importances_.round(3))
