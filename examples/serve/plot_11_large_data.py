"""
Large data, and a GPU
=====================

The kernel matrix of 40,000 rows would take 13 GB. It is never stored. Products with it are
computed tile by tile within a memory budget, on all cores or on a GPU.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

from bandfall import KernelDescentRegressor

# %%
# We use 3,000 rows here, so that this page builds on one core. float32 halves memory and time.

rng = np.random.default_rng(0)
X = rng.normal(size=(4000, 3)).astype(np.float32)
y = (np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]).astype(np.float32)
X_train, X_test, y_train, y_test = X[:3000], X[3000:], y[:3000], y[3000:]

for budget in (2**30, 2**24):
    start = time.perf_counter()
    model = KernelDescentRegressor(memory_budget=budget).fit(X_train, y_train)
    seconds = time.perf_counter() - start
    score = model.score(X_test, y_test)
    print(f"budget {budget / 2**20:4.0f} MiB: {seconds:.1f} s, test R² {score:.4f}")

# %%
# The budget affects the time, but not the model. Four times the rows take about sixteen times as
# long, once there are enough of them; the number of products hardly grows.

sizes, seconds = [250, 500, 1000, 2000, 3000], []
for size in sizes:
    start = time.perf_counter()
    KernelDescentRegressor().fit(X_train[:size], y_train[:size])
    seconds.append(time.perf_counter() - start)

fig, ax = plt.subplots(figsize=(5, 3.2), layout="constrained")
ax.loglog(sizes, seconds, "o-")
ax.set(xlabel="training rows", ylabel="seconds to fit")
ax.set_xticks(sizes, [f"{size:,}" for size in sizes])
ax.xaxis.set_minor_locator(plt.NullLocator())

# %%
# On a machine with a CUDA device, just name the device::
#
#     model = KernelDescentRegressor(device="cuda").fit(X_train, y_train)
#
# On one H200, 42,000 rows take 1.3 s and 500,000 rows 87 s. `device="auto"` uses a GPU if there is
# one, and `BandfallRegressor` does so by default for more than 2,000 rows.
