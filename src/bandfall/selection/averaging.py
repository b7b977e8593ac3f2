"""Which models to average, and with what weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandfall.selection.candidates import Judge, Trial

_LIGHT = 0.1  # below such a weight a model costs as much as the heaviest and changes nothing


def greedy_weights(
    predictions: Sequence[np.ndarray],
    y: np.ndarray,
    judge: Judge,
    *,
    n_members: int,
    weights: np.ndarray | None = None,
    n_steps: int = 20,
) -> np.ndarray:
    """Weights of an average of few models, not negative and of sum one, by held-out predictions.

    Greedy selection with replacement (Caruana, Niculescu-Mizil, Crew and Ksikes, 2004): each step
    adds the model that helps the average most; a weight is how often a model was added. Counts
    rather than free weights keep what is fitted to the held-out rows small. Predictions and y have
    shape (m, k), the `weights` of held-out rows (m,); at most `n_members` models get a weight.
    """
    counts = np.zeros(len(predictions), dtype=int)
    total = np.zeros_like(y)
    best_loss, best_counts = np.inf, counts
    for step in range(1, (n_steps if n_members > 1 else 1) + 1):
        members = np.flatnonzero(counts).tolist()
        allowed = members if len(members) >= n_members else list(range(len(predictions)))
        losses = {
            i: np.average(judge.losses((total + predictions[i]) / step, y), weights=weights)
            for i in allowed
        }
        chosen = min(losses, key=lambda i: losses[i])
        counts = counts.copy()
        counts[chosen] += 1
        total = total + predictions[chosen]
        if losses[chosen] < best_loss:
            best_loss, best_counts = losses[chosen], counts
    return best_counts / best_counts.sum()


def averaged(
    trials: Sequence[Trial],
    predictions: Sequence[np.ndarray],
    y: np.ndarray,
    judge: Judge,
    *,
    n_members: int,
    weights: np.ndarray | None = None,
) -> tuple[list[tuple[Trial, float]], np.ndarray]:
    """Trials with their weights by `greedy_weights`, heaviest first, and their average (m, k).

    Trials whose weight is below a tenth, or below half an equal share if that is less, are left
    out.
    """
    shares = greedy_weights(predictions, y, judge, n_members=n_members, weights=weights)
    shares[shares < min(_LIGHT, 0.5 / n_members)] = 0.0
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    members = [(trials[i], float(shares[i])) for i in order if shares[i] > 0]
    return members, np.tensordot(shares, np.stack(predictions), 1)
