"""Draw docs/images/layers.svg: the layers that import-linter keeps, as pyproject.toml lists them.

Run `python docs/make_layers_figure.py` after changing them; a test keeps the picture in step.
"""

from __future__ import annotations

import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "docs" / "images" / "layers.svg"

# What each layer is for; layers of one storey share a colour.
JOBS = {
    "_cli": ("edge", "fit, predict, report, explore: files in, words out"),
    "demo": ("edge", "the main job, on data that ship inside"),
    "_explore": ("pages", "pages that play the training"),
    "_paper": ("pages", "the paper's numbers; displays; reports"),
    "_drawing": ("pages", "charts and style of pages"),
    "_onnx": ("pages", "formulas as ONNX graphs"),
    "_estimators": ("surface", "scikit-learn: validation and one call"),
    "_files": ("surface", "model files, checked before they are trusted"),
    "_fitting": ("tools", "final fits of what the search has chosen"),
    "_search": ("tools", "what is tried on held-out rows"),
    "_models": ("model", "an average of members; its metric and intervals"),
    "_targets": ("model", "what is predicted: numbers, classes"),
    "rivals": ("tools", "the paper's rivals; diagnostics; networks"),
    "descent": ("core", "training: schedules, solvers, stopping, the Path"),
    "_products": ("core", "products with K(σ) on a device, within a memory budget"),
    "tables": ("ground", "tables to columns; formulas of kernels"),
    "_checks": ("ground", "checks, warnings, progress, threads"),
    "_typing": ("ground", "names of types"),
}
COLOURS = {
    "edge": "#f6d5c5",
    "pages": "#f8ecc2",
    "surface": "#d9ecc9",
    "tools": "#cfe8e4",
    "model": "#d3e3ea",
    "core": "#cddff3",
    "ground": "#e3dcef",
}
ROW, GAP, LEFT, MIDDLE, WIDTH = 30, 4, 12, 468, 880


def layers() -> list[list[str]]:
    """Modules of each layer, from the top."""
    with open(ROOT / "pyproject.toml", "rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    found = next(one["layers"] for one in contracts if one["type"] == "layers")
    return [[name.removeprefix("bandfall.") for name in row.split(" | ")] for row in found]


def svg() -> str:
    """The picture."""
    rows = layers()
    height = len(rows) * (ROW + GAP) + 44
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" role="img" aria-label="Layers of bandfall">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for i, names in enumerate(rows):
        storey, job = next(JOBS[name] for name in names if name in JOBS)
        top = 8 + i * (ROW + GAP)
        parts += [
            f'<rect x="{LEFT}" y="{top}" width="{WIDTH - 2 * LEFT}" height="{ROW}" rx="4" '
            f'fill="{COLOURS[storey]}"/>',
            f'<text x="{LEFT + 10}" y="{top + 20}" font-family="monospace">'
            f"{escape(' · '.join(names))}</text>",
            f'<text x="{MIDDLE}" y="{top + 20}" fill="#333333">{escape(job)}</text>',
        ]
    foot = "A layer imports only from the layers below it."
    parts += [f'<text x="{LEFT}" y="{height - 14}" fill="#333333">{foot}</text>', "</svg>\n"]
    return "\n".join(parts)


if __name__ == "__main__":
    OUT.write_text(svg(), encoding="utf-8")
