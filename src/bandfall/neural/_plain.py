"""Plain gradient descent with momentum, for millions of epochs of small tanh networks.

With ten parameters and twenty rows, optimizers of deep-learning frameworks spend most of the time
on overhead. This loop is hand-written backpropagation on preallocated NumPy buffers: a bias is a
row of its weight matrix and the learning rate is folded into the residual, so an epoch of
one hidden layer takes sixteen calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class PlainNetwork:
    """A trained tanh network."""

    weights: tuple[np.ndarray, ...]  # (n_in + 1, n_out) each; the last row is the bias
    epochs: int  # updates made
    r2: float  # on training data at the end

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Outputs of shape (m,) at the rows of X (m, d)."""
        activations = np.asarray(X, dtype=self.weights[0].dtype)
        for weights in self.weights[:-1]:
            activations = np.tanh(activations @ weights[:-1] + weights[-1])
        return (activations @ self.weights[-1][:-1] + self.weights[-1][-1])[:, 0]


def train_plain(
    X: np.ndarray,
    y: np.ndarray,
    hidden: Sequence[int],
    *,
    learning_rate: float = 0.001,
    momentum: float = 0.95,
    max_r2: float = 0.999,
    max_epochs: int = 10**7,
    seed: int = 0,
    dtype: type = np.float64,
) -> PlainNetwork:
    """Full-batch descent on half the mean squared error until R² > `max_r2` (Figure 3).

    Hidden weights are Glorot-uniform, biases and the output layer start at zero.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> network = train_plain(X, X[:, 0], (5,), learning_rate=0.1, max_r2=0.9)
    >>> network.r2 > 0.9
    True
    """
    X, y = np.asarray(X, dtype=dtype), np.asarray(y, dtype=dtype)
    if X.ndim != 2 or y.shape != (len(X),) or len(X) == 0:
        raise ValueError(f"X (n, d) and y (n,) must match; got {X.shape} and {y.shape}")
    total = float(((y - y.mean()) ** 2).sum())
    if not total > 0:
        raise ValueError("y must take at least two values: R² is not defined")
    weights = _initial_weights(X.shape[1], hidden, seed, dtype)
    epoch, loss = 0, np.inf
    for epoch, loss in _descend(weights, X, y, learning_rate, momentum):
        if loss < (1.0 - max_r2) * total or epoch >= max_epochs or not np.isfinite(loss):
            break
    return PlainNetwork(tuple(weights), epoch, 1.0 - loss / total)


def _initial_weights(
    n_features: int, hidden: Sequence[int], seed: int, dtype: type
) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    weights = []
    for n_in, n_out in zip([n_features, *hidden], [*hidden, 1], strict=True):
        layer: np.ndarray = np.zeros((n_in + 1, n_out), dtype)
        layer[:-1] = rng.uniform(-1.0, 1.0, (n_in, n_out)) * np.sqrt(6.0 / (n_in + n_out))
        weights.append(layer)
    weights[-1][:] = 0.0
    return weights


def _descend(
    weights: list[np.ndarray], X: np.ndarray, y: np.ndarray, learning_rate: float, momentum: float
) -> Iterator[tuple[int, float]]:
    """Update `weights` in place, endlessly; yield (updates made, Σ r²) before every update."""
    n, dtype = len(X), X.dtype
    y = y[:, None]
    rate = dtype.type(learning_rate / n)
    momentum = dtype.type(momentum)
    one = dtype.type(1)
    # inputs[l] has a column of ones for the bias; hidden[l] is the part that tanh writes to.
    inputs = [np.ones((n, len(w)), dtype) for w in weights]
    inputs[0][:, :-1] = X
    hidden = [a[:, :-1] for a in inputs]
    sums = [np.empty((n, w.shape[1]), dtype) for w in weights]
    errors = [np.empty((n, w.shape[1]), dtype) for w in weights]
    slopes = [np.empty((n, w.shape[1]), dtype) for w in weights]
    gradients = [np.empty_like(w) for w in weights]
    velocities = [np.zeros_like(w) for w in weights]
    back = [w[:-1].T for w in weights]
    inputs_t = [a.T for a in inputs]
    last = len(weights) - 1
    residual = errors[last]
    flat = residual.reshape(-1)
    dot, tanh, multiply, subtract = np.dot, np.tanh, np.multiply, np.subtract
    epoch = 0
    while True:
        for level in range(last):
            dot(inputs[level], weights[level], out=sums[level])
            tanh(sums[level], out=hidden[level + 1])
        dot(inputs[last], weights[last], out=residual)
        residual -= y
        yield epoch, float(flat.dot(flat))
        residual *= rate
        error = residual
        for level in range(last, -1, -1):
            if level:  # before the weights of this level change
                below, slope = errors[level - 1], slopes[level - 1]
                dot(error, back[level], out=below)
                multiply(hidden[level], hidden[level], out=slope)
                subtract(one, slope, out=slope)
                below *= slope
            velocity = velocities[level]
            velocity *= momentum
            dot(inputs_t[level], error, out=gradients[level])
            velocity += gradients[level]
            weights[level] -= velocity
            if level:
                error = below
        epoch += 1
