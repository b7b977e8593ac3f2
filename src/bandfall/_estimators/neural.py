"""Neural networks: the paper's baseline, and one trained with a controlled tangent kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import StrOptions

from bandfall._checks import ShapeChecker, check_number, warn_caller
from bandfall._estimators.base import (
    R2,
    Count,
    Flag,
    Fraction,
    NotNegative,
    Positive,
    Seed,
    Storable,
    ValidatedRegressor,
    count,
    estimator,
    number,
    validated,
)
from bandfall._typing import ArrayLike
from bandfall.descent._path import column_means, column_norms

if TYPE_CHECKING:
    import torch


_CHECK_EVERY = 10  # epochs
_PATIENCE = 10  # checks without improvement before training ends
REMEDIES = {
    "iteration_limit": "raise max_iter, widen hidden or lower max_r2",
    "stalled": "no step lowers the error any more: lower lr, widen hidden or lower max_r2",
    "not_finite": "the step is too long: lower lr or momentum, and scale the features",
}


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

    def _check_loaded(self) -> None:
        if len(self.weights_) != 3 or len(self.biases_) != 3:
            raise ValueError("it does not have three layers")
        shapes = ShapeChecker()
        for weights, biases, (before, after) in zip(
            self.weights_, self.biases_, pairwise(("d", "first", "second", "k")), strict=True
        ):
            shapes("weights_", weights, f"{before} {after}")
            shapes("biases_", biases, after)
        self._check_sizes(shapes.sizes["d"], shapes.sizes["k"])

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


@estimator
class NeuralDescentRegressor(ValidatedRegressor):
    """Neural network whose tangent kernel behaves as if its bandwidth fell to zero.

    Training starts as plain gradient descent; whenever R² on training data rises slower than
    `min_speed`, the step is blended towards the one that fits the residuals while the outputs
    at anchor points stay where they are (Section 4, Appendix D). Needs PyTorch:
    ``pip install torch``.

    Targets are standardised inside. Computation is in float64 on the CPU.

    Parameters
    ----------
    hidden : tuple of int, default=(50,)
        Widths of the tanh layers.
    tangent_control : bool, default=True
        False for plain gradient descent with `momentum` on half the mean squared error.
    min_speed : float >= 0, default=0.1
        The control sets in when training R² rises more slowly than this per unit of training time.
    lr : float > 0, default=0.2
        Longest step; plain gradient descent shortens it where it would diverge.
    momentum : float in [0, 1], default=0.95
        Momentum of plain gradient descent.
    anchors : int >= 0, default=100
        Number of points to draw whose outputs should not change.
    anchor_sampling : {"uniform", "mixed"}, default="uniform"
        Draw anchors uniformly from the box of the rows, enlarged by a tenth at either end, or
        between random pairs of rows.
    damping : float >= 0, default=1e-4
        Relative damping of the first controlled step; adapted afterwards.
    max_r2 : float in (0, 1], default=0.999
        Training ends when R² on training data exceeds this.
    max_iter : int >= 1, default=5000
        Bound on the number of epochs.
    random_state : int, RandomState or None, default=None
        Seed for initial weights and anchors.

    Attributes
    ----------
    module_ : torch.nn.Module
        The trained network; maps features to standardised targets, without constant ones.
    log_ : bandfall.neural.TangentLog
        Epoch, blend, R², speed and kernel drift of every step.
    status_ : str
        Why training ended: "r2_reached", "iteration_limit", "stalled", "not_finite", or
        "constant_target" if there was nothing to learn.
    n_iter_ : int
    anchors_ : ndarray of shape (n_anchors, n_features)
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from bandfall import NeuralDescentRegressor
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> y = np.sin(3 * X[:, 0])
    >>> model = NeuralDescentRegressor(random_state=0, max_r2=0.99).fit(X, y)
    >>> model.status_, bool(model.score(X, y) > 0.99)
    ('r2_reached', True)
    """

    hidden: Annotated[Sequence[int], "array-like"] = field(default=(50,), kw_only=False)
    tangent_control: Flag = True
    min_speed: NotNegative = 0.1
    lr: Positive = 0.2
    momentum: Annotated[float, number(0, 1, closed="both")] = 0.95
    anchors: Annotated[int, count(0)] = 100
    anchor_sampling: Annotated[str, StrOptions({"uniform", "mixed"})] = "uniform"
    damping: NotNegative = 1e-4
    max_r2: R2 = 0.999
    max_iter: Count = 5000
    random_state: Seed = None

    _floats = np.float64

    @validated
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train; ``status_`` says how training ended. y may have several columns."""
        from bandfall import neural  # names the remedy if torch is missing
        from bandfall.neural._training import predict_arrays

        # isort: split
        import torch

        X, y, _ = self._training_data(X, y)
        y = y.astype(np.float64, copy=False)
        self._offset = column_means(y)
        self._scale = column_norms(y, self._offset) / len(y) ** 0.5
        varying = self._scale > 0
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        generator = torch.Generator().manual_seed(int(seed))
        n_outputs = max(1, int(varying.sum()))
        self.module_ = neural.make_network(
            X.shape[1], tuple(self.hidden), n_outputs, generator=generator
        )
        rows = torch.tensor(X)  # copies: X may be read-only
        targets = torch.tensor((y - self._offset)[:, varying] / self._scale[varying])
        uniform = self.anchor_sampling == "uniform"
        draw = neural.uniform_anchors if uniform else neural.mixed_anchors
        anchors = draw(rows, int(self.anchors), generator)
        self.log_, status = neural.TangentLog(), neural.TangentStatus.CONSTANT_TARGET
        if varying.any():
            self.log_, status = neural.fit_network(
                self.module_,
                rows,
                targets,
                optimizer=self._optimizer(rows, anchors, generator),
                max_r2=float(self.max_r2),
                max_iter=int(self.max_iter),
            )
        self.anchors_, self.status_ = anchors.numpy(), status.value
        self.n_iter_ = max(1, len(self.log_))
        if self.status_ not in ("r2_reached", "constant_target"):
            with np.errstate(over="ignore", invalid="ignore"):  # targets have unit variance
                r2 = 1.0 - ((targets.numpy() - predict_arrays(self.module_, X)) ** 2).mean()
            warn_caller(
                f"training ended with status {self.status_!r} after {self.n_iter_} epochs at "
                f"R² = {r2:.4f}; {REMEDIES[self.status_]}",
                ConvergenceWarning,
            )
        return self

    def _outputs(self, rows: np.ndarray) -> np.ndarray:
        from bandfall.neural._training import predict_arrays

        varying = self._scale > 0
        outputs = np.tile(self._offset, (len(rows), 1))
        if varying.any():
            outputs[:, varying] += predict_arrays(self.module_, rows) * self._scale[varying]
        return outputs

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it interpolates noise, or ends at max_iter
        return tags

    def _optimizer(
        self, rows: torch.Tensor, anchors: torch.Tensor, generator: torch.Generator
    ) -> torch.optim.Optimizer:
        from bandfall import neural

        lr = float(self.lr)
        if not self.tangent_control:
            return neural.PlainDescent(self.module_, rows, lr=lr, momentum=float(self.momentum))
        return neural.TangentDescent(
            self.module_,
            anchors,
            lr=lr,
            min_speed=float(self.min_speed),
            damping=float(self.damping),
            generator=generator,
        )

    def _validate_params(self) -> None:
        super()._validate_params()
        for width in self.hidden:
            check_number("hidden", width, low=1, integer=True)
