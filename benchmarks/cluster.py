"""What a Dask cluster costs and gives: overhead a product, two workers against one.

    python benchmarks/cluster.py [--rows 10000 100000 1000000] [--repeats 5]

(Not called dask.py: a script's own folder comes first where Python looks for packages.)

Workers are processes of this machine with one thread each. The overhead is that of a product whose
workers return their share of the vector as it is: everything but kernel entries. One worker and
two take turns, and the best of several turns counts.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from itertools import pairwise

import numpy as np
from distributed import Client, LocalCluster
from sklearn.datasets import make_friedman1

from bandfall import BandfallRegressor
from bandfall._products.dask_backend import Crew, DaskBackend
from bandfall.kernels import get_kernel


class Echo:
    """Held by workers in place of rows: shares of the vector come back as they are."""

    def share(self, first: int, last: int, vector: np.ndarray) -> np.ndarray:
        return vector[first:last]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with ExitStack() as stack:
        clients = [stack.enter_context(start(n_workers)) for n_workers in (1, 2)]
        for n_rows in options.rows:
            print(f"overhead at {n_rows:>9,} rows: {1e3 * overhead(clients[1], n_rows):6.1f} ms")
        for name, measure in (("products", products), ("search", search)):
            seconds = np.array(
                [[measure(client) for client in clients] for _ in range(options.repeats)]
            )
            one, two = seconds.min(axis=0)
            print(f"{name:8}: one worker {one:.2f} s, two {two:.2f} s: {one / two:.2f} times")


def start(n_workers: int) -> Client:
    return Client(LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address=":0"))


def overhead(client: Client, n_rows: int, n_products: int = 30) -> float:
    """Seconds of a product without kernel entries, the median of several."""
    crew = Crew(client, Echo())
    workers = crew.threads()
    borders = np.linspace(0, n_rows, len(workers) + 1).astype(int)
    calls = [("share", share) for share in pairwise(borders.tolist())]
    vector = np.random.default_rng(0).normal(size=(n_rows, 1)).astype(np.float32)
    seconds = []
    for _ in range(n_products):
        begin = time.perf_counter()
        found = np.concatenate(crew.call(calls, vector, workers=workers))
        seconds.append(time.perf_counter() - begin)
    assert np.array_equal(found, vector)
    crew.close()
    return float(np.median(seconds))


def products(client: Client, n_rows: int = 20_000, n_products: int = 4) -> float:
    """Seconds of some products at as many bandwidths."""
    with client.as_current():
        backend = DaskBackend(2**28)
        X = np.random.default_rng(0).normal(size=(n_rows, 8)).astype(np.float32)
        operator = backend.operator(X, get_kernel("gaussian"))
        vector = operator.array(np.ones((n_rows, 1)))
        operator.product(5.0, vector)  # workers prepare their rows
        begin = time.perf_counter()
        for number in range(n_products):
            operator.product(4.0 / (1 + number), vector)
        seconds = time.perf_counter() - begin
        backend.release(operator)
    return seconds


def search(client: Client, n_rows: int = 2_000) -> float:
    """Seconds of a whole fit that tunes itself."""
    X, y = make_friedman1(n_rows, noise=1.0, random_state=0)
    with client.as_current():
        begin = time.perf_counter()
        BandfallRegressor(device="dask", max_rounds=2).fit(X, y)
        return time.perf_counter() - begin


if __name__ == "__main__":
    main()
