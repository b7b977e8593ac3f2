"""Outcomes as files, and the page made of them: numbers, claims, figures, run times."""

from __future__ import annotations

import base64
import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from bandfall._paper.experiment import (
    AGREES,
    DATASETS,
    HOLDS,
    Claim,
    Comparison,
    Entry,
    TextTable,
    plain,
    resource,
)
from bandfall._paper.run import Finished, code_digest


class SummaryError(Exception):
    """A summary on disk cannot be read; the message is for the user."""


def write_outcome(finished: Finished, out: Path) -> None:
    """Write figure, tables and summary of one experiment to folders below `out`."""
    for folder in ("figures", "tables", "summaries"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    if finished.figure is not None:
        path = out / "figures" / finished.name
        # No date in the file: the same numbers give the same bytes.
        finished.figure.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
        finished.figure.savefig(path.with_suffix(".png"), dpi=140, pil_kwargs={"optimize": True})
    for table in finished.tables:
        page = f"{table.caption}\n\n{table.markdown()}\n"
        (out / "tables" / f"{table.name}.md").write_text(page, encoding="utf-8")
    entry = asdict(replace(finished, figure=None))
    text = json.dumps(entry, indent=1, ensure_ascii=False, default=np.generic.item)
    path = out / "summaries" / f"{finished.name}.json"
    path.write_text(text + "\n", encoding="utf-8")


def read_summaries(out: Path, names: Iterable[str]) -> list[Finished]:
    """The experiments `names` in this order, without those that have no summary below `out`."""
    paths = (out / "summaries" / f"{name}.json" for name in names)
    return [_read(path) for path in paths if path.exists()]


def _read(path: Path) -> Finished:
    try:
        entry = json.loads(path.read_text(encoding="utf-8"))
        for name, kind in {"tables": TextTable, "comparisons": Comparison, "claims": Claim}.items():
            entry[name] = [kind(**part) for part in entry[name]]
        return Finished(**entry)
    except (ValueError, KeyError, TypeError) as error:
        raise SummaryError(
            f"{path} is damaged or of another version; run {path.stem} again, which computes "
            "missing results only"
        ) from error


def write_html(
    summaries: Sequence[Finished], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write a self-contained page with the PNG files of `figures`, without scripts."""
    images = {
        image.stem: "data:image/png;base64," + base64.b64encode(image.read_bytes()).decode()
        for image in _images(summaries, figures)
    }
    _write("report.html.jinja", summaries, runs, path, images)


def write_markdown(
    summaries: Sequence[Finished], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write the report as Markdown; its figures go into a folder named after the file."""
    folder = path.with_suffix("")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    images = _images(summaries, figures)
    for image in images:
        shutil.copy(image, folder)
    places = {image.stem: f"{folder.name}/{image.name}" for image in images}
    _write("report.md.jinja", summaries, runs, path, places)


def _images(summaries: Sequence[Finished], figures: Path) -> list[Path]:
    """The drawn figures of these experiments."""
    paths = (figures / f"{finished.name}.png" for finished in summaries)
    return [path for path in paths if path.exists()]


def _write(
    template: str,
    summaries: Sequence[Finished],
    runs: Sequence[Entry],
    path: Path,
    images: Mapping[str, str],
) -> None:
    """Fill a template; `images` are the addresses of the figures by name."""
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
        sets=DATASETS,
        runs=runs,
        cells=[comparison.verdict for s in summaries for comparison in s.comparisons],
        claims=[claim.verdict for s in summaries for claim in s.claims],
        code=code_digest(),
    )
    text = environment.get_template(template).render(
        summaries=summaries,
        introduction=list(filter(None, introduction.splitlines())),
        overview=_overview(summaries),
        choices=TextTable(**resource("choices.json")),
        images=images,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _overview(summaries: Sequence[Finished]) -> TextTable:
    """An experiment a row: how many cells agree, how many claims hold."""

    def count(results: Sequence[Comparison] | Sequence[Claim], good: str) -> str:
        n_good = sum(result.verdict == good for result in results)
        return f"{n_good} of {len(results)}" if results else "–"

    rows = [
        [
            _label(s.name),
            s.title,
            count(s.comparisons, AGREES),
            count(s.claims, HOLDS),
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
