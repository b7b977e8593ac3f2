"""Products and fits on one GPU: times, errors, and ratios within one run.

    python benchmarks/gpu.py products
    python benchmarks/gpu.py fits --data DIRECTORY     # power and superconductors
    python benchmarks/gpu.py fits --cpu --data DIRECTORY
    python benchmarks/gpu.py scaling 10000 100000 300000 500000 1000000 --out scaling.json
    python benchmarks/gpu.py plot scaling.json scaling.svg

Everything is float32; fits are Gaussian, min_speed 0.1. Each fit is timed from NumPy arrays to the
fitted estimator; the first fit of a process also compiles kernels and is reported as such.
"""

import argparse
import json
import math
import platform
import time

import numpy as np

MIN_SPEED = 0.1
# Kernel, rows, features, and seconds on an H200 that one product is to take at most.
PRODUCTS = (
    ("gaussian", 1_000_000, 8, 0.5),
    ("matern12", 1_000_000, 8, ""),
    ("laplace^0.7", 1_000_000, 8, ""),
    ("laplace-1", 1_000_000, 8, 1.0),
    ("laplace-1.5", 1_000_000, 8, 2.5),
    ("laplace-1.4", 1_000_000, 8, ""),
    ("cauchy-1.5^1", 1_000_000, 8, ""),
    ("gaussian", 200_000, 64, ""),
    ("laplace-1", 200_000, 64, ""),
    ("laplace-1.5", 200_000, 64, ""),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("products")
    fits = commands.add_parser("fits")
    fits.add_argument("--data", default=None)
    fits.add_argument("--cpu", action="store_true", help="also fit with NumPy, for comparison")
    scaling = commands.add_parser("scaling")
    scaling.add_argument("rows", type=int, nargs="+")
    scaling.add_argument("--out", default=None)
    plot = commands.add_parser("plot")
    plot.add_argument("results")
    plot.add_argument("image")
    arguments = parser.parse_args()
    if arguments.command == "plot":
        draw_scaling(arguments.results, arguments.image)
        return
    print_machine()
    if arguments.command == "products":
        time_norms()
        for n, d in ((1_000_000, 8), (200_000, 64)):
            time_product(n, d)
        time_kernel_ridge()
    elif arguments.command == "fits":
        for name in ("power", "superconductors"):
            time_real_fit(name, arguments.data, arguments.cpu)
    else:
        measure_scaling(arguments.rows, arguments.out)


def print_machine() -> None:
    import torch
    import triton

    print(
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}, "
        f"numpy {np.__version__}, python {platform.python_version()}"
    )


def time_norms() -> None:
    """One product K v in different norms and with different exponents, as a table."""
    from bandfall._products.torch_backend import TorchOperator
    from bandfall.kernels import get_kernel

    print(f"{'kernel':>16} {'rows':>10} {'d':>3} {'seconds':>8} {'aim':>5} {'entries/s':>10} error")
    for name, n, d, aim in PRODUCTS:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        kernel = get_kernel(name)
        operator = TorchOperator(X, kernel, np.float32, "cuda")
        bandwidth = d ** (1 / kernel.geometry.p) / 3
        v = operator.array(rng.standard_normal((n, 1)))
        seconds = median_seconds(lambda: operator.product(bandwidth, v))  # noqa: B023
        error = product_error(X, operator.product(bandwidth, v), v, bandwidth, kernel)
        print(
            f"{name:>16} {n:>10,} {d:>3} {seconds:>8.3f} {aim:>5} {n * n / seconds:>10.3g} "
            f"{error:.1e}",
            flush=True,
        )


def time_product(n: int, d: int) -> None:
    """One product K v: time, error, share of what the chip could do, and plain torch."""
    import torch

    from bandfall._products.torch_backend import TorchOperator
    from bandfall.kernels import get_kernel

    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32)
    bandwidth = math.sqrt(d) / 3
    operator = TorchOperator(X, get_kernel("gaussian"), np.float32, "cuda")
    v = operator.array(rng.standard_normal((n, 1)))
    seconds = median_seconds(lambda: operator.product(bandwidth, v))
    error = product_error(X, operator.product(bandwidth, v), v, bandwidth, operator.kernel)
    plain = median_seconds(lambda: plain_product(operator.array(X), v, bandwidth), repeats=1)
    properties = torch.cuda.get_device_properties(0)
    clock = 1.98e9  # boost clock of an H200
    exponentials = properties.multi_processor_count * 16 * clock
    lanes = properties.multi_processor_count * 128 * clock
    print(
        f"product n={n:,} d={d}: {seconds:.4f} s, {n * n / seconds:.3g} entries/s, relative error "
        f"{error:.1e}; {n * n / 2 / seconds / exponentials:.0%} of the special-function rate "
        "(each pair evaluated once); "
        + (
            f"{n * n / 2 * 20 / seconds / lanes:.0%} of the float32 rate at 20 operations a pair"
            if d == 8
            else f"{n * n / 2 * 6 * d / seconds / 990e12:.0%} of the tensor rate at 6d operations"
        )
        + f"; chunked torch {plain:.3f} s, {plain / seconds:.1f} times as long"
    )


def plain_product(X, v, bandwidth: float, rows: int = 2048):
    """What one writes without a fused kernel: cdist, exp and @ over chunks of rows."""
    import torch

    parts = []
    for start in range(0, len(X), rows):
        squared = torch.cdist(X[start : start + rows], X).square_()
        parts.append(squared.mul_(-0.5 / bandwidth**2).exp_() @ v)
    return torch.cat(parts)


def product_error(X: np.ndarray, product, v, bandwidth: float, kernel, n_rows: int = 500) -> float:
    """Relative error on some rows, against float64 differences."""
    import torch

    chosen = torch.as_tensor(np.random.default_rng(1).integers(len(X), size=n_rows)).cuda()
    rows = torch.as_tensor(X).cuda().double()
    exact = "donot_use_mm_for_euclid_dist"
    distances = torch.cdist(rows[chosen], rows, p=kernel.geometry.p, compute_mode=exact)
    truth = kernel(distances / bandwidth, torch) @ v.double()
    return float((product[chosen].double() - truth).norm() / truth.norm())


def median_seconds(function, repeats: int = 3) -> float:
    import torch

    function()
    seconds = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        function()
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds))


def time_kernel_ridge(n: int = 10_000) -> None:
    """One line, for scale: a peer on the CPU of the same machine."""
    from sklearn.kernel_ridge import KernelRidge

    X, y, _, _ = synthetic(n, 1)
    start = time.perf_counter()
    KernelRidge(kernel="rbf", gamma=0.5, alpha=1e-3).fit(X, y)
    print(f"KernelRidge on the CPU, n={n:,}, one bandwidth and penalty: ", end="")
    print(f"{time.perf_counter() - start:.1f} s")


def time_real_fit(name: str, data_home: str | None, with_cpu: bool) -> None:
    X, y, X_test, y_test = real(name, data_home)
    for run in ("first, compiling", "second", "third"):
        print(f"{name} ({run}):", fit("cuda", X, y, X_test, y_test)["text"])
    if with_cpu:
        print(f"{name} (NumPy):", fit(None, X, y, X_test, y_test)["text"])


def real(name: str, data_home: str | None):
    """A fifth held out, features standardised on the rest, all float32."""
    from bandfall.datasets import load_power, load_superconductors

    load = {"power": load_power, "superconductors": load_superconductors}[name]
    X, y = load(data_home=data_home, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    n = {"power": 41_933, "superconductors": 17_011}[name]
    X = (X - X[:n].mean(axis=0)) / X[:n].std(axis=0)
    X, y = X.astype(np.float32), y.astype(np.float32)
    return X[:n], y[:n], X[n:], y[n:]


def synthetic(n: int, n_test: int = 50_000):
    """Eight normal features, five of them used, noise of a tenth of the signal on training rows.

    The test rows are the same for every n: most of the error is in a few of them, far out.
    """
    X, y = rows(np.random.default_rng(0), n)
    y += 0.1 * y.std() * np.random.default_rng(1).standard_normal(n).astype(np.float32)
    return X, y, *rows(np.random.default_rng(2), n_test)


def rows(rng, n: int):
    X = rng.standard_normal((n, 8), dtype=np.float32)
    return X, np.sin(1.5 * X[:, 0]) + X[:, 1] * X[:, 2] + np.cos(2 * X[:, 3]) * X[:, 4]


def fit(device: str | None, X, y, X_test, y_test) -> dict:
    """Fit and predict; what happened, as numbers and as text."""
    import torch

    from bandfall import KernelDescentRegressor

    torch.cuda.reset_peak_memory_stats()
    n_products = count_products()
    start = time.perf_counter()
    model = KernelDescentRegressor(min_speed=MIN_SPEED, device=device).fit(X, y)
    fitted = time.perf_counter()
    r2 = model.score(X_test, y_test)
    predicted = time.perf_counter()
    some = slice(None, None, -(-len(X) // 1000))
    drift = y[some] - model.predict(X[some]) - model.path_.residual[some, 0]
    result = {
        "n": len(X),
        "seconds": fitted - start,
        "predict_seconds": predicted - fitted,
        "r2": r2,
        "products": n_products[0],
        "stages": len(model.path_),
        "status": model.path_.status.value,
        "path": [(stage.bandwidth, stage.duration) for stage in model.path_],
        "drift": float(np.sqrt(np.mean(drift**2)) / y.std()),
        "gigabytes": torch.cuda.max_memory_allocated() / 1e9,
    }
    result["text"] = (
        f"n={result['n']:,} fit {result['seconds']:.2f} s, predicted {len(X_test):,} rows in "
        f"{result['predict_seconds']:.3f} s, {result['products']} products, "
        f"{result['stages']} stages, test R² {r2:.4f}, {result['status']}, "
        f"peak {result['gigabytes']:.2f} GB, residual off by {result['drift']:.1e}"
    )
    return result


def count_products() -> list[int]:
    """A counter of products with K on the device from now on."""
    from bandfall._products.fused import FusedProduct

    counter = [0]
    product = getattr(FusedProduct.product, "__wrapped__", FusedProduct.product)

    def counted(self, bandwidth, block):
        counter[0] += 1
        return product(self, bandwidth, block)

    counted.__wrapped__ = product
    FusedProduct.product = counted
    return counter


def measure_scaling(sizes: list[int], out: str | None) -> None:
    results = []
    fit("cuda", *synthetic(1000))  # compile
    for n in sizes:
        results.append(fit("cuda", *synthetic(n)))
        print("synthetic:", results[-1]["text"], flush=True)
        if out is not None:
            with open(out, "w") as file:
                json.dump(results, file, indent=1)


def draw_scaling(results: str, image: str) -> None:
    """Test error and time against the number of rows."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    with open(results) as file:
        rows = sorted(json.load(file), key=lambda row: row["n"])
    n = [row["n"] for row in rows]
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    panels = (
        ("1 − test R²", [1 - row["r2"] for row in rows]),
        ("seconds to fit", [row["seconds"] for row in rows]),
    )
    for axis, (label, values) in zip(axes, panels, strict=True):
        axis.loglog(n, values, "o-", color="tab:blue")
        axis.set(xlabel="training rows", ylabel=label)
        axis.set_xticks(n, [f"{size:,}" for size in n], rotation=30)
        axis.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        axis.minorticks_off()
    figure.savefig(image, dpi=100)


if __name__ == "__main__":
    main()
