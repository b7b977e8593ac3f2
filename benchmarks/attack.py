"""Tables that are hard on intervals: do nine in ten new rows lie inside 90 % intervals?

    python benchmarks/attack.py [--cases many_levels copied] [--seeds 15]

Every case draws training and new rows from one source. A case holds if its coverage, in the mean
over the seeds, is at least 0.88. One line per case: coverage (mean, least, most), the median width
in standard deviations of the target, and how widths were found.
"""

import argparse
import collections
import warnings

import numpy as np
import pandas as pd

from bandfall import BandfallRegressor

N_NEW = 2000


def _levels(random, n, n_levels, n_numbers, noise):
    level, numbers = random.integers(n_levels, size=n), random.standard_normal((n, n_numbers))
    effects = random.standard_normal(n_levels)
    y = effects[level] + numbers.sum(axis=1) + noise * random.standard_normal(n)
    X = pd.DataFrame(numbers, columns=[f"x{j}" for j in range(n_numbers)])
    return X.assign(level=pd.Categorical(level.astype(str))), y


def hundred_levels(random, n):
    """A category with 100 levels, and nothing else."""
    return _levels(random, n, 100, 0, 0.1)


def many_levels(random, n):
    """A category with 300 levels, and nothing else: of 400 rows, most levels hold one or two."""
    return _levels(random, n, 300, 0, 0.1)


def levels_and_numbers(random, n):
    """A category with 300 levels and two numbers."""
    return _levels(random, n, 300, 2, 0.1)


def noisy_levels(random, n):
    """A category with 300 levels and three numbers, and noise."""
    return _levels(random, n, 300, 3, 0.5)


def rare_levels(random, n):
    """Levels as frequent as words: a few hold most rows, many hold one."""
    level = np.minimum(random.zipf(1.4, n), 1000)
    effects = np.random.default_rng(1).standard_normal(1001)
    X = pd.DataFrame({"level": pd.Categorical(level.astype(str)), "x": random.uniform(-1, 1, n)})
    return X, effects[level] + X["x"].to_numpy() + 0.3 * random.standard_normal(n)


def copied(random, n):
    """One feature equals the target."""
    X = random.standard_normal((n, 4))
    return X, X[:, 0].copy()


def nearly_copied(random, n):
    """One feature equals the target, except in one row of twenty."""
    X = random.standard_normal((n, 4))
    return X, np.where(random.uniform(size=n) < 0.05, random.standard_normal(n), X[:, 0])


def uneven(random, n):
    """Noise that grows tenfold along one feature."""
    X = random.uniform(-1, 1, (n, 3))
    noise = np.where(X[:, 1] > 0, 0.5, 0.05)
    return X, np.sin(3 * X[:, 0]) + noise * random.standard_normal(n)


def uneven_noise(random, n):
    """Noise in twelve features, whose size depends on two."""
    X = random.standard_normal((n, 12))
    return X, X[:, 0] + np.exp(0.7 * X[:, 1]) * random.standard_normal(n)


def heavy_tails(random, n):
    """Noise of Student's t with two degrees of freedom."""
    X = random.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0]) + 0.3 * random.standard_t(2, n)


def skewed(random, n):
    """Log-normal targets."""
    X = random.standard_normal((n, 4))
    return X, np.exp(X[:, 0] + 0.5 * random.standard_normal(n))


def repeated(random, n):
    """Rows that repeat 80 others, each with noise of its own."""
    X = np.random.default_rng(0).standard_normal((80, 4))[random.integers(80, size=n)]
    return X, X[:, 0] + X[:, 1] ** 2 + 0.2 * random.standard_normal(n)


def counts(random, n):
    """Counts, most of them zero."""
    X = random.standard_normal((n, 3))
    return X, random.poisson(np.exp(X[:, 0] - 1.5)).astype(float)


def exact(random, n):
    """A smooth curve without noise."""
    X = random.uniform(-1, 1, (n, 3))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]


def outliers(random, n):
    """One target of fifty is a hundred times too large."""
    X = random.standard_normal((n, 3))
    y = X[:, 0] + 0.2 * random.standard_normal(n)
    return X, np.where(random.uniform(size=n) < 0.02, 100 * y, y)


CASES = (
    hundred_levels,
    many_levels,
    levels_and_numbers,
    noisy_levels,
    rare_levels,
    copied,
    nearly_copied,
    uneven,
    uneven_noise,
    heavy_tails,
    skewed,
    repeated,
    counts,
    exact,
    outliers,
)


def coverage(case, seed, n_rows=400, coverage=0.9, **settings):
    """Share of new rows inside, median width in deviations of the target, and `interval_`."""
    X, y = case(np.random.default_rng(seed), n_rows + N_NEW)
    X = pd.DataFrame(X)
    model = BandfallRegressor(**settings).fit(X[:n_rows], y[:n_rows])
    ends = model.predict_interval(X[n_rows:], coverage)
    inside = (ends[:, 0] <= y[n_rows:]) & (y[n_rows:] <= ends[:, 1])
    return inside.mean(), np.median(np.ptp(ends, axis=1)) / y[:n_rows].std(), model.interval_


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    names = {case.__name__: case for case in CASES}
    parser.add_argument("--cases", nargs="*", default=list(names), choices=names)
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--rows", type=int, default=400)
    arguments = parser.parse_args()
    print(f"{'':<15}{'mean':>6}{'least':>7}{'most':>6}{'width':>8}  widths")
    for name in arguments.cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = [
                coverage(names[name], seed, arguments.rows) for seed in range(arguments.seeds)
            ]
        shares, widths, facts = zip(*results, strict=True)
        methods = collections.Counter(one["method"] for one in facts)
        how = ", ".join(f"{n} {method}" for method, n in methods.most_common())
        print(
            f"{name:<15}{np.mean(shares):>6.3f}{min(shares):>7.3f}{max(shares):>6.3f}"
            f"{np.mean(widths):>8.3f}  {how}",
            flush=True,
        )


if __name__ == "__main__":
    main()
