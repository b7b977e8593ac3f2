"""Predictions for held-out rows during training, and the end of paths that get worse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bandfall._search.candidates import Request
from bandfall._search.ladder import Ladder
from bandfall._search.parts import Part, train_parts
from bandfall._targets.losses import Judge

_WORSE = 0.05  # a loss has turned if it exceeds its minimum so far by this share


@dataclass(frozen=True)
class Outcome:
    """Paths of several speeds on one part, and their predictions for its held-out rows."""

    ladder: Ladder  # in the units of y
    predictions: np.ndarray  # (L + 1, m, V, k): before and after every stop
    losses: np.ndarray  # (L + 1, m, V): by the judge; empty without a judge


def run_parts(
    parts: Sequence[Part],
    request: Request,
    judge: Judge | None = None,
    ended: Callable[[], bool] = lambda: False,
) -> list[Outcome]:
    """Train at several speeds on every part, each while its held-out loss improves."""
    held_out = HeldOut(parts, request, judge, ended)
    ladders = train_parts(parts, request, held_out, ended)
    return [
        Outcome(ladder, np.stack(predictions), np.array(losses))
        for ladder, predictions, losses in zip(
            ladders, held_out.predictions, held_out.losses, strict=True
        )
    ]


class HeldOut:
    """Predictions for the held-out rows of several parts, stop by stop.

    After its best stop, a slow path would spend most of its products on learning noise. A speed has
    turned if its loss over all parts is clearly above its minimum so far; without a judge, none
    turns. Once `ended` returns True, all speeds end. `predictions` and `losses` have a list for
    each part: arrays (m, V, k) and (m, V), before and after every stop.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        request: Request,
        judge: Judge | None = None,
        ended: Callable[[], bool] = lambda: False,
    ):
        n_speeds = len(request.speeds)
        self._parts = parts
        self._judge = judge
        self._ended = ended
        self._crosses = [part.cross(request) for part in parts]
        shapes = [(len(part.y), n_speeds, part.y.shape[1]) for part in parts]
        self.predictions = [
            [np.broadcast_to(part.offset, shape).astype(np.float64)]
            for part, shape in zip(parts, shapes, strict=True)
        ]
        self.losses: list[list[np.ndarray]] = [[] for _ in parts]
        self._least = np.full(n_speeds, np.inf)
        self._turned([one[0][:, None] for one in self.predictions])
        self._least[:] = np.inf  # nothing is learned yet, and the first things may do harm

    def __call__(self, bandwidth: float, coefficients: Sequence[np.ndarray]) -> np.ndarray:
        """Add stops at one bandwidth; return which speeds have turned, shape (V,).

        For each part, the coefficients (S, n, V, k) are the contributions at each stop, for its
        scaled target.
        """
        stops = []
        for part, cross, predictions, blocks in zip(
            self._parts, self._crosses, self.predictions, coefficients, strict=True
        ):
            n_stops, n_rows, *paths = blocks.shape
            columns = (blocks * part.to_units(blocks.dtype)).swapaxes(0, 1).reshape(n_rows, -1)
            added = cross.product(bandwidth, columns).reshape(-1, n_stops, *paths)
            stops.append(predictions[-1][:, None] + np.cumsum(added, axis=1, dtype=np.float64))
            predictions.extend(stops[-1].swapaxes(0, 1))
        return self._turned(stops) | self._ended()

    def _turned(self, stops: Sequence[np.ndarray]) -> np.ndarray:
        """Judge more stops (m, S, V, k) of every part."""
        if self._judge is None:
            return np.zeros(len(self._least), dtype=bool)
        totals = np.zeros(stops[0].shape[1:3])
        for part, predictions, losses in zip(self._parts, stops, self.losses, strict=True):
            more = self._judge.losses(predictions, part.y[:, None, None])  # (m, S, V)
            losses.extend(more.swapaxes(0, 1))
            totals += (
                np.tensordot(part.weights, more, 1) if part.weights is not None else more.sum(0)
            )
        least = np.minimum.accumulate(np.vstack([self._least, totals]))
        self._least = least[-1]
        return np.any(totals > (1.0 + _WORSE) * least[1:], axis=0)
