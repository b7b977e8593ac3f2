"""Atomic writing: a temporary file beside the target is written, flushed to disk and renamed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

PathLike = str | os.PathLike[str]


def write_atomically(file: PathLike, data: bytes) -> None:
    """Write `data` so that `file` holds either its old or its new content, never a part."""
    target = os.path.realpath(os.fspath(file))
    with _temporary(target) as temporary:
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            os.chmod(temporary, os.stat(target).st_mode & 0o7777)
        os.replace(temporary, target)
    if os.name == "posix":  # the renaming is to survive a power cut too
        descriptor = os.open(os.path.dirname(target), os.O_RDONLY)
        with contextlib.suppress(OSError):  # some network file systems do not support it
            os.fsync(descriptor)
        os.close(descriptor)


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
