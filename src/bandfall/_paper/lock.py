"""A lock that allows one run at a time in a directory of results."""

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
    """Lock a directory, which is created if missing; raises BusyError if another run has the lock.

    The operating system holds the lock of the open file ``out/lock`` and releases it when the
    process ends, in whatever way, so a lock cannot outlive its run. The file is not removed:
    otherwise two later runs could lock two files of the same name.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("a+", encoding="utf-8") as file:
        if not _acquired(file):
            file.seek(0)
            holder = file.read(200).strip() or "of unknown process"
            raise BusyError(
                f"another run ({holder}) is at work in '{out}'; wait until it ends, or "
                "choose another --out"
            )
        try:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {platform.node()}\n")
            file.flush()
            yield
        finally:
            _release(file)


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
        # Forked workers share the lock, so closing the file would not be enough.
        fcntl.flock(file, fcntl.LOCK_UN)
