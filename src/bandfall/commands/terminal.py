"""What the commands share: how they speak, fail, show progress and are interrupted."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

# What exit codes mean; `docs/cli.md` repeats it.
FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130
PROGRESS_AFTER = 2.0  # seconds: shorter work needs no bar

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]


class InputError(ValueError):
    """Something the user gave cannot be used; the message is for the user."""


def fail(message: str, code: int = USAGE_ERROR) -> NoReturn:
    """One line on standard error, then the exit code."""
    sys.stderr.write(" ".join(f"bandfall: {message}".split()) + "\n")
    raise typer.Exit(code)


def note(message: str) -> None:
    """Something worth knowing that is not the result, on standard error."""
    sys.stderr.write(" ".join(f"bandfall: {message}".split()) + "\n")


def stdout() -> Console:
    """For results; wide where nobody's window limits it."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One line of JSON; NaN and infinity, which JSON lacks, as null."""
    sys.stdout.write(json.dumps(_without_nan(value), ensure_ascii=False) + "\n")


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return None
    return value


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what users can cause into one line and an exit code; bugs keep their traceback."""
    from bandfall.persistence import ModelFileError

    try:
        yield
    except (InputError, ModelFileError) as error:
        fail(str(error))
    except BrokenPipeError:  # the reader has seen enough, as with `| head`
        sys.stderr.close()
        raise typer.Exit(FAILURE) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        fail(f"{where}{error.strerror or error}")
    except MemoryError as error:
        fail(f"not enough memory: {error}" if str(error) else "not enough memory", FAILURE)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written", INTERRUPTED)


class Bar:
    """A bar with the time left on standard error: only in a terminal, only for slow work.

    Parameters
    ----------
    description : str
    total : float
        Of whatever unit `update` counts.
    """

    def __init__(self, description: str, total: float):
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._description, self._total = description, total

    def update(self, done: float) -> None:
        """How much of the total is done now."""
        if not sys.stderr.isatty():
            return
        if self._progress is None and time.monotonic() - self._start > PROGRESS_AFTER:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("time left"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._progress.add_task(self._description, total=self._total)
            self._progress.start()
        if self._progress is not None:
            self._progress.update(self._task, completed=min(done, self._total))

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.stop()


class GentleInterrupt:
    """Remembers the first Ctrl-C instead of raising; the second raises as usual.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> GentleInterrupt:
        try:
            self._previous = signal.signal(signal.SIGINT, self._remember)
        except ValueError:  # not the main thread: leave signals alone
            self._previous = None
        return self

    def _remember(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
