"""The report on one page: published and our numbers, claims, figures, run times."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from bandfall._paper.artefacts import Summary
from bandfall._paper.experiment import AGREES, DIFFERS, NOT_JUDGED
from bandfall._paper.fingerprint import code_digest
from bandfall._paper.layout import TextTable
from bandfall._paper.registry import EXPERIMENTS
from bandfall._paper.store import Entry

_ROWS = files("bandfall._paper").joinpath("choices.md").read_text(encoding="utf-8").splitlines()
_HEAD, _, *_BODY = [[cell.strip() for cell in row.strip("|").split("|")] for row in _ROWS]
CHOICES = TextTable(
    "choices",
    "Where the paper's text and the author's scripts differ, and what is done here.",
    _HEAD,
    _BODY,
)
AUTHOR_HOURS = 30  # for all experiments, by the paper
_IMAGE_WIDTH = 1000  # pixels, in Markdown
_COLOURS = 64

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --bad: #c0392b; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 64rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid var(--line);
  padding-top: 1rem; }
nav a { margin-right: .8rem; white-space: nowrap; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums;
  display: block; overflow-x: auto; margin: 1rem 0; }
th, td { text-align: left; padding: .2rem .7rem .2rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
img { max-width: 100%; background: white; border-radius: 4px; }
blockquote { margin: .5rem 0; padding-left: 1rem; border-left: 3px solid var(--line);
  font-size: .9rem; }
summary { cursor: pointer; margin: .5rem 0; }
.holds { color: var(--good); font-weight: 600; } .fails { color: var(--bad); font-weight: 600; }
.unjudged { opacity: .7; } .meta { opacity: .8; font-size: .9rem; }
@media print { details > * { display: block !important; } nav { display: none; } }
"""


def write_html(
    summaries: Sequence[Summary], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write a self-contained page with the PNG files of `figures`, without scripts."""
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>The paper, reproduced</title><style>{_STYLE}</style></head><body>",
        "<h1>The paper, reproduced</h1>",
        *(f"<p>{_code(escape(line))}</p>" for line in _introduction(summaries, runs)),
        "<nav>" + "".join(f'<a href="#{s.name}">{_label(s.name)}</a>' for s in summaries),
        '<a href="#choices">Text and scripts</a></nav>',
        _overview(summaries).html(),
    ]
    for summary in summaries:
        parts += _html_section(summary, figures)
    parts += [f'<h2 id="choices">{CHOICES.caption}</h2>', CHOICES.html(), "</body></html>"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def write_markdown(
    summaries: Sequence[Summary], runs: Sequence[Entry], figures: Path, path: Path
) -> None:
    """Write the report as Markdown; compressed figures go into a folder named after the file."""
    images = path.with_suffix("")
    parts = ["# The paper, reproduced", *_introduction(summaries, runs)]
    parts.append(_overview(summaries).markdown())
    for summary in summaries:
        parts.append(f"## {_label(summary.name)}: {summary.title}")
        parts.append(_timing(summary))
        if summary.has_figure:
            images.mkdir(parents=True, exist_ok=True)
            _compress(figures / f"{summary.name}.png", images / f"{summary.name}.png")
            parts.append(f"![{_label(summary.name)}]({images.name}/{summary.name}.png)")
        if summary.caption:
            parts.append(f"> {summary.caption}")
        if summary.claims:
            parts.append(_claims(summary).markdown())
        parts += summary.notes
        parts += [table.markdown() for table in summary.tables[-1:]]
    parts += [f"## {CHOICES.caption.rstrip('.')}", CHOICES.markdown()]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _introduction(summaries: Sequence[Summary], runs: Sequence[Entry]) -> Iterator[str]:
    cells = [c.verdict for s in summaries for c in s.comparisons]
    claims = [c.holds for s in summaries for c in s.claims]
    yield (
        "Every figure and table of “Changing the Kernel During Training Leads to Double Descent "
        "in Kernel Regression” (O. Allerbo), made by `bandfall paper run` and written by "
        "`bandfall paper report`."
    )
    yield (
        f"Of {len(cells)} published table cells {cells.count(AGREES)} agree with ours within their "
        f"tolerance, {cells.count(DIFFERS)} differ and {cells.count(NOT_JUDGED)} are not judged; "
        f"of {len(claims)} claims {claims.count(True)} hold, {claims.count(False)} fail and "
        f"{claims.count(None)} are not judged."
    )
    partial = [s.name for s in summaries if not s.complete]
    if partial:
        yield f"Run with a part of the seeds only, and not judged: {', '.join(partial)}."
    outdated = [s.name for s in summaries if s.code != code_digest(EXPERIMENTS[s.name].tasks)]
    if outdated:
        yield f"The code has changed since these were run: {', '.join(outdated)}."
    yield from _effort(summaries, runs)


def _effort(summaries: Sequence[Summary], runs: Sequence[Entry]) -> Iterator[str]:
    computing = sum(s.seconds for s in summaries)
    yield (
        f"Computing time of all tasks: {_duration(computing)} of one core; the paper reports about "
        f"{AUTHOR_HOURS} hours."
    )
    for run in runs:
        if run["tasks_done"]:
            yield _run_line(run)
    yield (
        "Seeds are those of the paper: split and seed numbers count from 0; panels use seed 8, "
        "Figure 5 seed 16."
    )


def _run_line(run: Entry) -> str:
    """Date, duration, machine and versions of a run."""
    versions = ", ".join(f"{name} {number}" for name, number in run["versions"].items())
    return (
        f"{', '.join(_label(name) for name in run['experiments'])}: {run['tasks_done']} tasks, "
        f"ended {run['date']} after {_duration(run['seconds'])} with {run['jobs']} parallel jobs "
        f"on {run['processor']} ({run['machine']}), {run['cores']} cores, {run['memory_gib']} GiB; "
        f"Python {run['python']}, {versions}."
    )


def _overview(summaries: Sequence[Summary]) -> TextTable:
    rows = []
    for s in summaries:
        verdicts = [c.verdict for c in s.comparisons]
        holds = [c.holds for c in s.claims]
        rows.append(
            [
                _label(s.name),
                s.title,
                f"{verdicts.count(AGREES)} of {len(verdicts)}" if verdicts else "–",
                f"{holds.count(True)} of {len(holds)}" if holds else "–",
                _duration(s.seconds),
            ]
        )
    header = ["", "What", "Cells that agree", "Claims that hold", "Computing time"]
    return TextTable("overview", "Overview", header, rows)


def _claims(summary: Summary) -> TextTable:
    words = {True: "holds", False: "**fails**", None: "not judged"}
    rows = [[claim.text, claim.evidence, words[claim.holds]] for claim in summary.claims]
    return TextTable("claims", "Claims", ["Claim", "Numbers", "Verdict"], rows)


def _html_section(summary: Summary, figures: Path) -> Iterator[str]:
    yield f'<h2 id="{summary.name}">{_label(summary.name)}: {escape(summary.title)}</h2>'
    yield f'<p class="meta">{escape(_timing(summary))}</p>'
    if summary.has_figure:
        data = base64.b64encode((figures / f"{summary.name}.png").read_bytes()).decode()
        yield f'<img alt="{_label(summary.name)}" src="data:image/png;base64,{data}">'
    if summary.caption:
        yield f"<blockquote>{escape(summary.caption)}</blockquote>"
    if summary.claims:
        yield "<ul>"
        for claim in summary.claims:
            css, word = {
                True: ("holds", "holds"),
                False: ("fails", "fails"),
                None: ("unjudged", "not judged"),
            }[claim.holds]
            yield (
                f'<li><span class="{css}">{word}</span> {escape(claim.text)}'
                f'<br><span class="meta">{escape(claim.evidence)}</span></li>'
            )
        yield "</ul>"
    yield from (f"<p>{escape(note)}</p>" for note in summary.notes)
    for i, table in enumerate(summary.tables):
        opened = " open" if i == len(summary.tables) - 1 else ""
        yield f"<details{opened}><summary>{escape(table.caption)}</summary>{table.html()}</details>"


def _code(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", text)


def _timing(summary: Summary) -> str:
    share = "all seeds" if summary.complete else f"{summary.seeds:.0%} of the seeds"
    return f"{summary.n_tasks} tasks, {share}, {_duration(summary.seconds)} of computing time."


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
        height = round(image.height * _IMAGE_WIDTH / image.width)
        small = image.convert("RGB").resize((_IMAGE_WIDTH, height), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.quantize(_COLOURS).save(buffer, "PNG", optimize=True)
    target.write_bytes(buffer.getvalue())
