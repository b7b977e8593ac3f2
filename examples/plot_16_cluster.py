"""
A cluster
=========

A fit on the workers of a Dask cluster gives the same model, to the bit, however many there are.
"""

import numpy as np
from distributed import Client, LocalCluster

from bandfall import KernelDescentRegressor

# %%
# Two workers as threads of this process, so that this page builds anywhere. On a real cluster
# ``Client("tcp://scheduler:8786")`` is all that changes.

cluster = LocalCluster(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0")
client = Client(cluster)

rng = np.random.default_rng(0)
X = rng.normal(size=(600, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
X_train, X_test, y_train, y_test = X[:500], X[500:], y[:500], y[500:]

model = KernelDescentRegressor(device="dask", max_r2=0.9).fit(X_train, y_train)
print(f"test R² {model.score(X_test, y_test):.4f} after {model.path_.n_products} products")

# %%
# One worker goes, and the rest is as before.

cluster.scale(1)
again = KernelDescentRegressor(device="dask", max_r2=0.9).fit(X_train, y_train)
print(np.array_equal(model.path_.coefficients, again.path_.coefficients))

# %%
# Rows of a dask array are predicted where they are, when they are asked for.

import dask.array as da

rows = da.from_array(X_test, chunks=(25, 3))
predictions = model.predict(rows)
print(predictions)
print(np.allclose(predictions.compute(), model.predict(X_test)))

# %%
# So small a problem is no work for a cluster: a product of 500 rows takes a millisecond here and
# ten to get there and back. :doc:`The page on clusters </cluster>` says when it pays.

client.close()
cluster.close()
