"""Colours and settings of the demonstration's pictures."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.typing import RcKeyType

# Okabe and Ito's palette, suitable for colour-blind readers.
BLUE, ORANGE, GREY, BLACK = "#0072B2", "#D55E00", "#8C8C8C", "#222222"


def styled() -> AbstractContextManager[None]:
    """Matplotlib's settings for a picture."""
    import matplotlib as mpl

    settings: dict[RcKeyType, object] = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": GREY,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "xtick.color": BLACK,
        "ytick.color": BLACK,
        "mathtext.default": "regular",
    }
    return mpl.rc_context(settings)
