"""Tables of text, written as Markdown, LaTeX, CSV or to a terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

_LATEX = str.maketrans(
    {character: f"\\{character}" for character in "&%#_"}
    | {"²": r"$^2$", "−": r"$-$", "–": r"--", "×": r"$\times$", "±": r"$\pm$", "ν": r"$\nu$"}
    | {"σ": r"$\sigma$", "≤": r"$\leq$", "→": r"$\to$"}
)


@dataclass(frozen=True)
class TextTable:
    """Rows of text under a header.

    >>> table = TextTable("t", "A table.", ["method", "R²"], [["KGD-D", "**0.80**"]])
    >>> print(table.markdown())
    | method | R² |
    | --- | --- |
    | KGD-D | **0.80** |
    """

    name: str  # the file is called after it
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]  # ``**text**`` is bold; ``$…$`` is mathematics, kept unchanged

    def markdown(self) -> str:
        """A Markdown table without its caption."""
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)

    def latex(self) -> str:
        """A ``table`` environment that needs the package booktabs."""
        body = " \\\\\n".join(" & ".join(_latex(text) for text in row) for row in self.rows)
        return (
            "\\begin{table}\n\\centering\n"
            f"\\caption{{{_latex(self.caption)}}}\n"
            f"\\begin{{tabular}}{{{'l' * len(self.header)}}}\n\\toprule\n"
            + " & ".join(_latex(text) for text in self.header)
            + f" \\\\\n\\midrule\n{body} \\\\\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )

    def csv(self) -> str:
        """Comma separated, without markup."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerows([[plain(text) for text in row] for row in [self.header, *self.rows]])
        return buffer.getvalue()


def plain(text: str) -> str:
    """A cell without markup."""
    return text.replace("**", "").replace("$", "")


def _latex(text: str) -> str:
    if text.startswith("**") and text.endswith("**") and len(text) > 4:
        return f"\\textbf{{{_latex(text[2:-2])}}}"
    parts = text.split("$")  # odd parts are mathematics already
    return "".join(
        part.translate(_LATEX) if i % 2 == 0 else f"${part}$" for i, part in enumerate(parts)
    )
