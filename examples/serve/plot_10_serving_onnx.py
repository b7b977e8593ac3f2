"""
Serving with ONNX
=================

This example writes a fitted model, scaling included, to one file that runs wherever ONNX runs,
without Python, scikit-learn or Bandfall.
"""

import time
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import onnx
import onnxruntime
from sklearn.datasets import make_friedman1

from bandfall import BandfallRegressor, to_onnx

X, y = make_friedman1(n_samples=400, n_features=5, noise=0.3, random_state=0)
model = BandfallRegressor(kernels=("gaussian",), max_rounds=2).fit(X[:300], y[:300])

# %%
# First make the model small. Compression merges neighbouring stages of the path; the relative
# error stays below the tolerance.

before = sum(len(member.path) for member in model.members_)
model.members_ = [
    replace(member, path=member.path.compress(tolerance=1e-3)) for member in model.members_
]
after = sum(len(member.path) for member in model.members_)
print(f"{before} stages in {len(model.members_)} models, now {after}")

# %%
# Then export it, and compare the runtime's predictions with Python's.

onnx.save(to_onnx(model), "friedman.onnx")
session = onnxruntime.InferenceSession("friedman.onnx", providers=["CPUExecutionProvider"])
answers = session.run(None, {"X": X[300:]})[0]
difference = np.abs(answers.ravel() - model.predict(X[300:])).max()
print(f"largest difference to Python: {difference:.1e}")

fig, ax = plt.subplots(figsize=(4.5, 3.6), layout="constrained")
ax.scatter(model.predict(X[300:]), answers.ravel(), s=14)
ax.axline((15, 15), slope=1, color="gray", lw=1)
ax.set(xlabel="predicted by Python", ylabel="predicted by the ONNX runtime")

# %%
# How long does one row take? A service often predicts one row at a time.


def milliseconds(predict, repeats=200):
    """Median time of a call."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        predict(X[300:301])
        times.append(time.perf_counter() - start)
    return 1000 * np.median(times)


print(f"Python {milliseconds(model.predict):.2f} ms")
print(f"ONNX   {milliseconds(lambda row: session.run(None, {'X': row})):.2f} ms")
