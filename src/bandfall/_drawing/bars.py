"""Bars with names: rankings, and small histograms for cells of tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from bandfall._drawing.chart import svg_text, tip_attribute

LONGEST_NAME = 26  # letters
_NAME_LETTER = 8.8  # width of a letter of a name on a phone


def ranking(
    names: Sequence[str],
    values: Sequence[float] | np.ndarray,
    labels: Sequence[str],
    styles: Sequence[str],
    tips: Sequence[str],
    title: str,
    *,
    errors: Sequence[float] | np.ndarray | None = None,
) -> str:
    """Horizontal bars with names on the left and labels at their ends."""
    row, right, width = 26, 76, 520
    left = 16 + _NAME_LETTER * max(min(len(name), LONGEST_NAME) for name in names)
    height = row * len(names) + 8
    values = np.asarray(values, dtype=float)
    reach = values if errors is None else np.append(values - errors, values + errors)
    low, high = min(0.0, float(reach.min())), max(0.0, float(reach.max())) or 1.0

    def place(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    parts = []
    for i, (name, value, label, style, tip) in enumerate(
        zip(names, values, labels, styles, tips, strict=True)
    ):
        y = 4 + i * row
        a, b = sorted((place(0.0), place(value)))
        parts.append(
            svg_text("name", left - 8, y + 16, name, LONGEST_NAME, "end")
            + f'<rect class="bar {style}" x="{a:.1f}" y="{y + 3}" width="{max(b - a, 1):.1f}" '
            f'height="{row - 7}" rx="2"{tip_attribute(tip)}/>'
        )
        end = b
        if errors is not None:
            e1, e2 = place(value - errors[i]), place(value + errors[i])
            middle = y + 3 + (row - 7) / 2
            parts.append(f'<path class="error" d="M{e1:.1f} {middle}H{e2:.1f}"/>')
            end = max(b, e2)
        parts.append(f'<text class="value" x="{end + 6:.1f}" y="{y + 16}">{escape(label)}</text>')
    return (
        f'<svg class="ranking" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def sparkline(counts: Sequence[int] | np.ndarray, tip: str) -> str:
    """A small histogram for a table cell."""
    counts = np.asarray(counts, dtype=float)
    peak = counts.max() or 1.0
    bars = "".join(
        f'<rect class="bar soft" x="{i * 6}" y="{22 - 20 * c / peak:.1f}" width="5" '
        f'height="{20 * c / peak:.1f}"/>'
        for i, c in enumerate(counts)
    )
    return (
        f'<svg class="spark" viewBox="0 0 {6 * len(counts)} 22"{tip_attribute(tip)}>'
        f"<title>{escape(tip)}</title>{bars}</svg>"
    )
