"""The start of the command ``bandfall``: a message while it imports, and Ctrl-C without traceback.

Most of a short command's time goes into imports, before any of its own code runs. If they take
longer than a second, a terminal shows that the program is starting. Ctrl-C prints one line
instead of a traceback. In programs that import bandfall as a library, this module does nothing.
"""

from __future__ import annotations

import os
import sys
import threading
from itertools import pairwise
from types import TracebackType

SILENCE = 1.0  # seconds
STARTING = "bandfall: starting …"
INTERRUPTED = 130  # exit status that shells use for Ctrl-C


def is_command() -> bool:
    """Whether this process is ``bandfall`` or ``python -m bandfall``."""
    program = getattr(sys, "argv", [""])[0]
    if program == "-m":  # Python is still locating the module
        return ("-m", "bandfall") in pairwise(sys.orig_argv)
    return os.path.splitext(os.path.basename(program))[0] == "bandfall"


def _one_line(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    ready()
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, traceback)
        return
    sys.stderr.write("bandfall: interrupted; nothing was written\n")
    sys.stderr.flush()
    os._exit(INTERRUPTED)  # otherwise Python ends itself by the signal


_ready, _screen = threading.Event(), threading.Lock()
_shown = False


def _announce() -> None:
    global _shown
    if not _ready.wait(SILENCE):
        with _screen:
            if not _ready.is_set():
                sys.stderr.write(STARTING)
                sys.stderr.flush()
                _shown = True


def ready() -> None:
    """Remove the line about the start, if it is shown."""
    _ready.set()
    with _screen:
        if _shown:
            sys.stderr.write("\r" + " " * len(STARTING) + "\r")
            sys.stderr.flush()


if is_command():
    sys.excepthook = _one_line
    if sys.stderr is not None and sys.stderr.isatty():
        threading.Thread(target=_announce, daemon=True).start()
