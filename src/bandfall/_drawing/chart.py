"""Charts as SVG text: they need no library and no network, and print sharply.

Colours are CSS classes (``a``, ``b``, ``soft``, …) that the style sheet defines, so the same
drawing works in light and dark mode and on paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

import numpy as np

from bandfall._drawing.axes import Axis

Values = Sequence[float] | np.ndarray

MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 16, 12, 46
# Widths of letters in ticks on a phone, where they are drawn larger.
LETTER = 8.4
DIGIT = 8.9  # in wide fonts
LABEL_ROOM = 24
LONGEST_NAME = 14  # letters of a tick


def tip_attribute(text: str) -> str:
    """The attribute for a tooltip."""
    return f' data-tip="{escape(text)}"' if text else ""


class Chart:
    """A frame with two axes to which marks are added.

    `title` describes the chart for screen readers. The page scales the drawing.
    """

    def __init__(self, x: Axis, y: Axis, title: str, *, width: int = 520, height: int = 300):
        self.x, self.y, self.title = x, y, title
        self.width, self.height = width, height
        self._y_ticks = [(tick, y.tick_name(tick)) for tick in y.ticks()]
        longest = max((min(len(name), LONGEST_NAME) for _, name in self._y_ticks), default=0)
        self.left = max(46.0, LABEL_ROOM + 8 + DIGIT * longest)
        self._marks: list[str] = []

    def px(self, value: float) -> float:
        """Horizontal position of a value of x."""
        inner = self.width - self.left - MARGIN_RIGHT
        return self.left + inner * min(max(self.x.fraction(value), -0.01), 1.01)

    def py(self, value: float) -> float:
        """Vertical position of a value of y."""
        inner = self.height - MARGIN_TOP - MARGIN_BOTTOM
        return self.height - MARGIN_BOTTOM - inner * min(max(self.y.fraction(value), -0.01), 1.01)

    def trace(self, xs: Values, ys: Values) -> str:
        """The path data of a line."""
        places = (f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in zip(xs, ys, strict=True))
        return "M" + "L".join(places)

    def line(
        self,
        xs: Values,
        ys: Values,
        style: str,
        *,
        tip: Callable[[float, float], str] | None = None,
        frames: str = "",
    ) -> Chart:
        """A line; with `tip`, its points have tooltips; `frames` names its film."""
        self._path(f"line {style}", self.trace(xs, ys), frames)
        return self if tip is None else self.hits(xs, ys, tip)

    def steps(
        self, xs: Values, ys: Values, style: str, *, tip: Callable[[float, float], str]
    ) -> Chart:
        """A line that stays at ys[i] from xs[i] to xs[i + 1]; one more x than y."""
        corners_x = np.repeat(np.asarray(xs, dtype=float), 2)[1:-1]
        corners_y = np.repeat(np.asarray(ys, dtype=float), 2)
        return self.line(corners_x, corners_y, style).hits(list(xs)[:-1], ys, tip)

    def dots(
        self,
        xs: Values,
        ys: Values,
        style: str,
        *,
        tips: Sequence[str] | None = None,
        radius: float = 2.6,
    ) -> Chart:
        """Points."""
        tips = tips if tips is not None else [""] * len(xs)
        for x, y, tip in zip(xs, ys, tips, strict=True):
            self._marks.append(self._dot(x, y, f"dot {style}", radius, tip))
        return self

    def bars(
        self, edges: Values, heights: Values, styles: Sequence[str], tips: Sequence[str]
    ) -> Chart:
        """Vertical bars from zero between neighbouring edges."""
        base = self.py(min(max(0.0, self.y.low), self.y.high))
        for left, right, height, style, tip in zip(
            edges[:-1], edges[1:], heights, styles, tips, strict=True
        ):
            a, b = sorted((self.px(left), self.px(right)))
            top = self.py(height)
            self._marks.append(
                f'<rect class="bar {style}" x="{a + 0.5:.1f}" y="{min(top, base):.1f}" '
                f'width="{max(b - a - 1, 0.8):.1f}" height="{abs(base - top):.1f}"'
                f"{tip_attribute(tip)}/>"
            )
        return self

    def rule(self, *, x: float | None = None, y: float | None = None) -> Chart:
        """A thin line across the chart."""
        x1, x2 = (self.left, self.width - MARGIN_RIGHT) if x is None else (self.px(x),) * 2
        y1, y2 = (MARGIN_TOP, self.height - MARGIN_BOTTOM) if y is None else (self.py(y),) * 2
        return self._path("rule", f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")

    def band(self, xs: Values, lows: Values, highs: Values, *, frames: str = "") -> Chart:
        """The area between two lines."""
        return self._path("band", self.area(xs, lows, highs), frames)

    def area(self, xs: Values, lows: Values, highs: Values) -> str:
        """The path data of a band."""
        back = self.trace(np.asarray(xs)[::-1], np.asarray(lows)[::-1])
        return f"{self.trace(xs, highs)}L{back[1:]}Z"

    def columns(self, xs: Values, heights: Values, *, frames: str = "") -> Chart:
        """One bar for each of the axis's names, from zero."""
        return self._path("bar a", self.column_trace(xs, heights), frames)

    def column_trace(self, xs: Values, heights: Values) -> str:
        """The path data of `columns`."""
        foot = f"{self.py(0.0):.1f}"
        return "".join(
            f"M{self.px(x - 0.32):.1f} {foot}V{self.py(h):.1f}H{self.px(x + 0.32):.1f}V{foot}Z"
            for x, h in zip(xs, heights, strict=True)
        )

    def ledges(self, xs: Values, ys: Values, style: str, *, frames: str = "") -> Chart:
        """A short level line above each of the axis's names."""
        return self._path(f"line {style}", self.ledge_trace(xs, ys), frames)

    def ledge_trace(self, xs: Values, ys: Values) -> str:
        """The path data of `ledges`."""
        return "".join(
            f"M{self.px(x - 0.36):.1f} {self.py(y):.1f}H{self.px(x + 0.36):.1f}"
            for x, y in zip(xs, ys, strict=True)
        )

    def hits(self, xs: Values, ys: Values, tip: Callable[[float, float], str]) -> Chart:
        """Invisible points with tooltips."""
        for x, y in zip(xs, ys, strict=True):
            self._marks.append(self._dot(x, y, "hit", 7, tip(x, y)))
        return self

    def rug(self, xs: Values) -> Chart:
        """Short strokes at the data."""
        bottom = self.height - MARGIN_BOTTOM
        inside = [x for x in xs if 0.0 <= self.x.fraction(x) <= 1.0]
        strokes = "".join(f"M{self.px(x):.1f} {bottom}v-7" for x in inside)
        return self._path("rug", strokes or "M0 0")

    def svg(self) -> str:
        """The drawing."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}"><title>{escape(self.title)}</title>'
            + self._frame()
            + "".join(self._marks)
            + "</svg>"
        )

    def _path(self, style: str, d: str, frames: str = "") -> Chart:
        film = f' data-film="{escape(frames)}"' if frames else ""
        self._marks.append(f'<path class="{style}" d="{d}"{film}/>')
        return self

    def _dot(self, x: float, y: float, style: str, radius: float, tip: str) -> str:
        return (
            f'<circle class="{style}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" '
            f'r="{radius}"{tip_attribute(tip)}/>'
        )

    def _frame(self) -> str:
        left, right = self.left, self.width - MARGIN_RIGHT
        top, bottom = MARGIN_TOP, self.height - MARGIN_BOTTOM
        parts = []
        for tick, name in self._y_ticks:
            y = self.py(tick)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right}"/>')
            parts.append(svg_text("tick", left - 7, y + 4, name, LONGEST_NAME, "end"))
        parts += self._x_ticks(top, bottom)
        middle = (left + right) / 2
        parts.append(
            svg_text("label", middle, self.height - 7, self.x.label, (right - left) / LETTER)
        )
        turned = f' transform="translate(13 {(top + bottom) / 2}) rotate(-90)"'
        parts.append(svg_text("label", 0, 0, self.y.label, (bottom - top) / LETTER, more=turned))
        parts.append(f'<path class="axis" d="M{left:.1f} {top}V{bottom}H{right}"/>')
        return "".join(parts)

    def _x_ticks(self, top: float, bottom: float) -> list[str]:
        """Grid lines, and names unless they would touch each other or the edge."""
        parts, free_from = [], [0.0]
        if self.x.names and not self.x.label:
            free_from.append(0.0)  # a second line of names
        for tick in sorted(self.x.ticks(), key=self.px):
            x, name = self.px(tick), self.x.tick_name(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
            half = LETTER * min(len(name), LONGEST_NAME) / 2
            place = min(max(x, self.left - 5 + half), self.width - half - 1)
            line = next((i for i, free in enumerate(free_from) if place - half >= free), None)
            if line is None:
                continue
            parts.append(svg_text("tick", place, bottom + 17 + 17 * line, name, LONGEST_NAME))
            free_from[line] = place + half + LETTER
        return parts


def svg_text(
    style: str, x: float, y: float, text: str, room: float, anchor: str = "middle", more: str = ""
) -> str:
    """Text of at most `room` letters; longer text is cut and shown as a tip."""
    cut = len(text) > room
    shown = text[: max(int(room) - 1, 1)] + "…" if cut else text
    tip = tip_attribute(text) if cut else ""
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}{tip}>'
        f"{escape(shown)}</text>"
    )
