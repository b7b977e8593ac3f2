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
from bandfall._cli.terminal import (
    FAILURE,
    INTERRUPTED,
    Bar,
    fail,
    one_line_errors,
    print_table,
    stdout,
)
from bandfall._paper.experiment import DATASETS, FULL, QUICK, Data, Experiment, plain
from bandfall._paper.report import (
    SummaryError,
    read_summaries,
    write_html,
    write_markdown,
    write_outcome,
)
from bandfall._paper.run import (
    EXPERIMENTS,
    Finished,
    TaskError,
    missing_modules,
    read_runs,
    run_experiments,
    select,
)
from bandfall.datasets._real import whereabouts
from bandfall.datasets._sources import SOURCES

app = typer.Typer(
    help="Reproduce the paper's figures and tables.", no_args_is_help=True, add_completion=False
)

DEFAULT_OUT = Path("out/paper")

OutOption = Annotated[Path, option("--out", "FOLDER", "Folder for results, figures and tables.")]
_DATA = "Folder with the real data [default: BANDFALL_DATA, the cache, or a download]."
DataOption = Annotated[Path | None, option("--data", "FOLDER", _DATA, exists=True, file_okay=False)]
_NAMES = "figure1 … figure7, table1 … table6, or all."
_SETS = f"Run on these data sets only: {', '.join(DATASETS)}; repeatable [default: all]."
_JOBS = "Parallel workers; 0 means one per core. Results do not depend on it."
_MARKDOWN = "Also write Markdown, with images in a folder next to it."


@app.command("list")
def list_experiments(data: DataOption = None) -> None:
    """List the experiments, and what each of them needs."""
    lines = []
    for experiment in EXPERIMENTS.values():
        missing = missing_modules(experiment)
        needs = [f"{name}{' (not installed)' * (name in missing)}" for name in experiment.requires]
        needs += ["the real data sets"] * experiment.real_data
        lines.append([experiment.name, experiment.title, ", ".join(needs) or "nothing"])
    _print_table("The experiments", ["name", "what it shows", "needs"], lines)
    rows = [[key, name, whereabouts(SOURCES[key], data)] for key, name in DATASETS.items()]
    _print_table("The real data sets", ["--sets", "name", "file"], rows)


@app.command()
def run(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=_NAMES)] = None,
    data: DataOption = None,
    sets: Annotated[list[str] | None, option("--sets", "SET", _SETS)] = None,
    out: OutOption = DEFAULT_OUT,
    jobs: Annotated[int, option("--jobs", "N", _JOBS, min=0)] = 0,
    quick: Annotated[bool, option("--quick", "", "A tenth of the seeds; judges nothing.")] = False,
) -> None:
    """Run experiments, or continue a run that was stopped."""
    console = stdout(160)
    experiments = _chosen(names or [], console)
    found, missing = Data(data, _sets(sets or list(DATASETS))), dict[str, str]()
    if any(experiment.real_data for experiment in experiments):
        found, missing = found.available()
    runnable = [e for e in experiments if found.sets or not e.real_data]
    if not runnable:
        fail(next(iter(missing.values())))
    size = QUICK if quick else FULL
    with _one_line_errors(), Bar("paper") as bar:
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
    markdown: Annotated[Path | None, option("--markdown", "FILE", _MARKDOWN)] = None,
) -> None:
    """Put all results on one page: published and reproduced numbers, claims, run times."""
    console = stdout(160)
    page = out / "report.html"
    with _one_line_errors():
        summaries = read_summaries(out, EXPERIMENTS)
        if not summaries:
            fail(f"'{out}' holds no results; run `bandfall paper run --out {out}` first")
        runs = read_runs(out)
        write_html(summaries, runs, out / "figures", page)
        console.print(f"Wrote {escape(str(page))}")
        if markdown is not None:
            write_markdown(summaries, runs, out / "figures", markdown)
            console.print(f"Wrote {escape(str(markdown))}")


def _sets(names: list[str]) -> list[str]:
    """Keys of data sets, in the order of the paper."""
    if unknown := set(names) - set(DATASETS):
        fail(f"--sets {unknown.pop()} must be one of {', '.join(DATASETS)}")
    return [key for key in DATASETS if key in names]


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
def _one_line_errors() -> Iterator[None]:
    """Turn errors that users can cause into one line and an exit code; bugs keep a traceback."""
    with one_line_errors():
        try:
            yield
        except SummaryError as error:
            fail(str(error))
        except TaskError as error:
            fail(str(error), FAILURE)
        except KeyboardInterrupt:
            fail("stopped; the same command continues with the finished work kept", INTERRUPTED)
