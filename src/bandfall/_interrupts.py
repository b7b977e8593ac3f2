"""Ctrl-C during a fit: the first press ends it with the best model so far, the second stops it."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

MESSAGE = "finishing with the best model so far; press Ctrl-C again to stop without a model"
SOON = 3.0  # seconds: a second press within this time stops, even if a new fit has begun

_last_press = -SOON


class Interrupt:
    """Handles the first Ctrl-C while it is active; the second one raises KeyboardInterrupt.

    Does nothing outside the main thread, or if the program handles Ctrl-C itself. `end` is called
    at the first press, from a signal handler: it should set a flag and return.

    Examples
    --------
    >>> import signal
    >>> with Interrupt() as interrupt:
    ...     signal.raise_signal(signal.SIGINT)
    >>> interrupt.pressed
    True
    """

    current: Interrupt | None = None  # the active one, if any
    n_taken = 0  # number of fits that were interrupted

    def __init__(self, end: Callable[[], None] = lambda: None):
        self.pressed = False
        self._end = end
        self._active = False

    def __enter__(self) -> Interrupt:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            with suppress(ValueError):  # not the main thread
                signal.signal(signal.SIGINT, self._handle)
                self._active, Interrupt.current = True, self
        return self

    def __exit__(self, *exception: object) -> None:
        if self._active:
            self._active, Interrupt.current = False, None
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        global _last_press
        previous, _last_press = _last_press, time.monotonic()
        if self.pressed or _last_press - previous < SOON:
            signal.default_int_handler(number, frame)
        self.pressed = True
        Interrupt.n_taken += 1
        self._end()
        with suppress(RuntimeError, ValueError, OSError):  # stderr busy, closed or gone
            sys.stderr.write(f"\nbandfall: {MESSAGE}\n")
            sys.stderr.flush()
