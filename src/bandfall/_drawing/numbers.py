"""Numbers as readable text."""

from __future__ import annotations

import math

SMALLEST, LARGEST = 1e-4, 1e7  # outside, powers of ten are used
APART = 10_000  # from here on, commas separate thousands
_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def number(value: float, *, powers: bool = False, apart: bool = False) -> str:
    """A number as readable text: few digits, separated thousands, powers of ten if they help.

    Numbers of four digits, which may be years, are not separated unless `apart`. With `powers`,
    powers of ten are always used.

    Examples
    --------
    >>> number(5000.0, apart=True)
    '5,000'
    >>> [number(v) for v in (0.0257512, -3.0, 1984.0, 1.5e6, 2e-7, -4.5e12, float("nan"))]
    ['0.02575', '−3', '1984', '1,500,000', '2 × 10⁻⁷', '−4.5 × 10¹²', '–']
    """
    if not math.isfinite(value):
        return "–" if math.isnan(value) else ("∞" if value > 0 else "−∞")
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if SMALLEST <= abs(value) < LARGEST and not powers:
        digits = min(max(0, 3 - exponent), 7)
        comma = "," if apart or abs(round(value)) >= APART else ""
        return _without_zeros(f"{value:{comma}.{digits}f}").replace("-", "−")
    mantissa = _without_zeros(f"{value / 10.0**exponent:.2f}").replace("-", "−")
    return f"{mantissa} × 10{str(exponent).translate(_RAISED)}"


def _without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
