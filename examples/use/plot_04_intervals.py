"""
How sure is it?
===============

A prediction is one number; an interval says how far off it may be. The search holds rows out
anyway. The errors on these rows show how wide the interval has to be, and where.
"""

import matplotlib.pyplot as plt
import numpy as np

from bandfall import BandfallRegressor
from bandfall.plotting import IntervalDisplay

# %%
# A curve whose noise grows to the right. Nothing was measured between 0.1 and 0.4.

rng = np.random.default_rng(0)
x = rng.uniform(-1, 1, 900)
x = x[(x < 0.1) | (x > 0.4)]
y = np.sin(4 * x) + (0.05 + 0.25 * (x + 1)) * rng.standard_normal(len(x))
X_train, y_train, X_test, y_test = x[:300, None], y[:300], x[300:, None], y[300:]

model = BandfallRegressor(kernels=("gaussian",), max_rounds=0, n_jobs=1)
model.fit(X_train, y_train)

# %%
# We ask for intervals that contain the targets of nine new rows in ten, and count how many do.

lower, upper = model.predict_interval(X_test, coverage=0.9).T
inside = (lower <= y_test) & (y_test <= upper)
print(f"{inside.mean():.1%} of {len(y_test)} new rows are inside")

# %%
# They are narrow where errors are small, and wide in the gap and beyond the data.

grid = np.linspace(-1.2, 1.2, 300)[:, None]
lower, upper = model.predict_interval(grid, coverage=0.9).T
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(X_train, y_train, ".", color="gray", markersize=3, label="training rows")
ax.plot(grid, model.predict(grid), label="prediction")
ax.fill_between(grid[:, 0], lower, upper, alpha=0.25, label="90% interval")
ax.set(xlabel="x", ylabel="y", ylim=(-4, 4))
ax.legend(loc="lower left")

# %%
# Which rows are unlike the training data? A value above 1 means that a row is farther out than 99
# of 100 rows like those in training.

print(model.novelty(np.array([[-0.5], [0.25], [1.2]])).round(1))

# %%
# Does this hold for every coverage, and for narrow and wide intervals alike?

IntervalDisplay.from_estimator(model, X_test, y_test)
