"""Numbers, dates and times written as text.

All values of a column are written in one style: "point" (1,234.5), "comma" (1.234,5), "iso"
(2024-03-31 12:00), "day first" (31.3.2024), "month first" (3/31/2024), "clock" (12:30, or
1 days 12:30:00). The style is learned from the training rows, which must all agree with it, and
applied to later rows.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import numpy as np

NUMBER_STYLES = ("point", "comma")
DATE_STYLES = ("iso", "day first", "month first")
# Styles of text that can be converted to each kind of column.
STYLES = {"number": NUMBER_STYLES, "datetime": DATE_STYLES, "duration": ("clock",)}
STYLE_WORDS = {"point": "decimal point", "comma": "decimal comma", "iso": "year first"}
# Words for a missing value, and errors of formulas in spreadsheets.
_FAILED = ("#n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!")
NOT_AVAILABLE = frozenset(("na", "n/a", "nan", "null", "none", *_FAILED))
# Other entries for a missing number or date.
_GAPS = ("?", "-", ".", "–", "—", "--", "...", "…", "*", "unknown", "missing", "not available")
_NO_VALUE = NOT_AVAILABLE | {*_GAPS, "n.a.", "k.a.", "k. a.", "keine angabe", "unbekannt"}
_FEW = 0.1  # share of levels that may be typing errors
# Other words are missing values in a column with at least _VALUES distinct numbers or dates, if
# there are at most _WORDS such words, in at most a share of _CELLS of the cells.
_VALUES, _WORDS, _CELLS = 20, 5, 0.25
_EPOCH = datetime.datetime(1970, 1, 1)
_usual: ContextVar[str] = ContextVar("_usual", default="point")

_SPACES = " '’\u00a0\u2009\u202f"
_NUMBERS = {
    style: re.compile(
        rf"[+-]?(?:(?:[1-9]\d{{0,2}}(?:[{group}]\d{{3}})+|\d+)(?:{decimal}\d*)?|{decimal}\d+)"
        r"(?:[eE][+-]?\d{1,3})?",
        re.ASCII,
    )
    for style, group, decimal in (("point", _SPACES + ",", r"\."), ("comma", _SPACES + ".", ","))
}
_PLAIN = {
    "point": str.maketrans("", "", _SPACES + ","),
    "comma": str.maketrans(",", ".", _SPACES + "."),
}
_POINTS_AND_COMMAS = str.maketrans(",.", ".,")
_UNITS = "%$€£¥"
_UNIT = re.compile(r"^([+-]?)[$€£¥]\s*|\s*[%$€£¥]$")
_CODE = re.compile(r"[+-]?0\d+", re.ASCII)  # codes with leading zeros: 01234

_CLOCK = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<rest>\d{1,9}))?)?"
    r"\s*(?P<half>[AaPp][Mm])?\s*(?:Z|UTC|[+-]\d\d:?\d\d)?)?"
)
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"
_DATES = {
    style: re.compile(rf"{first}(?P<sign>[-/.]){second}(?P=sign){third}{_CLOCK}", re.ASCII)
    for style, first, second, third in (
        ("iso", _YEAR, _MONTH, _DAY),
        ("day first", _DAY, _MONTH, _YEAR),
        ("month first", _MONTH, _DAY, _YEAR),
    )
}
_PLAIN_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?", re.ASCII)
_HOURS = re.compile(
    r"(?=.)(?:(-?\d{1,6}) days?(?:$|,? \+?(?=\d)))?"
    r"(?:(\d{1,3}):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?)?",
    re.ASCII,
)


@contextmanager
def usual_style(style: str) -> Iterator[None]:
    """Read numbers that fit both styles, such as 1.234, in this style."""
    token = _usual.set(style)
    try:
        yield
    finally:
        _usual.reset(token)


def style_of(kind: str, levels: Iterable[str]) -> str | None:
    """The style in which all of these are numbers, dates or times; None if there is no such style.

    Numbers in both styles have the usual one: "point", unless `usual_style` sets another. Digits
    with leading zeros are codes. Either all numbers have a per cent sign or a currency sign, or
    none has. Dates in both orders have the day first if they are written with points.
    """
    known = _present(levels)
    styles = sorted(STYLES[kind], key=lambda style: style != _usual.get())
    fits = (style for style in styles if _all_are(known, style))
    if kind == "number":
        plain = not any(_CODE.fullmatch(text) for text in known)
        return next(fits, None) if plain and len(set(map(_unit, known))) == 1 else None
    both = list(fits)
    if len(both) == 2 and all("." in text.split()[0] for text in known):
        return "day first"
    return both[0] if len(both) == 1 else None


def missing_words(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Words in a column of numbers or times that stand for missing values, as written.

    These are the common ones ("?", "unknown"), and other words without digits if there are few of
    them, in few cells, among many numbers or dates. `counts` has the number of cells of each level.
    """
    words = [text for text in counts if not any(sign.isdigit() for sign in text)]
    other = [word for word in words if not is_gap(word)]
    n_cells = sum(counts[word] for word in other)
    few = len(other) <= _WORDS and n_cells <= _CELLS * sum(counts.values())
    if other and (not few or len(counts) - len(words) < _VALUES):
        return ()
    return tuple(sorted(word for word in words if word.strip().lower() not in NOT_AVAILABLE))


def is_gap(text: str) -> bool:
    """Whether this word is a common entry for a missing number or date."""
    return text.strip().lower() in _NO_VALUE


def _present(levels: Iterable[str]) -> list[str]:
    return [text.strip() for text in levels if not is_gap(text)]


def slips(levels: Iterable[str]) -> list[str]:
    """The levels that are not numbers if nearly all others are; else empty."""
    known = _present(levels)
    if any(_CODE.fullmatch(text) for text in known):
        return []
    wrong = min(
        ([text for text in known if not is_number(text, style)] for style in NUMBER_STYLES), key=len
    )
    return wrong if len(wrong) < _FEW * len(known) else []


def is_number(text: str, style: str) -> bool:
    """Whether a text is a number in this style."""
    return _number(text.strip(), style) is not None


def plain_numbers(levels: Sequence[str], style: str) -> np.ndarray | None:
    """Levels as numbers, NaN for "n/a" and the like; None if any needs interpretation.

    Units, grouped digits and other words need interpretation. Unlike `read`, this reads codes with
    leading zeros and infinite values.
    """
    joined = "".join(levels)
    if "_" in joined or not joined.isascii():  # only Python reads these as numbers
        return None
    numbers = np.empty(len(levels))
    for i, text in enumerate(levels):
        try:
            numbers[i] = float(text if style == "point" else text.translate(_POINTS_AND_COMMAS))
        except ValueError:
            if text.strip().lower() not in NOT_AVAILABLE:
                return None
            numbers[i] = np.nan
    return None if np.isnan(numbers).all() else numbers


def _unit(text: str) -> str:
    """The per cent or currency sign of a number, or ""."""
    return next((sign for sign in text if sign in _UNITS), "")


def _number(text: str, style: str) -> float | None:
    text = _UNIT.sub(r"\1", text.replace("−", "-"), count=1)
    if not _NUMBERS[style].fullmatch(text):
        return None
    value = float(text.translate(_PLAIN[style]))
    return value if math.isfinite(value) else None


def is_ambiguous_date(levels: Iterable[str]) -> bool:
    """Whether these are dates both with the day first and with the month first."""
    known = _present(levels)
    return style_of("datetime", known) is None and _all_are(known, "month first")


def read(levels: Sequence[str], style: str) -> np.ndarray:
    """Levels as numbers or seconds, NaN for gaps; ValueError for the first of another style."""
    values = _values(levels, style)
    for i in np.flatnonzero(np.isnan(values)).tolist():
        if not is_gap(levels[i]):
            noun = "a number" if style in NUMBER_STYLES else f"a date ({style})"
            noun = "a time (12:30)" if style == "clock" else noun
            raise ValueError(f"{levels[i]!r} is not {noun}")
    return values


def _all_are(levels: list[str], style: str) -> bool:
    if not levels or np.isnan(_values(levels[:1], style)).any():
        return False
    return not np.isnan(_values(levels, style)).any()


def _values(levels: Sequence[str], style: str) -> np.ndarray:
    """Numbers, or seconds (of dates since 1970), NaN for other text."""
    levels = [text.strip() for text in levels]
    if style == "iso" and all(_PLAIN_ISO.fullmatch(text) for text in levels):
        with suppress(ValueError):  # a day that does not exist
            # A hundred times faster than one by one.
            return np.array(levels, dtype="datetime64[s]").astype(np.float64)
    if style in NUMBER_STYLES:
        return np.array([_number(text, style) for text in levels], dtype=np.float64)
    if style == "clock":
        return np.array([_clock(text) for text in levels], dtype=np.float64)
    return np.array([_date(text, style) for text in levels], dtype=np.float64)


def _clock(text: str) -> float | None:
    match = _HOURS.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds + float(f"0.{match[5] or 0}")


def _date(text: str, style: str) -> float | None:
    match = _DATES[style].fullmatch(text)
    if match is None:
        return None
    year, month, day = int(match["year"]), int(match["month"]), int(match["day"])
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"].lower() == "pm")
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds() + float(f"0.{match['rest'] or 0}")
