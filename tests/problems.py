"""Small regression problems for tests, and hypothesis strategies that draw them."""

import numpy as np
from hypothesis import strategies as st


def problem(seed=0, n=30, d=3, noise=0.1, n_new=8):
    """X, y, X_new of a smooth function with noise."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + n_new, d))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, -1] ** 2
    y = f + noise * rng.normal(size=len(X))
    return X[:n], y[:n], X[n:]


seeds = st.integers(0, 2**31 - 1)


@st.composite
def problems(draw, max_rows=25, max_features=4):
    """Random problems of random size."""
    return problem(draw(seeds), draw(st.integers(3, max_rows)), draw(st.integers(1, max_features)))
