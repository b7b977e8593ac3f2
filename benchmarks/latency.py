"""How long one prediction takes: one row, a service's case, before and after compression.

    python benchmarks/latency.py

Prints medians and 99th percentiles over many calls of one run, beside scikit-learn's KernelRidge
on the same rows; the goal is one millisecond for 2,000 training rows after compression.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bandfall import BandfallRegressor, KernelDescentRegressor, to_onnx


def latencies(predict, row, n_calls):
    """Milliseconds of each of `n_calls` calls."""
    for _ in range(20):
        predict(row)
    times = np.empty(n_calls)
    for i in range(n_calls):
        start = time.perf_counter()
        predict(row)
        times[i] = time.perf_counter() - start
    return 1e3 * times


def compressed(model, tolerance):
    """Compress the paths of an estimator; what that did."""
    last = model[-1] if hasattr(model, "steps") else model
    if isinstance(last, BandfallRegressor):
        before = [member.path for member in last.members_]
        last.average_ = last.average_.with_paths(lambda path: path.compress(tolerance))
        after = [member.path for member in last.members_]
    else:
        before, after = [last.path_], [last.path_.compress(tolerance)]
        (last.path_,) = after
    error = max(path.compression_error for path in after)
    return f"{sum(map(len, before))} → {sum(map(len, after))} stages, error {error:.1e}"


def show(name, times, reference):
    median, worst = np.median(times), np.quantile(times, 0.99)
    print(f"{name:<52} {median:8.3f} ms {worst:8.3f} ms {median / reference:6.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--tolerance", type=float, default=1e-3)
    options = parser.parse_args()
    X, y = make_friedman1(options.rows + 1, n_features=8, noise=0.5, random_state=0)
    X, row, y = X[:-1], X[-1:], y[:-1]
    ridge = KernelRidge(kernel="rbf", gamma=0.1, alpha=0.1).fit(X, y)
    times = latencies(ridge.predict, row, options.calls)
    reference = np.median(times)
    print(f"{options.rows} training rows, 8 features, one row at a time")
    print(f"{'':<52} {'median':>11} {'99 %':>11} {'ratio':>6}")
    show("scikit-learn KernelRidge", times, reference)
    models = {
        "KernelDescentRegressor": KernelDescentRegressor(),
        "StandardScaler + KernelDescentRegressor": make_pipeline(
            StandardScaler(), KernelDescentRegressor()
        ),
        "BandfallRegressor": BandfallRegressor(kernels=("gaussian",), max_rounds=1),
    }
    for name, model in models.items():
        model.fit(X, y)
        show(name, latencies(model.predict, row, options.calls), reference)
        text = compressed(model, options.tolerance)
        show(f"  {text}", latencies(model.predict, row, options.calls), reference)
    threads(models["BandfallRegressor"], X, options.calls)
    onnx_session(models["BandfallRegressor"], row, options.calls, reference)


def threads(model, X, n_calls):
    """Calls a second from one and from several threads, and whether they agree."""
    rows = [X[i : i + 1] for i in range(min(n_calls, len(X)))]
    expected = [model.predict(row) for row in rows]
    for n in (1, 2, 4):
        start = time.perf_counter()
        with ThreadPoolExecutor(n) as pool:
            found = list(pool.map(model.predict, rows))
        rate = len(rows) / (time.perf_counter() - start)
        same = all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        print(f"{n} threads: {rate:8.0f} calls a second, equal results: {same}")


def onnx_session(model, row, n_calls, reference):
    try:
        import onnxruntime
    except ImportError:
        return
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    data = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    times = latencies(lambda r: session.run(None, {"X": r}), row, n_calls)
    show("  the same in onnxruntime", times, reference)


if __name__ == "__main__":
    main()
