"""
A cluster
=========

A fit can run on the workers of a Dask cluster. It gives exactly the same model, however many
workers there are.
"""

import matplotlib.pyplot as plt
import numpy as np
from distributed import Client, LocalCluster

from bandfall import KernelDescentRegressor

# %%
# We start two workers as threads of this process, so that this page builds anywhere. On a real
# cluster, only this changes: ``Client("tcp://scheduler:8786")``.

cluster = LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
client = Client(cluster)

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
X_train, X_test, y_train, y_test = X[:500], X[500:], y[:500], y[500:]

model = KernelDescentRegressor(device="dask", max_r2=0.9).fit(X_train, y_train)
print(f"test R² {model.score(X_test, y_test):.4f} after {model.path_.n_products} products")

# %%
# Now one worker leaves. The result is the same, bit by bit.

cluster.scale(1)
again = KernelDescentRegressor(device="dask", max_r2=0.9).fit(X_train, y_train)
print(np.array_equal(model.path_.coefficients, again.path_.coefficients))

# %%
# Rows of a dask array are predicted where they are, block by block. The model travels to the
# workers, where it should compute locally.

import dask.array as da

rows = da.from_array(X_test, chunks=(25, 3))
model.device = None
predictions = rows.map_blocks(model.predict, drop_axis=1, meta=np.zeros(0))
print(predictions)
print(np.allclose(predictions.compute(), model.predict(X_test)))

fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
for number, block in enumerate(predictions.to_delayed()):
    part = slice(25 * number, 25 * (number + 1))
    ax.scatter(block.compute(), y_test[part], s=16, label=f"block {number + 1}")
ax.axline((0, 0), slope=1, color="gray", lw=1)
ax.set(xlabel="predicted on the workers", ylabel="target")
ax.legend()

# %%
# This problem is far too small for a cluster: a product of 500 rows takes a millisecond, and ten
# more to travel there and back. :doc:`The page on clusters </cluster>` says when one is worth it.

client.close()
cluster.close()
