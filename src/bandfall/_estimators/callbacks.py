"""Reports to scikit-learn's callbacks (from version 1.9 on)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bandfall._typing import ArrayLike, Estimator, State

Method = TypeVar("Method")

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # older versions of scikit-learn have no callbacks

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator without callbacks."""

    def with_callbacks(method: Method) -> Method:
        """The method itself."""
        return method


__all__ = ["CallbackSupportMixin", "Reports", "with_callbacks"]


class Reports:
    """Reports the tasks of a fit to the estimator's callbacks, together with X and y."""

    def __init__(self, estimator: Estimator, X: ArrayLike, y: ArrayLike) -> None:
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def watched(self) -> bool:
        """Whether there is any callback."""
        return bool(getattr(self._estimator, "_skl_callbacks", None))

    def task(self, name: str, state: Callable[[], State] | None = None) -> bool:
        """Report the end of a task; True if a callback ends the fit.

        `state` returns the fitted attributes so far.
        """
        if self._context is None or not self.watched:
            return False
        task = self._context.subcontext(task_name=name)
        task.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return task.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=state, **self._data
        )

    def finish(self, state: Callable[[], State]) -> None:
        """Report the end of the fit; `state` returns the fitted attributes."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator, reconstruction_attributes=state, **self._data
            )
