"""Charts and numbers as text of a page; colours are CSS classes that the style sheet defines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import escape
from typing import NamedTuple

import numpy as np

from bandfall._typing import Values

SMALLEST, LARGEST = 1e-4, 1e7  # outside, powers of ten are used
APART = 10_000  # from here on, commas separate thousands
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# Steps between ticks of dates, by unit of NumPy.
_DATE_STEPS = [
    *((unit, n) for unit in "sm" for n in (1, 5, 15, 30)),
    *(("h", n) for n in (1, 3, 6, 12)),
    *(("D", n) for n in (1, 2, 7, 14)),
    *(("M", n) for n in (1, 3, 6)),
    *(("Y", n * 10**e) for e in range(4) for n in (1, 2, 5)),
]

MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 16, 12, 46
# Widths of letters in ticks on a phone, where they are drawn larger.
LETTER = 8.4
DIGIT = 8.9  # in wide fonts
LONGEST_TICK = 14  # letters
RUG = 0.028  # length of a stroke, as a share of the height


@dataclass(frozen=True)
class Axis:
    """One axis of a chart: its label and its range.

    If `low` is above `high`, the axis is reversed. `names` label the values 0, 1, 2, … of a feature
    that is not numeric. On an axis of `dates`, values are seconds since 1970. Values up to `zero`
    stand for zero, which a logarithmic axis cannot show.
    """

    label: str
    low: float
    high: float
    log: bool = False
    names: tuple[str, ...] = ()
    dates: bool = False
    zero: float = -math.inf

    @classmethod
    def around(
        cls, label: str, *values: Values, log: bool = False, zero: float = -math.inf
    ) -> Axis:
        """An axis that contains all values, with a margin."""
        flat = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values])
        flat = flat[np.isfinite(flat) & ((flat > 0) | (not log))]
        low, high = (float(flat.min()), float(flat.max())) if len(flat) else (0.1, 1.0)
        if log:
            room = max((high / low) ** 0.04, 1.05)
            return cls(label, low / room, high * room, True, zero=zero)
        room = 0.04 * (high - low) or 0.5 * abs(high) or 0.5
        return cls(label, low - room, high + room)

    def fraction(self, value: float) -> float:
        """Position of a value between `low` (0) and `high` (1), or just beyond."""
        share = (value - self.low) / (self.high - self.low)
        if self.log:
            share = math.log(max(value, 1e-300) / self.low) / math.log(self.high / self.low)
        return min(max(share, -0.01), 1.01)

    def ticks(self) -> list[float]:
        """Round values on the axis."""
        low, high = sorted((self.low, self.high))
        if self.names:
            return [float(i) for i in range(len(self.names))]
        if self.dates:
            return _date_ticks(low, high)
        return _log_ticks(low, high) if self.log else _linear_ticks(low, high)

    def tick_name(self, tick: float) -> str:
        """The label of a tick; all ticks of a linear axis have one notation."""
        if self.dates:
            years = all(f"{_moment(one):%j %T}" == "001 00:00:00" for one in self.ticks())
            return _date_name(tick, math.inf if years else abs(self.high - self.low))
        if self.names:
            return self.names[int(tick)]
        largest = 0.0 if self.log else max(map(abs, self.ticks()), default=0.0)
        powers = largest >= LARGEST or 0.0 < largest < SMALLEST
        return number(tick, powers=powers, apart=largest >= APART)

    def words(self, value: float) -> str:
        """A value with its label, for tooltips."""
        if self.dates:
            text = f"{_moment(value):%Y-%m-%d %H:%M}".removesuffix(" 00:00")
        elif self.names:
            text = self.names[int(value)]
        else:
            text = "0" if value <= self.zero else number(value)
        return f"{self.label} {text}".strip()


class Chart:
    """A frame with two axes to which marks are added.

    `title` describes the chart for screen readers. The page scales the drawing. A line may have a
    row of values for each of several moments: the last is drawn, and the path data of every moment
    are in `films`, by the name of the line.
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
        return self.left + (self.right - self.left) * self.x.fraction(value)

    def py(self, value: float) -> float:
        """Vertical position of a value of y."""
        return self.bottom - (self.bottom - self.top) * self.y.fraction(value)

    def path(self, xs: Values, ys: Values, style: str, *, name: str = "", tip: str = "") -> Chart:
        """A line, or an area if the style fills it; NaN in `xs` leaves a gap."""
        paths = [self._trace(xs, one) for one in np.atleast_2d(ys)]
        film = ""
        if len(paths) > 1:
            self.films[name], film = paths, f' data-film="{escape(name)}"'
        self._marks.append(f'<path class="{style}" d="{paths[-1]}"{film}{_tip(tip)}/>')
        return self

    def line(self, xs: Values, ys: Values, style: str) -> Chart:
        """A line through points."""
        return self.path(xs, ys, f"line {style}")

    def band(self, xs: Values, lower: Values, upper: Values, *, name: str = "") -> Chart:
        """The area between two lines."""
        there, back = np.asarray(xs), np.asarray(lower)[..., ::-1]
        ys = np.concatenate([upper, back], axis=-1)
        return self.path(np.append(there, there[::-1]), ys, "band", name=name)

    def dots(
        self, xs: Values, ys: Values, style: str = "hit", *, names: str | Sequence[str] = ""
    ) -> Chart:
        """Points, invisible by default, with tooltips that begin with their names."""
        radius = 7 if style == "hit" else 4 if "solid" in style else 2.6
        for x, y, name in zip(xs, ys, np.broadcast_to(names, len(xs)), strict=True):
            tip = f"{name}\n{self.x.words(x)}\n{self.y.words(y)}".lstrip("\n")
            place = f'cx="{self.px(x):.1f}" cy="{self.py(y):.1f}" r="{radius}"'
            self._marks.append(f'<circle class="dot {style}" {place}{_tip(tip)}/>')
        return self

    def bars(self, edges: Values, heights: Values, styles: Sequence[str]) -> Chart:
        """Vertical bars from zero between neighbouring edges."""
        zero = min(max(0.0, self.y.low), self.y.high)
        for left, right, height, style in zip(edges[:-1], edges[1:], heights, styles, strict=True):
            tip = f"{self.x.words(left)}\nto {self.x.words(right)}\n{self.y.words(height)}"
            corners = [left, left, right, right], [zero, height, height, zero]
            self.path(*corners, f"bar {style}", tip=tip)
        return self

    def rule(self, *, x: float | None = None, y: float | None = None) -> Chart:
        """A thin line across the chart."""
        xs = (self.x.low, self.x.high) if x is None else (x, x)
        return self.path(xs, (self.y.low, self.y.high) if y is None else (y, y), "rule")

    def rug(self, xs: Values) -> Chart:
        """Short strokes at the data."""
        inside = [x for x in xs if 0.0 <= self.x.fraction(x) <= 1.0]
        ends = (self.y.low, self.y.low + RUG * (self.y.high - self.y.low), 0.0)
        strokes = np.add.outer(inside, [0.0, 0.0, np.nan]).ravel()
        return self.path(strokes, ends * len(inside), "rug") if inside else self

    def svg(self) -> str:
        """The drawing."""
        title = escape(self.title)
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{title}">'
            f"<title>{title}</title>{self._frame()}{''.join(self._marks)}</svg>"
        )

    def _trace(self, xs: Values, ys: Values) -> str:
        """Path data."""
        places = [
            "M" if np.isnan(x) else f"{self.px(x):.1f} {self.py(y):.1f}"
            for x, y in zip(xs, ys, strict=True)
        ]
        return ("M" + "L".join(places)).replace("LML", "M").removesuffix("LM")

    def _frame(self) -> str:
        left, right, top, bottom = self.left, self.right, self.top, self.bottom
        middle, height = (left + right) / 2, (top + bottom) / 2
        turned = f' transform="translate(13 {height}) rotate(-90)"'
        parts = []
        for tick, name in self._y_ticks:
            y = self.py(tick)
            parts.append(f'<path class="grid" d="M{left:.1f} {y:.1f}H{right}"/>')
            parts.append(_text("tick", left - 7, y + 4, name, LONGEST_TICK, "end"))
        return "".join([
            *parts,
            *self._x_ticks(),
            _text("label", middle, self.height - 7, self.x.label, (right - left) / LETTER),
            _text("label", 0, 0, self.y.label, (bottom - top) / LETTER, more=turned),
            f'<path class="axis" d="M{left:.1f} {top}V{bottom}H{right}"/>',
        ])  # fmt: skip

    def _x_ticks(self) -> list[str]:
        """Grid lines, and names unless they would touch each other or the edge."""
        parts = []
        free_from = [0.0] * (2 if self.x.names and not self.x.label else 1)  # by line of names
        for tick in sorted(self.x.ticks(), key=self.px):
            x, name = self.px(tick), self.x.tick_name(tick)
            parts.append(f'<path class="grid" d="M{x:.1f} {self.top}V{self.bottom}"/>')
            half = LETTER * min(len(name), LONGEST_TICK) / 2
            place = min(max(x, self.left - 5 + half), self.width - half - 1)
            line = next((i for i, free in enumerate(free_from) if place - half >= free), None)
            if line is not None:
                y = self.bottom + 17 + 17 * line
                parts.append(_text("tick", place, y, name, LONGEST_TICK))
                free_from[line] = place + half + LETTER
        return parts


class Bar(NamedTuple):
    """A bar with its name on the left and `label` on the right; `error` is drawn to both sides."""

    name: str
    value: float
    label: str
    error: float


def ranking(bars: Sequence[Bar], title: str) -> str:
    """Horizontal bars with names."""
    low = min(0.0, *(bar.value - bar.error for bar in bars))
    high = max(0.0, *(bar.value + bar.error for bar in bars)) or 1.0

    def span(style: str, *ends: float) -> str:
        a, b = sorted(100 * (end - low) / (high - low) for end in ends)
        return f'<i class="{style}" style="left: {a:.1f}%; width: {b - a:.1f}%"></i>'

    rows = []
    for name, value, label, error in bars:
        bar, whisker = span("bar a", 0.0, value), span("error", value - error, value + error)
        tip = _tip(f"{name}\n{title} {label} ± {error:.4f}")
        rows.append(
            f'<li{tip}><span>{escape(name)}</span><span class="track">'
            f"{bar}{whisker}</span>"
            f'<span class="value">{escape(label)}</span></li>'
        )
    return f'<ul class="ranking" aria-label="{escape(title)}">{"".join(rows)}</ul>'


def _text(
    style: str, x: float, y: float, text: str, room: float, anchor: str = "middle", more: str = ""
) -> str:
    """Text of at most `room` letters; longer text is cut and shown as a tip."""
    cut = len(text) > room
    shown = text[: max(int(room) - 1, 1)] + "…" if cut else text
    return (
        f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}'
        f"{_tip(text if cut else '')}>{escape(shown)}</text>"
    )


def _tip(text: str) -> str:
    return f' data-tip="{escape(text)}"' if text else ""


def _moment(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=float(seconds))


def _date_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round moments, from seconds to millennia apart."""
    for unit, step in _DATE_STEPS:
        ends = np.array([low, high]).astype("datetime64[s]").astype(f"datetime64[{unit}]")
        origin = 1970 if unit == "Y" else 0  # so that years are round
        first, last = ends.astype(int) + origin
        if last - first > 10 * most * step:
            continue
        places = np.arange(-(-first // step) * step, last + 1, step) - origin
        moments = places.astype(f"datetime64[{unit}]").astype("datetime64[s]").astype(float)
        ticks = [float(tick) for tick in moments if low <= tick <= high]
        if len(ticks) <= most:
            break
    return ticks


def _date_name(seconds: float, span: float) -> str:
    """A date or time, as precise as an axis of this span needs."""
    moment, days = _moment(seconds), span / 86400
    if days > 1500:
        return f"{moment:%Y}"
    if days > 75:
        return f"{moment:%b %Y}"
    if days > 4:
        return f"{moment.day} {moment:%b}"
    return f"{moment:%H:%M:%S}" if span < 300 else f"{moment.day} {moment:%b %H:%M}"


def _linear_ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    raw = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [i * step for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, fewest: int = 3) -> list[float]:
    """Powers of ten, with 2 and 5 between if there are few; linear within a decade."""
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    few = math.log10(high / low) < 2.5
    ticks = [m * 10.0**e for e in exponents for m in ((1, 2, 5) if few else (1,))]
    ticks = [tick for tick in ticks if low <= tick <= high]
    if len(ticks) < fewest:
        return [tick for tick in _linear_ticks(low, high, 4) if low <= tick <= high]
    return ticks[:: math.ceil(len(ticks) / 7)]


def number(value: float, *, powers: bool = False, apart: bool = False) -> str:
    """A number as readable text: few digits, separated thousands, powers of ten if they help.

    Numbers of four digits, which may be years, are not separated unless `apart`.

    >>> [number(v) for v in (0.0257512, -3.0, 1984.0, 1.5e6, 2e-7, -4.5e12, float("nan"))]
    ['0.02575', '−3', '1984', '1,500,000', '2 × 10⁻⁷', '−4.5 × 10¹²', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    exponent, tail = math.floor(math.log10(abs(value))), ""
    if SMALLEST <= abs(value) < LARGEST and not powers:
        digits = min(max(0, 3 - exponent), 7)
        comma = "," if apart or abs(round(value)) >= APART else ""
        text = f"{value:{comma}.{digits}f}"
    else:
        text, tail = f"{value / 10.0**exponent:.2f}", f" × 10{str(exponent).translate(_RAISED)}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−") + tail
