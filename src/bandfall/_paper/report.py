"""Outcomes as files, and the page made of them: numbers, claims, figures, run times."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from bandfall._paper.experiment import (
    AGREES,
    DATASETS,
    FULL,
    Claim,
    Comparison,
    Entry,
    Size,
)
from bandfall._paper.layout import TextTable, plain
from bandfall._paper.run import Finished, code_digest


class SummaryError(Exception):
    """A summary on disk cannot be read; the message is for the user."""


@dataclass(frozen=True)
class Summary:
    """The stored part of a finished experiment; see `Outcome` and `Finished`."""

    name: str
    code: str  # digest of the code that computed it, see `code_digest`
    title: str
    caption: str
    seconds: float
    n_tasks: int
    complete: bool  # whether all seeds were run
    seeds: float
    has_figure: bool
    tables: list[TextTable]
    comparisons: list[Comparison]
    claims: list[Claim]
    notes: list[str]

    @property
    def label(self) -> str:
        """The name for readers."""
        return _label(self.name)

    @property
    def timing(self) -> str:
        """Number of tasks, part of the paper's seeds, and computing time."""
        share = "all seeds" if self.complete else f"{100 * self.seeds:g} % of the seeds"
        return f"{self.n_tasks} tasks, {share}, {_duration(self.seconds)} of computing time."

    @property
    def verdicts(self) -> list[str]:
        """The verdict on every cell."""
        return [comparison.verdict for comparison in self.comparisons]

    @property
    def holds(self) -> list[bool | None]:
        """Whether each claim holds."""
        return [claim.holds for claim in self.claims]


def write_outcome(finished: Finished, size: Size, out: Path) -> Summary:
    """Write figure, tables and summary of one experiment to folders below `out`."""
    experiment, outcome = finished.experiment, finished.outcome
    for folder in ("figures", "tables", "summaries"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    if outcome.figure is not None:
        path = out / "figures" / experiment.name
        # No date in the file: the same numbers give the same bytes.
        outcome.figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
        outcome.figure.savefig(path.with_suffix(".png"), dpi=200)
    for table in outcome.tables:
        path = out / "tables" / table.name
        page = f"{table.caption}\n\n{table.markdown()}\n"
        path.with_suffix(".md").write_text(page, encoding="utf-8")
        path.with_suffix(".tex").write_text(table.latex(), encoding="utf-8")
        path.with_suffix(".csv").write_text(table.csv(), encoding="utf-8")
    notes = list(outcome.notes)
    absent = [name for key, name in DATASETS.items() if key not in finished.sets]
    if experiment.real_data and absent:
        notes.append(f"Not run on these data sets: {', '.join(absent)}.")
    summary = Summary(
        name=experiment.name,
        code=code_digest(),
        title=experiment.title,
        caption=experiment.caption,
        seconds=round(finished.seconds, 2),
        n_tasks=finished.n_tasks,
        complete=size == FULL or not experiment.seeded,
        seeds=size.seeds,
        has_figure=outcome.figure is not None,
        tables=list(outcome.tables),
        comparisons=list(outcome.comparisons),
        claims=list(outcome.claims),
        notes=notes,
    )
    text = json.dumps(asdict(summary), indent=1, ensure_ascii=False, default=np.generic.item)
    path = out / "summaries" / f"{experiment.name}.json"
    path.write_text(text + "\n", encoding="utf-8")
    return summary


def read_summaries(out: Path, names: Iterable[str]) -> list[Summary]:
    """The summaries below `out` of the experiments `names`, in this order, without missing ones."""
    paths = (out / "summaries" / f"{name}.json" for name in names)
    return [_read(path) for path in paths if path.exists()]


def _read(path: Path) -> Summary:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        for name, kind in {"tables": TextTable, "comparisons": Comparison, "claims": Claim}.items():
            entry[name] = [kind(**part) for part in entry[name]]
        return Summary(**entry)
    except (ValueError, KeyError, TypeError) as error:
        raise SummaryError(
            f"{path} is damaged or of another version; run {path.stem} again, which computes "
            "missing results only"
        ) from error


def write_html(
    summaries: Sequence[Summary], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write a self-contained page with the PNG files of `figures`, without scripts."""
    images = {
        s.name: base64.b64encode((figures / f"{s.name}.png").read_bytes()).decode()
        for s in summaries
        if s.has_figure
    }
    _write("report.html.jinja", summaries, runs, path, images)


def write_markdown(
    summaries: Sequence[Summary], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write the report as Markdown; compressed figures go into a folder named after the file."""
    images = path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    images.mkdir(exist_ok=True)
    for s in summaries:
        if s.has_figure:
            _compress(figures / f"{s.name}.png", images / f"{s.name}.png")
    _write("report.md.jinja", summaries, runs, path, images.name)


def _write(
    template: str, summaries: Sequence[Summary], runs: Sequence[Entry], path: Path, images: object
) -> None:
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup, escape

    def code(text: str) -> str:  # in backquotes
        return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))

    environment = Environment(
        loader=PackageLoader("bandfall", "_paper"),
        autoescape=lambda name: str(name).endswith("html.jinja"),
        keep_trailing_newline=True,
    )
    environment.filters |= {"plain": plain, "code": code, "duration": _duration, "label": _label}
    introduction = environment.get_template("introduction.jinja").render(
        summaries=summaries,
        runs=runs,
        cells=[verdict for s in summaries for verdict in s.verdicts],
        claims=[holds for s in summaries for holds in s.holds],
        code=code_digest(),
    )
    choices = files(__package__).joinpath("choices.md").read_text(encoding="utf-8")
    head, _, *body = [
        [c.strip() for c in row.strip("|").split("|")] for row in choices.splitlines()
    ]
    caption = "Where the paper's text and the author's scripts differ, and what is done here."
    text = environment.get_template(template).render(
        summaries=summaries,
        introduction=list(filter(None, introduction.splitlines())),
        overview=_overview(summaries),
        choices=TextTable("choices", caption, head, body),
        images=images,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _overview(summaries: Sequence[Summary]) -> TextTable:
    rows = [
        [
            s.label,
            s.title,
            f"{s.verdicts.count(AGREES)} of {len(s.verdicts)}" if s.verdicts else "–",
            f"{s.holds.count(True)} of {len(s.holds)}" if s.holds else "–",
            _duration(s.seconds),
        ]
        for s in summaries
    ]
    header = ["", "What", "Cells that agree", "Claims that hold", "Computing time"]
    return TextTable("overview", "Overview", header, rows)


def _label(name: str) -> str:
    return f"{name[:-1].capitalize()} {name[-1:]}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _compress(source: Path, target: Path) -> None:
    """A smaller PNG with few colours, which is enough for line drawings."""
    from PIL import Image

    with Image.open(source) as image:
        size = 1000, round(image.height * 1000 / image.width)
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.quantize(64).save(buffer, "PNG", optimize=True)
    target.write_bytes(buffer.getvalue())
