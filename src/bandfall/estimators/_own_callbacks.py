"""Callbacks for versions of scikit-learn that have none: what `Reports` needs, and no more.

A callback has ``on_fit_task_begin(estimator, context)`` and
``on_fit_task_end(estimator, context, *, fitted_estimator)``; where the latter returns True, the
fit ends and keeps what it has reached.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Protocol, Self, TypeVar

from bandfall.typing import Estimator, State

Method = TypeVar("Method")


class Callback(Protocol):
    """What watches a fit."""

    def on_fit_task_begin(self, estimator: Estimator, context: Context) -> object:
        """A task begins."""
        ...

    def on_fit_task_end(
        self, estimator: Estimator, context: Context, *, fitted_estimator: Estimator
    ) -> bool | None:
        """A task has ended; True ends the fit."""
        ...


class CallbackSupportMixin:
    """An estimator whose fits can be watched."""

    def set_callbacks(self, *callbacks: Callback) -> Self:
        """Watch the next fits with these callbacks, or with none."""
        if callbacks:
            self._skl_callbacks = list(callbacks)
        elif hasattr(self, "_skl_callbacks"):
            del self._skl_callbacks
        return self

    def _init_callback_context(self, max_subtasks: int | None = None) -> Context:
        return Context(getattr(self, "_skl_callbacks", ()))


class Context:
    """A task of a fit, and those who watch it."""

    def __init__(self, callbacks: Sequence[Callback]) -> None:
        self._callbacks = callbacks

    def subcontext(self, **_: object) -> Context:
        """A part of the task."""
        return Context(self._callbacks)

    def call_on_fit_task_begin(self, estimator: Estimator, **_: object) -> None:
        """Tell all that the task begins."""
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
    """The method itself: its reports find the callbacks on the estimator."""
    return method
