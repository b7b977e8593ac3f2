"""What a fitted average shows in a notebook, below scikit-learn's own box."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

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
            str(one.n_rounds),
            str(one.kernel),
            f"{one.min_speed:g}",
            f"{member.max_r2:.4f}",
        )
        lines.append(_line(cells, "td"))
    return f"<table><caption>Average of {len(members)}</caption>{''.join(lines)}</table>"


def _line(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


class MembersHTMLMixin:
    """An estimator that shows in notebooks what it averages, once it is fitted."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._members_html  # type: ignore[misc]

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._members_html
        return bundle

    @property
    def _members_html(self) -> str:
        return members_table(self.members_) if hasattr(self, "members_") else ""
