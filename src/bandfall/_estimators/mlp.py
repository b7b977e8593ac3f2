"""The paper's neural baseline: a small network, plain gradient descent, early stopping."""

from __future__ import annotations

from dataclasses import field
from itertools import pairwise
from typing import Self

import numpy as np
from sklearn.utils import check_random_state

from bandfall._estimators.base import (
    Count,
    Fraction,
    Positive,
    Seed,
    Storable,
    ValidatedRegressor,
    estimator,
    validated,
)
from bandfall._typing import ArrayLike

_CHECK_EVERY = 10  # epochs
_PATIENCE = 10  # checks without improvement before training ends


@estimator
class PaperMLPRegressor(ValidatedRegressor, Storable):
    """Two hidden layers of tanh units, trained as in the paper's Table 4.

    Full-batch gradient descent on half the mean squared error, no momentum. The output layer
    starts at zero, hidden weights at N(0, 1/fan-in), biases at zero. The *last* rows are used for
    validation every 10 epochs. Training ends after more than 10 checks without a better R² and
    keeps the last parameters, not the best. `sklearn.neural_network.MLPRegressor` cannot validate
    on the last rows, keep the last parameters or start its output layer at zero.

    The scale of the target matters: a large one drives the units into saturation within a few
    epochs. The paper only centres its targets, which explains part of Table 4.

    Parameters
    ----------
    hidden_size : int >= 1, default=100
        Units in each of the two hidden layers.
    learning_rate : float > 0, default=0.01
    max_epochs : int >= 1, default=10_000
    validation_fraction : float in (0, 1), default=0.1
        Share of the rows, taken from the end, for validation; at least one row.
    random_state : int, RandomState instance or None, default=0
        Seed for the initial weights.

    Attributes
    ----------
    weights_, biases_ : list of three ndarrays
    n_iter_ : int
        Epochs trained.
    validation_errors_ : ndarray
        Mean squared error on the validation rows at each check.
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import PaperMLPRegressor
    >>> X = np.random.default_rng(0).normal(size=(80, 2))
    >>> model = PaperMLPRegressor(max_epochs=500).fit(X, X[:, 0])
    >>> bool(model.score(X, X[:, 0]) > 0.8)
    True
    """

    hidden_size: Count = 100
    learning_rate: Positive = 0.01
    max_epochs: Count = 10_000
    validation_fraction: Fraction = 0.1
    random_state: Seed = 0

    weights_: list[np.ndarray] = field(init=False)
    biases_: list[np.ndarray] = field(init=False)
    n_iter_: int = field(init=False)
    validation_errors_: np.ndarray = field(init=False)

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train until the validation error no longer falls; y may have several columns."""
        X, y, _ = self._training_data(X, y)
        X, y = X.astype(np.float64), y.astype(np.float64)
        n_held_out = max(1, int(self.validation_fraction * len(X)))
        n_train = len(X) - n_held_out
        if n_train < 1:
            raise ValueError(
                f"n_samples={len(X)} leaves no row for training after {n_held_out} for validation"
            )
        self._start(X.shape[1], y.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            self._train(X[:n_train], y[:n_train], X[n_train:], y[n_train:])
        if not all(np.isfinite(W).all() for W in self.weights_):
            raise ValueError(
                f"training diverged with learning_rate={self.learning_rate!r}: lower it or "
                "standardise the target"
            )
        return self

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        return self._layers(rows.astype(np.float64, copy=False))[-1]

    def _start(self, n_inputs: int, n_outputs: int) -> None:
        random, width = check_random_state(self.random_state), int(self.hidden_size)
        hidden = pairwise([n_inputs, width, width])
        self.weights_ = [random.standard_normal((a, b)) / np.sqrt(a) for a, b in hidden]
        self.weights_.append(np.zeros((width, n_outputs)))
        self.biases_ = [np.zeros(W.shape[1]) for W in self.weights_]

    def _layers(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Both hidden layers and the output."""
        (W1, W2, W3), (b1, b2, b3) = self.weights_, self.biases_
        first = np.tanh(X @ W1 + b1)
        second = np.tanh(first @ W2 + b2)
        return first, second, second @ W3 + b3

    def _train(
        self, X: np.ndarray, y: np.ndarray, X_held_out: np.ndarray, y_held_out: np.ndarray
    ) -> None:
        errors, best, n_worse = [], np.inf, 0
        for epoch in range(int(self.max_epochs)):
            self._epoch(X, y)
            if epoch % _CHECK_EVERY:
                continue
            # On fixed rows a better R² is a smaller squared error.
            errors.append(np.mean((self._layers(X_held_out)[-1] - y_held_out) ** 2))
            best, n_worse = (errors[-1], 0) if errors[-1] < best else (best, n_worse + 1)
            if n_worse > _PATIENCE:
                break
        self.n_iter_ = epoch + 1
        self.validation_errors_ = np.array(errors)

    def _epoch(self, X: np.ndarray, y: np.ndarray) -> None:
        """One step down the gradient of Σ (f − y)² / 2n."""
        first, second, output = self._layers(X)
        delta3 = (output - y) / len(X)
        delta2 = (delta3 @ self.weights_[2].T) * (1.0 - second * second)
        delta1 = (delta2 @ self.weights_[1].T) * (1.0 - first * first)
        layers = zip((X, first, second), (delta1, delta2, delta3), strict=True)
        for i, (inputs, delta) in enumerate(layers):
            self.weights_[i] -= self.learning_rate * (inputs.T @ delta)
            self.biases_[i] -= self.learning_rate * delta.sum(axis=0)
