"""Draw docs/images/figure4.png and figure4_dark.png: Figure 4 of the paper, in light and dark.

    python docs/make_paper_figures.py DATA

The numbers are those of `bandfall paper run figure4 --data DATA`, whose results are used if they
are in out/paper.
"""

import sys
from pathlib import Path

from matplotlib.lines import Line2D
from matplotlib.text import Text

from bandfall._paper.drawing import DESCENT_COLOUR, RIDGE_COLOUR
from bandfall._paper.experiment import FULL, Data
from bandfall._paper.run import run_experiments, select

IMAGES = Path(__file__).parent / "images"


def draw(data, out=Path("out/paper")):
    """The figure, computed if it is not yet known."""
    (finished,) = run_experiments(
        select(["figure4"]), data=Data(data), size=FULL, out=out, n_jobs=-1
    )
    return finished.figure


def darken(figure, ink="#ced6dd"):
    """Light text, axes and curves, for a dark page."""
    lighter = {DESCENT_COLOUR: "#56B4E9", RIDGE_COLOUR: "#E69F00"}
    for line in figure.findobj(Line2D):
        line.set_color(lighter.get(line.get_color(), line.get_color()))
    for text in figure.findobj(Text):
        text.set_color(ink)
    for ax in figure.axes:
        ax.spines[:].set_color(ink)
        ax.tick_params(color=ink, labelcolor=ink)


def main():
    figure = draw(sys.argv[1] if len(sys.argv) > 1 else None)
    for ax in figure.axes:
        ax.patch.set_alpha(0.0)
    figure.patch.set_alpha(0.0)
    figure.savefig(IMAGES / "figure4.png", dpi=170)
    darken(figure)
    figure.savefig(IMAGES / "figure4_dark.png", dpi=170)


if __name__ == "__main__":
    main()
