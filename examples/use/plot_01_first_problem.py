"""
First real problem
==================

You have a table and want to predict one of its columns. This example goes from reading the data to
a model that you can trust and keep, in about ten minutes.

The data are scikit-learn's diabetes study: 442 patients, ten measurements each, and how far the
disease had progressed a year later.
"""

# %%
# Look at the data
# ----------------
# You can pass a raw DataFrame. Nothing has to be scaled.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.inspection import permutation_importance
from sklearn.model_selection import train_test_split

from bandfall import BandfallRegressor, load_model, save_model

X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
X.describe().round(1)

# %%
# Hold rows out, fit
# ------------------
# Only rows that the model has never seen can tell how good it is. We give the search a few
# seconds; without `max_seconds` it takes as long as it needs.

X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = BandfallRegressor(kernels=("gaussian", "matern12"), max_rounds=2, max_seconds=10)
model.fit(X_train, y_train)
print(f"R² on {len(X_test)} new patients: {model.score(X_test, y_test):.2f}")

# %%
# How good is that?
# -----------------
# R² is the share of the variance that is predicted: 0 is no better than the mean. These data are
# famously noisy: linear regression, random forests and boosters all get between 0.3 and 0.5.
# The picture shows why: patients with the same prediction differ a great deal.

predicted = model.predict(X_test)
fig, ax = plt.subplots(figsize=(5, 5), layout="constrained")
ax.scatter(predicted, y_test, s=12)
ax.axline((150, 150), slope=1, color="gray", linewidth=1)
ax.set(xlabel="predicted progression", ylabel="progression a year later")

# %%
# What it chose, and what it looks at
# -----------------------------------
# `max_r2` is the training R² at which training was stopped. Because of the noise, that is long
# before the model fits all training rows.

print(model.best_params_)

# %%
# `feature_importances_` are slopes of the model. Permutation importance asks instead how much is
# lost when a column is shuffled. The two should agree roughly, but not in every detail.

shuffled = permutation_importance(model, X_test, y_test, n_repeats=3, random_state=0)
fig, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
axes[0].barh(X.columns, model.feature_importances_)
axes[0].set_title("feature_importances_")
axes[1].barh(X.columns, shuffled.importances_mean)
axes[1].set_title("loss of R² when shuffled")

# %%
# Keep it
# -------
# A model file is safe to open and predicts the same tomorrow.

save_model(model, "diabetes.bandfall")
again = load_model("diabetes.bandfall")
print(abs(again.predict(X_test) - predicted).max())
