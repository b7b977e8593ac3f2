"""The paper's summaries of many test R²: cells of tables, and curves."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon


class Quartiles(NamedTuple):
    """Median, first and third quartile of one table cell."""

    median: float
    lower: float
    upper: float


class ErrorCurve(NamedTuple):
    """Mean and ends of the prediction interval of 1 − R², per floor."""

    mean: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def quartiles(r2: ArrayLike) -> Quartiles:
    """Median and quartiles of test R² over the splits, as Tables 2, 4, 5 and 6 print them.

    Linear interpolation between order statistics.

    Examples
    --------
    >>> quartiles([0.1, 0.2, 0.3, 0.4, 0.5])
    Quartiles(median=0.3, lower=0.2, upper=0.4)
    """
    lower, median, upper = np.quantile(_scores(r2, "r2", ndim=1), [0.25, 0.5, 0.75])
    return Quartiles(float(median), float(lower), float(upper))


def superiority_p_value(r2: ArrayLike, *rivals: ArrayLike) -> float:
    """The p-value of the tables, for the claim that a method beats all its rivals.

    One-sided Wilcoxon signed-rank tests of the differences in test R² per split, method minus
    rival. The largest p-value is returned, so a small value is evidence against all rivals. It is
    1 if a rival is equal on every split. The paper's rivals are KRR-CV and KRR-MML.

    Examples
    --------
    >>> superiority_p_value([0.8, 0.7, 0.9, 0.6, 0.5], [0.7, 0.5, 0.6, 0.2, 0.0])
    0.03125
    """
    scores = _scores(r2, "r2", ndim=1)
    if not rivals:
        raise ValueError("superiority_p_value needs at least one rival")
    return max(_one_sided(scores, _scores(rival, "rivals", ndim=1)) for rival in rivals)


def error_curve(r2: ArrayLike) -> ErrorCurve:
    """The curves of Figures 1, 4, 6 and 7: trimmed mean and 90 % interval of 1 − R² per floor.

    `r2` (n_runs, n_floors) is that of every run, a seed or a split. At each floor the smallest and
    the largest 5 % of the R² are dropped; of the rest, the mean and the 5 % and 95 % quantiles are
    kept.

    Examples
    --------
    >>> error_curve([[0.0], [0.5], [1.0]])
    ErrorCurve(mean=array([0.5]), lower=array([0.05]), upper=array([0.95]))
    """
    ordered = np.sort(_scores(r2, "r2", ndim=2), axis=0)
    dropped = len(ordered) // 20
    errors = 1.0 - ordered[dropped : len(ordered) - dropped]
    lower, upper = np.quantile(errors, [0.05, 0.95], axis=0)
    return ErrorCurve(errors.mean(axis=0), lower, upper)


def _one_sided(scores: np.ndarray, rival: np.ndarray) -> float:
    if rival.shape != scores.shape:
        raise ValueError(
            f"every rival must have one score per split, {len(scores)}; got {len(rival)}"
        )
    # Equal pairs carry no information; with few others, the approximation is too coarse.
    differ = scores != rival
    if not differ.any():
        return 1.0
    return float(wilcoxon(scores[differ], rival[differ], alternative="greater").pvalue)


def _scores(values: ArrayLike, name: str, ndim: int) -> np.ndarray:
    scores = np.asarray(values, dtype=float)
    if scores.ndim != ndim or scores.size == 0:
        raise ValueError(
            f"{name} must be a non-empty array of {ndim} dimension(s); got shape {scores.shape}"
        )
    if not np.isfinite(scores).all():
        raise ValueError(
            f"{name} must be finite; {int((~np.isfinite(scores)).sum())} values are not"
        )
    return scores
