"""scikit-learn's callback protocol, where the installed version has one."""

from __future__ import annotations

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn < 1.9: fits run unwatched

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method):  # type: ignore[misc]
        """The method itself."""
        return method


__all__ = ["CallbackSupportMixin", "StageReports", "with_callbacks"]


class StageReports:
    """Reports a fit to the estimator's callbacks, one subtask a stage.

    Parameters
    ----------
    estimator : CallbackSupportMixin
    X, y : array-like
        Training data, passed on to callbacks that ask for them.
    fitted_state : callable (Path) -> dict
        Fitted attributes that make a copy of the estimator predict with that path.
    """

    def __init__(self, estimator, X, y, fitted_state):
        self._estimator = estimator
        self._data = {"X": X, "y": y}
        self._fitted_state = fitted_state
        self._context = None
        if hasattr(estimator, "_init_callback_context"):
            self._context = estimator._init_callback_context(max_subtasks=None)
            self._context.call_on_fit_task_begin(estimator=estimator, **self._data)

    @property
    def watcher(self):
        """For `fit_path`; None where nobody watches."""
        if self._context is None or not getattr(self._estimator, "_skl_callbacks", None):
            return None
        return self._report

    def _report(self, progress) -> bool:
        stage = self._context.subcontext(task_name="stage")
        stage.call_on_fit_task_begin(estimator=self._estimator, **self._data)
        return stage.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._fitted_state(progress.path()),
            **self._data,
        )

    def finish(self, path) -> None:
        """The fit has ended with this path."""
        if self._context is not None:
            self._context.call_on_fit_task_end(
                estimator=self._estimator,
                reconstruction_attributes=lambda: self._fitted_state(path),
                **self._data,
            )
