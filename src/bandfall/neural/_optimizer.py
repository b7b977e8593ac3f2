"""`TangentDescent`: an optimizer that controls the network's tangent kernel, and its record."""

from __future__ import annotations

import math
from enum import Enum
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from bandfall._checks import check_choice, check_number, warn_caller
from bandfall._typing import ArrayLike, State
from bandfall.neural._step import tangent_step, uniform_anchors
from bandfall.neural._tangent import TangentModel

_STATE = ("blend", "damping", "step_scale", "r2", "anchors", "_probe")
_PROBE_ROWS = 16
_DRIFT_EVERY = 10
_SMALLEST_STEP = 2.0**-40
# Trust region of Levenberg and Marquardt: how well the linearised network predicted the loss.
_POOR, _GOOD = 0.5, 0.9
_RAISE, _LOWER = 4.0, 0.7


class TangentStatus(Enum):
    """The state of training; comments name remedies."""

    RUNNING = "running"
    R2_REACHED = "r2_reached"
    ITERATION_LIMIT = "iteration_limit"
    STALLED = "stalled"  # no step along the direction lowers the loss: lower lr, more units
    CONSTANT_TARGET = "constant_target"  # no target varies: there is nothing to train
    NOT_FINITE = "not_finite"  # data or outputs are NaN or infinite: check X, y, the start


class LogRow(NamedTuple):
    """The state at the start of one step."""

    epoch: int
    blend: float  # α of the step
    r2: float  # on the rows of the step
    speed: float  # ∂R²/∂t along it
    # ‖K_NTK(t)v − K_NTK(0)v‖ / ‖K_NTK(0)v‖ for a fixed random v on rows of the first step: the
    # distance from the regime of a constant tangent kernel. Measured on every tenth step.
    kernel_drift: float
    damping: float
    accepted: bool  # False if the step was undone because the loss would have risen


class TangentLog(list[LogRow]):
    """A `LogRow` for each step; every field is also an array attribute, such as ``log.r2``."""

    def __getattr__(self, name: str) -> np.ndarray:
        if name in LogRow._fields:
            return np.array([getattr(row, name) for row in self])
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<TangentLog: {len(self)} steps, last {self[-1] if self else None}>"


class TangentDescent(torch.optim.Optimizer):
    """Gradient descent whose tangent kernel goes from the network's own to the identity.

    Every step moves the parameters by lr · (α Φ_tᵀr/(n·k) + (1 − α) Φ⁺[r; 0]): the gradient of
    half the mean squared error, blended with the step that fits the residuals r without changing
    the outputs at `anchors`. α starts at 1 and falls, by the rule that lowers the
    bandwidth of a kernel, whenever R² rises more slowly than `min_speed` (Section 4, Appendix D).

    A step that would raise the loss is undone, and the next one is shorter. The damping of Φ⁺
    is adapted to how well the linearised network predicted the last step. Neither affects a plain
    gradient step that lowers the loss.

    Parameters
    ----------
    model : torch.nn.Module
        A regression network with outputs (n,), (n, 1) or (n, k). Device and dtype follow it.
        float64 is advised: small singular values of the Jacobian carry the fine structure.
    anchors : Tensor of shape (n*, ...), optional
        Rows whose outputs should not change. By default `n_anchors` points from
        `uniform_anchors` of the rows of the first step.
    lr : float > 0, default=0.2
        Step in training time. The anchored part reduces the residuals by the share lr.
    min_speed : float >= 0, default=0.1
        v; α falls if R² rises more slowly than this per unit of training time. 0 never lowers α.
    n_anchors : int >= 0, default=100
        Number of anchors to draw if `anchors` is None. Without anchors (0) it overfits badly.
    damping : float >= 0, default=1e-4
        δ/λ_max(ΦΦᵀ) of the first controlled step.
    damping_filter : {"tikhonov", "lifted"}, default="tikhonov"
        Filter on singular values: s/(s² + δ), or the paper's s/(s + ε)².
    generator : torch.Generator, optional
        Draws the default anchors and the drift probe.

    Attributes
    ----------
    blend, r2 : float
        The current α, and R² on the rows of the last step, after it.
    log : TangentLog
    status : TangentStatus

    Notes
    -----
    With mini-batches, every step treats its batch as the training set: R², speed and residuals
    are those of the batch, α depends on the speed on batches, and outputs at rows outside the batch
    are kept only as far as anchors keep them.
    """

    def __init__(
        self,
        model: nn.Module,
        anchors: Tensor | None = None,
        *,
        lr: float = 0.2,
        min_speed: float = 0.1,
        n_anchors: int = 100,
        damping: float = 1e-4,
        damping_filter: str = "tikhonov",
        generator: torch.Generator | None = None,
    ) -> None:
        check_number("lr", lr, low=0, low_open=True, finite=True)
        check_number("min_speed", min_speed, low=0, finite=True)
        check_number("damping", damping, low=0, finite=True)
        check_number("n_anchors", n_anchors, low=0, integer=True)
        check_choice("damping_filter", damping_filter, "tikhonov", "lifted")
        self.tangent = TangentModel(model)
        super().__init__(list(self.tangent.parameters.values()), {"lr": lr})
        self.min_speed = float(min_speed)
        self.n_anchors = n_anchors
        self.damping = float(damping)
        self.damping_filter = damping_filter
        self.generator = generator
        self.anchors = None if anchors is None else self._tensor("anchors", anchors)
        self.blend = 1.0
        self.step_scale = 1.0
        self.r2 = -math.inf
        self.log = TangentLog()
        self.status = TangentStatus.RUNNING
        self._last_good = self.tangent.vector()
        self._probe: tuple[Tensor, Tensor, Tensor] | None = None

    def step(self, X: Tensor, y: Tensor) -> LogRow:  # type: ignore[override]
        """One step on the rows X (n, ...) with targets y (n,) or (n, k)."""
        X, y, residual = self._residual(X, y)
        loss = float(residual.square().sum())
        if not math.isfinite(loss):
            return self._give_up(TangentStatus.NOT_FINITE)
        total = float((y - y.mean(dim=0)).square().sum())
        self._prepare(X)
        assert self.anchors is not None
        trial = tangent_step(
            self.tangent,
            X,
            residual,
            self.anchors,
            total=total,
            blend=self.blend,
            min_speed=self.min_speed,
            scale=1.0 / residual.numel(),
            damping=self.damping,
            damping_filter=self.damping_filter,
        )
        theta = self.tangent.vector()
        step_size = float(self.param_groups[0]["lr"]) * self.step_scale
        self.tangent.set_vector(theta + step_size * trial.direction)
        new_loss = float((y - self.tangent.outputs(X)).square().sum())
        predicted = trial.speed * total * step_size if total > 0 else math.inf
        accepted = new_loss <= loss  # False for NaN
        self._adapt((loss - new_loss) / predicted if accepted else -1.0, trial.blend < 1.0)
        if not accepted:
            self.tangent.set_vector(theta)
        self._last_good = self.tangent.vector()
        self.r2 = _r2(new_loss if accepted else loss, total)
        row = LogRow(
            len(self.log),
            trial.blend,
            _r2(loss, total),
            trial.speed,
            self._kernel_drift(),
            self.damping,
            accepted,
        )
        self.blend = trial.blend
        self.log.append(row)
        if self.step_scale < _SMALLEST_STEP:
            self.status = TangentStatus.STALLED
        return row

    def state_dict(self) -> State:
        """The state of `torch.optim.Optimizer`, with that of the descent as "tangent"."""
        own = {name: getattr(self, name) for name in _STATE}
        own |= {"status": self.status.value, "log": [tuple(row) for row in self.log]}
        return super().state_dict() | {"tangent": own}

    def load_state_dict(self, state_dict: State) -> None:
        """Continue from a `state_dict`; load the model's own state first."""
        own = dict(state_dict["tangent"])
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "tangent"})
        self.status = TangentStatus(own.pop("status"))
        self.log = TangentLog([LogRow(*row) for row in own.pop("log")])
        vars(self).update(own)
        self._last_good = self.tangent.vector()

    def _tensor(self, name: str, value: ArrayLike | Tensor) -> Tensor:
        tensor = torch.as_tensor(value).to(self.tangent.device, self.tangent.dtype)
        if tensor.ndim == 0:
            raise ValueError(f"{name} must have rows; got a single number")
        if not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} must be finite; got NaN or infinity")
        return tensor

    def _residual(
        self, X: ArrayLike | Tensor, y: ArrayLike | Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """X, y and r = y − f(X) of shape (n, k), in the dtype and on the device of the model."""
        rows, target = self._tensor("X", X), self._tensor("y", y)
        if len(rows) == 0 or len(rows) != len(target):
            raise ValueError(
                "X and y must have the same number of rows, at least one; got "
                f"{len(rows)} and {len(target)}"
            )
        if target.ndim == 1:
            target = target.unsqueeze(1)
        outputs = self.tangent.outputs(rows)
        if outputs.shape != target.shape:
            raise ValueError(
                f"model must give outputs of the shape of y, {tuple(target.shape)}; "
                f"got {tuple(outputs.shape)}"
            )
        return rows, target, target - outputs

    def _prepare(self, X: Tensor) -> None:
        """On the first step: draw or check anchors, warn if p is too small, set the probe."""
        if self.anchors is None:
            self.anchors = uniform_anchors(X, self.n_anchors, self.generator)
        if self.anchors.shape[1:] != X.shape[1:]:
            raise ValueError(
                f"anchors must have rows like X, of shape {tuple(X.shape[1:])}; "
                f"got {tuple(self.anchors.shape[1:])}"
            )
        if self._probe is not None:
            return
        rows = X[:_PROBE_ROWS]
        outputs = self.tangent.outputs(rows)
        n_rows = (len(X) + len(self.anchors)) * outputs.shape[1]
        if self.min_speed > 0 and self.tangent.n_parameters < n_rows:
            warn_caller(
                f"the network has {self.tangent.n_parameters} parameters for {n_rows} outputs at "
                "training rows and anchors: it cannot fit the residuals and hold every anchor, "
                "so the damped step is a least-squares compromise between the two"
            )
        v = torch.randn(
            outputs.numel(),
            generator=self.generator,
            dtype=X.dtype,
            device=X.device if self.generator is None else self.generator.device,
        ).to(X.device)
        self._probe = (rows, v, self.tangent.kernel_product(rows, v))

    def _adapt(self, ratio: float, controlled: bool) -> None:
        """Adapt step and damping to the `ratio` of the actual to the predicted fall of the loss."""
        if ratio < 0:
            self.step_scale *= 0.5
        elif ratio > _POOR:
            self.step_scale = min(1.0, 1.1 * self.step_scale)
        if not controlled:
            return
        if ratio < _POOR:
            self.damping = min(_RAISE * self.damping, 1.0)
        elif ratio > _GOOD:
            floor = 10 * torch.finfo(self.tangent.dtype).eps
            self.damping = max(_LOWER * self.damping, min(self.damping, floor))

    def _kernel_drift(self) -> float:
        """‖K(t)v − K(0)v‖/‖K(0)v‖, measured on every tenth step and repeated in between."""
        assert self._probe is not None
        if len(self.log) % _DRIFT_EVERY:
            return self.log[-1].kernel_drift
        rows, v, start = self._probe
        now = self.tangent.kernel_product(rows, v)
        return float((now - start).norm() / start.norm()) if start.norm() > 0 else math.nan

    def _give_up(self, status: TangentStatus) -> LogRow:
        """Restore the last good parameters and end training with this status."""
        self.tangent.set_vector(self._last_good)
        self.status = status
        row = LogRow(len(self.log), self.blend, math.nan, math.nan, math.nan, self.damping, False)
        self.log.append(row)
        return row


def _r2(loss: float, total: float) -> float:
    if total > 0:
        return 1.0 - loss / total
    return 1.0 if loss == 0 else -math.inf  # all targets equal
