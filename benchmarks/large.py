"""Many rows: what leaves cost in time, memory and accuracy, here, on a GPU or on Dask workers.

    python benchmarks/large.py fit --rows 1000000 2000000 4000000 [--leaf-rows 10000] [--profile]
    python benchmarks/large.py accuracy --data FOLDER [--sets kin8nm power] [--share 0.25]
    python benchmarks/large.py scaling [--rows 25000 50000 100000 200000] [--out times.json]
    python benchmarks/large.py latency [--rows 1000000]
    python benchmarks/large.py dask --workers 1 4 [--rows 100000] [--leaf-rows 2000]

`fit` fits the scaling benchmark's rows × 8 (`gpu.py`), with the search and four members unless
other settings are given, and prints seconds, test R², coverage of 90 % intervals, peak memory of
the host; `--profile` says where the time goes. `accuracy` compares one leaf with leaves of a
share of the training rows on the sets of a folder, all those above 5,000 rows by default.
`scaling` prints CPU seconds and peak memory of fits of synthetic rows beside XGBoost and LightGBM
where they are installed. `latency` times predictions of one row by a model that has that many
training rows. `dask` fits the same rows as a dask array with several numbers of worker processes
of one thread, and compares bits.

Every fit runs in a process of its own. Settings for all of them: `--members`, `--kernels`,
`--search-rows`, `--leaf-rows`, `--device` (auto, cpu, cuda; none for NumPy), `--seconds`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np


def scaling_rows(n, n_test=50_000):
    """The rows of `gpu.py`: eight normal features, five of them used, a tenth of noise."""
    sys.path.insert(0, str(Path(__file__).parent))
    from gpu import synthetic as of_gpu

    return of_gpu(n, n_test)


def synthetic(n, d=8, seed=0):
    """Rows of a smooth function of all features, with some noise."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, size=(n, d))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.3 * X[:, 4:].sum(axis=1)
    return X, y + 0.2 * random.standard_normal(n)


def above(folder, fewest=5000):
    """Names of the sets of a folder with more than so many rows."""
    import gzip

    names = []
    for file in sorted(Path(folder).rglob("*.csv.gz")):
        with gzip.open(file, "rt") as lines:
            if sum(1 for _ in lines) > fewest + 1 and "classes" not in file.parts:
                names.append(file.name.removesuffix(".csv.gz"))
    return names


def read(folder, name):
    """Features and target of a set: its last column."""
    import pandas as pd

    file = next(Path(folder).rglob(f"{name}.csv*"))
    table = pd.read_csv(file, keep_default_na=False, na_values=[""])
    y = table.pop(table.columns[0 if name == "uktemp" else -1])  # whose target comes first
    return table.drop(columns="DateTime", errors="ignore"), y.to_numpy(float)


def settings_of(options):
    chosen = {
        "n_members": options.members,
        "kernels": options.kernels,
        "search_rows": options.search_rows,
        "leaf_rows": options.leaf_rows,
        "max_seconds": options.seconds,
        "device": None if options.device == "none" else options.device,
    }
    return {name: value for name, value in chosen.items() if value is not None or name == "device"}


def measured_fit(X, y, X_test, y_test, settings, profile=False, noise=0.0):
    """A model, and what its fit took and gave; `noise` is what test targets lack of it."""
    import resource

    from bandfall import BandfallRegressor

    start, cpu = time.perf_counter(), time.process_time()
    with _profiled(profile):
        model = BandfallRegressor(**settings).fit(X, y)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    residual = np.asarray(model.predict(X_test)) - y_test
    predicted = time.perf_counter() - start
    some = slice(None, None, -(-len(y_test) // 20_000))
    start = time.perf_counter()
    low, high = model.predict_interval(X_test[some], 0.9).T
    within = time.perf_counter() - start
    seen = y_test[some] + noise * np.random.default_rng(3).standard_normal(len(y_test[some]))
    inside = (low <= seen) & (seen <= high)
    return model, {
        "rows": len(y),
        "seconds": seconds,
        "cpu": cpu,
        "megabytes": memory,
        "r2": 1.0 - float(np.mean(residual**2) / np.var(y_test)),
        "rmse": float(np.sqrt(np.mean(residual**2))),
        "coverage": float(np.mean(inside)),
        "held_out_r2": float(model.best_score_),
        "n_held_out": len(model.held_out_rows_),
        "leaves": [member.path.n_leaves for member in model.members_],
        "members": [repr(member) for member in model.members_],
        "skipped": list(model.skipped_),
        "predict_ms": 1e3 * predicted / len(y_test),
        "interval_ms": 1e3 * within / len(y_test[some]),
    }


@contextmanager
def _profiled(wanted):
    if not wanted:
        yield
        return
    import cProfile
    import pstats

    with cProfile.Profile() as profile:
        yield
    pstats.Stats(profile, stream=sys.stderr).sort_stats("tottime").print_stats(35)


def in_own_process(arguments, cpu_only=False):
    """What `one` prints as JSON, run with these arguments; None after an error, which is shown."""
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": ""} if cpu_only else {})}
    command = [sys.executable, __file__, "one", json.dumps(arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        print(f"  failed with exit code {done.returncode}", flush=True)
        return None
    return json.loads(lines[-1])


def one(arguments):
    """One fit in this process."""
    kind, settings = arguments["kind"], arguments.get("settings", {})
    if kind == "fit":
        rows = scaling_rows(arguments["rows"], arguments["n_test"])
        noise = 0.1 * float(np.std(rows[-1]))
        result = measured_fit(*rows, settings, arguments["profile"], noise)[1]
    elif kind == "set":
        result = one_of_a_set(arguments, settings)
    elif kind == "dask":
        result = on_workers(arguments, settings)
    else:
        result = one_of_scaling(arguments, settings)
    print(json.dumps(result))


def one_of_a_set(arguments, settings):
    X, y = read(arguments["data"], arguments["name"])
    order = np.random.default_rng(0).permutation(len(y))[: arguments["most"]]
    n = int(0.8 * len(order))
    train, test = order[:n], order[n:]
    if arguments["share"] is not None:
        settings = {**settings, "leaf_rows": int(arguments["share"] * n)}
    else:
        settings = {**settings, "leaf_rows": n}
    return measured_fit(X.iloc[train], y[train], X.iloc[test], y[test], settings)[1]


def one_of_scaling(arguments, settings):
    import resource

    n, method = arguments["rows"], arguments["kind"]
    X, y = synthetic(n + 5000)
    start = time.process_time()
    if method == "bandfall":
        from bandfall import BandfallRegressor

        model = BandfallRegressor(**settings).fit(X[:n], y[:n])
    elif method == "xgboost":
        from xgboost import XGBRegressor

        model = XGBRegressor(n_jobs=1).fit(X[:n], y[:n])
    else:
        from lightgbm import LGBMRegressor

        model = LGBMRegressor(n_jobs=1, verbose=-1).fit(X[:n], y[:n])
    seconds = time.process_time() - start
    residual = np.asarray(model.predict(X[n:])) - y[n:]
    return {
        "method": method,
        "rows": n,
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "r2": 1.0 - float(np.mean(residual**2) / np.var(y[n:])),
    }


def on_workers(arguments, settings):
    """A fit of dask arrays on so many workers, which may be one of them killed meanwhile."""
    import dask.array
    from distributed import Client, LocalCluster

    X, y, X_test, y_test = scaling_rows(arguments["rows"], 5000)
    with (
        LocalCluster(
            n_workers=arguments["workers"], threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        size = -(-len(X) // 16)
        rows = client.persist(dask.array.from_array(X, chunks=(size, -1)))
        target = client.persist(dask.array.from_array(y, chunks=size))
        model, result = measured_fit(rows, target, X_test, y_test, {**settings, "device": "dask"})
    bits = np.ascontiguousarray(model.predict(X_test)).tobytes()
    return {**result, "bits": hashlib.sha256(bits).hexdigest()[:12]}


def describe(result):
    if result is None:
        return
    print(
        f"{result['rows']:>9,} rows: {result['seconds']:.1f} s ({result['cpu']:.1f} CPU s), "
        f"test R² {result['r2']:.4f} (held out {result['held_out_r2']:.4f}), "
        f"{result['coverage']:.3f} inside 90 % intervals, peak {result['megabytes']:,.0f} MB, "
        f"leaves {result['leaves']}, {1e3 * result['predict_ms']:.1f} µs a prediction, "
        f"{1e3 * result['interval_ms']:.1f} µs an interval"
    )
    for line in [*result["members"], *result["skipped"]]:
        print("  " + line)
    sys.stdout.flush()


def fits(options):
    results = []
    for n in options.rows:
        arguments = {
            "kind": "fit",
            "rows": n,
            "n_test": options.n_test,
            "profile": options.profile,
            "settings": settings_of(options),
        }
        results.append(in_own_process(arguments))
        describe(results[-1])
        write(options.out, results)


def accuracy(options):
    names = options.sets or above(options.data)
    print(
        f"{'set':<16} {'rows':>7} {'one leaf':>10} {'leaves':>7} {'ratio':>7} {'CPU':>6} "
        "coverage       seconds"
    )
    ratios, results = [], []
    for name in names:
        pair = [
            in_own_process(
                {
                    "kind": "set",
                    "data": options.data,
                    "name": name,
                    "most": options.most,
                    "share": share,
                    "settings": settings_of(options),
                }
            )
            for share in (None, options.share)
        ]
        if None in pair:
            continue
        whole, leaves = pair
        results.append({"name": name, "whole": whole, "leaves": leaves})
        ratios.append(leaves["rmse"] / whole["rmse"])
        print(
            f"{name:<16} {whole['rows']:>7,} {whole['rmse']:>10.4g} {leaves['leaves'][0]:>7} "
            f"{ratios[-1]:>7.4f} {leaves['cpu'] / whole['cpu']:>6.2f} {whole['coverage']:.3f} "
            f"{leaves['coverage']:.3f} {whole['seconds']:>7.0f} {leaves['seconds']:.0f}",
            flush=True,
        )
        write(options.out, results)
    if ratios:
        mean = np.exp(np.mean(np.log(ratios)))
        covered = [np.mean([one[key]["coverage"] for one in results]) for key in PAIR]
        label = f"mean of {len(ratios)}"
        print(f"{label:<43} {mean:>7.4f} {'':>6} {covered[0]:.3f} {covered[1]:.3f}")


PAIR = ("whole", "leaves")


def scaling(options):
    results = []
    print(f"{'method':<10} {'rows':>9} {'CPU s':>8} {'ratio':>6} {'MB':>7} {'ratio':>6} {'R²':>7}")
    for method in options.methods:
        before = None
        for n in options.rows:
            arguments = {"kind": method, "rows": n, "settings": settings_of(options)}
            result = in_own_process(arguments)
            if result is None:
                break
            ratios = ["", ""]
            if before is not None:
                ratios = [f"{result[key] / before[key]:.2f}" for key in ("seconds", "megabytes")]
            print(
                f"{method:<10} {n:>9,} {result['seconds']:>8.1f} {ratios[0]:>6} "
                f"{result['megabytes']:>7.0f} {ratios[1]:>6} {result['r2']:>7.4f}",
                flush=True,
            )
            results.append(result)
            before = result
            write(options.out, results)


def on_dask(options):
    try:
        import distributed  # noqa: F401
    except ImportError:
        print("Dask is not installed: nothing to measure")
        return
    first = None
    for n_workers in options.workers:
        arguments = {
            "kind": "dask",
            "rows": options.rows[0],
            "workers": n_workers,
            "settings": settings_of(options),
        }
        result = in_own_process(arguments, cpu_only=True)
        if result is None:
            continue
        first = first or result
        print(
            f"{n_workers} workers: {first['seconds'] / result['seconds']:.2f} × the speed of the "
            f"first, bits {result['bits']} "
            f"{'equal' if first['bits'] == result['bits'] else 'DIFFER'}"
        )
        describe(result)


def latency(options):
    """One prediction by a model of many leaves, each trained for a moment only."""
    from bandfall import BandfallRegressor

    n = options.rows[0]
    X, y, X_test, _ = scaling_rows(n, 300)
    settings = {**settings_of(options), "max_rounds": 0}
    model = BandfallRegressor(**settings).fit(X, y)
    for name in ("predict", "predict_interval"):
        times = []
        for row in X_test:
            start = time.perf_counter()
            getattr(model, name)(row[None])
            times.append(1e3 * (time.perf_counter() - start))
        print(
            f"{n:,} rows, {len(model.members_)} members of {model.path_.n_leaves} leaves, {name} "
            f"of one row: {np.median(times[50:]):.2f} ms (median), {np.max(times[50:]):.2f} "
            f"(most), {times[0]:.1f} (first)"
        )


def write(file, results):
    if file:
        Path(file).write_text(json.dumps(results, indent=1))


def main():
    if sys.argv[1:2] == ["one"]:
        one(json.loads(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)

    def add(name, run, **usual):
        command = commands.add_parser(name)
        command.add_argument("--members", type=int)
        command.add_argument("--kernels", nargs="+")
        command.add_argument("--search-rows", type=int)
        command.add_argument("--leaf-rows", type=int)
        command.add_argument("--seconds", type=float)
        command.add_argument("--device", default="auto")
        command.add_argument("--out")
        command.set_defaults(run=run, **usual)
        return command

    command = add("fit", fits)
    command.add_argument("--rows", nargs="+", type=int, default=[1_000_000])
    command.add_argument("--n-test", type=int, default=50_000)
    command.add_argument("--profile", action="store_true", help="print where Python spends time")
    command = add("accuracy", accuracy)
    command.add_argument("--data", default=os.environ.get("BANDFALL_DATA"))
    command.add_argument("--sets", nargs="+")
    command.add_argument("--share", type=float, default=0.25)
    command.add_argument("--most", type=int, default=10**9, help="rows of a set at most")
    command = add("scaling", scaling, members=2, kernels=["gaussian", "matern12"], search_rows=3000)
    command.add_argument("--rows", nargs="+", type=int, default=[25_000, 50_000, 100_000, 200_000])
    command.add_argument("--methods", nargs="+", default=["bandfall", "xgboost", "lightgbm"])
    command = add("latency", latency, members=1, kernels=["gaussian"], search_rows=1000)
    command.add_argument("--rows", nargs=1, type=int, default=[1_000_000])
    usual = {"members": 1, "kernels": ["gaussian"], "search_rows": 2000, "leaf_rows": 2000}
    command = add("dask", on_dask, **usual)
    command.add_argument("--rows", nargs=1, type=int, default=[100_000])
    command.add_argument("--workers", nargs="+", type=int, default=[1, 4])
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
