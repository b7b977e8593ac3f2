"""What a fitted average shows in a notebook, below scikit-learn's own box."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from bandfall.selection.members import Member

_HEADER = ("weight", "columns", "rounds of the metric", "kernel", "slowest speed", "training R²")


def members_table(members: Sequence[Member]) -> str:
    """The models that are averaged, heaviest first, as an HTML table."""
    lines = [_line(_HEADER, "th")]
    for member in members:
        one = member.candidate
        cells = (
            f"{member.weight:.2f}",
            one.encoding,
            str(one.n_rounds + one.log_rounds),
            str(one.kernel),
            "–" if one.width else f"{one.min_speed:g}",
            "–" if one.width else f"{member.max_r2:.4f}",
        )
        lines.append(_line(cells, "td"))
    return f"<table><caption>Average of {len(members)}</caption>{''.join(lines)}</table>"


def _line(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"
