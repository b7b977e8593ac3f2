"""The choice of models to average, and of their weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bandfall._models.member import MetricKey
from bandfall._models.metric import mean_root
from bandfall._search.metrics import Metrics
from bandfall._search.parts import Part, joined_targets, joined_weights
from bandfall._search.trials import Trial
from bandfall._targets.losses import Judge, mean_and_error
from bandfall._typing import Weights


def greedy_weights(
    predictions: Sequence[np.ndarray],
    y: np.ndarray,
    judge: Judge,
    *,
    n_members: int,
    weights: Weights = None,
    caution: float = 0.0,
    n_steps: int = 20,
) -> np.ndarray:
    """Non-negative weights with sum one for an average of at most `n_members` models.

    Greedy selection with replacement (Caruana, Niculescu-Mizil, Crew and Ksikes, 2004): each step
    adds the model that improves the average most on held-out rows. The weight of a model is the
    number of times that it was added; counts overfit the held-out rows less than free weights do.
    Predictions and y have shape (m, k), the `weights` of held-out rows (m,).

    An average of models with weights w is judged by its loss plus caution · e · Σ w², with the
    standard error e of the least loss: where few rows cannot tell models apart, weights become
    more equal.
    """
    penalty = caution * min(mean_and_error(judge.losses(one, y), weights) for one in predictions)[1]
    counts = best_counts = np.zeros(len(predictions), dtype=int)
    total, best_loss = np.zeros_like(y), np.inf
    for step in range(1, (n_steps if n_members > 1 else 1) + 1):
        losses = np.full(len(predictions), np.inf)
        for i, one in enumerate(predictions):
            if counts[i] or np.count_nonzero(counts) < n_members:
                shares = np.bincount([i], minlength=len(counts)) + counts
                loss = np.average(judge.losses((total + one) / step, y), weights=weights)
                losses[i] = loss + penalty * float(shares @ shares) / step**2
        chosen = int(np.argmin(losses))
        counts, total = counts + (np.arange(len(counts)) == chosen), total + predictions[chosen]
        if losses[chosen] < best_loss:
            best_loss, best_counts = losses[chosen], counts
    return best_counts / best_counts.sum()


def held_out_weights(
    outputs: Mapping[Trial, np.ndarray], parts: Sequence[Part], judge: Judge, caution: float = 0.0
) -> np.ndarray:
    """`greedy_weights` of trials with these outputs for the held-out rows of parts."""
    return greedy_weights(
        list(outputs.values()),
        joined_targets(parts),
        judge,
        n_members=parts[0].rows.settings.n_members,
        weights=joined_weights(parts),
        caution=caution,
    )


def without_light(weights: np.ndarray, n_members: int, light: float) -> np.ndarray:
    """Weights without those below `light`, or below half an equal share if that is less."""
    heavy = np.where(weights < min(light, 0.5 / n_members), 0.0, weights)
    return heavy / heavy.sum()


@dataclass(frozen=True)
class Tuned:
    """The result of a search: an average, and the evidence for it."""

    members: list[tuple[Trial, float]]  # with weights, which sum to one; heaviest first
    held_out: np.ndarray  # (m,): row numbers of the evidence; a row may occur more than once
    predictions: np.ndarray  # (m, k): for these rows, by models that have not seen them
    trials: Sequence[Trial]  # all, in order
    roots: Mapping[MetricKey, np.ndarray]  # metrics of the members, for all rows
    outputs: Mapping[Trial, np.ndarray] = field(default_factory=dict)  # the same of all candidates
    metrics: Metrics = field(default_factory=dict)  # metrics of all candidates, for every part
    parts: Sequence[Part] = ()

    def among(self, trials: Sequence[Trial]) -> Tuned:
        """The average of these members only."""
        left = {trial: weight for trial, weight in self.members if trial in trials}
        members = [(trial, weight / sum(left.values())) for trial, weight in left.items()]
        predictions = sum(weight * self.outputs[trial] for trial, weight in members)
        return replace(self, members=members, predictions=np.asarray(predictions))


def average_of(
    outputs: Mapping[Trial, np.ndarray],
    parts: Sequence[Part],
    judge: Judge,
    trials: Sequence[Trial],
    metrics: Metrics,
) -> Tuned:
    """The average of candidates with these outputs (m, k) for the held-out rows of parts."""
    rows, settings, candidates = parts[0].rows, parts[0].rows.settings, list(outputs)
    few = rows.strata is None and len(rows) < settings.few_rows
    shares = held_out_weights(outputs, parts, judge, settings.caution if few else 0.0)
    shares = without_light(shares, settings.n_members, settings.light)
    order = np.argsort(-shares, kind="stable")
    members = [(candidates[i], float(shares[i])) for i in order if shares[i] > 0]
    keys = dict.fromkeys(trial.candidate.metric for trial, _ in members)
    return Tuned(
        members,
        np.concatenate([part.held_out for part in parts]),
        np.tensordot(shares, np.stack(list(outputs.values())), 1),
        trials,
        {key: mean_root(metrics[key]) for key in keys if key.learned},
        outputs,
        metrics,
        parts,
    )
