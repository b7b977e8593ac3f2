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
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

NUMBER_STYLES = ("point", "comma")
DATE_STYLES = ("iso", "day first", "month first")
CLOCK = "clock"
_STYLE_WORDS = {"point": "decimal point", "comma": "decimal comma", "iso": "year first"}
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
_POINTS_AND_COMMAS = str.maketrans(",.", ".,")
_UNITS = "%$€£¥"
_UNIT = re.compile(r"^([+-]?)[$€£¥]\s*|\s*[%$€£¥]$")
_CODE = re.compile(r"[+-]?0\d+", re.ASCII)  # codes with leading zeros: 01234

_CLOCK = (
    r"(?:[T ]+(\d{1,2}):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s*([AaPp][Mm])?"
    r"\s*(?:Z|UTC|[+-]\d\d:?\d\d)?)?"
)
_DATES = {
    "iso": re.compile(rf"(\d{{4}})([-/.])(\d{{1,2}})\2(\d{{1,2}}){_CLOCK}", re.ASCII),
    "day first": re.compile(rf"(\d{{1,2}})([-/.])(\d{{1,2}})\2(\d{{4}}){_CLOCK}", re.ASCII),
}
_PLAIN_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?", re.ASCII)
_HOURS = re.compile(
    r"(?=.)(?:(-?\d{1,6}) days?(?:$|,? \+?(?=\d)))?"
    r"(?:(\d{1,3}):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9}))?)?)?",
    re.ASCII,
)
_DATES["month first"] = _DATES["day first"]
_ORDER = {"iso": (1, 3, 4), "day first": (4, 3, 1), "month first": (4, 1, 3)}


def style_words(style: str) -> str:
    """The name of a style in messages."""
    return _STYLE_WORDS.get(style, style)


@contextmanager
def usual_style(style: str) -> Iterator[None]:
    """Read numbers that fit both styles, such as 1.234, in this style.

    Examples
    --------
    >>> with usual_style("comma"):
    ...     number_style(["41.435", "950"]), number_style(["1.5"])
    ('comma', 'point')
    """
    token = _usual.set(style)
    try:
        yield
    finally:
        _usual.reset(token)


def number_style(levels: Iterable[str]) -> str | None:
    """The style in which all of these are numbers; None if there is no such style.

    The usual style is tried first: "point", unless `usual_style` sets another. Digits with leading
    zeros are codes. Either all values have a per cent sign or a currency sign, or none has.

    Examples
    --------
    >>> number_style(["31,7", "1 234"]), number_style(["1,234", "999"]), number_style(["12 %"])
    ('comma', 'point', 'point')
    >>> number_style(["01234", "90210"]), number_style(["1", "one"])
    (None, None)
    """
    known = _present(levels)
    if not known or any(_CODE.fullmatch(text) for text in known):
        return None
    for style in sorted(NUMBER_STYLES, key=lambda style: style != _usual.get()):
        if all(is_number(text, style) for text in known):
            return style if len({_unit(text) for text in known}) == 1 else None
    return None


def doubtful(levels: Iterable[str]) -> str:
    """The first level whose value depends on the style; empty if there is none.

    Also empty if only one style fits all levels.

    Examples
    --------
    >>> doubtful(["950", "41.435"]), doubtful(["1.5", "41.435"]), doubtful(["950"])
    ('41.435', '', '')
    """
    known = _present(levels)
    if not all(is_number(text, style) for text in known for style in NUMBER_STYLES):
        return ""
    return next((text for text in known if _number(text, "point") != _number(text, "comma")), "")


def missing_words(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Words in a column of numbers or times that stand for missing values, as written.

    These are the common ones ("?", "unknown"), and other words without digits if there are few of
    them, in few cells, among many numbers or dates. `counts` has the number of cells of each level.

    Examples
    --------
    >>> prices = {f"{i},50": 3 for i in range(50)}
    >>> missing_words({**prices, "on request": 7}), missing_words({"1": 40, "2": 40, "other": 9})
    (('on request',), ())
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
    """The levels that are not numbers if nearly all others are; else empty.

    Examples
    --------
    >>> slips([*map(str, range(30)), "4o"]), slips(["1", "2", "three"])
    (['4o'], [])
    """
    known = _present(levels)
    if any(_CODE.fullmatch(text) for text in known):
        return []
    wrong = min(
        ([text for text in known if not is_number(text, style)] for style in NUMBER_STYLES), key=len
    )
    return wrong if len(wrong) < _FEW * len(known) else []


def numbers(levels: Sequence[str], style: str) -> np.ndarray:
    """Levels as numbers, NaN for gaps; raises ValueError for the first that is not a number."""
    found = np.full(len(levels), np.nan)
    for i, text in enumerate(levels):
        value = _number(text.strip(), style)
        if value is not None:
            found[i] = value
        elif not is_gap(text):
            raise ValueError(f"{text!r} is not a number")
    return found


def is_number(text: str, style: str) -> bool:
    """Whether a text is a number in this style.

    Examples
    --------
    >>> [is_number("1.234", style) for style in NUMBER_STYLES], is_number("1.234,5", "point")
    ([True, True], False)
    """
    return _number(text.strip(), style) is not None


def plain_numbers(levels: Sequence[str], style: str) -> np.ndarray | None:
    """Levels as numbers, NaN for "n/a" and the like; None if any needs interpretation.

    Units, grouped digits and other words need interpretation. Unlike `numbers`, this reads codes
    with leading zeros and infinite values.

    Examples
    --------
    >>> plain_numbers(["1.5", "NA"], "point"), plain_numbers(["1,5"], "comma")
    (array([1.5, nan]), array([1.5]))
    >>> plain_numbers(["1 234"], "point"), plain_numbers(["12 %"], "point")
    (None, None)
    """
    joined = "".join(levels)
    if "_" in joined or not joined.isascii():  # as Python, but nobody else, writes numbers
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
    group, decimal = (",", ".") if style == "point" else (".", ",")
    for sign in (*_SPACES, group):
        text = text.replace(sign, "")
    value = float(text.replace(decimal, "."))
    return value if math.isfinite(value) else None


def date_style(levels: Iterable[str]) -> str | None:
    """The style in which all of these are dates; None unless exactly one fits.

    Examples
    --------
    >>> date_style(["2024-03-31", "2024-04-01T12:00"]), date_style(["31/3/2024", "1/4/2024"])
    ('iso', 'day first')
    >>> date_style(["1.4.2024", "n/a"]), date_style(["1/4/2024"])
    ('day first', None)
    """
    known = _present(levels)
    fits = [style for style in DATE_STYLES if known and _all_dates(known, style)]
    if len(fits) == 2 and all("." in text.split()[0] for text in known):
        return "day first"  # dates with points have the day first
    return fits[0] if len(fits) == 1 else None


def is_ambiguous_date(levels: Iterable[str]) -> bool:
    """Whether these are dates both with the day first and with the month first."""
    known = _present(levels)
    return bool(known) and date_style(known) is None and _all_dates(known, "month first")


def _all_dates(levels: list[str], style: str) -> bool:
    return _date(levels[0], style) is not None and not np.isnan(_seconds(levels, style)).any()


def dates(levels: Sequence[str], style: str) -> np.ndarray:
    """Seconds since 1970, NaN for gaps; raises ValueError for the first that is not a date."""
    found = _seconds(levels, style)
    for i in np.flatnonzero(np.isnan(found)).tolist():
        if not is_gap(levels[i]):
            raise ValueError(f"{levels[i]!r} is not a date ({style})")
    return found


def _seconds(levels: Sequence[str], style: str) -> np.ndarray:
    """Seconds since 1970, NaN for levels that are not dates."""
    if style == "iso" and all(_PLAIN_ISO.fullmatch(text) for text in levels):
        try:  # a hundred times faster than one by one
            return np.array(levels, dtype="datetime64[s]").astype(np.float64)
        except ValueError:  # a day that does not exist
            pass
    return np.array([_date(text, style) for text in levels], dtype=np.float64)


def are_clocks(levels: Sequence[str]) -> bool:
    """Whether all of these are times (hours and minutes), days, or both.

    Examples
    --------
    >>> are_clocks(["7:30", "12:05:59", "1 days 02:00:00"]), are_clocks(["7:30", "late"])
    (True, False)
    """
    known = _present(levels)
    return bool(known) and all(_HOURS.fullmatch(text) for text in known)


def clocks(levels: Sequence[str]) -> np.ndarray:
    """Times in seconds, NaN for gaps; raises ValueError for the first that is not a time."""
    found = np.full(len(levels), np.nan)
    for i, text in enumerate(levels):
        match = _HOURS.fullmatch(text.strip())
        if match is None and is_gap(text):
            continue
        if match is None:
            raise ValueError(f"{text!r} is not a time (12:30)")
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups()[:4])
        whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        found[i] = whole + float(f"0.{match[5] or 0}")
    return found


def _date(text: str, style: str) -> float | None:
    match = _DATES[style].fullmatch(text.strip())
    if match is None:
        return None
    year, month, day = (int(match[group]) for group in _ORDER[style])
    hour, minute, second = (int(match[group] or 0) for group in (5, 6, 7))
    if match[9]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match[9].lower() == "pm")
    try:
        moment = datetime.datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None
    return (moment - _EPOCH).total_seconds() + float(f"0.{match[8] or 0}")
