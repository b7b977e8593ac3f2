"""What paths predict for held-out rows while they train, and when that gets worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bandfall.selection.candidates import MAX_R2, Judge
from bandfall.selection.ladder import Ladder
from bandfall.selection.parts import Part, train_parts

_WORSE = 0.05  # share by which a loss must exceed its least so far to have turned


@dataclass(frozen=True)
class Outcome:
    """Paths of several speeds on one part, and what they predict for its held-out rows.

    Attributes
    ----------
    ladder : Ladder
        In the units of y.
    predictions : ndarray of shape (L + 1, m, V, k)
        Before and after every stop.
    losses : ndarray of shape (L + 1, m, V)
        As the judge sees them; empty without one.
    """

    ladder: Ladder
    predictions: np.ndarray
    losses: np.ndarray


def run_parts(
    parts: Sequence[Part],
    encoding: str,
    n_rounds: int,
    kernel: str,
    speeds: Sequence[float],
    max_r2: float = MAX_R2,
    judge: Judge | None = None,
) -> list[Outcome]:
    """Train at several speeds on every part, each as long as the judge sees it get better."""
    held_out = HeldOut(parts, encoding, n_rounds, kernel, len(speeds), judge)
    ladders = train_parts(parts, encoding, n_rounds, kernel, speeds, max_r2, held_out)
    return [
        Outcome(ladder, np.stack(predictions), np.array(losses))
        for ladder, predictions, losses in zip(
            ladders, held_out.predictions, held_out.losses, strict=True
        )
    ]


class HeldOut:
    """Predictions for the held-out rows of several parts, stop by stop.

    Past its best stop a slow path takes most of its products to learn the noise. A speed has
    turned where its loss, over all parts together, is clearly above its least so far.

    Parameters
    ----------
    parts : sequence of Part
    encoding : str
    n_rounds : int
    kernel : str
    n_speeds : int
    judge : Judge, optional
        Without one, nothing turns.

    Attributes
    ----------
    predictions : list of lists of ndarrays of shape (m, V, k)
        For each part, before and after every stop.
    losses : list of lists of ndarrays of shape (m, V)
        The same as the judge sees them.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        encoding: str,
        n_rounds: int,
        kernel: str,
        n_speeds: int,
        judge: Judge | None = None,
    ):
        self._parts = parts
        self._judge = judge
        self._crosses = [part.cross(encoding, n_rounds, kernel) for part in parts]
        shapes = [(len(part.y), n_speeds, part.y.shape[1]) for part in parts]
        self.predictions = [
            [np.broadcast_to(part.offset, shape).astype(np.float64)]
            for part, shape in zip(parts, shapes, strict=True)
        ]
        self.losses: list[list[np.ndarray]] = [[] for _ in parts]
        self._least = np.full(n_speeds, np.inf)
        self._turned(0)

    def __call__(self, bandwidth: float, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Take some more stops at one bandwidth; which speeds have turned, shape (V,).

        Parameters
        ----------
        bandwidth : float
        coefficients : sequence of ndarrays of shape (S, n, V, k), one a part
            Of the part's scaled target, what was added at each stop.
        """
        for part, cross, predictions, blocks in zip(
            self._parts, self._crosses, self.predictions, coefficients, strict=True
        ):
            n_stops, n_rows, *paths = blocks.shape
            columns = (blocks * part.to_units(blocks.dtype)).swapaxes(0, 1).reshape(n_rows, -1)
            sums = cross.product(bandwidth, columns).reshape(-1, n_stops, *paths)
            for stop in range(n_stops):
                predictions.append(predictions[-1] + sums[:, stop])
        first = len(self.predictions[0]) - len(coefficients[0])
        return self._turned(first)

    def _turned(self, first: int) -> np.ndarray:
        """Judge stops from one on."""
        turned = np.zeros(len(self._least), dtype=bool)
        if self._judge is None:
            return turned
        for stop in range(first, len(self.predictions[0])):
            total = np.zeros(len(self._least))
            for part, predictions, losses in zip(
                self._parts, self.predictions, self.losses, strict=True
            ):
                losses.append(self._judge.losses(predictions[stop], part.y[:, None]))
                total += losses[-1].sum(0) if part.weights is None else part.weights @ losses[-1]
            if stop == 0:  # nothing is learned yet, and the first things may do harm
                continue
            self._least = np.minimum(self._least, total)
            turned |= total > (1.0 + _WORSE) * self._least
        return turned
