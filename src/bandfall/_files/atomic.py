"""Atomic writing: a file has its old or its new content, never a part.

A temporary file in the same directory is written, flushed to disk and renamed.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator

PathLike = str | os.PathLike[str]


def write_atomically(file: PathLike, data: bytes, forgotten: float = 86_400.0) -> None:
    """Write `data` so that `file` holds either its old or its new content, never a part.

    The temporary file is removed if anything fails, and so are those of killed processes that have
    not changed for `forgotten` seconds.
    """
    target = os.path.realpath(os.fspath(file))
    with _temporary(target) as temporary:
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    _flush_directory(os.path.dirname(target))
    _sweep(target, time.time() - forgotten)


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


def _sweep(target: str, before: float) -> None:
    """Remove temporary files that were last changed before a time; errors are ignored."""
    directory, name = os.path.split(target)
    leftover = re.compile(re.escape(name) + r"\.\d+\.[0-9a-f]{8}\.part")
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory):
            own = leftover.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            if own and entry.stat().st_mtime < before:
                os.remove(entry.path)


def _flush_directory(directory: str) -> None:
    """Make a rename survive a power cut, if the system supports it."""
    if os.name == "posix":
        descriptor = os.open(directory, os.O_RDONLY)
        with contextlib.suppress(OSError):  # some network file systems do not support it
            os.fsync(descriptor)
        os.close(descriptor)
