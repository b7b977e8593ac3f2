"""Charts as SVG text: they need no library to draw, no network to show, and print sharply.

Colours are classes (``a``, ``b``, ``soft``, …) that the page's style sheet fills, so that one
drawing serves light, dark and paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 58, 14, 12, 42


@dataclass(frozen=True)
class Axis:
    """A direction of a chart: its label and the values between which it runs.

    `low` may lie above `high`: the axis is then reversed.
    """

    label: str
    low: float
    high: float
    log: bool = False

    @classmethod
    def around(cls, label: str, *values: Sequence[float] | np.ndarray, log: bool = False) -> Axis:
        """The axis that holds all values, with some room."""
        flat = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        low, high = (float(flat.min()), float(flat.max())) if len(flat) else (0.1, 1.0)
        if log:
            room = max((high / low) ** 0.04, 1.05)
            return cls(label, low / room, high * room, True)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, low - room, high + room)

    def fraction(self, value: float) -> float:
        """Where between `low` (0) and `high` (1) a value lies."""
        if self.log:
            value = max(value, 1e-300)
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        low, high = sorted((self.low, self.high))
        return _log_ticks(low, high) if self.log else _linear_ticks(low, high)


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    ticks = [m * 10.0**e for e in exponents for m in ((1, 2, 5) if few else (1,))]
    ticks = [tick for tick in ticks if low <= tick <= high]
    every = math.ceil(len(ticks) / 7) or 1
    return ticks[::every]


def number(value: float) -> str:
    """A number for people: few digits, no exponent where it can be avoided.

    Examples
    --------
    >>> [number(v) for v in (0.0257512, -3.0, 1234.567, 1.5e6, 2e-7, float("nan"))]
    ['0.02575', '−3', '1,235', '1.5e6', '2e−7', '–']
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if value == 0:
        return "0"
    size = abs(value)
    if 1e-3 <= size < 1e6:
        digits = max(0, 3 - math.floor(math.log10(size)))
        text = _stripped(f"{value:,.{min(digits, 6)}f}")
    else:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{_stripped(mantissa)}e{int(exponent)}"
    return text.replace("-", "−")


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


class Chart:
    """A frame with two axes, onto which marks are put one after the other.

    Parameters
    ----------
    x, y : Axis
    title : str
        What the chart shows, for readers who cannot see it.
    width, height : int
        In the units of the drawing; the page scales it.
    """

    def __init__(self, x: Axis, y: Axis, title: str, *, width: int = 520, height: int = 300):
        self.x, self.y, self.title = x, y, title
        self.width, self.height = width, height
        self._marks: list[str] = []

    def px(self, value: float) -> float:
        """Horizontal place of a value of x."""
        inner = self.width - MARGIN_LEFT - MARGIN_RIGHT
        return MARGIN_LEFT + inner * min(max(self.x.fraction(value), -0.01), 1.01)

    def py(self, value: float) -> float:
        """Vertical place of a value of y."""
        inner = self.height - MARGIN_TOP - MARGIN_BOTTOM
        return self.height - MARGIN_BOTTOM - inner * min(max(self.y.fraction(value), -0.01), 1.01)

    def trace(self, xs: Sequence[float] | np.ndarray, ys: Sequence[float] | np.ndarray) -> str:
        """The path data of a line."""
        places = (f"{self.px(x):.1f} {self.py(y):.1f}" for x, y in zip(xs, ys, strict=True))
        return "M" + "L".join(places)

    def line(
        self,
        xs: Sequence[float] | np.ndarray,
        ys: Sequence[float] | np.ndarray,
        style: str,
        *,
        tip: Callable[[float, float], str] | None = None,
        frames: str = "",
    ) -> Chart:
        """A line; with `tip`, its points answer to the pointer; `frames` names its film."""
        film = f' data-film="{escape(frames)}"' if frames else ""
        self._marks.append(f'<path class="line {style}" d="{self.trace(xs, ys)}"{film}/>')
        if tip is not None:
            for x, y in zip(xs, ys, strict=True):
                self._marks.append(self._dot(x, y, "hit", 7, tip(x, y)))
        return self

    def steps(
        self,
        xs: Sequence[float] | np.ndarray,
        ys: Sequence[float] | np.ndarray,
        style: str,
        *,
        tip: Callable[[float, float], str],
    ) -> Chart:
        """A line that stays at ys[i] from xs[i] to xs[i + 1]; one more x than y."""
        corners_x = np.repeat(np.asarray(xs, dtype=float), 2)[1:-1]
        corners_y = np.repeat(np.asarray(ys, dtype=float), 2)
        self.line(corners_x, corners_y, style)
        for x, y in zip(list(xs)[:-1], ys, strict=True):
            self._marks.append(self._dot(x, y, "hit", 7, tip(x, y)))
        return self

    def dots(
        self,
        xs: Sequence[float] | np.ndarray,
        ys: Sequence[float] | np.ndarray,
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
        self,
        edges: Sequence[float] | np.ndarray,
        heights: Sequence[float] | np.ndarray,
        styles: Sequence[str],
        tips: Sequence[str],
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
                f'width="{max(b - a - 1, 0.8):.1f}" height="{abs(base - top):.1f}"{_tip(tip)}/>'
            )
        return self

    def rule(self, *, x: float | None = None, y: float | None = None) -> Chart:
        """A thin line across the chart."""
        x1, x2 = (MARGIN_LEFT, self.width - MARGIN_RIGHT) if x is None else (self.px(x),) * 2
        y1, y2 = (MARGIN_TOP, self.height - MARGIN_BOTTOM) if y is None else (self.py(y),) * 2
        self._marks.append(f'<path class="rule" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')
        return self

    def svg(self) -> str:
        """The drawing."""
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" '
            f'aria-label="{escape(self.title)}"><title>{escape(self.title)}</title>'
            + self._frame()
            + "".join(self._marks)
            + "</svg>"
        )

    def _dot(self, x: float, y: float, style: str, radius: float, tip: str) -> str:
        return (
            f'<circle class="{style}" cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" '
            f'r="{radius}"{_tip(tip)}/>'
        )

    def _frame(self) -> str:
        left, right = MARGIN_LEFT, self.width - MARGIN_RIGHT
        top, bottom = MARGIN_TOP, self.height - MARGIN_BOTTOM
        parts = []
        for tick in self.y.ticks():
            y = self.py(tick)
            parts.append(f'<path class="grid" d="M{left} {y:.1f}H{right}"/>')
            parts.append(
                f'<text class="tick" x="{left - 7}" y="{y + 4:.1f}" text-anchor="end">'
                f"{number(tick)}</text>"
            )
        for tick in self.x.ticks():
            x = self.px(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
            parts.append(
                f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">'
                f"{number(tick)}</text>"
            )
        middle = (left + right) / 2
        parts.append(
            f'<text class="label" x="{middle}" y="{self.height - 7}" text-anchor="middle">'
            f"{escape(self.x.label)}</text>"
        )
        parts.append(
            f'<text class="label" transform="translate(13 {(top + bottom) / 2}) rotate(-90)" '
            f'text-anchor="middle">{escape(self.y.label)}</text>'
        )
        parts.append(f'<path class="axis" d="M{left} {top}V{bottom}H{right}"/>')
        return "".join(parts)


def _tip(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""


def ranking(
    names: Sequence[str],
    values: Sequence[float] | np.ndarray,
    styles: Sequence[str],
    tips: Sequence[str],
    title: str,
    *,
    errors: Sequence[float] | np.ndarray | None = None,
) -> str:
    """Horizontal bars with their names on the left and values at their ends."""
    row, left, right, width = 25, 190, 60, 560
    height = row * len(names) + 8
    values = np.asarray(values, dtype=float)
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max())) or 1.0

    def place(value: float) -> float:
        return left + (width - left - right) * (value - low) / (high - low)

    parts = []
    for i, (name, value, style, tip) in enumerate(zip(names, values, styles, tips, strict=True)):
        y = 4 + i * row
        a, b = sorted((place(0.0), place(value)))
        shown = name if len(name) <= 28 else name[:27] + "…"
        parts.append(
            f'<text class="name" x="{left - 8}" y="{y + 16}" text-anchor="end">'
            f"{escape(shown)}</text>"
            f'<rect class="bar {style}" x="{a:.1f}" y="{y + 3}" width="{max(b - a, 1):.1f}" '
            f'height="{row - 7}" rx="2"{_tip(tip)}/>'
        )
        end = b
        if errors is not None:
            e1, e2 = place(value - errors[i]), place(value + errors[i])
            middle = y + 3 + (row - 7) / 2
            parts.append(f'<path class="error" d="M{e1:.1f} {middle}H{e2:.1f}"/>')
            end = max(b, e2)
        parts.append(
            f'<text class="value" x="{end + 6:.1f}" y="{y + 16}">{number(float(value))}</text>'
        )
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
        f'<svg class="spark" viewBox="0 0 {6 * len(counts)} 22"{_tip(tip)}>'
        f"<title>{escape(tip)}</title>{bars}</svg>"
    )
