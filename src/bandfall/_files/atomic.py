"""Atomic writing: a file has its old or its new content, never a part.

A temporary file in the same directory is written, flushed to disk and renamed. It is locked
meanwhile. The lock ends with the process, so a leftover of a killed process can be distinguished
from the file of a running one.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

try:
    import fcntl
except ImportError:  # Windows, where a file that is open cannot be removed anyway
    fcntl = None  # type: ignore[assignment]

_JUST_MADE = 60.0  # seconds in which a new file may be empty and not locked yet

PathLike = str | os.PathLike[str]


def write_atomically(file: PathLike, data: bytes) -> None:
    """Write `data` so that `file` holds either its old or its new content, never a part.

    The temporary file is removed if anything fails, and so are leftovers of killed processes.
    """
    target = os.path.realpath(os.fspath(file))
    with _temporary(target) as temporary, contextlib.ExitStack() as until_renamed:
        with open(temporary, "xb") as stream:
            _lock_until(until_renamed, stream.fileno())
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    _flush_directory(os.path.dirname(target))
    _sweep(target)


def check_writable(file: PathLike) -> None:
    """Raise OSError if `write_atomically` could not create its file; leaves nothing behind."""
    with _temporary(os.path.realpath(os.fspath(file))) as temporary, open(temporary, "xb"):
        pass


@contextlib.contextmanager
def _temporary(target: str) -> Iterator[str]:
    """A unique name in the directory of `target`; the temporary file is always removed."""
    name = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        yield name
    finally:
        with contextlib.suppress(OSError):  # usually it was renamed
            os.remove(name)


def _sweep(target: str) -> None:
    """Remove temporary files of killed processes; errors are ignored."""
    directory, name = os.path.split(target)
    leftover = re.compile(re.escape(name) + r"\.\d+\.[0-9a-f]{8}\.part")
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            if leftover.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                _remove_if_stale(entry.path)


def _remove_if_stale(part: str) -> None:
    with contextlib.suppress(OSError), open(part, "rb") as stream:
        status = os.fstat(stream.fileno())
        if status.st_size == 0 and time.time() - status.st_mtime < _JUST_MADE:
            return
        if fcntl is not None:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError if still written
        os.remove(part)


def _lock_until(end: contextlib.ExitStack, descriptor: int) -> None:
    """Lock a file, if the system supports it, and keep it open and locked until `end`."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end.callback(os.close, os.dup(descriptor))


def _flush_directory(directory: str) -> None:
    """Make a rename survive a power cut, if the system supports it."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems do not support it
    finally:
        os.close(descriptor)
