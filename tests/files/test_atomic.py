"""Files are written whole or not at all."""

import os

import pytest

from bandfall._files.atomic import check_writable, write_atomically


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    write_atomically(tmp_path / "model", b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "model", b"new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"old"


def test_check_writable_leaves_nothing(tmp_path):
    check_writable(tmp_path / "model")
    assert names(tmp_path) == []
    with pytest.raises(OSError, match="too long"):
        check_writable(tmp_path / ("m" * 250))
