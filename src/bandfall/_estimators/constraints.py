"""Constraints on parameters, for scikit-learn's declarative validation.

An estimator lists these in ``_parameter_constraints`` and decorates `fit` with `validated`. Checks
that involve two parameters, or the contents of one, go into ``_validate_params``.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval, Options

from bandfall._typing import Unchecked
from bandfall.kernels._kernel import Kernel, KernelLike, get_kernel


class _Number(Interval):
    """An interval of numbers, without True and False."""

    def is_satisfied_by(self, val: Unchecked) -> bool:
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


class _DeviceName(Options):
    """The name of a device; `resolve_backend` checks later whether it exists."""

    def __init__(self) -> None:
        super().__init__(str, {"auto", "cpu", "cuda"})

    def is_satisfied_by(self, val: Unchecked) -> bool:
        return isinstance(val, str)

    def __str__(self) -> str:
        return "'auto', 'cpu', 'cuda', 'cuda:N', 'dask' or the address of a Dask scheduler"


def number(low: float, high: float | None = None, closed: str = "left") -> Interval:
    """Real numbers from `low` to `high`; inf is allowed if `high` is None and closed."""
    return _Number(Real, low, high, closed=closed)


def count(low: int) -> Interval:
    """Integers from `low` on."""
    return _Number(Integral, low, None, closed="left")


COUNT = [count(1)]
JOBS = [_Number(Integral, None, None, closed="neither"), None]
FLAG = ["boolean"]
RANDOM = ["random_state"]
KERNEL = [str, callable, Kernel]
DEVICE = [None, _DeviceName()]

# Errors must not name parameters of internal estimators, which users never set.
validated = _fit_context(prefer_skip_nested_validation=True)


def chosen_kernels(
    kernels: str | Kernel | Sequence[KernelLike] | None,
) -> tuple[Kernel, ...] | None:
    """The distinct kernels to choose from; None for the default."""
    if kernels is None:
        return None
    if isinstance(kernels, str | Kernel):
        kernels = (kernels,)
    chosen = tuple(dict.fromkeys(get_kernel(kernel) for kernel in kernels))
    if not chosen:
        raise ValueError("kernels=() leaves nothing to choose from; None takes the default")
    return chosen
