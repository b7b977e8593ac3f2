"""``bandfall paper``: list, run and report the paper's experiments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from joblib import cpu_count
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from bandfall._cli.options import option
from bandfall._cli.terminal import FAILURE, INTERRUPTED, Bar, fail, print_table, stdout
from bandfall._paper.experiment import DATASETS, FULL, QUICK, Data, Experiment, plain
from bandfall._paper.registry import EXPERIMENTS, select
from bandfall._paper.report import (
    SummaryError,
    read_summaries,
    write_html,
    write_markdown,
    write_outcome,
)
from bandfall._paper.run import Finished, TaskError, missing_modules, read_runs, run_experiments
from bandfall.datasets._real import whereabouts
from bandfall.datasets._sources import SOURCES

app = typer.Typer(
    help="Reproduce the paper's figures and tables.", no_args_is_help=True, add_completion=False
)

DEFAULT_OUT = Path("out/paper")

OutOption = Annotated[Path, option("--out", "FOLDER", "Folder for results, figures and tables.")]
_NAMES = "figure1 … figure7, table1 … table6, or all."
_DATA = "Folder with the real data [default: BANDFALL_DATA, the cache, or a download]."
_SETS = f"Run on these data sets only: {', '.join(DATASETS)}; repeatable [default: all]."
_JOBS = "Parallel workers; 0 means one per core. Results do not depend on it."
_HTML = "Page to write [default: OUT/report.html]."
_MARKDOWN = "Also write Markdown, with images in a folder next to it."


@app.command("list")
def list_experiments(
    data: Annotated[Path | None, option("--data", "FOLDER", _DATA)] = None,
) -> None:
    """List the experiments, and what each of them needs."""
    folder = _folder(data)
    lines = []
    for experiment in EXPERIMENTS.values():
        missing = missing_modules(experiment)
        needs = [f"{name}{' (not installed)' * (name in missing)}" for name in experiment.requires]
        needs += ["the real data sets"] * experiment.real_data
        lines.append([experiment.name, experiment.title, ", ".join(needs) or "nothing"])
    _print_table("The experiments", ["name", "what it shows", "needs"], lines)
    rows = [[key, name, whereabouts(SOURCES[key], folder)] for key, name in DATASETS.items()]
    _print_table("The real data sets", ["--sets", "name", "file"], rows)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_NAMES)] = None,
    data: Annotated[Path | None, option("--data", "FOLDER", _DATA)] = None,
    sets: Annotated[list[str] | None, option("--sets", "SET", _SETS)] = None,
    out: OutOption = DEFAULT_OUT,
    jobs: Annotated[int, option("--jobs", "N", _JOBS)] = 0,
    quick: Annotated[bool, option("--quick", "", "A tenth of the seeds; judges nothing.")] = False,
) -> None:
    """Run experiments, or continue a run that was stopped."""
    console = stdout(160)
    experiments = _chosen(names or [], console)
    if jobs < 0:
        fail(f"--jobs must be 0 or more; got {jobs}")
    found, missing = Data(_folder(data), _sets(sets or [])), dict[str, str]()
    if any(experiment.real_data for experiment in experiments):
        found, missing = found.available()
    runnable = [e for e in experiments if found.sets or not e.real_data]
    if not runnable:
        fail(next(iter(missing.values())))
    size = QUICK if quick else FULL
    with _one_line_errors(out), Bar("paper") as bar:
        finished = run_experiments(
            runnable,
            data=found,
            size=size,
            out=out,
            n_jobs=jobs or cpu_count(),
            progress=lambda done, total: bar.reach(done / total),
        )
        with closing(finished):
            for experiment in finished:
                write_outcome(experiment, out)
                _show(experiment, console)
    console.print(f"Figures, tables and summaries are in {escape(str(out))}")
    if missing:
        names_of_missing = ", ".join(DATASETS[dataset] for dataset in missing)
        console.print(f"\nWithout data, and so not run on them: {names_of_missing}", style="bold")
    for complaint in missing.values():
        console.print(f"- {escape(complaint)}", highlight=False, soft_wrap=True)


@app.command()
def report(
    out: OutOption = DEFAULT_OUT,
    html: Annotated[Path | None, option("--html", "FILE", _HTML)] = None,
    markdown: Annotated[Path | None, option("--markdown", "FILE", _MARKDOWN)] = None,
) -> None:
    """Put all results on one page: published and reproduced numbers, claims, run times."""
    console = stdout(160)
    page = html or out / "report.html"
    with _one_line_errors(out):
        summaries = read_summaries(out, EXPERIMENTS)
        if not summaries:
            fail(f"'{out}' holds no results; run `bandfall paper run --out {out}` first")
        runs = read_runs(out)
        write_html(summaries, runs, out / "figures", page)
        console.print(f"Wrote {escape(str(page))}")
        if markdown is not None:
            write_markdown(summaries, runs, out / "figures", markdown)
            console.print(f"Wrote {escape(str(markdown))}")


def _folder(data: Path | None) -> Path | None:
    if data is not None and not data.is_dir():
        fail(f"--data names '{data}', which is not a directory")
    return data


def _sets(names: list[str]) -> list[str]:
    """Keys of data sets, from options that may hold several, separated by commas."""
    keys = [key for name in names for key in name.replace(",", " ").split()]
    unknown = [key for key in keys if key not in DATASETS]
    if unknown:
        fail(f"no data set is called {unknown[0]!r}; allowed: {', '.join(DATASETS)}")
    return [key for key in DATASETS if key in keys or not keys]


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


def _show(finished: Finished, console: Console) -> None:
    """Print the last table (for scores: the comparison) and the claims."""
    console.print(f"\n[bold]{finished.name}[/bold] {finished.title} ({finished.seconds:.0f} s)")
    for table in finished.tables[-1:]:
        _print_table(table.caption, table.header, table.rows)
    part = "" if finished.complete else f" ({100 * finished.seeds:g} % of the seeds)"
    for claim in finished.claims:
        style = {True: "green", False: "red", None: ""}[claim.holds]
        line = Text.assemble((f"{claim.verdict}{part}", style), f": {claim.text}: {claim.evidence}")
        console.print(line)


def _print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    cells = [[Text(plain(t), style="bold" if "**" in t else "") for t in row] for row in rows]
    print_table(title, [plain(text) for text in header], cells, width=160, justify="left")


@contextmanager
def _one_line_errors(out: Path) -> Iterator[None]:
    """Turn errors that users can cause into one line and an exit code; bugs keep a traceback."""
    try:
        yield
    except SummaryError as error:
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
