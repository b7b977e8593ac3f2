"""Fixtures that choose how products are computed, whatever the number of rows."""

import pytest

from bandfall._products import loops


@pytest.fixture
def without_numba(monkeypatch):
    """NumPy loops alone, as if numba were not installed."""
    monkeypatch.setattr(loops, "can_compile", lambda: False)


@pytest.fixture
def always_compiled(monkeypatch):
    """Compiled loops, however little there is to do."""
    pytest.importorskip("numba")
    monkeypatch.setattr(loops, "_WORTH_COMPILING", 0)


@pytest.fixture
def always_fused(monkeypatch):
    """Fused products on a GPU, however few the rows."""
    torch_backend = pytest.importorskip("bandfall._products.torch_backend")
    monkeypatch.setattr(torch_backend, "_KEPT_ROWS", 0)
    monkeypatch.setattr(torch_backend, "_FUSED_ENTRIES", 1)
