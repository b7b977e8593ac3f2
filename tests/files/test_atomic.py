"""Files are written whole or not at all, and killed writers leave nothing for good."""

import os
import signal
import subprocess
import sys
import time

import pytest

from bandfall._files import atomic
from bandfall._files.atomic import check_writable, write_atomically

# Stops with the temporary file written and its lock held.
WRITER = """
import os, sys, time
from bandfall._files import atomic

def hang(*_):
    sys.stdout.write("ready\\n")
    sys.stdout.flush()
    time.sleep(60)

os.replace = hang
atomic.write_atomically(sys.argv[1], b"half")
"""


@pytest.fixture
def hanging_writer(tmp_path):
    """A process in the middle of writing ``model``."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path / "model")],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def names(directory):
    return sorted(path.name for path in directory.iterdir())


def test_leftovers_of_a_killed_writer_are_swept(hanging_writer, tmp_path):
    hanging_writer.send_signal(signal.SIGKILL)
    hanging_writer.wait()
    assert len(names(tmp_path)) == 1
    write_atomically(tmp_path / "model", b"whole")
    assert names(tmp_path) == ["model"]


def test_the_file_of_a_living_writer_stays(hanging_writer, tmp_path):
    pytest.importorskip("fcntl")
    write_atomically(tmp_path / "model", b"whole")
    assert len(names(tmp_path)) == 2


def test_only_our_leftovers_of_this_file_are_swept(tmp_path):
    others = ["model.part", "model.1.part", "model.12.ABCDEFGH.part", "other.12.0a1b2c3d.part"]
    others += ["model.12.0a1b2c3d.part.txt", "my model.12.0a1b2c3d.part"]
    for name in others:
        (tmp_path / name).write_bytes(b"precious")
    (tmp_path / "model.7.0a1b2c3d.part").mkdir()
    write_atomically(tmp_path / "model", b"whole")
    assert names(tmp_path) == sorted([*others, "model", "model.7.0a1b2c3d.part"])


@pytest.mark.parametrize(("age", "stays"), [(0.0, True), (2 * atomic._JUST_MADE, False)])
def test_an_empty_file_may_be_about_to_be_locked(tmp_path, age, stays):
    part = tmp_path / "model.7.0a1b2c3d.part"
    part.touch()
    os.utime(part, (time.time() - age,) * 2)
    write_atomically(tmp_path / "model", b"whole")
    assert part.exists() == stays


def test_a_failed_write_leaves_the_old_content(tmp_path, monkeypatch):
    write_atomically(tmp_path / "model", b"old")

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_atomically(tmp_path / "model", b"new")
    assert names(tmp_path) == ["model"]
    assert (tmp_path / "model").read_bytes() == b"old"


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    write_atomically(tmp_path / "model", b"whole")
    assert (tmp_path / "model").read_bytes() == b"whole"


def test_check_writable_leaves_nothing(tmp_path):
    check_writable(tmp_path / "model")
    assert names(tmp_path) == []
    with pytest.raises(OSError, match="too long"):
        check_writable(tmp_path / ("m" * 250))
