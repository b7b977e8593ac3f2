"""``bandfall paper``: list, run and report the paper's experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from joblib import cpu_count
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from bandfall._cli.options import option
from bandfall._cli.terminal import FAILURE, INTERRUPTED, fail, note
from bandfall._paper.artefacts import Summary, SummaryError, read_summaries, write_outcome
from bandfall._paper.engine import (
    RunWatcher,
    TaskError,
    missing_modules,
    read_runs,
    run_experiments,
)
from bandfall._paper.experiment import FULL, QUICK, Data, DataError, Experiment
from bandfall._paper.lock import BusyError
from bandfall._paper.registry import EXPERIMENTS, select
from bandfall._paper.report import write_html, write_markdown

app = typer.Typer(
    help="Reproduce the paper's figures and tables.", no_args_is_help=True, add_completion=False
)

DEFAULT_OUT = Path("out/paper")

OutOption = Annotated[Path, option("--out", "FOLDER", "Folder for results, figures and tables.")]
_NAMES = "figure1 … figure7, table1 … table6, or all."
_DATA = "Folder with the real data [default: BANDFALL_DATA, the cache, or a download]."
_JOBS = "Parallel workers; 0 means one per core. Results do not depend on it."
_HTML = "Page to write [default: OUT/report.html]."
_MARKDOWN = "Also write Markdown, with images in a folder next to it."


@app.command("list")
def list_experiments() -> None:
    """List the experiments."""
    table = RichTable("name", "what it shows", "needs")
    for experiment in EXPERIMENTS.values():
        missing = missing_modules(experiment)
        needs = "" if not missing else f"not installed: {', '.join(missing)}"
        table.add_row(experiment.name, experiment.title, needs)
    _stdout().print(table)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_NAMES)] = None,
    data: Annotated[Path | None, option("--data", "FOLDER", _DATA)] = None,
    out: OutOption = DEFAULT_OUT,
    jobs: Annotated[int, option("--jobs", "N", _JOBS)] = 0,
    quick: Annotated[bool, option("--quick", "", "A tenth of the seeds.")] = False,
) -> None:
    """Run experiments, or continue a run that was stopped."""
    console = _stdout()
    experiments = _chosen(names or [], console)
    if data is not None and not data.is_dir():
        fail(f"--data names '{data}', which is not a directory")
    if jobs < 0:
        fail(f"--jobs must be 0 or more; got {jobs}")
    size = QUICK if quick else FULL
    finished = run_experiments(
        experiments,
        data=Data(data),
        size=size,
        out=out,
        n_jobs=jobs or cpu_count(),
        watcher=_ProgressBar() if sys.stderr.isatty() else _Notes(),
    )
    with _one_line_errors(out), closing(finished):
        for one in finished:
            _show(write_outcome(one, size, out), console)
    console.print(f"Figures, tables and summaries are in {escape(str(out))}")


@app.command()
def report(
    out: OutOption = DEFAULT_OUT,
    html: Annotated[Path | None, option("--html", "FILE", _HTML)] = None,
    markdown: Annotated[Path | None, option("--markdown", "FILE", _MARKDOWN)] = None,
) -> None:
    """Put all results on one page: published and reproduced numbers, claims, run times."""
    console = _stdout()
    page = html or out / "report.html"
    with _one_line_errors(out):
        summaries = read_summaries(out, EXPERIMENTS)
        if not summaries:
            fail(f"'{out}' holds no results; run `bandfall paper run --out {out}` first")
        runs = read_runs(out, note)
        write_html(summaries, runs, out / "figures", page)
        console.print(f"Wrote {escape(str(page))}")
        if markdown is not None:
            write_markdown(summaries, runs, out / "figures", markdown)
            console.print(f"Wrote {escape(str(markdown))}")


class _Notes(RunWatcher):
    """Prints notes on standard error."""

    def note(self, message: str) -> None:
        note(message)


class _ProgressBar(_Notes):
    """Shows a bar with the time left on standard error."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            speed_estimate_period=600.0,
            redirect_stdout=sys.stdout.isatty(),  # a piped table would land in the bar
        )

    def start(self, total: float, done: float) -> None:
        self._task = self._progress.add_task("paper", total=total)
        self._progress.advance(self._task, done)
        self._progress.start()

    def advance(self, cost: float) -> None:
        self._progress.advance(self._task, cost)

    def finish(self) -> None:
        self._progress.stop()


def _chosen(names: list[str], console: Console) -> list[Experiment]:
    """The requested experiments; for "all", those that can run here."""
    try:
        experiments = select(names)
    except ValueError as error:
        fail(str(error))
    runnable = []
    for experiment in experiments:
        missing = missing_modules(experiment)
        if not missing:
            runnable.append(experiment)
            continue
        line = (
            f"{experiment.name} needs {', '.join(missing)}, which is not installed: "
            "pip install '.[paper]'"
        )
        if experiment.name in names:
            fail(line)
        console.print(f"Left out: {line}", highlight=False)
    return runnable


def _show(summary: Summary, console: Console) -> None:
    """Print the last table (for scores: the comparison) and the claims."""
    console.print(f"\n[bold]{summary.name}[/bold] {summary.title} ({summary.seconds:.0f} s)")
    for table in summary.tables[-1:]:
        console.print(table.rich())
    for claim in summary.claims:
        mark = {True: "[green]holds[/green]", False: "[red]fails[/red]", None: "not judged"}
        console.print(f"{mark[claim.holds]}: {claim.text}: {claim.evidence}", highlight=False)


def _stdout() -> Console:
    return Console(width=None if sys.stdout.isatty() else 160)


@contextmanager
def _one_line_errors(out: Path) -> Iterator[None]:
    """Turn errors that users can cause into one line and an exit code; bugs keep a traceback."""
    try:
        yield
    except (DataError, SummaryError, BusyError) as error:
        fail(str(error))
    except TaskError as error:
        fail(str(error), FAILURE)
    except BrokenPipeError:  # standard output was closed by its reader, as with `| head`
        raise
    except OSError as error:
        # Errors of a full disk, raised when a file is closed, have no file name.
        taken = isinstance(error, FileExistsError)  # a file where a directory is needed
        reason = "not a directory" if taken else error.strerror or str(error)
        fail(f"'{error.filename or out}' cannot be used: {reason}")
    except KeyboardInterrupt:
        fail("stopped; finished work is kept: run the same command again to continue", INTERRUPTED)
