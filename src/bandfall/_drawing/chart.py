"""Charts as SVG text: they need no library and no network, and print sharply.

Colours are CSS classes (``a``, ``b``, ``soft``, …) that the style sheet defines, so the same
drawing works in light and dark mode and on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bandfall._drawing.axes import Axis

Values: TypeAlias = Sequence[Any] | np.ndarray

MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 16, 12, 46
# Widths of letters in ticks on a phone, where they are drawn larger.
LETTER = 8.4
DIGIT = 8.9  # in wide fonts
LONGEST_TICK, LONGEST_NAME = 14, 26  # letters of a tick, of a name beside a bar


class Chart:
    """A frame with two axes to which marks are added.

    `title` describes the chart for screen readers. The page scales the drawing. A line, band or
    column with a `film` has values for several moments: the last is drawn, and the path data of
    every moment are in `films`, by that name.
    """

    def __init__(self, x: Axis, y: Axis, title: str, *, width: int = 520, height: int = 300):
        self.x, self.y, self.title = x, y, title
        self.width, self.height = width, height
        self.films: dict[str, list[str]] = {}
        self._y_ticks = [(tick, y.tick_name(tick)) for tick in y.ticks()]
        longest = max((min(len(name), LONGEST_TICK) for _, name in self._y_ticks), default=0)
        self.left = max(46.0, 32 + DIGIT * longest)
        self.right, self.top, self.bottom = width - MARGIN_RIGHT, MARGIN_TOP, height - MARGIN_BOTTOM
        self._marks: list[str] = []

    def px(self, value: float) -> float:
        """Horizontal position of a value of x."""
        share = min(max(self.x.fraction(value), -0.01), 1.01)
        return self.left + (self.right - self.left) * share

    def py(self, value: float) -> float:
        """Vertical position of a value of y."""
        share = min(max(self.y.fraction(value), -0.01), 1.01)
        return self.bottom - (self.bottom - self.top) * share

    def line(
        self, xs: Values, ys: Values, style: str, *, tip: str | None = None, film: str = ""
    ) -> Chart:
        """A line; unless `tip` is None, its points have tooltips that begin with this text."""
        self._draw(f"line {style}", partial(self._trace, xs), ys, film)
        return self if tip is None else self.hits(xs, np.asarray(ys)[-1] if film else ys, tip)

    def steps(self, xs: Values, ys: Values, style: str) -> Chart:
        """A line that stays at ys[i] from xs[i] to xs[i + 1]; one more x than y."""
        corners = np.repeat(np.asarray(xs, dtype=float), 2)[1:-1], np.repeat(ys, 2)
        return self.line(*corners, style).hits(list(xs)[:-1], ys)

    def band(self, xs: Values, ends: Values, *, film: str = "") -> Chart:
        """The area between two lines, ``ends[0]`` and ``ends[1]``."""
        return self._draw("band", partial(self._area, np.asarray(xs)), ends, film)

    def columns(self, xs: Values, heights: Values, *, film: str = "") -> Chart:
        """One bar for each of the axis's names, from zero."""
        shape = "M{left:.1f} {zero:.1f}V{y:.1f}H{right:.1f}V{zero:.1f}Z"
        return self._draw("bar a", partial(self._beside, xs, 0.32, shape), heights, film)

    def ledges(self, xs: Values, ys: Values, style: str, *, film: str = "") -> Chart:
        """A short level line above each of the axis's names."""
        shape = "M{left:.1f} {y:.1f}H{right:.1f}"
        return self._draw(f"line {style}", partial(self._beside, xs, 0.36, shape), ys, film)

    def dots(
        self, xs: Values, ys: Values, style: str, *, names: Values = (), radius: float = 2.6
    ) -> Chart:
        """Points, with tooltips that begin with their names."""
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            self._dot(x, y, f"dot {style}", radius, str(names[i]) if len(names) else "")
        return self

    def hits(self, xs: Values, ys: Values, tip: str = "") -> Chart:
        """Invisible points with tooltips."""
        for x, y in zip(xs, ys, strict=True):
            self._dot(x, y, "hit", 7, tip)
        return self

    def bars(self, edges: Values, heights: Values, styles: Values) -> Chart:
        """Vertical bars from zero between neighbouring edges."""
        base = self.py(min(max(0.0, self.y.low), self.y.high))
        for left, right, height, style in zip(edges[:-1], edges[1:], heights, styles, strict=True):
            a, b = sorted((self.px(left), self.px(right)))
            top = self.py(height)
            tip = f"{self.x.words(left)}\nto {self.x.words(right)}\n{self.y.words(height)}"
            self._marks.append(
                f'<rect class="bar {style}" x="{a + 0.5:.1f}" y="{min(top, base):.1f}" '
                f'width="{max(b - a - 1, 0.8):.1f}" height="{abs(base - top):.1f}"{_tip(tip)}/>'
            )
        return self

    def rule(self, *, x: float | None = None, y: float | None = None) -> Chart:
        """A thin line across the chart."""
        x1, x2 = (self.left, self.right) if x is None else (self.px(x),) * 2
        y1, y2 = (self.top, self.bottom) if y is None else (self.py(y),) * 2
        self._marks.append(f'<path class="rule" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
        return self

    def rug(self, xs: Values) -> Chart:
        """Short strokes at the data."""
        inside = [x for x in xs if 0.0 <= self.x.fraction(x) <= 1.0]
        strokes = "".join(f"M{self.px(x):.1f} {self.bottom}v-7" for x in inside)
        self._marks.append(f'<path class="rug" d="{strokes or "M0 0"}"/>')
        return self

    def svg(self) -> str:
        """The drawing."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}"><title>{escape(self.title)}</title>'
            f"{self._frame()}{''.join(self._marks)}</svg>"
        )

    def _draw(self, style: str, shape: Callable[..., str], values: Values, film: str) -> Chart:
        """Add a path; of a film, the path of the last moment."""
        paths = [shape(one) for one in (values if film else [values])]
        name = f' data-film="{escape(film)}"' if film else ""
        if film:
            self.films[film] = paths
        self._marks.append(f'<path class="{style}" d="{paths[-1]}"{name}/>')
        return self

    def _trace(self, xs: Values, ys: Values) -> str:
        places = (f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in zip(xs, ys, strict=True))
        return "M" + "L".join(places)

    def _area(self, xs: np.ndarray, ends: Values) -> str:
        back = self._trace(xs[::-1], list(ends[0])[::-1])
        return f"{self._trace(xs, ends[1])}L{back[1:]}Z"

    def _beside(self, xs: Values, half: float, shape: str, ys: Values) -> str:
        """A shape from x − half to x + half, for each point."""
        return "".join(
            shape.format(left=self.px(x - half), right=self.px(x + half), y=self.py(y), zero=zero)
            for zero in [self.py(0.0)]
            for x, y in zip(xs, ys, strict=True)
        )

    def _dot(self, x: float, y: float, style: str, radius: float, name: str) -> None:
        tip = f"{name}\n{self.x.words(x)}\n{self.y.words(y)}".lstrip("\n")
        self._marks.append(
            f'<circle class="{style}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" '
            f'r="{radius}"{_tip(tip)}/>'
        )

    def _frame(self) -> str:
        left, right, top, bottom = self.left, self.right, self.top, self.bottom
        middle, height = (left + right) / 2, (top + bottom) / 2
        turned = f' transform="translate(13 {height}) rotate(-90)"'
        parts = []
        for tick, name in self._y_ticks:
            y = self.py(tick)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right}"/>')
            parts.append(svg_text("tick", left - 7, y + 4, name, LONGEST_TICK, "end"))
        return "".join([
            *parts,
            *self._x_ticks(),
            svg_text("label", middle, self.height - 7, self.x.label, (right - left) / LETTER),
            svg_text("label", 0, 0, self.y.label, (bottom - top) / LETTER, more=turned),
            f'<path class="axis" d="M{left:.1f} {top}V{bottom}H{right}"/>',
        ])  # fmt: skip

    def _x_ticks(self) -> list[str]:
        """Grid lines, and names unless they would touch each other or the edge."""
        parts, free_from = [], [0.0]
        if self.x.names and not self.x.label:
            free_from.append(0.0)  # a second line of names
        for tick in sorted(self.x.ticks(), key=self.px):
            x, name = self.px(tick), self.x.tick_name(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {self.top}V{self.bottom}"/>')
            half = LETTER * min(len(name), LONGEST_TICK) / 2
            place = min(max(x, self.left - 5 + half), self.width - half - 1)
            line = next((i for i, free in enumerate(free_from) if place - half >= free), None)
            if line is not None:
                y = self.bottom + 17 + 17 * line
                parts.append(svg_text("tick", place, y, name, LONGEST_TICK))
                free_from[line] = place + half + LETTER
        return parts


class Bar(NamedTuple):
    """A bar with its name on the left and `label` at its end; `error` is drawn to both sides."""

    name: str
    value: float
    label: str
    error: float = 0.0
    style: str = "a"


def ranking(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars with names."""
    row, right, width = 26, 76, 520
    left = 16 + DIGIT * max(min(len(bar.name), LONGEST_NAME) for bar in bars)
    low = min(0.0, *(bar.value - bar.error for bar in bars))
    high = max(0.0, *(bar.value + bar.error for bar in bars)) or 1.0

    def place(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    parts = []
    for i, bar in enumerate(bars):
        y = 7 + i * row
        a, b = sorted((place(0.0), place(bar.value)))
        e1, e2 = place(bar.value - bar.error), place(bar.value + bar.error)
        tip = f"{bar.name}\n{title} {bar.label}" + (f" ± {bar.error:.4f}" if bar.error else "")
        parts += [
            svg_text("name", left - 8, y + 13, bar.name, LONGEST_NAME, "end"),
            f'<rect class="bar {bar.style}" x="{a:.1f}" y="{y}" width="{max(b - a, 1):.1f}" '
            f'height="{row - 7}" rx="2"{_tip(tip)}/>',
            f'<path class="error" d="M{e1:.1f} {y + 9.5}H{e2:.1f}"/>' if bar.error else "",
            f'<text class="value" x="{max(b, e2) + 6:.1f}" y="{y + 13}">{escape(bar.label)}</text>',
        ]
    return (
        f'<svg class="ranking" viewBox="0 0 {width} {row * len(bars) + 8}" role="img" '
        f'aria-label="{escape(title)}"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def sparkline(counts: Values, tip: str) -> str:
    """A small histogram for a table cell."""
    peak = max(counts) or 1
    bars = "".join(
        f'<rect class="bar soft" x="{i * 6}" y="{22 - 20 * count / peak:.1f}" width="5" '
        f'height="{20 * count / peak:.1f}"/>'
        for i, count in enumerate(counts)
    )
    return (
        f'<svg class="spark" viewBox="0 0 {6 * len(counts)} 22"{_tip(tip)}>'
        f"<title>{escape(tip)}</title>{bars}</svg>"
    )


def svg_text(
    style: str, x: float, y: float, text: str, room: float, anchor: str = "middle", more: str = ""
) -> str:
    """Text of at most `room` letters; longer text is cut and shown as a tip."""
    cut = len(text) > room
    shown = text[: max(int(room) - 1, 1)] + "…" if cut else text
    tip = _tip(text) if cut else ""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}{tip}>'
        f"{escape(shown)}</text>"
    )


def _tip(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""
