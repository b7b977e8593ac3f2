"""Outcomes as files: figures, tables, and summaries for the report."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bandfall._paper.engine import Finished
from bandfall._paper.experiment import FULL, Claim, Comparison, Size
from bandfall._paper.fingerprint import code_digest
from bandfall._paper.layout import TextTable

_DPI = 200


class SummaryError(Exception):
    """A summary on disk cannot be read; the message is for the user."""


@dataclass(frozen=True)
class Summary:
    """The stored part of a finished experiment; see `Outcome` and `Finished`.

    `code` is the digest of the code that computed it, see `bandfall._paper.fingerprint`.
    """

    name: str
    code: str
    title: str
    caption: str
    seconds: float
    n_tasks: int
    complete: bool
    seeds: float
    has_figure: bool
    tables: list[TextTable]
    comparisons: list[Comparison]
    claims: list[Claim]
    notes: list[str]


def write_outcome(finished: Finished, size: Size, out: Path) -> Summary:
    """Write figure, tables and summary of one experiment below `out`.

    Figures go to ``out/figures`` as PDF and PNG, tables to ``out/tables`` as Markdown, LaTeX and
    CSV, the summary to ``out/summaries``.
    """
    name, outcome = finished.experiment.name, finished.outcome
    if outcome.figure is not None:
        directory = _made(out / "figures")
        # No date in the file: the same numbers give the same bytes.
        outcome.figure.savefig(directory / f"{name}.pdf", metadata={"CreationDate": None})
        outcome.figure.savefig(directory / f"{name}.png", dpi=_DPI)
    for table in outcome.tables:
        write_table(table, _made(out / "tables"))
    summary = Summary(
        name=name,
        code=code_digest(finished.experiment.tasks),
        title=finished.experiment.title,
        caption=finished.experiment.caption,
        seconds=round(finished.seconds, 2),
        n_tasks=finished.n_tasks,
        complete=size == FULL or not finished.experiment.seeded,
        seeds=size.seeds,
        has_figure=outcome.figure is not None,
        tables=list(outcome.tables),
        comparisons=list(outcome.comparisons),
        claims=list(outcome.claims),
        notes=list(outcome.notes),
    )
    text = json.dumps(asdict(summary), indent=1, ensure_ascii=False, default=np.generic.item)
    (_made(out / "summaries") / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return summary


def write_table(table: TextTable, directory: Path) -> None:
    """Write a table as Markdown, LaTeX and CSV, in files with its name."""
    texts = {
        "md": f"{table.caption}\n\n{table.markdown()}\n",
        "tex": table.latex(),
        "csv": table.csv(),
    }
    for suffix, text in texts.items():
        (directory / f"{table.name}.{suffix}").write_text(text, encoding="utf-8")


def read_summaries(out: Path, names: Iterable[str]) -> list[Summary]:
    """The summaries below `out` of the experiments `names`, in this order, without missing ones."""
    paths = (out / "summaries" / f"{name}.json" for name in names)
    return [_read(path) for path in paths if path.exists()]


def _read(path: Path) -> Summary:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        parts = {
            "tables": [TextTable(**part) for part in entry["tables"]],
            "comparisons": [Comparison(**part) for part in entry["comparisons"]],
            "claims": [Claim(**part) for part in entry["claims"]],
        }
        return Summary(**entry | parts)
    except (ValueError, KeyError, TypeError) as error:
        raise SummaryError(
            f"{path} is damaged or of another version; run {path.stem} again, which computes "
            "missing results only"
        ) from error


def _made(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    return directory
