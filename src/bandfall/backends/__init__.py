"""Where kernel sums are computed, and in how much memory: one object, resolved once."""

from bandfall.backends.base import HOST, Backend, NumpyBackend, Sum
from bandfall.backends.resolve import resolve_backend

__all__ = ["HOST", "Backend", "NumpyBackend", "Sum", "resolve_backend"]
