"""Classes as targets: the option ``--task``, class labels and scores in words."""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import pandas as pd

from bandfall._cli.terminal import InputError, note
from bandfall._targets.scores import Scores
from bandfall.report._columns import kind_of
from bandfall.tables import _text as text

# A text column with more levels than this, or with numbers among its levels, is assumed to hold
# numbers with typing errors.
_MOST_CLASSES = 20
_ROWS_PER_CLASS = 10  # a target with fewer rows per value than this is not offered as classes
_FEW_VALUES = 5  # a numeric target with at most this many values may be meant as classes


class Task(StrEnum):
    """Values of ``--task``."""

    AUTO = "auto"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"


def are_classes(task: Task, targets: list[pd.Series]) -> bool:
    """Whether a table is trained on classes; notes what ``--task auto`` decided."""
    if task is Task.REGRESSION:
        return False
    if len(targets) > 1:
        if task is Task.CLASSIFICATION:
            raise InputError("--task classification takes one --target")
        return False
    (target,) = targets
    known = target.dropna()
    n_levels = int(known.nunique())
    if task is Task.CLASSIFICATION:
        if n_levels > max(_MOST_CLASSES, len(known) // 2):  # training would take too long
            raise InputError(
                f"--task classification: {target.name!r} has {n_levels:,} different values in "
                f"{len(known):,} rows, too many to be classes"
            )
        return True
    if kind_of(target) == "text":
        few = not _reads_as_numbers(known) and _are_few(n_levels, len(known))
        if few:
            note(f"{target.name!r} has {n_levels} text values: training a classifier")
        return few
    if kind_of(target) == "boolean":
        note(f"{target.name!r} has the values true and false: training a classifier")
        return n_levels == 2
    if 2 <= n_levels <= _FEW_VALUES < len(known) // _ROWS_PER_CLASS:
        note(
            f"{target.name!r} has only {n_levels} values and is predicted as a number; if they are "
            "classes, use --task classification"
        )
    return False


def _reads_as_numbers(column: pd.Series) -> bool:
    """Whether some text is a number, or all of it dates or numbers of one style."""
    levels = [str(level) for level in column.unique()]
    numbers = any(text.is_number(level, "point") for level in levels)
    return bool(numbers or text.number_style(levels) or text.date_style(levels))


def _are_few(n_levels: int, n_rows: int) -> bool:
    """Whether levels can be classes; names differ from row to row."""
    return 2 <= n_levels <= max(_MOST_CLASSES, n_rows // _ROWS_PER_CLASS) and n_levels < n_rows


def target_labels(column: pd.Series) -> np.ndarray:
    """Classes as text, None for missing values; whole numbers without decimals."""
    if kind_of(column) == "number":
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)
        labels = [None if np.isnan(value) else f"{value:.15g}" for value in values]
    else:
        missing = column.isna().to_numpy()
        labels = [None if gone else str(value) for value, gone in zip(column, missing, strict=True)]
    return np.array(labels, dtype=object)


def accuracy_words(test: Scores, n_rows: int) -> str:
    """Scores of a classifier on `n_rows` rows, in one line.

    Examples
    --------
    >>> scores = {"accuracy": 0.9, "log_loss": 0.25, "auc": float("nan"), "calibration_error": 0.1}
    >>> accuracy_words({**scores, "n_unseen": 0}, 1200)
    '90.0% on 1,200 rows (log-loss 0.2500, calibration error 0.1000)'
    >>> accuracy_words({"accuracy": 0.0, "log_loss": float("nan"), "auc": float("nan"),
    ...     "calibration_error": float("nan"), "n_unseen": 9}, 9)
    '0.0% on 9 rows, 9 of them in classes without training rows'
    """
    names = {"log_loss": "log-loss", "auc": "AUC", "calibration_error": "calibration error"}
    known = [f"{name} {test[key]:.4f}" for key, name in names.items() if test[key] == test[key]]
    rest = f" ({', '.join(known)})" if known else ""
    n_unseen = int(test["n_unseen"])
    strange = f", {n_unseen:,} of them in classes without training rows" if n_unseen else ""
    return f"{test['accuracy']:.1%} on {n_rows:,} rows{strange}{rest}"
