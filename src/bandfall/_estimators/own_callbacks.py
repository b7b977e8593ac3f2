"""A minimal version of callbacks for releases of scikit-learn without them.

A callback has ``on_fit_task_begin(estimator, context)`` and
``on_fit_task_end(estimator, context, *, fitted_estimator)``. If the latter returns True, the
fit ends with the model reached so far.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from bandfall._typing import Estimator, State

Method = TypeVar("Method")


class Callback(Protocol):
    """An observer of fits."""

    def on_fit_task_begin(self, estimator: Estimator, context: Context) -> object:
        """Called when a task begins."""

    def on_fit_task_end(
        self, estimator: Estimator, context: Context, *, fitted_estimator: Estimator
    ) -> bool | None:
        """Called when a task has ended; True ends the fit."""


class CallbackSupportMixin:
    """An estimator with callbacks."""

    def set_callbacks(self, *callbacks: Callback) -> Self:
        """Use these callbacks, or none, in the next fits."""
        if callbacks:
            self._skl_callbacks = list(callbacks)
        elif hasattr(self, "_skl_callbacks"):
            del self._skl_callbacks
        return self

    def _init_callback_context(self, max_subtasks: int | None = None) -> Context:
        return Context(getattr(self, "_skl_callbacks", ()))


class Context:
    """A task of a fit and its callbacks."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks

    def subcontext(self, **_: object) -> Context:
        """A subtask."""
        return Context(self._callbacks)

    def call_on_fit_task_begin(self, estimator: Estimator, **_: object) -> None:
        """Call all callbacks at the beginning of the task."""
        for callback in self._callbacks:
            callback.on_fit_task_begin(estimator, self)

    def call_on_fit_task_end(
        self,
        estimator: Estimator,
        reconstruction_attributes: Callable[[], State] | None = None,
        **_: object,
    ) -> bool:
        """Call all callbacks at the end of the task; True if one of them ends the fit."""
        if not self._callbacks:
            return False
        fitted = None
        if reconstruction_attributes is not None:
            fitted = copy.copy(estimator)
            vars(fitted).update(reconstruction_attributes())
        answers = [
            callback.on_fit_task_end(estimator, self, fitted_estimator=fitted)
            for callback in self._callbacks
        ]
        return any(answers)


def with_callbacks(method: Method) -> Method:
    """Return the method: `Reports` finds the callbacks on the estimator."""
    return method
