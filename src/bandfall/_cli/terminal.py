"""Messages, errors, progress bars and output files of all commands."""

from __future__ import annotations

import errno
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import typer
from rich.console import Console, JustifyMethod, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table as RichTable
from rich.text import Text

from bandfall._files import ModelFileError
from bandfall._files.atomic import check_writable
from bandfall._progress import Progress as Work

# Exit codes, documented in `docs/cli.md`.
FAILURE, USAGE_ERROR, INTERRUPTED = 1, 2, 130


class InputError(ValueError):
    """Input of the user that cannot be used; the message is shown to the user."""


def fail(message: str, code: int = USAGE_ERROR) -> NoReturn:
    """Print one line on standard error and exit."""
    note(message)
    raise typer.Exit(code)


def note(message: str) -> None:
    """Print a message that is not part of the result, on standard error."""
    sys.stderr.write(printable(" ".join(f"bandfall: {message}".split())) + "\n")


def printable(text: str) -> str:
    """Text that is safe to print in a terminal: control characters are escaped.

    Names of columns and files may come from anyone. They may hold escape sequences, characters that
    change the direction of writing, or surrogates that cannot be encoded.

    Examples
    --------
    >>> printable("power \x1b[31m")
    'power \\\\x1b[31m'
    """
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def counted(number: int, what: str) -> str:
    """A number of things: 1 stage, 1,200 rows."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def cell(content: str | Text) -> Text:
    """Content of a table cell without markup; a `Text` keeps its styles."""
    if isinstance(content, Text):
        return Text(printable(content.plain), content.style, spans=content.spans)
    return Text(printable(content))


def print_pairs(pairs: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and values, one pair per line, on standard output."""
    table = RichTable(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in pairs:
        table.add_row(cell(name), cell(value))
    stdout().print(table)


def print_table(
    title: str,
    header: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    *,
    width: int = 120,
    justify: JustifyMethod = "right",
) -> None:
    """Print a table on standard output; `justify` is for all columns but the first."""
    table = RichTable(title=cell(title))
    for j, name in enumerate(header):
        table.add_column(cell(name), justify=justify if j else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    stdout(width).print(table)


def stdout(width: int = 120) -> Console:
    """Console for results; `width` counts if standard output is not a terminal."""
    return Console(width=None if sys.stdout.isatty() else width, highlight=False)


def print_json(value: object) -> None:
    """Print one line of JSON; NaN and infinity, which JSON lacks, become null."""
    text = json.dumps(_without_nan(value), ensure_ascii=False, default=str)
    # Only strings can contain characters that steer a terminal.
    sys.stdout.write("".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text) + "\n")


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not abs(value) < float("inf") else value


def check_out(file: Path, inputs: Sequence[str | None] = ()) -> None:
    """Raise InputError if `file` is not writable or is an input, before the work starts."""
    if str(file) == "-" or (file.exists() and not file.is_file()):
        raise InputError(f"--out {file} is not a regular file")
    if not file.resolve().parent.is_dir():
        raise InputError(f"--out {file}: the directory {file.resolve().parent} does not exist")
    for given in inputs:
        if given is not None and Path(given).exists() and file.exists() and file.samefile(given):
            raise InputError(f"--out {file} would overwrite the input {given}")
    try:
        check_writable(file)
    except OSError as error:
        raise InputError(f"--out {file} cannot be written: {error.strerror or error}") from None


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn errors that users can cause into one line and an exit code; bugs keep a traceback."""
    from bandfall._products.device import ClusterError

    try:
        with _warnings_as_notes():
            yield
            sys.stdout.flush()  # here a full disk is noticed
    except (InputError, ModelFileError, ClusterError) as error:
        fail(str(error))
    except BrokenPipeError:  # the reader has closed the pipe, as with `| head`
        sys.stderr.close()
        raise typer.Exit(FAILURE) from None
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EIO)
        fail(f"{where}{error.strerror or error}", FAILURE if full else USAGE_ERROR)
    except MemoryError as error:
        fail(f"not enough memory: {error}" if str(error) else "not enough memory", FAILURE)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written", INTERRUPTED)


@contextmanager
def _warnings_as_notes() -> Iterator[None]:
    """Print each warning of the library once, without the line of code."""
    said: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            note(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield


class Bar(Progress):
    """A bar with the time left, on standard error, for slow work in a terminal.

    It appears after `after` seconds. The progress of a fit is read at every drawing, so the bar
    moves however long a single step takes. `also` is called with the share of work done at every
    drawing, even without a terminal.
    """

    def __init__(
        self,
        description: str,
        also: Callable[[float], None] | None = None,
        *,
        after: float = 1.0,
        console: Console | None = None,
    ):
        console = console or Console(stderr=True)
        self._also, self._appears = also, time.monotonic() + after
        self._fit: Work | None = None
        self._share = 0.0
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("so far, time left"),
            TimeRemainingColumn(),
            console=console,
            refresh_per_second=5,
            speed_estimate_period=600.0,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # a piped table would land in the bar
            disable=also is None and not console.is_terminal,
        )
        self.describe(description)

    def describe(self, description: str) -> None:
        """Begin another piece of work, at 0 %."""
        for task in self.task_ids:
            self.remove_task(task)
        self._fit, self._share = None, 0.0
        self._work = self.add_task(description, total=1.0)

    def reach(self, share: float) -> None:
        """Set the share of work done, 0 to 1; it never falls."""
        self._share = max(self._share, min(share, 1.0))
        self.update(self._work, completed=self._share)

    def follow(self, fit: Work) -> None:
        """Show the progress of a fit from now on."""
        self._fit = fit

    def get_renderables(self) -> Iterable[RenderableType]:
        """What rich draws, five times a second, in a thread of its own."""
        if self._fit is not None:
            self.reach(self._fit.share())
        if self._also is not None:
            self._also(self._share)
        return super().get_renderables() if time.monotonic() > self._appears else ()
