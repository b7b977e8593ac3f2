"""Ctrl-C while ``bandfall`` starts as a command: one line instead of a traceback.

Most of a short command's time goes into imports, before any of its own code could catch an
interrupt. In a program that imports bandfall as a library, nothing is changed.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from types import TracebackType

INTERRUPTED = 130  # what shells report for a program that ended by Ctrl-C


def is_command() -> bool:
    """Whether this process is ``bandfall`` or ``python -m bandfall``."""
    program = getattr(sys, "argv", [""])[0]
    if program == "-m":  # the module that is run is being looked for
        return ("-m", "bandfall") in pairwise(sys.orig_argv)
    return os.path.splitext(os.path.basename(program))[0] == "bandfall"


def _one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    sys.stderr.write("bandfall: interrupted; nothing was written\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)  # otherwise Python ends itself by the signal


if is_command():
    sys.excepthook = _one_line
