"""One run at a time on a directory of results."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl


class BusyError(Exception):
    """Another run works on the directory; the message is for the user."""


@contextmanager
def exclusive(out: Path) -> Iterator[None]:
    """Keep other runs off a directory; BusyError if another is there. It is made if missing.

    The operating system holds the lock for the open file ``out/lock`` and drops it with the
    process, however that ends: a lock cannot outlive its run. The file stays, since removing it
    would let two later runs lock two files of one name.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("a+", encoding="utf-8") as file:
        if not _acquired(file):
            raise BusyError(
                f"another run ({_holder(file)}) is at work in '{out}'; wait until it ends, or "
                "choose another --out"
            )
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
            yield
        finally:
            _release(file)


def _holder(file: TextIO) -> str:
    file.seek(0)
    return file.read(200).strip() or "of unknown process"


if sys.platform == "win32":
    _FAR = 2**30  # locked bytes cannot be read: lock one beyond the text

    def _acquired(file: TextIO) -> bool:
        file.seek(_FAR)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _release(file: TextIO) -> None:
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:

    def _acquired(file: TextIO) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _release(file: TextIO) -> None:
        # Workers that were forked share the lock: closing the file would not be enough.
        fcntl.flock(file, fcntl.LOCK_UN)
