"""Files are written whole or not at all, and killed writers leave nothing for good."""

import os
import time

import pytest

from bandfall._files.atomic import check_writable, write_atomically


def names(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize(("age", "stays"), [(3600.0, True), (90_000.0, False)])
def test_old_leftovers_of_killed_writers_are_swept(tmp_path, age, stays):
    part = tmp_path / "model.7.0a1b2c3d.part"
    part.write_bytes(b"half")
    os.utime(part, (time.time() - age,) * 2)
    write_atomically(tmp_path / "model", b"whole")
    assert part.exists() == stays


def test_only_our_leftovers_of_this_file_are_swept(tmp_path):
    others = ["model.part", "model.1.part", "model.12.ABCDEFGH.part", "other.12.0a1b2c3d.part"]
    others += ["model.12.0a1b2c3d.part.txt", "my model.12.0a1b2c3d.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "model.7.0a1b2c3d.part").mkdir()
    write_atomically(tmp_path / "model", b"whole", forgotten=-10.0)
    assert names(tmp_path) == sorted([*others, "model", "model.7.0a1b2c3d.part"])


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
