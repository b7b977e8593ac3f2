"""What the landing page shows: the ratios of choosing.md as a picture, set by set, and in words.

The table below "Against tuned methods" in choosing.md is the only place with these numbers.
"""

import math
import re
from html import escape
from pathlib import Path
from statistics import geometric_mean

SOURCE = Path(__file__).parent / "choosing.md"
TABLE = "**Against tuned methods.**"
MARK = "<!-- ratios: drawn from choosing.md by landing.py -->"
ROW, LEFT, WIDTH, RIGHT = 24, 156, 680, 64
LOWEST, HIGHEST = 0.1, 1.25


def ratios(text: str | None = None) -> dict[str, float]:
    """RMSE relative to the best tuned booster, by set, best first."""
    text = SOURCE.read_text(encoding="utf-8") if text is None else text
    _, found, rest = text.partition(TABLE)
    lines = [line for line in rest.splitlines() if line.startswith("|")]
    head = [cell.strip() for cell in lines[0].strip("|").split("|")] if found and lines else []
    if "ratio" not in head:
        raise ValueError(f"{SOURCE.name} has no table with a column 'ratio' below {TABLE}")
    column = head.index("ratio")
    named = {}
    for line in lines[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != len(head) or not re.fullmatch(r"\d*\.\d+", cells[column]):
            break  # the next table
        named[cells[0]] = float(cells[column])
    return dict(sorted(named.items(), key=lambda item: item[1]))


def words(found: dict[str, float]) -> str:
    """The same in a few sentences of HTML."""
    ahead = sum(ratio < 1 for ratio in found.values())
    best = next(iter(found))
    others = geometric_mean(ratio for name, ratio in found.items() if name != best)
    return (
        f"On {len(found)} public tables, its error is below that of the best tuned booster "
        f"(XGBoost, CatBoost, LightGBM, a hundred trials each) on {ahead}. The geometric mean of "
        f"the ratios is {geometric_mean(found.values()):.2f}, and {others:.2f} without {best} "
        "(<code>python benchmarks/published.py</code>). "
        "Bandfall ran with its default settings on all of them, but its search was designed on "
        "these tables. On twelve tables kept apart (TabArena) the mean ratio to the best booster "
        "with default settings is 0.97 (<code>python benchmarks/tabarena.py</code>)."
    )


def place(ratio: float) -> float:
    """Where a ratio lies on the logarithmic axis."""
    share = math.log(max(ratio, LOWEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return LEFT + (WIDTH - LEFT - RIGHT) * min(share, 1.0)


def picture(found: dict[str, float]) -> str:
    """A line for every set: from 1, where both are equal, to its ratio."""
    height = ROW * len(found) + 54
    title = "RMSE of Bandfall relative to the best tuned booster, set by set; below 1 it is ahead"
    parts = []
    for tick in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0):
        x = place(tick)
        style = "even" if tick == 1.0 else "grid"
        parts.append(f'<path class="{style}" d="M{x:.1f} 8V{height - 46}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 27}" text-anchor="middle">{tick:g}</text>')
    for i, (name, ratio) in enumerate(found.items()):
        y = 20 + i * ROW
        x, style = place(ratio), "ahead" if ratio < 1 else "behind"
        parts.append(
            f'<text x="{LEFT - 12}" y="{y + 4}" text-anchor="end">{escape(name)}</text>'
            f'<path class="{style}" d="M{place(1.0):.1f} {y}H{x:.1f}"/>'
            f'<circle class="{style}" cx="{x:.1f}" cy="{y}" r="5"/>'
            f'<text class="value" x="{WIDTH - 8}" y="{y + 4}" text-anchor="end">{ratio:.2f}</text>'
        )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title>"
        f'{"".join(parts)}<text x="{place(1.0):.1f}" y="{height - 5}" text-anchor="end">'
        "← better than the best tuned booster</text></svg>"
    )


def figure() -> str:
    """The picture with its words, as HTML."""
    found = ratios()
    return (
        f'<figure class="ratios">{picture(found)}<figcaption>{words(found)} '
        '<a href="choosing.html#against-its-rivals">All tables, and where it loses</a>.'
        "</figcaption></figure>"
    )


def insert(app, name, source):
    """Put the figure where the landing page has its mark; called by Sphinx for every page."""
    if name == "index":
        app.env.note_dependency(str(SOURCE))
        app.env.note_dependency(__file__)
        assert MARK in source[0]
        source[0] = source[0].replace(MARK, figure())
