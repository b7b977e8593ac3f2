"""What the commands share: how they speak, fail, show progress and are interrupted."""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table as RichTable
from rich.text import Text

# What exit codes mean; `docs/cli.md` repeats it.
FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130
PROGRESS_AFTER = 2.0  # seconds: shorter work needs no bar

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class InputError(ValueError):
    """Something the user gave cannot be used; the message is for the user."""


def fail(message: str, code: int = USAGE_ERROR) -> NoReturn:
    """One line on standard error, then the exit code."""
    note(message)
    raise typer.Exit(code)


def note(message: str) -> None:
    """Something worth knowing that is not the result, on standard error."""
    sys.stderr.write(printable(" ".join(f"bandfall: {message}".split())) + "\n")


def printable(text: str) -> str:
    """Text as it may reach a terminal: whatever would steer it instead is written out.

    Column and file names come from strangers' files, and may hold escape sequences, characters
    that turn the direction of writing, or halves of characters that cannot be encoded.

    Examples
    --------
    >>> printable("power \x1b[31m")
    'power \\\\x1b[31m'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def cell(content: str | Text) -> Text:
    """Content of a table, taken literally: brackets in it are no markup.

    A `Text` keeps its styles, which only this program gives.
    """
    if isinstance(content, Text):
        return Text(printable(content.plain), content.style, spans=content.spans)
    return Text(printable(content))


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """Names and values below each other, on standard output."""
    table = RichTable(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs:
        table.add_row(cell(name), cell(value))
    _stdout().print(table)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table on standard output: names on the left, numbers on the right."""
    table = RichTable(title=cell(title))
    for j, name in enumerate(header):
        table.add_column(cell(name), justify="right" if j else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    _stdout().print(table)


def _stdout() -> Console:
    """For results; wide where nobody's window limits it."""
    return Console(width=None if sys.stdout.isatty() else 120, highlight=False)


def print_json(value: dict[str, Any]) -> None:
    """One line of JSON; NaN and infinity, which JSON lacks, as null."""
    text = json.dumps(_without_nan(value), ensure_ascii=False)
    if not text.isprintable():  # in strings: what is around them is printable
        text = "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)
    sys.stdout.write(text + "\n")


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
    from bandfall.backends.cluster import ClusterError
    from bandfall.persistence import ModelFileError

    try:
        with _warnings_as_notes():
            yield
    except (InputError, ModelFileError, ClusterError) as error:
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


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """What the library warns its users of, each once, without the place in its code."""
    said: set[str] = set()

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


class Bar:
    """A bar with the time left on standard error: only in a terminal, only for slow work.

    Parameters
    ----------
    description : str
    total : float
        Of whatever unit `update` counts.
    also : callable (float) -> None, optional
        Told whatever `update` is told, terminal or not.
    """

    def __init__(self, description: str, total: float, also: Callable[[float], None] | None = None):
        self._also = also
        self._start = time.monotonic()
        self._progress: Progress | None = None
        self._description, self._total = description, total
        self._done = 0.0

    def update(self, done: float) -> None:
        """How much of the total is done now; it never steps back."""
        if self._also is not None:
            self._also(done)
        if not sys.stderr.isatty():
            return
        self._done = max(self._done, min(done, self._total))
        elapsed = time.monotonic() - self._start
        if self._progress is None and elapsed > PROGRESS_AFTER:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.fields[left]}"),
                console=Console(stderr=True),
                transient=True,
                redirect_stdout=False,
            )
            self._task = self._progress.add_task(self._description, total=self._total, left="")
            self._progress.start()
        if self._progress is not None:
            left = time_left(elapsed, self._done / self._total)
            self._progress.update(self._task, completed=self._done, left=left)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._progress is not None:
            self._progress.stop()


def time_left(elapsed: float, share: float) -> str:
    """In words, by the mean pace so far; nothing while that would be a guess.

    Examples
    --------
    >>> time_left(30.0, 0.5), time_left(600.0, 0.1), time_left(3.0, 0.01)
    ('about 30 s left', 'about 90 min left', '')
    """
    if share < 0.05:
        return ""
    left = elapsed * (1.0 - share) / share
    return f"about {left:.0f} s left" if left < 100 else f"about {left / 60:.0f} min left"


class GentleInterrupt:
    """Remembers the first Ctrl-C instead of raising; the second raises as usual.

    Parameters
    ----------
    active : bool
        Whether anyone will look at what was remembered; otherwise Ctrl-C raises as ever.

    Attributes
    ----------
    asked : bool
        Whether Ctrl-C was pressed.
    """

    def __init__(self, active: bool = True) -> None:
        self.asked = False
        self._active = active
        self._previous: Any = None

    def __enter__(self) -> GentleInterrupt:
        if not self._active:
            return self
        with suppress(ValueError):  # not the main thread: leave signals alone
            self._previous = signal.signal(signal.SIGINT, self._remember)
        return self

    def _remember(self, *_: object) -> None:
        self.asked = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(self, *exception: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
