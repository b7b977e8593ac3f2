"""Ctrl-C during a fit: the first press ends it with the best model so far, the second at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

from sklearn import config_context, get_config

from bandfall._warnings import remember_caller

T = TypeVar("T")

MESSAGE = "finishing with the best model so far; press Ctrl-C again to stop without a model"
_POLL = 0.1  # seconds; Windows delivers Ctrl-C only between waits


def finish_if_interrupted(
    task: Callable[[], T], end: Callable[[], None], keep: Callable[[T], None]
) -> None:
    """Call ``keep(task())``; after a Ctrl-C call `end` first, which makes `task` return early.

    KeyboardInterrupt is raised again once the result is kept. A second Ctrl-C raises it at once,
    and nothing is kept. Python raises KeyboardInterrupt in the main thread, anywhere in the middle
    of its work. Therefore the main thread only waits here, and another thread does the work.

    Examples
    --------
    >>> kept = []
    >>> finish_if_interrupted(lambda: 1, end=lambda: None, keep=kept.append)
    >>> kept
    [1]
    """
    if threading.current_thread() is not threading.main_thread():
        keep(task())
        return
    result: Future[T] = Future()
    context = copy_context()
    context.run(remember_caller)
    settings = get_config()  # scikit-learn's settings belong to a thread

    def work() -> None:
        if not result.set_running_or_notify_cancel():
            return
        try:
            with config_context(**settings):
                result.set_result(task())
        except BaseException as error:
            result.set_exception(error)

    try:
        threading.Thread(target=context.run, args=(work,), daemon=True).start()
        wait_for(result)
    except KeyboardInterrupt:
        if result.cancel():  # the work has not begun
            raise
        end()
        with suppress(RuntimeError, ValueError, OSError):  # stderr busy, closed or gone
            sys.stderr.write(f"\nbandfall: {MESSAGE}\n")
            sys.stderr.flush()
        wait_for(result)
        keep(result.result())
        raise
    except BaseException:
        end()
        raise
    keep(result.result())


def wait_for(result: Future[T]) -> None:
    """Wait until a result, or an error, is there."""
    finished = threading.Event()
    result.add_done_callback(lambda _: finished.set())
    while not finished.wait(_POLL):
        pass
