"""Progress of fits, for an observer such as the bar of a command."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Progress(Protocol):
    """What an observer of fits reads."""

    def share(self) -> float:
        """Share of the work that is done, 0 to 1."""


observer: ContextVar[Callable[[Progress], None]] = ContextVar("observer", default=lambda _: None)


@contextmanager
def observed_by(follow: Callable[[Progress], None]) -> Iterator[None]:
    """Pass the progress of every fit inside this context to the observer when the fit begins."""
    token = observer.set(follow)
    try:
        yield
    finally:
        observer.reset(token)


class PathProgress:
    """The progress of one path up to `max_r2`: its residual falls about exponentially."""

    def __init__(self, max_r2: float):
        self._r2, self._left = 0.0, max(1.0 - max_r2, 1e-4)
        observer.get()(self)

    def reach(self, r2: float) -> None:
        """Note the R² at the end of a stage."""
        self._r2 = r2

    def share(self) -> float:
        """Share of the training that is done, 0 to 1."""
        left = min(max(1.0 - self._r2, self._left), 1.0)
        return math.log(left) / math.log(self._left) if self._left < 1.0 else 1.0
