"""Time and memory of a controlled step of `bandfall.neural`, and of Figure 3's loops.

python benchmarks/neural.py                steps and loops, about two minutes
python benchmarks/neural.py --figure3      the whole of Figure 3 on two processes
python benchmarks/neural.py --seeds 10     controlled network on ten seeds
python benchmarks/neural.py --plain 10     plain four-layer network on ten seeds
python benchmarks/neural.py --splits 5     real data, five splits of each set
"""

import argparse
import resource
import sys
import time
import warnings

import numpy as np
import torch
from joblib import Parallel, delayed

from bandfall import KernelDescentRegressor, NeuralDescentRegressor
from bandfall._paper.figures import train_network
from bandfall.datasets import make_sine, paper_splits
from bandfall.neural import TangentDescent, make_network, train_plain


def peak_mib():
    """Highest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def time_step(hidden, n, n_anchors, *, d=10, dtype=torch.float32, repeats=3):
    """Seconds of one controlled step (α < 1) and peak memory."""
    torch.manual_seed(0)
    model = make_network(d, hidden, dtype=dtype)
    X, anchors = torch.randn(n, d, dtype=dtype), torch.randn(n_anchors, d, dtype=dtype)
    y = torch.sin(X.sum(dim=1))
    before = peak_mib()
    optimizer = TangentDescent(model, anchors, min_speed=1e9, damping=1e-3)
    optimizer.step(X, y)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        optimizer.step(X, y)
        seconds.append(time.perf_counter() - start)
    print(
        f"p = {optimizer.tangent.n_parameters:>9,d}  n + n* = {n + n_anchors:>4d}  "
        f"{min(seconds):6.2f} s a step  peak {peak_mib():5.0f} MiB (before: {before:.0f})"
    )


def time_plain(hidden, n_epochs, dtype):
    """Microseconds an epoch of the fused loop, and the ratio to torch's SGD."""
    X, y, _, _ = make_sine(random_state=8, test_points="grid", n_test=101)
    start = time.perf_counter()
    train_plain(X, y, hidden, max_epochs=n_epochs, dtype=dtype)
    fused = (time.perf_counter() - start) / n_epochs
    torch_dtype = torch.float32 if dtype is np.float32 else torch.float64
    model = make_network(1, hidden, dtype=torch_dtype)
    sgd = torch.optim.SGD(model.parameters(), lr=0.001, momentum=0.95)
    rows, targets = torch.tensor(X, dtype=torch_dtype), torch.tensor(y, dtype=torch_dtype)[:, None]
    n_torch = max(50, n_epochs // 10)
    start = time.perf_counter()
    for _ in range(n_torch):
        sgd.zero_grad()
        (0.5 * (model(rows) - targets).square().mean()).backward()
        sgd.step()
    usual = (time.perf_counter() - start) / n_torch
    print(
        f"plain {hidden!s:22s} {fused * 1e6:6.1f} µs an epoch, torch SGD {usual * 1e6:6.1f} µs, "
        f"ratio {usual / fused:.1f}"
    )


def compare_seeds(number, n_seeds):
    """One network of Figure 3 on seeds 0, 1, …"""
    for seed in range(n_seeds):
        network = train_network(number, seed=seed)
        print(
            f"network {number} seed {seed}: {network['epochs']} epochs, train R² "
            f"{network['train_r2']:.4f}, test R² {network['test_r2']:.3f}",
            flush=True,
        )


def compare_splits(n_splits):
    """Test R² on the first splits of the four real sets (80 training rows each)."""
    warnings.simplefilter("ignore")
    for data in ("cpu", "uk_temperature", "power", "superconductors"):
        scores = {}
        for i, split in enumerate(paper_splits(data)[:n_splits]):
            models = {
                "kernel": KernelDescentRegressor(),
                "plain": NeuralDescentRegressor(
                    tangent_control=False, lr=0.02, max_iter=10_000, random_state=i
                ),
                "uniform": NeuralDescentRegressor(max_iter=600, random_state=i),
                "mixed": NeuralDescentRegressor(
                    max_iter=600, anchor_sampling="mixed", random_state=i
                ),
            }
            for label, model in models.items():
                model.fit(split.X_train, split.y_train)
                score = model.score(split.X_test, split.y_test)
                scores.setdefault(label, []).append((score, model.n_iter_))
        for label, values in scores.items():
            r2, epochs = np.array(values).T
            print(
                f"{data:16s} {label:8s} median test R² {np.median(r2):6.3f}  "
                f"{np.round(r2, 2).tolist()}  epochs {epochs.astype(int).tolist()}",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--figure3", action="store_true")
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--plain", type=int, default=0)
    parser.add_argument("--splits", type=int, default=0)
    options = parser.parse_args()
    if options.figure3:
        start = time.perf_counter()
        numbers = (3, 4, 1, 2, 5)  # the longest first
        for network in Parallel(n_jobs=2)(map(delayed(train_network), numbers)):
            print({name: network[name] for name in ("hidden", "epochs", "train_r2", "test_r2")})
        print(f"{time.perf_counter() - start:.0f} s")
    compare_seeds(5, options.seeds)
    compare_seeds(4, options.plain)
    if options.splits:
        compare_splits(options.splits)
    if options.figure3 or options.seeds or options.plain or options.splits:
        return
    time_step((310, 310), 250, 250)  # p = 10⁵
    for hidden, n_epochs, dtype in (
        ((1,), 100_000, np.float64),
        ((3,), 100_000, np.float64),
        ((200, 200), 3_000, np.float32),
        ((200, 200, 200, 200), 2_000, np.float32),
    ):
        time_plain(hidden, n_epochs, dtype)


if __name__ == "__main__":
    main()
