"""The choice of models to average, and of their weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bandfall._search.candidates import Trial
from bandfall._targets.losses import Judge
from bandfall._typing import Weights

_LIGHT = 0.1  # models with less weight hardly change predictions, and cost as much as the others


def greedy_weights(
    predictions: Sequence[np.ndarray],
    y: np.ndarray,
    judge: Judge,
    *,
    n_members: int,
    weights: Weights = None,
    n_steps: int = 20,
) -> np.ndarray:
    """Non-negative weights with sum one for an average of at most `n_members` models.

    Greedy selection with replacement (Caruana, Niculescu-Mizil, Crew and Ksikes, 2004): each step
    adds the model that improves the average most on held-out rows. The weight of a model is the
    number of times that it was added; counts overfit the held-out rows less than free weights do.
    Predictions and y have shape (m, k), the `weights` of held-out rows (m,).
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
    weights: Weights = None,
) -> tuple[list[tuple[Trial, float]], np.ndarray]:
    """Trials with their `greedy_weights`, heaviest first, and the average of predictions (m, k).

    Trials with a weight below a tenth, or below half an equal share if that is less, are left out.
    """
    shares = greedy_weights(predictions, y, judge, n_members=n_members, weights=weights)
    shares[shares < min(_LIGHT, 0.5 / n_members)] = 0.0
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    members = [(trials[i], float(shares[i])) for i in order if shares[i] > 0]
    return members, np.tensordot(shares, np.stack(predictions), 1)
