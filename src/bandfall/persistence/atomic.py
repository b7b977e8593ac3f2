"""Files that are written whole or not at all.

A temporary file beside the target is written, flushed to disk and renamed. While it is written
it is locked; the lock ends with the process, so that a leftover of a killed one can be told from
the file of another that is at work.
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

_JUST_MADE = 60.0  # seconds in which a file may be empty because its lock is still to come

PathLike = str | os.PathLike[str]


def write_atomically(file: PathLike, data: bytes) -> None:
    """Write `data` so that `file` holds either its old or its new content, never a part.

    The temporary file is removed when anything fails; what a killed process left behind under
    the same name is removed too.
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
    """Raise OSError where `write_atomically` could not even begin; leaves nothing behind."""
    with _temporary(os.path.realpath(os.fspath(file))) as temporary, open(temporary, "xb"):
        pass


@contextlib.contextmanager
def _temporary(target: str) -> Iterator[str]:
    """A unique name beside `target`; the temporary file is always removed."""
    name = f"{target}.{os.getpid()}.{os.urandom(4).hex()}.part"
    try:
        yield name
    finally:
        with contextlib.suppress(OSError):  # as a rule because it was renamed
            os.remove(name)


def _sweep(target: str) -> None:
    """Remove what killed processes left of `target`; not worth an error."""
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
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)  # its writer lives: OSError
        os.remove(part)


def _lock_until(end: contextlib.ExitStack, descriptor: int) -> None:
    """Lock a file, where the system can, and keep it open and locked until `end`."""
    if fcntl is not None:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        end.callback(os.close, os.dup(descriptor))


def _flush_directory(directory: str) -> None:
    """Make a rename survive a power cut, where the system can."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        pass  # some network file systems cannot; the rename itself has happened
    finally:
        os.close(descriptor)
