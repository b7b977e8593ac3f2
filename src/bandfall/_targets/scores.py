"""Scores: R² and errors for numbers; log-loss, AUC, accuracy and calibration for classes."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from sklearn.metrics import mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error

from bandfall._typing import ArrayLike, Weights

LEAST = 1e-15  # probabilities are raised to this, so that the log-loss stays finite
N_BINS = 10

Scores: TypeAlias = dict[str, float]  # by name: "r2", "log_loss", …


def score_numbers(y: np.ndarray, predictions: np.ndarray, weights: Weights = None) -> Scores:
    """R², mean absolute error and root mean squared error, averaged over targets.

    R² is NaN if a target is constant. Rows of weight 0 are ignored.
    """
    if weights is not None:
        y, predictions, weights = (part[weights > 0] for part in (y, predictions, weights))
    varies = len(y) > 1 and bool(np.all(np.ptp(y, axis=0) > 0))
    # Squares of huge or tiny values would overflow or underflow.
    unit = max(float(np.abs(y).max()), float(np.abs(predictions).max())) or 1.0
    y, predictions = y / unit, predictions / unit
    return {
        "r2": float(r2_score(y, predictions, sample_weight=weights)) if varies else float("nan"),
        "mae": float(mean_absolute_error(y, predictions, sample_weight=weights)) * unit,
        "rmse": float(root_mean_squared_error(y, predictions, sample_weight=weights)) * unit,
    }


def positions(y: ArrayLike, classes: np.ndarray) -> np.ndarray:
    """Position of each label among the sorted `classes`, −1 for other labels."""
    y = np.asarray(y)
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    return np.where(classes[places] == y, places, -1)


def unseen_words(y: ArrayLike, classes: np.ndarray, rows: str = "rows") -> str:
    """A message about `rows` whose class did not occur in training; "" if there are none."""
    y = np.asarray(y)
    strange = y[positions(y, classes) < 0]
    if not len(strange):
        return ""
    names = sorted({repr(str(one)) for one in strange})
    listed = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
    share = f"{len(strange):,} of {len(y):,} {rows}"
    few = f"{share} are of a class without training rows ({listed})"
    if len(strange) == len(y):
        return f"{few}: the accuracy is 0, and the other scores are not defined"
    return f"{few}: wrong in the accuracy, and left out of the other scores"


def row_losses(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """−log of the probability of the true class, shape (m,); labels are positions."""
    given = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    return -np.log(np.maximum(given, LEAST))


def score_classes(probabilities: np.ndarray, labels: np.ndarray, weights: Weights = None) -> Scores:
    """All scores of probabilities (m, c) for labels (m,), which are positions or −1.

    Scores other than the accuracy are over rows of known classes, and NaN if not defined:

    - "log_loss": mean of −log of the probability of the true class
    - "auc": area under the ROC curve; with more than two classes, the mean of one against the rest
    - "accuracy": share of rows whose class is the most probable one; unknown classes are wrong
    - "calibration_error": mean of |confidence − accuracy| over ten bins of confidence
    """
    weights = np.ones(len(labels)) if weights is None else weights
    right = probabilities.argmax(axis=1) == labels
    scores = {"log_loss": np.nan, "auc": np.nan, "accuracy": 0.0, "calibration_error": np.nan}
    scores["accuracy"] = float(np.average(right, weights=weights))
    known = (labels >= 0) & (weights > 0)
    if not known.any():
        return scores
    probabilities, labels, weights = probabilities[known], labels[known], weights[known]
    confidence, share, n_rows = reliability(probabilities.max(axis=1), right[known], weights)
    return scores | {
        "log_loss": float(np.average(row_losses(probabilities, labels), weights=weights)),
        "auc": _auc(probabilities, labels, weights),
        "calibration_error": float(np.average(np.abs(confidence - share), weights=n_rows)),
    }


def _auc(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> float:
    """Mean over the classes with rows inside and outside."""
    n_classes = probabilities.shape[1]
    areas = [
        roc_auc_score(labels == label, probabilities[:, label], sample_weight=weights)
        for label in (range(1, 2) if n_classes == 2 else range(n_classes))
        if 0 < np.sum(labels == label) < len(labels)
    ]
    return float(np.mean(areas)) if areas else float("nan")


def reliability(
    probabilities: np.ndarray, happened: np.ndarray, weights: Weights = None
) -> np.ndarray:
    """Mean probability, observed share and weight of ten bins of equal width (3, b), none empty."""
    weights = np.ones(len(probabilities)) if weights is None else weights
    places = np.minimum((probabilities * N_BINS).astype(int), N_BINS - 1)
    columns = (probabilities, happened, np.ones(len(places)))
    sums = np.stack([np.bincount(places, weights=weights * values) for values in columns])
    sums = sums[:, sums[2] > 0]
    return np.concatenate([sums[:2] / sums[2], sums[2:]])


def confusion(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Counts of rows by true class (first axis) and most probable class, (c, c)."""
    n_classes, known = probabilities.shape[1], labels >= 0
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (labels[known], probabilities[known].argmax(axis=1)), 1)
    return counts


def decimals(value: float, n: int = 3) -> str:
    """A score with `n` decimals, "–" if it is not defined."""
    return "–" if np.isnan(value) else f"{value:z.{n}f}".replace("-", "−")
